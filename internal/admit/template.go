package admit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	strictjson "sigs.k8s.io/json"

	"meridian.dev/meridian/api/v1alpha1"
)

const (
	templateField    = "spec.podTemplate.spec"
	labelsField      = "spec.podTemplate.metadata.labels"
	annotationsField = "spec.podTemplate.metadata.annotations"
)

// The API server stores at most 1.5 MiB in one object, and the template is repeated in that of each instance.
const (
	largestTemplate    = 128 << 10
	largestAnnotations = 64 << 10
)

// findings collects problems below one field.
type findings struct {
	field    string
	problems []Problem
}

func (f *findings) refuse(wrong bool, field, format string, args ...any) {
	if wrong {
		f.problems = append(f.problems,
			Problem{strings.TrimPrefix(f.field+"."+field, "."), fmt.Sprintf(format, args...)})
	}
}

// templateRules look at what the user wrote, not at the merged pod: since a template can neither remove nor replace,
// the merged pod has nothing that is not either ours or here.
var templateRules = []func(spec *corev1.PodSpec, ours pod) []Problem{
	keepPodShape,      // what the agent, the scheduler and the StatefulSet rely on
	refuseHostAccess,  // the network, the processes and the files of the node
	keepPodRestricted, // the security context of the pod
	keepContainers,    // each container: ours stay ours, others stay restricted
	keepVolumes,       // our volumes stay ours, others are of a harmless kind
}

func refuseBrokenTemplate(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	return judgeTemplate(database.Spec.PodTemplate, databasePod.of(database.Name))
}

func refuseBrokenCacheTemplate(cache *v1alpha1.GeoCache) []Problem {
	return judgeTemplate(cache.Spec.PodTemplate, cachePod.of(cache.Name, cache.Spec.DatabaseRef.Name))
}

func judgeTemplate(template *v1alpha1.PodTemplate, ours pod) []Problem {
	if template == nil {
		return nil
	}
	problems := judgeMetadata(template.Metadata)
	if template.Spec == nil || len(template.Spec.Raw) == 0 {
		return problems
	}
	if len(template.Spec.Raw) > largestTemplate {
		return append(problems,
			Problem{templateField, fmt.Sprintf("has %d bytes, at most %d are allowed; put large things into "+
				"a ConfigMap", len(template.Spec.Raw), largestTemplate)})
	}
	problems = append(problems, refuseRemovals(template.Spec.Raw)...)
	spec := &corev1.PodSpec{}
	strict, err := strictjson.UnmarshalStrict(template.Spec.Raw, spec)
	if err != nil {
		return append(problems, Problem{templateField, fmt.Sprintf("is not a part of a PodSpec: %v; correct it", err)})
	}
	for _, err := range strict {
		// Directives of a patch are no fields of a pod either; they have got their own answer.
		if !strings.Contains(err.Error(), `"$`) && !strings.Contains(err.Error(), ".$") {
			problems = append(problems,
				Problem{templateField, fmt.Sprintf("a PodSpec has no such field: %v; correct it", err)})
		}
	}
	for _, rule := range templateRules {
		problems = append(problems, rule(spec, ours)...)
	}
	return problems
}

// ourTexts are fields that Meridian sets and that an empty text would take away unseen, since a PodSpec in Go does not
// tell an empty text from none.
var ourTexts = []string{"image", "workingDir", "serviceAccountName", "restartPolicy", "mountPath", "claimName"}

// refuseRemovals finds what a strategic merge patch would remove with: a null, an empty text, and directives, which
// begin with a dollar.
func refuseRemovals(raw []byte) []Problem {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&tree) != nil {
		return nil // The caller decodes once more and says what is wrong.
	}
	var problems []Problem
	var walk func(field string, node any)
	walk = func(field string, node any) {
		switch node := node.(type) {
		case nil:
			problems = append(problems,
				Problem{field, "null would remove what Meridian sets; write the value that you want"})
		case string:
			if node == "" && slices.Contains(ourTexts, field[strings.LastIndex(field, ".")+1:]) {
				problems = append(problems, Problem{field,
					"an empty text would remove what Meridian sets; write the value that you want"})
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(node)) {
				if strings.HasPrefix(key, "$") {
					problems = append(problems, Problem{field + "." + key,
						"directives of a patch would remove what Meridian sets; write the values that you want"})
					continue
				}
				walk(field+"."+key, node[key])
			}
		case []any:
			for i, entry := range node {
				walk(fmt.Sprintf("%s[%d]", field, i), entry)
			}
		}
	}
	walk(templateField, tree)
	return problems
}

// ourLabels are those beside meridian.dev that selectors of ours, of StatefulSets or of tools rely on.
var ourLabels = []string{
	"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by",
	"app.kubernetes.io/component",
	"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash",
}

// profilePrefixes begin annotations by which security profiles were set before there were fields for them.
var profilePrefixes = []string{
	"container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/",
	"container.seccomp.security.alpha.kubernetes.io/",
}

func judgeMetadata(metadata *v1alpha1.PodMetadata) []Problem {
	if metadata == nil {
		return nil
	}
	found := &findings{}
	for _, key := range slices.Sorted(maps.Keys(metadata.Labels)) {
		field := fmt.Sprintf("%s[%s]", labelsField, key)
		found.refuse(slices.Contains(ourLabels, key) || ownDomain(key), field,
			"selectors rely on this label, so Meridian sets it; use a label of your own")
		for _, why := range validation.IsQualifiedName(key) {
			found.refuse(true, field, "is not the name of a label: %s", why)
		}
		for _, why := range validation.IsValidLabelValue(metadata.Labels[key]) {
			found.refuse(true, field, "has a value that no label can have: %s", why)
		}
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(metadata.Annotations)) {
		size += len(key) + len(metadata.Annotations[key])
		field := fmt.Sprintf("%s[%s]", annotationsField, key)
		found.refuse(ownDomain(key), field,
			"names that end in meridian.dev belong to Meridian; use a prefix of your own")
		found.refuse(slices.ContainsFunc(profilePrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }),
			field, "sets a security profile past the fields of the pod; use securityContext.appArmorProfile or "+
				"securityContext.seccompProfile in %s", templateField)
		for _, why := range validation.IsQualifiedName(strings.ToLower(key)) {
			found.refuse(true, field, "is not the name of an annotation: %s", why)
		}
	}
	found.refuse(size > largestAnnotations, annotationsField,
		"have %d bytes, at most %d are allowed; put large things into a "+
			"ConfigMap", size, largestAnnotations)
	return found.problems
}

func ownDomain(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "meridian.dev" || strings.HasSuffix(prefix, ".meridian.dev")
}
