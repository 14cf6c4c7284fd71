package sim_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func ownedBy(child client.Object, owner *corev1.ConfigMap) client.Object {
	child.SetOwnerReferences(append(child.GetOwnerReferences(), metav1.OwnerReference{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: new(true),
	}))
	return child
}

// TestCollect deletes the owner of a chain (top, middle, bottom), and of an object that has a second owner.
func TestCollect(t *testing.T) {
	tests := map[string]struct {
		policy client.PropagationPolicy
		want   string
	}{
		"background": {
			client.PropagationPolicy(metav1.DeletePropagationBackground),
			"deleted top, deleted middle, deleted bottom, modified shared",
		},
		"foreground": {
			client.PropagationPolicy(metav1.DeletePropagationForeground),
			"modified top, modified middle, deleted bottom, deleted middle, modified shared, deleted top",
		},
		"orphan": {
			client.PropagationPolicy(metav1.DeletePropagationOrphan),
			"modified top, modified middle, modified shared, deleted top",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			top, second, middle := config("top"), config("second"), config("middle")
			w.create(top)
			w.create(second)
			w.create(ownedBy(middle, top))
			w.create(ownedBy(config("bottom"), middle))
			w.create(ownedBy(ownedBy(config("shared"), top), second))
			before := w.server.Version()
			w.must(w.Delete(t.Context(), top, test.policy))
			steps := 0
			for ; w.server.Collect() && steps < 100; steps++ {
			}
			if steps == 100 {
				t.Fatal("it does not come to an end")
			}
			var got []string
			for _, event := range w.server.Events(schema.GroupVersionKind{}, before, w.server.Version()) {
				got = append(got, strings.ToLower(string(event.Type))+" "+event.Key.Name)
			}
			if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestCollectGoesByUID: an owner that was made anew under the same name is another.
func TestCollectGoesByUID(t *testing.T) {
	w := newWorld(t)
	owner := config("owner")
	w.create(owner)
	w.create(ownedBy(config("child"), owner))
	if w.server.Collect() {
		t.Error("it collected the child of a living owner")
	}
	w.must(w.Delete(t.Context(), owner))
	w.create(config("owner"))
	if !w.server.Collect() || w.server.Collect() {
		t.Error("there was not exactly one step to take")
	}
	list := &corev1.ConfigMapList{}
	w.must(w.List(t.Context(), list))
	if len(list.Items) != 1 {
		t.Errorf("%d objects are left, want the new owner", len(list.Items))
	}
}

func TestClaimIsProtectedWhileAPodUsesIt(t *testing.T) {
	w := newWorld(t)
	made, user := claim("data"), pod("user", "n1")
	user.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	w.create(made)
	w.create(user)
	w.must(w.Delete(t.Context(), made))
	if w.server.Collect() {
		t.Error("it took the protection away from a claim in use")
	}
	w.must(w.Delete(t.Context(), user, client.GracePeriodSeconds(0)))
	if !w.server.Collect() {
		t.Error("it left the protection on a claim that nobody uses")
	}
	list := &corev1.PersistentVolumeClaimList{}
	w.must(w.List(t.Context(), list))
	if len(list.Items) != 0 {
		t.Error("the claim is still there")
	}
}
