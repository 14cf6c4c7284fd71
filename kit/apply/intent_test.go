package apply_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/apply"
)

// TestHashIsPinned fails when an upgrade of Go, of a library or of this package changes the hash of an unchanged
// intent. That would write to every child of every user once: never update these values, find out why they changed.
func TestHashIsPinned(t *testing.T) {
	cases := map[string]struct {
		obj  client.Object
		want string
	}{
		"a rich StatefulSet": {ship(), "fd74c2fb012072d1b80bea19141690f41910f852534003a6f301f03fb8bdc614"},
		"a small ConfigMap": {
			&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"},
				Data:       map[string]string{"b": "<&>\u2028", "a": ""},
			},
			"da5821b04c362cc2ac2071d9d78b7bff3ed36bfe3c714363b342faee88ad5301",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := intend(t, tc.obj).Hash(); got != tc.want {
				t.Errorf("hash = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestHashIgnoresWhatIsNoIntent(t *testing.T) {
	obj := ship()
	want := intend(t, obj).Hash()
	defaulted(obj)
	live := ship()
	live.UID, live.ResourceVersion, live.Generation = "u", "7", 3
	live.CreationTimestamp = metav1.Now()
	live.ManagedFields = managed()
	live.Status.Replicas = 5
	live.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
	live.Annotations = map[string]string{"example.com/intent": "{}"}
	if got := intend(t, live).Hash(); got != want {
		t.Error("server-owned fields are part of the hash")
	}
	if intend(t, obj).Hash() == want {
		t.Error("a field of the specification is no part of the hash")
	}
}

// TestZeroStructs has typed objects whose JSON says more than their author did.
func TestZeroStructs(t *testing.T) {
	cases := map[string]struct {
		obj   client.Object
		admit func(client.Object)
	}{
		"a target port is 0 in JSON when unset": {
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			},
			func(obj client.Object) {
				port := &obj.(*corev1.Service).Spec.Ports[0]
				port.TargetPort, port.Protocol = intstr.FromInt32(port.Port), "TCP"
				obj.(*corev1.Service).Spec.ClusterIP = "10.0.0.7"
			},
		},
		"rules are null when unset": {
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}},
			func(client.Object) {},
		},
		"an explicitly empty list": {
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}, Rules: []rbacv1.PolicyRule{}},
			func(obj client.Object) { obj.(*rbacv1.Role).Rules = nil },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			s.admit = tc.admit
			do(t, s, tc.obj)
			if got := do(t, s, tc.obj); got.State != apply.Same {
				t.Errorf("state = %s %v, want the same", got.State, got.Changes)
			}
		})
	}
}

func TestUnstructured(t *testing.T) {
	boat := func(sails float64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Boat",
			"metadata": map[string]any{"namespace": "a", "name": "b"},
			"spec":     map[string]any{"sails": sails, "crew": []any{"ann"}, "deck": map[string]any{}, "a~1/b": sails},
		}}
	}
	s := newServer()
	do(t, s, boat(2))
	live := s.live(boat(2)).(*unstructured.Unstructured)
	if err := unstructured.SetNestedField(live.Object, int64(2), "spec", "sails"); err != nil {
		t.Fatal(err)
	}
	if got := do(t, s, boat(2)); got.State != apply.Same {
		t.Errorf("2.0 is not 2: %s %v", got.State, got.Changes)
	}
	before := boat(3)
	do(t, s, before)
	if diff := cmp.Diff(boat(3), before); diff != "" {
		t.Errorf("the caller's object was changed (-want +got):\n%s", diff)
	}
	sails, _, _ := unstructured.NestedFieldNoCopy(s.live(boat(2)).(*unstructured.Unstructured).Object, "spec", "sails")
	if sails != int64(3) && sails != float64(3) {
		t.Errorf("sails = %v", sails)
	}
	if got := do(t, s, boat(3)); got.State != apply.Same {
		t.Errorf("after the write: %s %v", got.State, got.Changes)
	}
}

func TestIntentErrors(t *testing.T) {
	cases := map[string]struct {
		obj   client.Object
		owner string
		want  string
	}{
		"no name": {
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}}, "u", "it has no name",
		},
		"no owner": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, "", "it has no owner"},
		"another controller": {
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", OwnerReferences: controlledBy("x", "other")}},
			"u", "its controller reference names other, not the owner u",
		},
		"no kind": {&metav1.PartialObjectMetadata{}, "u", "find the kind of *v1.PartialObjectMetadata"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := author.Intent(tc.obj, "")
			if tc.owner != "" {
				_, err = author.Intent(tc.obj, "u")
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestIntentNames(t *testing.T) {
	want := intend(t, ship())
	if want.Kind().Kind != "StatefulSet" || want.Key().String() != "a/ship" {
		t.Errorf("intent of %s %s", want.Kind(), want.Key())
	}
	if got := want.String(); !strings.HasPrefix(got, "StatefulSet a/ship "+want.Hash()[:12]) {
		t.Errorf("intent prints as %s", got)
	}
}

func BenchmarkIntent(b *testing.B) {
	obj := ship()
	for b.Loop() {
		intend(b, obj)
	}
}

func BenchmarkCompareSame(b *testing.B) {
	want := intend(b, ship())
	s := newServer()
	s.admit = defaulted
	action, _ := apply.Compare(want, nil).Action()
	if _, err := (apply.Actor{Client: s, Live: s}).Do(b.Context(), action); err != nil {
		b.Fatal(err)
	}
	live := s.live(ship())
	live.SetManagedFields(managed())
	for b.Loop() {
		if apply.Compare(want, live).State != apply.Same {
			b.Fatal("differs")
		}
	}
}
