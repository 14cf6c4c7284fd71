package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

const (
	// account is the user that everything runs as, in every image.
	account int64 = 65532
	// portName is that of the server's port, in the pod and in Services.
	portName = "cache"
	// grace is more than the agent needs to stop a server that has nothing to save.
	grace int64 = 30
)

// podTemplate renders the pod of one instance, with the user's changes laid over it.
func podTemplate(design cache.Design, instance string) (corev1.PodTemplateSpec, error) {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels(design, "instance")}, Spec: podSpec(design, instance),
	}
	template.Labels[cache.LabelInstance] = instance
	template, err := laidOver(template, design.Spec.PodTemplate)
	if err != nil {
		return template, err
	}
	mark := withoutSize(template)
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	service.Evictable(template.Annotations, "agent", "run", "tmp")
	template.Annotations[cache.AnnotationWish], template.Annotations[cache.AnnotationTemplate] = Wish(design.Spec), mark
	return template, nil
}

// Wish is a short name for everything that a spec asks of a pod beside its size. Two templates that differ although it
// is the same come from different versions of Meridian.
func Wish(spec v1alpha1.GeoCacheSpec) string {
	return short([]any{spec.Engine, spec.Image, spec.PodTemplate})
}

// withoutSize is a short name for a template apart from the memory of the server, which is changed in place. Templates
// with the same one need no restart.
func withoutSize(template corev1.PodTemplateSpec) string {
	template = *template.DeepCopy()
	for i := range template.Spec.Containers {
		if template.Spec.Containers[i].Name == cache.ContainerCache {
			template.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
		}
	}
	return short(template)
}

func short(value any) string {
	// All of these can be written as JSON: they came as such, or are sent as such.
	document, _ := json.Marshal(value)
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:8])
}

// laidOver lays the user's changes over Meridian's own template, the way a strategic merge patch does. Labels that
// selectors rest on are never the user's.
func laidOver(template corev1.PodTemplateSpec, change *v1alpha1.PodTemplate) (corev1.PodTemplateSpec, error) {
	if change == nil {
		return template, nil
	}
	if extra := change.Metadata; extra != nil {
		own := template.Labels
		template.Labels, template.Annotations = map[string]string{}, maps.Clone(extra.Annotations)
		maps.Copy(template.Labels, extra.Labels)
		maps.Copy(template.Labels, own)
	}
	if change.Spec == nil || len(change.Spec.Raw) == 0 {
		return template, nil
	}
	document, err := json.Marshal(template.Spec)
	if err == nil {
		document, err = strategicpatch.StrategicMergePatch(document, change.Spec.Raw, corev1.PodSpec{})
	}
	var merged corev1.PodSpec
	if err == nil {
		err = json.Unmarshal(document, &merged)
	}
	if err != nil {
		return template, fmt.Errorf("spec.podTemplate.spec: it cannot be laid over the pod: %w", err)
	}
	template.Spec = merged
	return template, nil
}

func podSpec(design cache.Design, instance string) corev1.PodSpec {
	yes, no, user, patience := true, false, account, grace
	pod := corev1.PodSpec{
		ServiceAccountName: cache.AgentName(design.Name), AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		TerminationGracePeriodSeconds: &patience,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Affinity:       spread(design),
		InitContainers: []corev1.Container{installContainer(design)},
		Containers:     []corev1.Container{cacheContainer(design, instance)},
		Volumes:        volumes(design),
	}
	design.Images.Fit(&pod, cache.ContainerCache)
	return pod
}

// spread keeps instances of one cache apart where the cluster has room. It is a preference: on a small cluster two
// instances on one node are better than one.
func spread(design cache.Design) *corev1.Affinity {
	everyone := &metav1.LabelSelector{MatchLabels: map[string]string{cache.LabelCache: design.Name}}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: everyone},
		}},
	}}
}

// installContainer copies the agent into the pod, so that any image with a server works.
func installContainer(design cache.Design) corev1.Container {
	return corev1.Container{
		Name: cache.ContainerInstall, Image: design.Images.Agent, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"/meridian", "install", wire.AgentBinary}, SecurityContext: service.ContainerSecurity(),
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "agent", MountPath: wire.FolderAgent}},
	}
}

func cacheContainer(design cache.Design, instance string) corev1.Container {
	port := func(name string, number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
	}
	return corev1.Container{
		Name: cache.ContainerCache, Image: serverImage(design), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{wire.AgentBinary, "agent", "--engine=redis"}, Env: environment(design, instance),
		SecurityContext: service.ContainerSecurity(), Resources: Resources(design),
		// What can be changed in place is: nobody has to know, and no key is lost.
		ResizePolicy: []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired},
		},
		Ports: []corev1.ContainerPort{
			port(portName, wire.PortCache), port("agent", wire.PortAgent), port("probe", wire.PortProbe),
		},
		// The agent is alive as long as it answers at all: what the server does is not the kubelet's to judge.
		LivenessProbe:  service.Probe(wire.PathLive, 10, 6),
		ReadinessProbe: service.Probe(wire.PathReady, 1, 2),
		StartupProbe:   service.StartupProbe(),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "agent", MountPath: wire.FolderAgent, ReadOnly: true},
			{Name: "run", MountPath: wire.FolderRun},
			{Name: "tmp", MountPath: "/tmp"},
			{Name: "settings", MountPath: wire.FolderSettings, ReadOnly: true},
			{Name: "app", MountPath: wire.FolderApp, ReadOnly: true},
			{Name: "tls", MountPath: wire.FolderTLS, ReadOnly: true},
			service.TokenMount(),
		},
	}
}

func serverImage(design cache.Design) string {
	switch {
	case design.Spec.Image != "":
		return design.Spec.Image
	case design.Spec.Engine == v1alpha1.EngineValkey:
		return design.Images.Valkey
	}
	return design.Images.Redis
}

// Resources of the server's container. Its memory is reserved and limited at the same amount, which is more than the
// memory for data.
func Resources(design cache.Design) corev1.ResourceRequirements {
	memory := *resource.NewQuantity(wire.CacheLimit(design.Memory()), resource.BinarySI)
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: memory},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: memory},
	}
}

func environment(design cache.Design, instance string) []corev1.EnvVar {
	return append([]corev1.EnvVar{
		{Name: wire.EnvCache, Value: design.Name},
		{Name: wire.EnvInstance, Value: instance},
	}, service.PodVariables()...)
}

// volumes are all but mounts of ours in memory or of the node: nothing outlives the pod.
func volumes(design cache.Design) []corev1.Volume {
	mode := int32(0o440)
	empty := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	}
	secret := func(name, secret string, keys ...string) corev1.Volume {
		source := &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: &mode}
		for _, key := range keys {
			source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
		}
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}}
	}
	return []corev1.Volume{
		empty("agent"), empty("run"), empty("tmp"),
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: cache.SettingsName(design.Name)}, DefaultMode: &mode,
		}}},
		secret("app", cache.AppSecretName(design.Name), wire.KeyPassword),
		secret("tls", cache.LeafName(design.Name)), service.TokenVolume(),
	}
}
