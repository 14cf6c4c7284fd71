package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// user is the account that everything runs as, in every image.
const user int64 = 65532

// podTemplate renders the pod of one instance, with the user's changes laid over it.
func podTemplate(design database.Design, instance database.InstanceDesign) (corev1.PodTemplateSpec, error) {
	template, err := plainTemplate(design, instance)
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	if metadata := Metadata(design.Spec); metadata != "" {
		template.Annotations[database.AnnotationMetadata] = metadata
	}
	if instance.Restart != "" {
		template.Annotations[database.AnnotationRestart] = instance.Restart
	}
	service.Evictable(template.Annotations, "agent", "run", "tmp", "shm")
	wish := Wish(design.Spec)
	template.Annotations[database.AnnotationWish] = wish
	name := instance.Template // A design that was made whole has it already.
	if name == "" {
		name = nameOf(template.Spec, wish, instance.Restart)
	}
	template.Annotations[database.AnnotationTemplate] = name
	// A pod may outlive its StatefulSet, and must still be known as ours.
	template.Annotations[database.AnnotationOwner] = design.UID
	return template, err
}

// plainTemplate is the template without what it says of itself, which takes longer than all the rest.
func plainTemplate(design database.Design, instance database.InstanceDesign) (corev1.PodTemplateSpec, error) {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels(design, "instance")},
		Spec:       podSpec(design, instance.Name),
	}
	template.Labels[database.LabelInstance] = instance.Name
	return overlay(template, design.Spec.PodTemplate)
}

func podSpec(design database.Design, instance string) corev1.PodSpec {
	no, grace := false, int64(60)
	pod := corev1.PodSpec{
		ServiceAccountName: database.AgentName(design.Name),
		// The token is mounted into our own container alone: what a user adds to the pod is no agent.
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		TerminationGracePeriodSeconds: &grace,
		SecurityContext:               podSecurity(),
		Affinity:                      spread(design),
		InitContainers:                []corev1.Container{installContainer(design)},
		Containers:                    []corev1.Container{databaseContainer(design, instance)},
		Volumes:                       volumes(design, instance),
	}
	design.Images.Fit(&pod, database.ContainerDatabase)
	return pod
}

// podSecurity leaves the volume's modes alone when its root fits: PostgreSQL refuses a data directory that the kubelet
// has made writable for the group.
func podSecurity() *corev1.PodSecurityContext {
	yes, account := true, user
	policy := corev1.FSGroupChangeOnRootMismatch
	return &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &account, RunAsGroup: &account, FSGroup: &account, FSGroupChangePolicy: &policy,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// spread keeps instances of one database apart where the cluster has room: on other nodes, and if it has zones, in
// other zones. It is a preference: on a small cluster two instances on one node are better than one.
func spread(design database.Design) *corev1.Affinity {
	apart := func(weight int32, topology string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey:   topology,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{database.LabelDatabase: design.Name}},
		}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			apart(100, corev1.LabelHostname), apart(50, corev1.LabelTopologyZone),
		},
	}}
}

// installContainer copies the agent into the pod, so that any image with PostgreSQL works.
func installContainer(design database.Design) corev1.Container {
	return corev1.Container{
		Name: database.ContainerInstall, Image: design.Images.Agent, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/meridian", "install", wire.AgentBinary},
		SecurityContext: service.ContainerSecurity(),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "agent", MountPath: wire.FolderAgent}},
	}
}

func databaseContainer(design database.Design, instance string) corev1.Container {
	return corev1.Container{
		Name: database.ContainerDatabase, Image: serverImage(design), ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{wire.AgentBinary, "agent"},
		Env:             environment(design, instance),
		SecurityContext: service.ContainerSecurity(),
		Resources:       resources(design),
		Ports: []corev1.ContainerPort{
			{Name: "postgres", ContainerPort: wire.PortPostgres, Protocol: corev1.ProtocolTCP},
			{Name: "agent", ContainerPort: wire.PortAgent, Protocol: corev1.ProtocolTCP},
			{Name: "probe", ContainerPort: wire.PortProbe, Protocol: corev1.ProtocolTCP},
		},
		// The agent is alive as long as it answers at all: what PostgreSQL does is not the kubelet's to judge.
		LivenessProbe:  service.Probe(wire.PathLive, 10, 6),
		ReadinessProbe: service.Probe(wire.PathReady, 1, 2),
		StartupProbe:   service.StartupProbe(),
		VolumeMounts: logMount(design, backupMounts(design, []corev1.VolumeMount{
			{Name: "agent", MountPath: wire.FolderAgent, ReadOnly: true},
			{Name: "data", MountPath: wire.FolderVolume},
			{Name: "run", MountPath: wire.FolderRun},
			{Name: "tmp", MountPath: "/tmp"},
			{Name: "shm", MountPath: "/dev/shm"},
			{Name: "settings", MountPath: wire.FolderSettings, ReadOnly: true},
			{Name: "app", MountPath: wire.FolderApp, ReadOnly: true},
			{Name: "tls", MountPath: wire.FolderTLS, ReadOnly: true},
			service.TokenMount(),
		})),
	}
}

// logMount, logVolume and logEnvironment come last and only where they are asked for: the template of a database
// without a volume for its log stays as it was before there were any.
func logMount(design database.Design, mounts []corev1.VolumeMount) []corev1.VolumeMount {
	if design.Spec.Storage.WALSize == nil {
		return mounts
	}
	return append(mounts, corev1.VolumeMount{Name: "wal", MountPath: wire.FolderLog})
}

func logVolume(design database.Design, instance string, volumes []corev1.Volume) []corev1.Volume {
	if design.Spec.Storage.WALSize == nil {
		return volumes
	}
	return append(volumes, corev1.Volume{Name: "wal", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: database.LogClaimName(instance)},
	}})
}

func logEnvironment(design database.Design, variables []corev1.EnvVar) []corev1.EnvVar {
	if design.Spec.Storage.WALSize == nil {
		return variables
	}
	return append(variables, corev1.EnvVar{Name: wire.EnvLogVolume, Value: wire.FolderLog})
}

func serverImage(design database.Design) string {
	if design.Spec.Image != "" {
		return design.Spec.Image
	}
	return design.Images.Server + ":" + design.Spec.Version
}

// resources reserves memory and limits it at the same amount: PostgreSQL's buffers are sized by it.
func resources(design database.Design) corev1.ResourceRequirements {
	memory, cpu := design.Spec.Resources.Memory, design.Spec.Resources.CPU
	wanted := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if memory != nil {
		wanted.Requests[corev1.ResourceMemory] = *memory
		wanted.Limits[corev1.ResourceMemory] = *memory
	}
	if cpu != nil {
		wanted.Requests[corev1.ResourceCPU] = *cpu
	}
	return wanted
}

func environment(design database.Design, instance string) []corev1.EnvVar {
	return logEnvironment(design, append([]corev1.EnvVar{
		{Name: wire.EnvDatabase, Value: design.Name},
		{Name: wire.EnvInstance, Value: instance},
	}, service.PodVariables()...))
}

func volumes(design database.Design, instance string) []corev1.Volume {
	// Readable for the group, which is ours; the owner is root, so PostgreSQL accepts the private key.
	mode := int32(0o440)
	empty := func(name string, medium corev1.StorageMedium) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium},
		}}
	}
	secret := func(name, secret string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode},
		}}
	}
	return logVolume(design, instance, backupVolumes(design, []corev1.Volume{
		empty("agent", corev1.StorageMediumDefault),
		{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: instance},
		}},
		empty("run", corev1.StorageMediumDefault),
		empty("tmp", corev1.StorageMediumDefault),
		empty("shm", corev1.StorageMediumMemory),
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: database.SettingsName(design.Name)},
			DefaultMode:          &mode,
		}}},
		secret("app", database.AppSecretName(design.Name)),
		secret("tls", certificateName(design.Name, instance)),
		service.TokenVolume(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{
			Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}},
		}}),
	}))
}

func certificateName(owner, instance string) string {
	serial, _ := database.SerialOf(owner, instance)
	return database.CertificateName(owner, serial)
}
