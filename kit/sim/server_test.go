package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/sim"
)

var (
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	configKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
)

// world is a server with one process that everything goes through.
type world struct {
	t       *testing.T
	clock   *sim.Clock
	server  *sim.Server
	process *sim.Process
	client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	clock := &sim.Clock{}
	server, err := sim.New(sim.Options{Scheme: scheme.Scheme, Now: clock.Now, Kinds: []sim.Kind{{
		GroupVersionKind: widgetKind, Custom: true, Status: true, Generation: true, Conditional: true,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	process, err := server.Start(sim.Life{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, clock, server, process, process.Live()}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(obj client.Object) { w.t.Helper(); w.must(w.Create(w.t.Context(), obj)) }

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func config(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: named(name), Data: map[string]string{"a": "1"}}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: named(name), Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "x:1"}},
	}}
}

func stateful(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: named(name), Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
		},
	}}
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: named(name), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}}
}

func widget(name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	made.SetGroupVersionKind(widgetKind)
	made.SetNamespace("ns")
	made.SetName(name)
	return made
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		try  func(w *world) error
		want func(error) bool
	}{
		"a second object of the same name": {
			func(w *world) error { w.create(config("a")); return w.Create(t.Context(), config("a")) },
			apierrors.IsAlreadyExists,
		},
		"an object without a name": {
			func(w *world) error { return w.Create(t.Context(), config("")) }, apierrors.IsInvalid,
		},
		"a label that is none": {
			func(w *world) error {
				made := config("a")
				made.Labels = map[string]string{"a": "not a label"}
				return w.Create(t.Context(), made)
			},
			apierrors.IsInvalid,
		},
		"a create with a version": {
			func(w *world) error {
				made := config("a")
				made.ResourceVersion = "1"
				return w.Create(t.Context(), made)
			},
			func(err error) bool { return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown },
		},
		"a read of nothing": {
			func(w *world) error {
				return w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, &corev1.Pod{})
			},
			apierrors.IsNotFound,
		},
		"a kind that is not known": {
			func(w *world) error {
				made := widget("a")
				made.SetKind("Gadget")
				return w.Create(t.Context(), made)
			},
			meta.IsNoMatchError,
		},
		"an update of an older version": {
			func(w *world) error {
				made := config("a")
				w.create(made)
				older := made.DeepCopy()
				made.Data["a"] = "2"
				w.must(w.Update(t.Context(), made))
				return w.Update(t.Context(), older)
			},
			apierrors.IsConflict,
		},
		"an update of another incarnation": {
			func(w *world) error {
				made := config("a")
				w.create(made)
				made.UID, made.ResourceVersion = "other", ""
				return w.Update(t.Context(), made)
			},
			apierrors.IsConflict,
		},
		"an unconditional update of a kind that wants a condition": {
			func(w *world) error {
				made := widget("a")
				w.create(made)
				made.SetResourceVersion("")
				return w.Update(t.Context(), made)
			},
			apierrors.IsInvalid,
		},
		"the status of a kind without one": {
			func(w *world) error {
				made := config("a")
				w.create(made)
				return w.Status().Update(t.Context(), made)
			},
			apierrors.IsNotFound,
		},
		"an immutable field of a StatefulSet": {
			func(w *world) error {
				made := stateful("a")
				w.create(made)
				made.Spec.ServiceName = "other"
				return w.Update(t.Context(), made)
			},
			apierrors.IsInvalid,
		},
		"another address of a Service": {
			func(w *world) error {
				made := &corev1.Service{ObjectMeta: named("a"), Spec: corev1.ServiceSpec{ClusterIP: "None"}}
				w.create(made)
				made.Spec.ClusterIP = "10.0.0.1"
				return w.Update(t.Context(), made)
			},
			apierrors.IsInvalid,
		},
		"the size of a claim that is not bound": {
			func(w *world) error {
				made := claim("a")
				w.create(made)
				made.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
				return w.Update(t.Context(), made)
			},
			apierrors.IsInvalid,
		},
		"a new finalizer on what is being deleted": {
			func(w *world) error {
				made := config("a")
				made.Finalizers = []string{"example.com/a"}
				w.create(made)
				w.must(w.Delete(t.Context(), made))
				w.must(w.Get(t.Context(), client.ObjectKeyFromObject(made), made))
				made.Finalizers = append(made.Finalizers, "example.com/b")
				return w.Update(t.Context(), made)
			},
			apierrors.IsInvalid,
		},
		"a delete of an older version": {
			func(w *world) error {
				made := config("a")
				w.create(made)
				version := made.ResourceVersion
				made.Data["a"] = "2"
				w.must(w.Update(t.Context(), made))
				return w.Delete(t.Context(), made, client.Preconditions{ResourceVersion: &version})
			},
			apierrors.IsConflict,
		},
		"a delete of another incarnation": {
			func(w *world) error {
				w.create(config("a"))
				return w.Delete(t.Context(), config("a"), client.Preconditions{UID: new(types.UID("other"))})
			},
			apierrors.IsConflict,
		},
		"a patch whose test fails": {
			func(w *world) error {
				w.create(config("a"))
				return w.Patch(t.Context(), config("a"), client.RawPatch(types.JSONPatchType,
					[]byte(`[{"op":"test","path":"/metadata/resourceVersion","value":"77"}]`)))
			},
			apierrors.IsInvalid,
		},
		"a merge patch with an older version": {
			func(w *world) error {
				w.create(config("a"))
				return w.Patch(t.Context(), config("a"), client.RawPatch(types.MergePatchType,
					[]byte(`{"metadata":{"resourceVersion":"77"}}`)))
			},
			apierrors.IsConflict,
		},
		"a strategic patch of a custom resource": {
			func(w *world) error {
				w.create(widget("a"))
				return w.Patch(t.Context(), widget("a"), client.RawPatch(types.StrategicMergePatchType, []byte(`{}`)))
			},
			apierrors.IsUnsupportedMediaType,
		},
		"a field selector that is not served": {
			func(w *world) error {
				return w.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"spec.wild": "x"})
			},
			apierrors.IsBadRequest,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := test.try(newWorld(t)); !test.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestGenerationCountsWhatIsWanted(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made := stateful("a")
	w.create(made)
	check := func(what string, want int64) {
		t.Helper()
		w.must(w.Get(ctx, client.ObjectKeyFromObject(made), made))
		if made.Generation != want {
			t.Errorf("generation %d after %s, want %d", made.Generation, what, want)
		}
	}
	check("create", 1)
	made.Labels = map[string]string{"a": "b"}
	made.Status.Replicas = 7
	w.must(w.Update(ctx, made))
	check("a label", 1)
	if made.Status.Replicas != 0 {
		t.Error("an update has changed the status")
	}
	made.Spec.Replicas = new(int32(3))
	made.Status.Replicas = 1
	w.must(w.Status().Update(ctx, made))
	check("a status", 1)
	if *made.Spec.Replicas != 1 || made.Status.Replicas != 1 {
		t.Errorf("a write to the status left replicas %d of %d", made.Status.Replicas, *made.Spec.Replicas)
	}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
	w.must(w.SubResource("scale").Update(ctx, made, client.WithSubResourceBody(scale)))
	check("a scale", 2)
	made.Finalizers = []string{"example.com/a"}
	w.must(w.Update(ctx, made))
	w.must(w.Delete(ctx, made))
	check("a deletion that waits", 3)
}

func TestNoChangeMakesNoVersion(t *testing.T) {
	w := newWorld(t)
	made := stateful("a")
	w.create(made)
	before := w.server.Version()
	w.must(w.Update(t.Context(), made))
	w.must(w.Status().Update(t.Context(), made))
	w.must(w.Patch(t.Context(), made, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`))))
	w.must(w.Create(t.Context(), config("dry"), client.DryRunAll))
	if w.server.Version() != before {
		t.Errorf("version %d, was %d", w.server.Version(), before)
	}
}

func TestDeletionOfPods(t *testing.T) {
	tests := map[string]struct {
		node    string
		options []client.DeleteOption
		want    []string
	}{
		"one that was never scheduled goes at once": {"", nil, []string{"ADDED", "MODIFIED", "DELETED"}},
		"a running one is marked":                   {"n1", nil, []string{"ADDED", "MODIFIED"}},
		"by force it goes at once": {
			"n1", []client.DeleteOption{client.GracePeriodSeconds(0)}, []string{"ADDED", "MODIFIED", "DELETED"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(pod("a", test.node))
			w.must(w.Delete(t.Context(), pod("a", ""), test.options...))
			var got []string
			for _, event := range w.server.Events(podKind, 0, w.server.Version()) {
				got = append(got, string(event.Type))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestGraceIsOnlyShortened(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made := pod("a", "n1")
	w.create(made)
	w.must(w.Delete(ctx, made))
	at := w.clock.Now().Add(30 * time.Second)
	w.clock.Advance(time.Second)
	w.must(w.Delete(ctx, made, client.GracePeriodSeconds(60)))
	w.must(w.Get(ctx, client.ObjectKeyFromObject(made), made))
	if !made.DeletionTimestamp.Time.Equal(at) {
		t.Errorf("deleted at %s, want %s", made.DeletionTimestamp, at)
	}
	eviction := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(5))}}
	w.must(w.SubResource("eviction").Create(ctx, made, eviction))
	w.must(w.Get(ctx, client.ObjectKeyFromObject(made), made))
	if got := *made.DeletionGracePeriodSeconds; got != 5 {
		t.Errorf("grace %d, want 5", got)
	}
}

func TestFinalizersHoldADeletion(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made := config("a")
	made.Finalizers = []string{"example.com/a"}
	w.create(made)
	w.must(w.Delete(ctx, made))
	w.must(w.Get(ctx, client.ObjectKeyFromObject(made), made))
	if made.DeletionTimestamp == nil {
		t.Fatal("it is not marked")
	}
	made.Finalizers = nil
	w.must(w.Update(ctx, made))
	if err := w.Get(ctx, client.ObjectKeyFromObject(made), made); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	again := config("a")
	w.create(again)
	if again.UID == made.UID {
		t.Error("another incarnation has the same UID")
	}
}

func TestBoundClaimGrows(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	made := claim("a")
	w.create(made)
	made.Status.Phase = corev1.ClaimBound
	made.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.must(w.Status().Update(ctx, made))
	made.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	w.must(w.Update(ctx, made))
	made.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("512Mi")
	if err := w.Update(ctx, made); !apierrors.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
}

func TestUpdateCreatesLease(t *testing.T) {
	w := newWorld(t)
	made := &coordinationv1.Lease{ObjectMeta: named("a"), Spec: coordinationv1.LeaseSpec{HolderIdentity: new("x")}}
	w.must(w.Update(t.Context(), made))
	if made.UID == "" {
		t.Error("it has no identity")
	}
}

func TestSelectorsAndPartialReads(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for i, name := range []string{"c", "a", "b"} {
		made := pod(name, fmt.Sprintf("n%d", i%2))
		made.Labels = map[string]string{"app": "x", "name": name}
		w.create(made)
	}
	tests := map[string]struct {
		options []client.ListOption
		want    []string
	}{
		"all, by name":   {nil, []string{"a", "b", "c"}},
		"by label":       {[]client.ListOption{client.MatchingLabels{"name": "b"}}, []string{"b"}},
		"by name":        {[]client.ListOption{client.MatchingFields{"metadata.name": "c"}}, []string{"c"}},
		"by node":        {[]client.ListOption{client.MatchingFields{"spec.nodeName": "n0"}}, []string{"b", "c"}},
		"elsewhere":      {[]client.ListOption{client.InNamespace("other")}, nil},
		"at a past time": {[]client.ListOption{exactly("2")}, []string{"c"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(podKind.GroupVersion().WithKind("PodList"))
			w.must(w.List(ctx, list, test.options...))
			var got []string
			for _, item := range list.Items {
				got = append(got, item.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	w.must(w.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("ns"), client.GracePeriodSeconds(0)))
	pods := &corev1.PodList{}
	w.must(w.List(ctx, pods))
	if len(pods.Items) != 0 {
		t.Errorf("%d pods are left", len(pods.Items))
	}
}

func exactly(version string) client.ListOption {
	return &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	}}
}

// TestSameCallsSameWorld runs one story twice and compares everything that was ever stored.
func TestSameCallsSameWorld(t *testing.T) {
	story := func() string {
		w := newWorld(t)
		for i := range 40 {
			made := pod("", "n1")
			made.GenerateName = "p-"
			made.Labels = map[string]string{"a": "1", "b": "2", "c": "3", "d": fmt.Sprint(i)}
			w.create(made)
			if i%3 == 0 {
				w.must(w.Delete(context.Background(), made))
			}
		}
		var lines []string
		for _, event := range w.server.Events(schema.GroupVersionKind{}, 0, w.server.Version()) {
			content, err := json.Marshal(event.Object)
			w.must(err)
			lines = append(lines, event.String()+" "+string(content))
		}
		return strings.Join(lines, "\n")
	}
	first := story()
	if diff := cmp.Diff(first, story()); diff != "" {
		t.Errorf("-first +second:\n%s", diff)
	}
	if names := strings.Count(first, "added"); names != 40 {
		t.Errorf("%d creations, want 40", names)
	}
}

func TestAnswersAreCopies(t *testing.T) {
	w := newWorld(t)
	made := widget("a")
	w.create(made)
	w.must(unstructured.SetNestedField(made.Object, int64(99), "spec", "size"))
	read := widget("a")
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(made), read))
	w.must(unstructured.SetNestedField(read.Object, int64(98), "spec", "size"))
	again := widget("a")
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(made), again))
	if size, _, _ := unstructured.NestedInt64(again.Object, "spec", "size"); size != 1 {
		t.Errorf("size %d, want 1", size)
	}
	if !slices.Contains(w.server.Kinds(), widgetKind) {
		t.Error("the kind is not listed")
	}
}

// TestFork shows that two servers with one past go their own ways from there on.
func TestFork(t *testing.T) {
	w := newWorld(t)
	w.create(config("a"))
	version := w.server.Version()
	forks := make([]client.Client, 2)
	for i := range forks {
		process, err := w.server.Fork(w.clock.Now).Start(sim.Life{Name: "fork"})
		w.must(err)
		forks[i] = process.Live()
		made := config("b")
		made.Data = map[string]string{"fork": strconv.Itoa(i)}
		w.must(forks[i].Create(t.Context(), made))
		old := config("a")
		w.must(forks[i].Get(t.Context(), client.ObjectKeyFromObject(old), old))
		old.Data = made.Data
		w.must(forks[i].Update(t.Context(), old))
	}
	for i, fork := range forks {
		for _, name := range []string{"a", "b"} {
			found := config(name)
			w.must(fork.Get(t.Context(), client.ObjectKeyFromObject(found), found))
			if found.Data["fork"] != strconv.Itoa(i) {
				t.Errorf("fork %d has the %s of the other: %v", i, name, found.Data)
			}
		}
	}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "b"}, config("b")); !apierrors.IsNotFound(err) {
		t.Errorf("what a fork has made is in the server that it came from: %v", err)
	}
	if w.server.Version() != version {
		t.Error("the forks have changed the server that they came from")
	}
}

// TestResize changes the resources of a running pod by the subresource, and by nothing else.
func TestResize(t *testing.T) {
	w := newWorld(t)
	made := pod("a", "node")
	w.create(made)
	before := made.DeepCopy()
	made.Labels = map[string]string{"not": "changed"}
	made.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	refused := w.Patch(t.Context(), made.DeepCopy(), client.StrategicMergeFrom(before))
	if !apierrors.IsInvalid(refused) {
		t.Errorf("the pod itself takes other resources: %v", refused)
	}
	w.must(w.SubResource("resize").Patch(t.Context(), made, client.StrategicMergeFrom(before)))
	if made.Labels["not"] != "" || made.Spec.Containers[0].Resources.Limits.Memory().String() != "1Gi" ||
		made.Generation != before.Generation+1 {
		t.Errorf("labels %v, pod %v, generation %d", made.Labels, made.Spec.Containers[0].Resources, made.Generation)
	}
}
