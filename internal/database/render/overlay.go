package render

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"meridian.dev/meridian/api/v1alpha1"
)

// overlay lays the user's changes over Meridian's own template, the way a strategic merge patch does. Labels that
// selectors rest on are never the user's.
func overlay(template corev1.PodTemplateSpec, change *v1alpha1.PodTemplate) (corev1.PodTemplateSpec, error) {
	if change == nil {
		return template, nil
	}
	if change.Metadata != nil {
		merged := maps.Clone(change.Metadata.Labels)
		if merged == nil {
			merged = map[string]string{}
		}
		maps.Copy(merged, template.Labels)
		template.Labels = merged
		template.Annotations = maps.Clone(change.Metadata.Annotations)
	}
	if change.Spec == nil || len(change.Spec.Raw) == 0 {
		return template, nil
	}
	spec, err := mergeSpec(template.Spec, change.Spec.Raw)
	if err != nil {
		return template, fmt.Errorf("spec.podTemplate.spec: it cannot be laid over the pod: %w", err)
	}
	template.Spec = spec
	return template, nil
}

func mergeSpec(ours corev1.PodSpec, patch []byte) (corev1.PodSpec, error) {
	document, err := json.Marshal(ours)
	if err != nil {
		return ours, err
	}
	merged, err := strategicpatch.StrategicMergePatch(document, patch, corev1.PodSpec{})
	if err != nil {
		return ours, err
	}
	var spec corev1.PodSpec
	if err := json.Unmarshal(merged, &spec); err != nil {
		return ours, err
	}
	return spec, nil
}
