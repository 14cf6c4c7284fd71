package render

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// What of an instance's pod one that restores on trial has as well. It has no certificate, no credentials of the
// application and no account: it speaks to the repository and to nobody else.
var (
	trialMounts  = []string{"agent", "run", "tmp", "shm", "settings", "repository", "backups"}
	trialForeign = []string{wire.EnvInstance, wire.EnvPodIP, wire.EnvPodUID, wire.EnvLogVolume}
)

// TrialPod renders the pod of a restore on trial: what an instance would be with the user's changes, without all by
// which anybody takes it for one. Its volume is its own and goes with it.
func TrialPod(design database.Design, wish database.TrialWish) (*corev1.Pod, error) {
	name := database.TrialName(design.Name)
	template, err := plainTemplate(design, database.InstanceDesign{Name: name})
	if err != nil {
		return nil, err
	}
	note, err := json.Marshal(wish)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{ObjectMeta: trialMeta(design, name)}
	pod.Annotations = map[string]string{
		database.AnnotationTrial: string(note),
		// What is in it is a copy that nobody needs: it may be evicted for an update of its node.
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
	}
	spec := template.Spec
	no, grace, patience := false, int64(10), int64(TrialPatience(design)/time.Second)
	spec.ServiceAccountName, spec.DeprecatedServiceAccount = "", ""
	spec.AutomountServiceAccountToken, spec.TerminationGracePeriodSeconds = &no, &grace
	spec.RestartPolicy, spec.ActiveDeadlineSeconds = corev1.RestartPolicyNever, &patience
	// It makes do with the room that there is: nobody is put out for it.
	spec.PriorityClassName, spec.Priority, spec.PreemptionPolicy = "", nil, nil
	spec.InitContainers = pick(spec.InitContainers, database.ContainerInstall)
	spec.Containers = pick(spec.Containers, database.ContainerDatabase)
	for i := range spec.Containers {
		trialContainer(&spec.Containers[i])
	}
	spec.Volumes = append(slices.DeleteFunc(spec.Volumes, func(volume corev1.Volume) bool {
		return !slices.Contains(trialMounts, volume.Name)
	}), scratch(design))
	pod.Spec = spec
	return pod, nil
}

// trialMeta names the database with a label of its own: Services, the budget, the policy, the agents and whoever else
// selects instances by theirs do not see this pod.
func trialMeta(design database.Design, name string) metav1.ObjectMeta {
	metadata := meta(design, name, "trial")
	metadata.Labels = trialLabels(design)
	return metadata
}

func trialLabels(design database.Design) map[string]string {
	return map[string]string{
		database.LabelTrial:     design.Name,
		database.LabelName:      "geodatabase-trial",
		database.LabelManagedBy: "meridian",
		database.LabelComponent: "trial",
	}
}

func pick(containers []corev1.Container, name string) []corev1.Container {
	return slices.DeleteFunc(slices.Clone(containers), func(one corev1.Container) bool { return one.Name != name })
}

// trialContainer makes the container of a database that of a restore on trial: the same image, size and rights, and
// nothing that listens.
func trialContainer(container *corev1.Container) {
	container.Name = database.ContainerTrial
	container.Command, container.Args = []string{wire.AgentBinary, "trial"}, nil
	container.Ports, container.Lifecycle, container.RestartPolicy = nil, nil, nil
	container.LivenessProbe, container.ReadinessProbe, container.StartupProbe = nil, nil, nil
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	container.Env = slices.DeleteFunc(container.Env, func(variable corev1.EnvVar) bool {
		return slices.Contains(trialForeign, variable.Name)
	})
	container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool {
		return !slices.Contains(trialMounts, mount.Name)
	})
	own := corev1.VolumeMount{Name: "scratch", MountPath: wire.FolderVolume}
	container.VolumeMounts = append(container.VolumeMounts, own)
}

// scratch is a volume as large as those of an instance together, of the same class.
func scratch(design database.Design) corev1.Volume {
	wanted := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{database.AccessMode(design.Spec.Storage)},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: trialSize(design)},
		},
	}
	if class := design.Spec.Storage.Class; class != "" {
		wanted.StorageClassName = &class
	}
	claimed := maps.Clone(trialLabels(design))
	return corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Labels: claimed}, Spec: wanted,
		},
	}}}
}

// trialSize is what the largest instance has: what it holds fits, with its log.
func trialSize(design database.Design) resource.Quantity {
	largest := design.Spec.Storage.Size
	for _, instance := range design.Instances {
		size := instance.Size.DeepCopy()
		if instance.LogSize != nil {
			size.Add(*instance.LogSize)
		}
		if size.Cmp(largest) > 0 {
			largest = size
		}
	}
	return largest
}

// TrialPatience is how long a restore on trial may take before it counts as one that hangs: two hours, and three
// minutes for each GiB of its volume.
func TrialPatience(design database.Design) time.Duration {
	size := trialSize(design)
	return 2*time.Hour + time.Duration(size.Value()>>30)*3*time.Minute
}
