package expect_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/expect"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func at(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// source is a list at resourceVersion 100 followed by a watch that the test feeds by hand.
type source struct {
	items  []corev1.Pod
	events *watch.FakeWatcher
}

func (s *source) List(metav1.ListOptions) (runtime.Object, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: s.items}, nil
}

func (s *source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	}
	return s.events, nil
}

// fakeCache is a cache of controller-runtime that consists of one informer.
type fakeCache struct {
	cache.Cache
	informer cache.Informer
	err      error
	reader   client.Reader
}

func (c fakeCache) GetInformer(
	_ context.Context, _ client.Object, options ...cache.InformerGetOption,
) (cache.Informer, error) {
	if len(options) != 1 {
		return nil, errors.New("the informer was asked for in a way that may block")
	}
	return c.informer, c.err
}

func (c fakeCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, obj, opts...)
}

// start runs a real informer over a source with one pod.
func start(t *testing.T) (*source, toolscache.SharedIndexInformer, func()) {
	t.Helper()
	from := &source{items: []corev1.Pod{*pod("a", "old", "u0", "90")}, events: watch.NewFakeWithChanSize(10, false)}
	informer := toolscache.NewSharedIndexInformer(from, &corev1.Pod{}, 0, toolscache.Indexers{})
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	return from, informer, func() { go informer.RunWithContext(ctx) }
}

func watching(t *testing.T, namespace string, from cache.Cache) *expect.Caches {
	t.Helper()
	caches := expect.NewCaches(scheme.Scheme)
	if err := caches.Watch(t.Context(), from, namespace, &corev1.Pod{}); err != nil {
		t.Fatal(err)
	}
	return caches
}

func eventually(t *testing.T, caches *expect.Caches, key types.NamespacedName, want expect.Sight) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		diff := cmp.Diff(want, caches.Look(podKind, key))
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("sight of %s (-want +got):\n%s", key, diff)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestInformerPosition pins what the package relies on in client-go: which events move the position of a real
// informer's store.
func TestInformerPosition(t *testing.T) {
	from, informer, run := start(t)
	caches := watching(t, "", fakeCache{informer: informer})

	eventually(t, caches, at("a", "p"), expect.Sight{Cached: true, Trouble: "the cache has not been filled yet"})
	run()
	eventually(t, caches, at("a", "p"), expect.Sight{Cached: true, Position: "100"})
	eventually(t, caches, at("a", "old"), expect.Sight{
		Cached: true, Position: "100", Found: true, UID: "u0", ResourceVersion: "90",
	})

	from.events.Add(pod("a", "p", "u1", "101"))
	eventually(t, caches, at("a", "p"), expect.Sight{
		Cached: true, Position: "101", Found: true, UID: "u1", ResourceVersion: "101",
	})
	from.events.Modify(terminating(pod("a", "p", "u1", "102")))
	eventually(t, caches, at("a", "p"), expect.Sight{
		Cached: true, Position: "102", Found: true, UID: "u1", ResourceVersion: "102", Terminating: true,
	})
	from.events.Delete(pod("a", "p", "u1", "103"))
	eventually(t, caches, at("a", "p"), expect.Sight{Cached: true, Position: "103"})
	from.events.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "500"}})
	eventually(t, caches, at("b", "p"), expect.Sight{Cached: true, Position: "500"})
}

// TestInformerWithoutPosition shows that the object-level test takes over when client-go does not tell the position.
func TestInformerWithoutPosition(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, features.AtomicFIFO, false)
	_, informer, run := start(t)
	caches := watching(t, "", fakeCache{informer: informer})
	run()
	eventually(t, caches, at("a", "old"), expect.Sight{Cached: true, Found: true, UID: "u0", ResourceVersion: "90"})
}

// shelf is a reader of objects in memory.
type shelf []client.Object

func (s shelf) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, obj := range s {
		if reflect.TypeOf(obj) == reflect.TypeOf(into) && client.ObjectKeyFromObject(obj) == key {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(obj).Elem())
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (s shelf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	var pods []runtime.Object
	for _, obj := range s {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return meta.SetList(list, pods)
}

// hidden is an informer that does not show its store, like that of a cache over a list of namespaces.
type hidden struct {
	cache.Informer
	synced bool
}

func (h hidden) HasSynced() bool { return h.synced }

// broken is a cache that has no informer of the namespace that it is asked for.
type broken struct{ client.Reader }

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("unable to get: a/p because of unknown namespace for the cache")
}

func TestInformerWithoutStore(t *testing.T) {
	reader := shelf{pod("a", "p", "u1", "120")}
	cases := map[string]struct {
		from fakeCache
		key  types.NamespacedName
		want expect.Sight
	}{
		"found": {
			from: fakeCache{informer: hidden{synced: true}, reader: reader},
			key:  at("a", "p"),
			want: expect.Sight{Cached: true, Found: true, UID: "u1", ResourceVersion: "120"},
		},
		"absent": {
			from: fakeCache{informer: hidden{synced: true}, reader: reader},
			key:  at("a", "q"),
			want: expect.Sight{Cached: true},
		},
		"a cache that is not filled is not read, since that would block": {
			from: fakeCache{informer: hidden{}},
			key:  at("a", "p"),
			want: expect.Sight{Cached: true, Trouble: "the cache has not been filled yet"},
		},
		"a cache that fails": {
			from: fakeCache{informer: hidden{synced: true}, reader: broken{}},
			key:  at("a", "p"),
			want: expect.Sight{Cached: true, Trouble: "the cache cannot be read: " +
				"unable to get: a/p because of unknown namespace for the cache"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := watching(t, "", tc.from).Look(podKind, tc.key)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sight (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKindsAndNamespaces(t *testing.T) {
	from, informer, run := start(t)
	caches := watching(t, "a", fakeCache{informer: informer})
	run()
	eventually(t, caches, at("a", "p"), expect.Sight{Cached: true, Position: "100"})
	_ = from
	unknown := expect.Sight{Cached: true, Trouble: "no cache of this kind and namespace is known"}
	if diff := cmp.Diff(unknown, caches.Look(podKind, at("b", "p"))); diff != "" {
		t.Errorf("the cache of namespace a answers for b (-want +got):\n%s", diff)
	}
	secret := corev1.SchemeGroupVersion.WithKind("Secret")
	if diff := cmp.Diff(unknown, caches.Look(secret, at("a", "s"))); diff != "" {
		t.Errorf("a kind that nobody named (-want +got):\n%s", diff)
	}
	if err := caches.ReadLive(&corev1.Secret{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expect.Sight{}, caches.Look(secret, at("a", "s"))); diff != "" {
		t.Errorf("a kind that is read live (-want +got):\n%s", diff)
	}
}

func TestWiringErrors(t *testing.T) {
	caches := expect.NewCaches(scheme.Scheme)
	stranger := &metav1.PartialObjectMetadata{}
	refusing := fakeCache{err: errors.New("no")}
	cases := map[string]struct {
		err  error
		want string
	}{
		"kind to watch":    {caches.Watch(t.Context(), fakeCache{}, "", stranger), "find the kind of"},
		"kind read live":   {caches.ReadLive(stranger), "find the kind of"},
		"informer refused": {caches.Watch(t.Context(), refusing, "", &corev1.Pod{}), "Pod: no"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.err == nil || !strings.Contains(tc.err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", tc.err, tc.want)
			}
		})
	}
}

func TestWitness(t *testing.T) {
	reader := shelf{pod("a", "p", "u1", "120"), pod("a", "q", "u2", "121"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s", UID: "u3", ResourceVersion: "7"},
	}}
	witness := expect.NewWitness(reader, scheme.Scheme)
	if err := witness.List(t.Context(), &corev1.PodList{}, client.InNamespace("a")); err != nil {
		t.Fatal(err)
	}
	if err := witness.Get(t.Context(), at("a", "s"), &corev1.Service{}); err != nil {
		t.Fatal(err)
	}
	if err := witness.Get(t.Context(), at("a", "none"), &corev1.Service{}); !apierrors.IsNotFound(err) {
		t.Errorf("error = %v, want not found", err)
	}
	var got []string
	for _, obj := range witness.Saw() {
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		got = append(got, kind+" "+obj.GetName()+" "+string(obj.GetUID())+" "+obj.GetResourceVersion())
	}
	want := []string{"Pod p u1 120", "Pod q u2 121", "Service s u3 7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("saw (-want +got):\n%s", diff)
	}

	// What a witness saw is accepted as confirmation as it is.
	b := newBench()
	b.stand("Pod/a", "121")
	b.stand("Service/a", "6")
	b.Confirm(owner("two"), witness.Saw()...)
	b.want(t, owner("two"), expect.Wait, expect.CacheBehind)
	b.stand("Service/a", "7")
	b.want(t, owner("two"), expect.ReadCache, "")
}

func TestUndecided(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	cases := map[string]struct {
		err  error
		want bool
	}{
		"no error":               {nil, false},
		"network":                {errors.New("connection reset by peer"), true},
		"deadline":               {context.DeadlineExceeded, true},
		"cancelled":              {fmt.Errorf("put: %w", context.Canceled), true},
		"conflict":               {apierrors.NewConflict(things, "x", errors.New("moved")), false},
		"invalid":                {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), false},
		"too many requests":      {apierrors.NewTooManyRequests("later", 1), false},
		"forbidden, wrapped":     {fmt.Errorf("put: %w", apierrors.NewForbidden(things, "x", nil)), false},
		"timeout of the server":  {apierrors.NewTimeoutError("slow", 1), true},
		"internal":               {apierrors.NewInternalError(errors.New("etcd")), true},
		"unavailable":            {apierrors.NewServiceUnavailable("no"), true},
		"timeout of the request": {apierrors.NewGenericServerResponse(408, "put", things, "x", "", 0, false), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := expect.Undecided(tc.err); got != tc.want {
				t.Errorf("Undecided(%v) = %t, want %t", tc.err, got, tc.want)
			}
		})
	}
}
