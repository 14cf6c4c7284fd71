package admit

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// pod is what Meridian puts into a pod and what a template may not touch.
type pod struct {
	containers []string // init containers among them
	inits      []string // those of them that are init containers
	volumes    []string
	mounts     []string
	ports      []int32
	env        []string // prefixes of names
	resources  string   // where the size of an instance is written
	image      string   // where its image is written
	owners     []string // names of the resources whose claims and keys are private, the resource itself first
}

var databasePod = pod{
	containers: []string{"database", "install"}, inits: []string{"install"},
	volumes: []string{
		"agent", "data", "wal", "run", "tmp", "shm", "settings", "app", "tls", "token",
		"repository", "source", "backups", "source-backups",
	},
	mounts: []string{
		"/agent", "/var/lib/meridian", "/var/lib/meridian-wal", "/var/lib/meridian-backup",
		"/var/lib/meridian-restore", "/run/meridian", "/tmp", "/dev/shm", "/etc/meridian",
		"/var/run/secrets/kubernetes.io/serviceaccount",
	},
	ports:     []int32{5432, 8700, 8701},
	env:       []string{"MERIDIAN_", "POD_", "PG"},
	resources: "spec.resources",
	image:     "spec.image",
}

var cachePod = pod{
	containers: []string{"cache", "install"}, inits: []string{"install"},
	volumes: []string{"agent", "data", "run", "tmp", "settings", "app", "tls", "token"},
	mounts: []string{
		"/agent", "/var/lib/meridian", "/run/meridian", "/tmp", "/etc/meridian",
		"/var/run/secrets/kubernetes.io/serviceaccount",
	},
	ports:     []int32{6379, 8700, 8701},
	env:       []string{"MERIDIAN_", "POD_"},
	resources: "spec.memory",
	image:     "spec.image",
}

// Exposed returns what a rendered pod of a database has and a template could change unnoticed. A test expects it to be
// empty, so that the two lists do not drift apart.
func Exposed(rendered corev1.PodSpec) []string { return databasePod.exposed(rendered) }

// ExposedOfCache is the same for a pod of a cache.
func ExposedOfCache(rendered corev1.PodSpec) []string { return cachePod.exposed(rendered) }

func (p pod) exposed(rendered corev1.PodSpec) []string {
	var names []string
	miss := func(covered bool, format string, args ...any) {
		if !covered {
			names = append(names, fmt.Sprintf(format, args...))
		}
	}
	for _, container := range slices.Concat(rendered.InitContainers, rendered.Containers) {
		miss(p.owns(container.Name), "container %s", container.Name)
		for _, mount := range container.VolumeMounts {
			miss(p.covers(mount.MountPath), "mount %s", mount.MountPath)
		}
		for _, port := range container.Ports {
			miss(slices.Contains(p.ports, port.ContainerPort), "port %d", port.ContainerPort)
		}
		for _, variable := range container.Env {
			miss(p.sets(variable.Name), "variable %s", variable.Name)
		}
	}
	for _, volume := range rendered.Volumes {
		miss(slices.Contains(p.volumes, volume.Name), "volume %s", volume.Name)
	}
	return names
}

func (p pod) owns(container string) bool { return slices.Contains(p.containers, container) }

// covers tells whether a path is, contains, or lies in one of our mounts.
func (p pod) covers(mountPath string) bool {
	cleaned := strings.TrimSuffix(path.Clean("/"+mountPath), "/") + "/"
	return slices.ContainsFunc(p.mounts, func(ours string) bool {
		return strings.HasPrefix(cleaned, ours+"/") || strings.HasPrefix(ours+"/", cleaned)
	})
}

func (p pod) sets(variable string) bool {
	return slices.ContainsFunc(p.env, func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
}

// shortestGrace is what an instance needs at least to hand over and to stop cleanly.
const shortestGrace = 30

func keepPodShape(spec *corev1.PodSpec, _ pod) []Problem {
	f := &findings{field: templateField}
	f.refuse(spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyAlways, "restartPolicy",
		"must be Always, because an instance runs for ever; remove it")
	f.refuse(spec.NodeName != "", "nodeName",
		"puts all instances on one node past the scheduler; use nodeSelector or affinity")
	f.refuse(spec.ActiveDeadlineSeconds != nil, "activeDeadlineSeconds", "would end a healthy instance; remove it")
	f.refuse(spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace, "shareProcessNamespace",
		"the agent has to be the first process, because it reaps the server's; remove it")
	f.refuse(spec.ServiceAccountName != "" || spec.DeprecatedServiceAccount != "", "serviceAccountName",
		"the rights of the agent hang on its own account; remove it, and run what needs another one in a pod of its own")
	f.refuse(spec.AutomountServiceAccountToken != nil, "automountServiceAccountToken",
		"the account is the agent's, and Meridian says which container gets its token; remove it")
	f.refuse(spec.Hostname != "" || spec.Subdomain != "", "hostname",
		"instances find each other by their names; remove it")
	f.refuse(spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN, "setHostnameAsFQDN",
		"instances find each other by their names; remove it")
	f.refuse(len(spec.EphemeralContainers) > 0, "ephemeralContainers", "a template cannot have any; use kubectl debug")
	f.refuse(spec.OS != nil && spec.OS.Name != corev1.Linux, "os", "must be linux")
	f.refuse(spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds < shortestGrace,
		"terminationGracePeriodSeconds", "must be at least %d, or a primary is killed while it hands over",
		shortestGrace)
	return f.problems
}

func refuseHostAccess(spec *corev1.PodSpec, _ pod) []Problem {
	const way = "gives away the node, and leaves the Pod Security level restricted; remove it"
	f := &findings{field: templateField}
	f.refuse(spec.HostNetwork, "hostNetwork", "the network of the node: this %s", way)
	f.refuse(spec.HostPID, "hostPID", "the processes of the node: this %s", way)
	f.refuse(spec.HostIPC, "hostIPC", "the shared memory of the node: this %s", way)
	return f.problems
}

// safeSysctls are those that the level restricted allows.
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
	"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

func keepPodRestricted(spec *corev1.PodSpec, _ pod) []Problem {
	context := spec.SecurityContext
	if context == nil {
		return nil
	}
	f := &findings{field: templateField + ".securityContext"}
	f.user(context.RunAsUser, context.RunAsNonRoot)
	f.confined(context.SeccompProfile, context.AppArmorProfile)
	f.labelled(context.SELinuxOptions)
	f.refuse(context.WindowsOptions != nil, "windowsOptions", "instances run on Linux; remove it")
	f.refuse(context.FSGroup != nil && *context.FSGroup == 0, "fsGroup", "must not be 0, the group of root")
	kernel := context.Sysctls
	for i, sysctl := range kernel {
		f.refuse(!slices.Contains(safeSysctls, sysctl.Name), fmt.Sprintf("sysctls[%d]", i),
			"%q is not allowed at the Pod Security level restricted; remove it", sysctl.Name)
	}
	return f.problems
}

func (f *findings) user(user *int64, nonRoot *bool) {
	f.refuse(user != nil && *user == 0, "runAsUser",
		"must not be 0: the server refuses to run as root; use 65532 or remove it")
	f.refuse(nonRoot != nil && !*nonRoot, "runAsNonRoot", "must be true: the server refuses to run as root; remove it")
}

func (f *findings) confined(seccomp *corev1.SeccompProfile, armor *corev1.AppArmorProfile) {
	f.refuse(seccomp != nil && seccomp.Type == corev1.SeccompProfileTypeUnconfined, "seccompProfile.type",
		"must be RuntimeDefault or Localhost at the Pod Security level restricted")
	f.refuse(armor != nil && armor.Type == corev1.AppArmorProfileTypeUnconfined, "appArmorProfile.type",
		"must be RuntimeDefault or Localhost at the Pod Security level restricted")
}

func (f *findings) labelled(options *corev1.SELinuxOptions) {
	if options == nil {
		return
	}
	allowed := []string{"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
	f.refuse(!slices.Contains(allowed, options.Type), "seLinuxOptions.type",
		"is not allowed at the Pod Security level "+
			"restricted; use container_t or remove it")
	f.refuse(options.User != "" || options.Role != "", "seLinuxOptions",
		"user and role are not allowed at the Pod Security "+
			"level restricted; remove them")
}
