package admit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/admit"
)

const field = "spec.podTemplate.spec"

func TestTemplateMetadata(t *testing.T) {
	metadata := func(text string) string { return "podTemplate: {metadata: {" + text + "}}" }
	runDatabases(t, map[string]verdict{
		"a label of one's own": {spec: metadata(`labels: {team: geo, example.com/cost: "7"}`)},
		"our selector": {
			spec:     metadata(`labels: {app.kubernetes.io/instance: x}`),
			refusals: []string{`spec.podTemplate.metadata.labels[app.kubernetes.io/instance]: selectors rely on this label`},
		},
		"our domain": {
			spec: metadata(`labels: {meridian.dev/role: x}`), refusals: []string{`labels[meridian.dev/role]`},
		},
		"a stateful set's": {
			spec: metadata(`labels: {controller-revision-hash: x}`), refusals: []string{`selectors rely`},
		},
		"no name": {
			spec: metadata(`labels: {"a b": x}`), refusals: []string{`labels[a b]: is not the name of a label`},
		},
		"no value": {
			spec: metadata(`labels: {a: "b c"}`), refusals: []string{`labels[a]: has a value that no label`},
		},
		"an annotation": {spec: metadata(`annotations: {example.com/Note: any text}`)},
		"our annotation": {
			spec: metadata(`annotations: {x.meridian.dev/y: z}`), refusals: []string{`belong to Meridian`},
		},
		"a profile past the fields": {
			spec:     metadata(`annotations: {container.apparmor.security.beta.kubernetes.io/database: unconfined}`),
			refusals: []string{`annotations[container.apparmor.security.beta.kubernetes.io/database]: sets a security profile`},
		},
		"much text": {
			spec:     metadata(`annotations: {a: "` + strings.Repeat("x", 70<<10) + `"}`),
			refusals: []string{`spec.podTemplate.metadata.annotations: have 71681 bytes`},
		},
		"no annotation name": {
			spec: metadata(`annotations: {"a/b/c": z}`), refusals: []string{`is not the name of an annotation`},
		},
	})
}

func TestTemplatePod(t *testing.T) {
	pod := func(text string) string { return "podTemplate: {spec: {" + text + "}}" }
	runDatabases(t, map[string]verdict{
		"nothing": {spec: `podTemplate: {}`},
		"usual wishes": {spec: pod(`nodeSelector: {disk: ssd}, tolerations: [{operator: Exists}], priorityClassName: high,
			imagePullSecrets: [{name: x}], affinity: {}, terminationGracePeriodSeconds: 300, dnsPolicy: Default,
			securityContext: {runAsUser: 999, runAsNonRoot: true, fsGroup: 999}`)},
		"huge": {
			spec:     pod(`nodeSelector: {a: "` + strings.Repeat("x", 1<<20) + `"}`),
			refusals: []string{field + `: has 1048`},
		},
		"unknown field": {
			spec:     pod(`nodeSelektor: {}`),
			refusals: []string{field + `: a PodSpec has no such field: unknown field "nodeSelektor"`},
		},
		"wrong type":   {spec: pod(`containers: 7`), refusals: []string{field + `: is not a part of a PodSpec`}},
		"host network": {spec: pod(`hostNetwork: true`), refusals: []string{field + `.hostNetwork: `}},
		"host pid":     {spec: pod(`hostPID: true`), refusals: []string{field + `.hostPID: `}},
		"host ipc":     {spec: pod(`hostIPC: true`), refusals: []string{field + `.hostIPC: `}},
		"root": {
			spec: pod(`securityContext: {runAsUser: 0}`), refusals: []string{field + `.securityContext.runAsUser: `},
		},
		"perhaps root": {
			spec:     pod(`securityContext: {runAsNonRoot: false}`),
			refusals: []string{field + `.securityContext.runAsNonRoot: `},
		},
		"group of root": {
			spec: pod(`securityContext: {fsGroup: 0}`), refusals: []string{field + `.securityContext.fsGroup`},
		},
		"unconfined": {
			spec:     pod(`securityContext: {seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}}`),
			refusals: []string{`appArmorProfile.type`, `seccompProfile.type`},
		},
		"selinux": {
			spec:     pod(`securityContext: {seLinuxOptions: {type: spc_t, user: u}}`),
			refusals: []string{`.seLinuxOptions: user and role`, `.seLinuxOptions.type`},
		},
		"windows":      {spec: pod(`securityContext: {windowsOptions: {}}`), refusals: []string{`windowsOptions`}},
		"other system": {spec: pod(`os: {name: windows}`), refusals: []string{field + `.os: must be linux`}},
		"safe sysctl":  {spec: pod(`securityContext: {sysctls: [{name: net.ipv4.tcp_keepalive_time, value: "60"}]}`)},
		"unsafe sysctl": {
			spec:     pod(`securityContext: {sysctls: [{name: kernel.msgmax, value: "1"}]}`),
			refusals: []string{`sysctls[0]`},
		},
		"one node":  {spec: pod(`nodeName: a`), refusals: []string{field + `.nodeName: `}},
		"runs once": {spec: pod(`restartPolicy: Never`), refusals: []string{field + `.restartPolicy: `}},
		"runs on":   {spec: pod(`restartPolicy: Always`)},
		"deadline": {
			spec: pod(`activeDeadlineSeconds: 5`), refusals: []string{field + `.activeDeadlineSeconds: `},
		},
		"short grace": {
			spec:     pod(`terminationGracePeriodSeconds: 1`),
			refusals: []string{field + `.terminationGracePeriodSeconds: must be at least 30`},
		},
		"shared processes": {spec: pod(`shareProcessNamespace: true`), refusals: []string{`.shareProcessNamespace: `}},
		"other account":    {spec: pod(`serviceAccountName: x`), refusals: []string{`.serviceAccountName: `}},
		"no token": {
			spec: pod(`automountServiceAccountToken: false`), refusals: []string{`.automountServiceAccountToken: `},
		},
		"a token for all": {
			spec: pod(`automountServiceAccountToken: true`), refusals: []string{`.automountServiceAccountToken: `},
		},
		"other name": {spec: pod(`hostname: x`), refusals: []string{`.hostname: `}},
		"full name":  {spec: pod(`setHostnameAsFQDN: true`), refusals: []string{`.setHostnameAsFQDN: `}},
		"debug container": {
			spec: pod(`ephemeralContainers: [{name: x}]`), refusals: []string{`.ephemeralContainers: `},
		},
		"directive": {
			spec: pod(`$patch: replace`), refusals: []string{field + `.$patch: directives of a patch`},
		},
		"nested directive": {
			spec: pod(`containers: [{name: database, $patch: delete}]`), refusals: []string{`containers[0].$patch`},
		},
		"null": {spec: pod(`volumes: null`), refusals: []string{field + `.volumes: null would remove`}},
		"null in a context": {
			spec: pod(`securityContext: {runAsUser: null}`), refusals: []string{`runAsUser: null would remove`},
		},
	})
}

func TestTemplateContainers(t *testing.T) {
	const harmless = `securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`
	ours := func(text string) string { return "podTemplate: {spec: {containers: [{name: database, " + text + "}]}}" }
	car := func(text string) string {
		return "podTemplate: {spec: {containers: [{name: proxy, image: a, " + harmless + ", " + text + "}]}}"
	}
	first := field + ".containers[0]."
	runDatabases(t, map[string]verdict{
		"ours, usual wishes": {spec: ours(`env: [{name: TZ, value: UTC}], resources: {limits: {cpu: "2"}},
			volumeMounts: [{name: x, mountPath: /mnt/x}]`)},
		"ours, image":      {spec: ours(`image: x`), refusals: []string{first + `image: use spec.image`}},
		"ours, no command": {spec: ours(`command: []`), refusals: []string{first + `command: `}},
		"ours, no image": {
			spec: ours(`image: ""`), refusals: []string{first + `image: an empty text would remove`},
		},
		"ours, keeps rights": {
			spec:     ours(`securityContext: {capabilities: {drop: []}}`),
			refusals: []string{first + `securityContext.capabilities.drop: must hold ALL`},
		},
		"ours, drops rights": {spec: ours(`securityContext: {capabilities: {drop: [ALL]}}`)},
		"ours, command":      {spec: ours(`command: [sh]`), refusals: []string{first + `command: `}},
		"ours, args":         {spec: ours(`args: [x]`), refusals: []string{first + `args: `}},
		"ours, folder":       {spec: ours(`workingDir: /x`), refusals: []string{first + `workingDir: `}},
		"ours, hook": {
			spec: ours(`lifecycle: {preStop: {sleep: {seconds: 1}}}`), refusals: []string{first + `lifecycle: `},
		},
		"ours, liveness": {
			spec: ours(`livenessProbe: {periodSeconds: 1}`), refusals: []string{first + `livenessProbe: `},
		},
		"ours, readiness": {
			spec: ours(`readinessProbe: {periodSeconds: 1}`), refusals: []string{first + `readinessProbe: `},
		},
		"ours, startup": {
			spec: ours(`startupProbe: {periodSeconds: 1}`), refusals: []string{first + `startupProbe: `},
		},
		"ours, restarts": {spec: ours(`restartPolicy: Always`), refusals: []string{first + `restartPolicy: `}},
		"ours, memory": {
			spec: ours(`resources: {limits: {memory: 1Gi}}`), refusals: []string{`written in spec.resources`},
		},
		"ours, variable": {
			spec: ours(`env: [{name: PGDATA, value: x}]`), refusals: []string{first + `env[0].name: PGDATA is set`},
		},
		"ours, where libraries are": {
			spec:     ours(`env: [{name: LD_PRELOAD, value: /mnt/x.so}]`),
			refusals: []string{first + `env[0].name: LD_PRELOAD changes which programs, libraries or servers`},
		},
		"ours, where programs are": {
			spec: ours(`env: [{name: PATH, value: /mnt}]`), refusals: []string{first + `env[0].name: PATH changes`},
		},
		"ours, whom it trusts": {
			spec:     ours(`env: [{name: SSL_CERT_FILE, value: /mnt/ca}, {name: KUBERNETES_SERVICE_HOST, value: evil}]`),
			refusals: []string{`SSL_CERT_FILE changes`, `KUBERNETES_SERVICE_HOST changes`},
		},
		"ours, another way": {
			spec: ours(`env: [{name: https_proxy, value: evil}]`), refusals: []string{`https_proxy changes`},
		},
		"install, where libraries are": {
			spec:     `podTemplate: {spec: {initContainers: [{name: install, env: [{name: LD_AUDIT, value: x}]}]}}`,
			refusals: []string{field + `.initContainers[0].env[0].name: LD_AUDIT changes`},
		},
		"ours, harmless variables": {
			spec: ours(`env: [{name: LC_ALL, value: C}, {name: POSTGIS_GDAL_ENABLED_DRIVERS, value: GTiff}]`),
		},
		"ours, mount over programs": {
			spec:     ours(`volumeMounts: [{name: x, mountPath: /usr/lib/postgresql}]`),
			refusals: []string{first + `volumeMounts[0].mountPath: /usr/lib/postgresql would hide programs`},
		},
		"ours, mount for the linker": {
			spec:     ours(`volumeMounts: [{name: x, mountPath: /etc/ld.so.preload, subPath: a}]`),
			refusals: []string{`would hide programs, libraries or settings`},
		},
		"side-car, its own variables": {spec: car(`env: [{name: PATH, value: /x}, {name: LD_PRELOAD, value: z.so}]`)},
		"side-car, probe elsewhere": {
			spec: car(`livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}},
				lifecycle: {preStop: {tcpSocket: {host: 10.0.0.1, port: 80}}}`),
			refusals: []string{
				first + `lifecycle.preStop.tcpSocket.host: the node would call 10.0.0.1`,
				first + `livenessProbe.httpGet.host: the node would call 169.254.169.254`,
			},
		},
		"side-car, probe": {spec: car(`livenessProbe: {httpGet: {port: 80}}`)},
		"ours, variables": {spec: ours(`envFrom: [{secretRef: {name: x}}]`), refusals: []string{first + `envFrom: `}},
		"ours, port": {
			spec: ours(`ports: [{containerPort: 5432, name: x}]`), refusals: []string{`5432 is described`},
		},
		"ours, host port": {
			spec: ours(`ports: [{containerPort: 1, hostPort: 1}]`), refusals: []string{`ports[0].hostPort`},
		},
		"ours, our mount": {
			spec: ours(`volumeMounts: [{name: x, mountPath: /tmp/}]`), refusals: []string{`would hide a volume`},
		},
		"ours, mount over": {
			spec: ours(`volumeMounts: [{name: x, mountPath: /var/lib}]`), refusals: []string{`would hide a volume`},
		},
		"ours, mount at /": {
			spec: ours(`volumeMounts: [{name: x, mountPath: /}]`), refusals: []string{`would hide a volume`},
		},
		"ours, mount in": {
			spec:     ours(`volumeMounts: [{name: x, mountPath: /var/lib/meridian/../meridian/pgdata}]`),
			refusals: []string{`would hide`},
		},
		"ours, writable root": {
			spec:     ours(`securityContext: {readOnlyRootFilesystem: false}`),
			refusals: []string{`readOnlyRootFilesystem`},
		},
		"ours, privileged": {
			spec:     ours(`securityContext: {privileged: true}`),
			refusals: []string{first + `securityContext.privileged`},
		},
		"install, image": {
			spec:     `podTemplate: {spec: {initContainers: [{name: install, image: x}]}}`,
			refusals: []string{field + `.initContainers[0].image`},
		},
		"side-car": {spec: car(`ports: [{containerPort: 9000}]`)},
		"side-car, bare": {
			spec: `podTemplate: {spec: {containers: [{name: proxy, image: a}]}}`,
			refusals: []string{first + `securityContext.allowPrivilegeEscalation`,
				first + `securityContext.capabilities.drop`},
		},
		"side-car, no image": {
			spec:     `podTemplate: {spec: {containers: [{name: proxy, ` + harmless + `}]}}`,
			refusals: []string{first + `image: required`},
		},
		"side-car, no name": {
			spec:     `podTemplate: {spec: {containers: [{image: a, ` + harmless + `}]}}`,
			refusals: []string{first + `name: required`},
		},
		"side-car, twice": {
			spec: `podTemplate: {spec: {containers: [{name: a, image: a, ` + harmless + `},
				{name: a, image: a, ` + harmless + `}]}}`,
			refusals: []string{field + `.containers[1].name: "a" is there twice`},
		},
		"side-car, our port": {spec: car(`ports: [{containerPort: 8700}]`), refusals: []string{`8700 is taken`}},
		"side-car, port of node": {
			spec: car(`ports: [{containerPort: 9, hostPort: 9}]`), refusals: []string{`hostPort: a port of the node`},
		},
		"side-car, reads data": {
			spec:     car(`volumeMounts: [{name: data, mountPath: /d, readOnly: true}]`),
			refusals: []string{first + `volumeMounts[0].name: the volume data belongs to Meridian`},
		},
		"side-car, writes data": {
			spec: car(`volumeMounts: [{name: data, mountPath: /d}]`), refusals: []string{`volumeMounts[0].name`},
		},
		"side-car, socket": {
			spec:     car(`volumeMounts: [{name: x, mountPath: /d}, {name: run, mountPath: /r, readOnly: true}]`),
			refusals: []string{first + `volumeMounts[1].name: the volume run belongs`},
		},
		"side-car, device": {
			spec: car(`volumeDevices: [{name: data, devicePath: /d}]`), refusals: []string{`volumeDevices[0].name`},
		},
		"side-car, application's password": {
			spec: car(`env: [{name: P, valueFrom: {secretKeyRef: {name: cities-app, key: password}}}]`),
		},
		"side-car, private key": {
			spec:     car(`env: [{name: K, valueFrom: {secretKeyRef: {name: cities-tls, key: tls.key}}}]`),
			refusals: []string{first + `env[0].valueFrom.secretKeyRef.name: the Secret cities-tls has private keys`},
		},
		"side-car, all keys": {
			spec:     car(`envFrom: [{configMapRef: {name: x}}, {secretRef: {name: cities-ca}}]`),
			refusals: []string{first + `envFrom[1].secretRef.name: the Secret cities-ca has private keys`},
		},
		"ours, private key": {
			spec:     ours(`env: [{name: K, valueFrom: {secretKeyRef: {name: cities-ca, key: x}}}]`),
			refusals: []string{first + `env[0].valueFrom.secretKeyRef.name`},
		},
		"init container by the name of ours": {
			spec:     `podTemplate: {spec: {initContainers: [{name: database, image: a, ` + harmless + `}]}}`,
			refusals: []string{field + `.initContainers[0].name: "database" is a container of Meridian`},
		},
		"container by the name of our init container": {
			spec:     `podTemplate: {spec: {containers: [{name: install, image: a, ` + harmless + `}]}}`,
			refusals: []string{field + `.containers[0].name: "install" is a container of Meridian`},
		},
		"side-car, all rights": {
			spec: `podTemplate: {spec: {containers: [{name: proxy, image: a, securityContext: {privileged: true, runAsUser: 0,
				allowPrivilegeEscalation: true, procMount: Unmasked,
				capabilities: {add: [SYS_ADMIN], drop: [ALL]}}}]}}`,
			refusals: []string{
				`allowPrivilegeEscalation`, `capabilities.add: SYS_ADMIN`, `privileged`, `procMount`, `runAsUser`,
			},
		},
	})
}

func TestTemplateVolumes(t *testing.T) {
	volume := func(text string) string { return "podTemplate: {spec: {volumes: [{" + text + "}]}}" }
	const first = field + ".volumes[0]."
	runDatabases(t, map[string]verdict{
		"secret": {spec: volume(`name: x, secret: {secretName: z}`)},
		"claim":  {spec: volume(`name: x, persistentVolumeClaim: {claimName: archive}`)},
		"claim of the data": {
			spec:     volume(`name: x, persistentVolumeClaim: {claimName: cities-1}`),
			refusals: []string{first + `persistentVolumeClaim.claimName: cities-1 is the claim of an instance`},
		},
		"claim of the data, for reading": {
			spec:     volume(`name: x, persistentVolumeClaim: {claimName: cities-12, readOnly: true}`),
			refusals: []string{first + `persistentVolumeClaim.claimName`},
		},
		"claim of the log": {
			spec:     volume(`name: x, persistentVolumeClaim: {claimName: cities-1-wal}`),
			refusals: []string{first + `persistentVolumeClaim.claimName`},
		},
		"claim of a similar name": {spec: volume(`name: x, persistentVolumeClaim: {claimName: cities-10k-tiles}`)},
		"application's Secret":    {spec: volume(`name: x, secret: {secretName: cities-app}`)},
		"private keys": {
			spec:     volume(`name: x, secret: {secretName: cities-cert1}`),
			refusals: []string{first + `secret.secretName: the Secret cities-cert1 has private keys`},
		},
		"private keys, projected": {
			spec:     volume(`name: x, projected: {sources: [{configMap: {name: a}}, {secret: {name: cities-ca}}]}`),
			refusals: []string{first + `projected.sources[1].secret.name`},
		},
		"token": {
			spec:     volume(`name: x, projected: {sources: [{serviceAccountToken: {path: token}}]}`),
			refusals: []string{first + `projected.sources[0].serviceAccountToken: the account of the pod is the agent's`},
		},
		"certificate of the account": {
			spec: volume(`name: x, projected: {sources: [{podCertificate: {signerName: a/b, keyType: ED25519,
				credentialBundlePath: c}}]}`),
			refusals: []string{first + `projected.sources[0].podCertificate`},
		},
		"host path": {
			spec: volume(`name: x, hostPath: {path: /}`), refusals: []string{first + `hostPath: gives away files`},
		},
		"nfs": {
			spec: volume(`name: x, nfs: {server: a, path: /}`), refusals: []string{first + `name: is of a kind`},
		},
		"our volume": {
			spec: volume(`name: data, emptyDir: {}`), refusals: []string{first + `name: the volume data belongs`},
		},
		"no name": {spec: volume(`emptyDir: {}`), refusals: []string{first + `name: required`}},
		"of another namespace": {
			spec: volume(`name: x, ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: {apiGroup: a, kind: b, name: c,
				namespace: other}}}}`),
			refusals: []string{first + `ephemeral.volumeClaimTemplate.spec.dataSourceRef.namespace: a database uses`},
		},
	})
}

func TestExposed(t *testing.T) {
	covered := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "database", Env: []corev1.EnvVar{{Name: "POD_NAME"}},
			Ports:        []corev1.ContainerPort{{ContainerPort: 5432}},
			VolumeMounts: []corev1.VolumeMount{{MountPath: "/etc/meridian/tls"}},
		}},
		Volumes: []corev1.Volume{{Name: "data"}},
	}
	if exposed := admit.Exposed(covered); len(exposed) > 0 {
		t.Errorf("exposed: %v", exposed)
	}
	open := corev1.PodSpec{
		InitContainers: []corev1.Container{{
			Name: "new", Env: []corev1.EnvVar{{Name: "NEW"}}, Ports: []corev1.ContainerPort{{ContainerPort: 1}},
			VolumeMounts: []corev1.VolumeMount{{MountPath: "/new"}},
		}},
		Volumes: []corev1.Volume{{Name: "new"}},
	}
	want := []string{"container new", "mount /new", "port 1", "variable NEW", "volume new"}
	if diff := cmp.Diff(want, admit.Exposed(open)); diff != "" {
		t.Errorf("exposed differs (-want +got):\n%s", diff)
	}
}
