package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
)

// Wish is a short name for everything that a spec asks of a pod and that takes a new pod. Two templates that differ
// although it is the same come from different versions of Meridian. What is changed in place is not part of it: sizes,
// labels and annotations.
func Wish(spec v1alpha1.GeoDatabaseSpec) string {
	if claim := ClaimOf(spec); claim != "" {
		return "2." + digest(spec.Version, spec.Image, patchOf(spec), claim)
	}
	return "2." + digest(spec.Version, spec.Image, patchOf(spec))
}

// patchOf is what the user changes in the pod, nil for nothing: a field that was set once and taken back leaves empty
// objects behind, which change nothing and must restart nothing.
func patchOf(spec v1alpha1.GeoDatabaseSpec) map[string]any {
	var patch map[string]any
	if spec.PodTemplate == nil || spec.PodTemplate.Spec == nil ||
		json.Unmarshal(spec.PodTemplate.Spec.Raw, &patch) != nil {
		return nil
	}
	maps.DeleteFunc(patch, func(_ string, value any) bool {
		object, is := value.(map[string]any)
		return is && len(object) == 0
	})
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// SameWish says that a pod was made for what the spec asks for now, whichever version of Meridian has written it down.
func SameWish(spec v1alpha1.GeoDatabaseSpec, recorded string) bool {
	first := digest(spec.Version, spec.Image, spec.Resources, spec.PodTemplate)
	return recorded == Wish(spec) || recorded == first && ClaimOf(spec) == ""
}

// Metadata is what the user gives to the pods beside what they are made of: labels and annotations, as JSON, empty
// without any.
func Metadata(spec v1alpha1.GeoDatabaseSpec) string {
	if spec.PodTemplate == nil || spec.PodTemplate.Metadata == nil {
		return ""
	}
	given := *spec.PodTemplate.Metadata
	if len(given.Labels)+len(given.Annotations) == 0 {
		return ""
	}
	document, _ := json.Marshal(given)
	return string(document)
}

// Template is the name of the template that the pods of an instance are made from, empty if it cannot be rendered. The
// same name means that a new pod would be as the old one.
func Template(design database.Design, instance string) string {
	for _, wanted := range design.Instances {
		if wanted.Name == instance {
			return wanted.Template
		}
	}
	return ""
}

// TemplateOf names a template. It is done once for each instance of a design, because it takes the whole template.
func TemplateOf(design database.Design, instance database.InstanceDesign) string {
	template, err := podTemplate(design, instance)
	if err != nil {
		return ""
	}
	return template.Annotations[database.AnnotationTemplate]
}

// Pod renders a pod from the template of an instance, under a name that no instance has: to be tried, not to be made.
func Pod(design database.Design, instance string) (*corev1.Pod, error) {
	for _, wanted := range design.Instances {
		if wanted.Name != instance {
			continue
		}
		template, err := podTemplate(design, wanted)
		if err != nil {
			return nil, err
		}
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Namespace, pod.Name = design.Namespace, instance+"-trial"
		return pod, nil
	}
	return nil, nil
}

// SizeOf is what the database container of an instance gets.
func SizeOf(design database.Design, instance string) database.Size {
	var size database.Size
	for _, wanted := range design.Instances {
		if wanted.Name != instance {
			continue
		}
		containers := []corev1.Container{{Name: database.ContainerDatabase, Resources: resources(design)}}
		if design.Spec.PodTemplate != nil { // The user may change it.
			template, _ := plainTemplate(design, wanted)
			containers = template.Spec.Containers
		}
		for _, container := range containers {
			if container.Name == database.ContainerDatabase {
				size.CPU = container.Resources.Requests[corev1.ResourceCPU]
				size.Memory = container.Resources.Requests[corev1.ResourceMemory]
			}
		}
	}
	return size
}

// Resize gives the database container of a pod another size, in requests and limits alike.
func Resize(pod *corev1.Pod, size database.Size) {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if container.Name != database.ContainerDatabase || container.Resources.Requests == nil {
			continue
		}
		container.Resources.Requests[corev1.ResourceCPU] = size.CPU
		container.Resources.Requests[corev1.ResourceMemory] = size.Memory
		if _, limited := container.Resources.Limits[corev1.ResourceMemory]; limited {
			container.Resources.Limits[corev1.ResourceMemory] = size.Memory
		}
	}
}

// nameOf leaves out what is changed in place.
func nameOf(spec corev1.PodSpec, wish, restart string) string {
	spec.Containers = slices.Clone(spec.Containers)
	for i := range spec.Containers {
		container := &spec.Containers[i]
		if container.Name != database.ContainerDatabase {
			continue
		}
		container.Resources.Requests = withoutSizes(container.Resources.Requests)
		container.Resources.Limits = withoutSizes(container.Resources.Limits)
	}
	return digest(spec, wish, restart)
}

func withoutSizes(list corev1.ResourceList) corev1.ResourceList {
	rest := maps.Clone(list)
	delete(rest, corev1.ResourceCPU)
	delete(rest, corev1.ResourceMemory)
	return rest
}

func digest(parts ...any) string {
	// All of these can be written as JSON: they came as such.
	document, _ := json.Marshal(parts)
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:8])
}
