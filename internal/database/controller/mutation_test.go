//go:build cluster

package controller_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
)

// mirror is a policy as Kyverno's: images come from a mirror, and are always pulled, whoever writes them.
const mirror = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mirror}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [statefulsets]}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: |
        [JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image",
          value: "mirror.example/" + object.spec.template.spec.containers[0].image.split("mirror.example/")
            [object.spec.template.spec.containers[0].image.split("mirror.example/").size() - 1]},
        JSONPatch{op: "add", path: "/spec/template/spec/containers/0/imagePullPolicy", value: "Always"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mirror}
spec: {policyName: mirror}
`

// image is that of the database container of a StatefulSet.
func (w *world) image(instance string) string {
	w.t.Helper()
	var set appsv1.StatefulSet
	w.get(instance, &set)
	return set.Spec.Template.Spec.Containers[0].Image
}

// TestRollUnderAMutatingPolicy changes the image of a database in a cluster whose admission rewrites images: the set is
// never as it was written, and the roll goes on all the same. What is rewritten is told, and not written again.
func TestRollUnderAMutatingPolicy(t *testing.T) {
	w := newWorld(t)
	members := w.three()
	for document := range strings.SplitSeq(mirror, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		w.create(object)
	}
	w.until("the policy is in force", func() bool {
		change(w, "cities-3", &appsv1.StatefulSet{}, func(set *appsv1.StatefulSet) {
			set.Annotations["example.com/touched"] = "by somebody"
			set.Spec.Template.Spec.Containers[0].Image = strings.TrimPrefix(
				set.Spec.Template.Spec.Containers[0].Image, "mirror.example/")
		})
		return strings.HasPrefix(w.image("cities-3"), "mirror.example/")
	})
	var before corev1.Pod
	w.get("cities-3-0", &before)
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(database *v1alpha1.GeoDatabase) {
		database.Spec.Image = "mine:2"
	})
	w.passUntil("the first replica is replaced", func() bool {
		changeStatus(w, "cities-3", &appsv1.StatefulSet{}, func(set *appsv1.StatefulSet) {
			set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, "r2"
		})
		w.lead(1, members...)
		var pod corev1.Pod
		return w.image("cities-3") == "mirror.example/mine:2" &&
			(!w.get("cities-3-0", &pod) || pod.DeletionTimestamp != nil || pod.UID != before.UID)
	})
	told := strings.Join(w.database().Status.PendingChanges, "\n")
	if !strings.Contains(told, "admission in this cluster changes the StatefulSet cities-3") ||
		!strings.Contains(told, "containers[name=database].image") {
		t.Errorf("pending changes are %q", told)
	}
}
