package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/expect"
)

var things = schema.GroupResource{Resource: "things"}

// shelf is a reader of objects in memory: a cache, or the reading half of an API server.
type shelf map[string]client.Object

func place(obj client.Object, key client.ObjectKey) string {
	return reflect.TypeOf(obj).Elem().Name() + " " + key.String()
}

func placeOf(obj client.Object) string { return place(obj, client.ObjectKeyFromObject(obj)) }

func (s shelf) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := s[place(into, key)]
	if !ok {
		return apierrors.NewNotFound(things, key.Name)
	}
	fill(into, found)
	return nil
}

func (s shelf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	pods := list.(*corev1.PodList)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if pod, ok := s[name].(*corev1.Pod); ok {
			pods.Items = append(pods.Items, *pod.DeepCopy())
		}
	}
	return nil
}

// Look implements expect.View, without positions.
func (s shelf) Look(kind schema.GroupVersionKind, key types.NamespacedName) expect.Sight {
	cached, ok := s[kind.Kind+" "+key.String()]
	if !ok {
		return expect.Sight{Cached: true}
	}
	return expect.Sight{Cached: true, Found: true, UID: cached.GetUID(), ResourceVersion: cached.GetResourceVersion()}
}

func fill(into, from client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}

// api is as much of an API server as a loop meets. A write of unchanged content makes no new version.
type api struct {
	client.Client // nil: any other call is a mistake of the test.
	shelf
	version int
	// statusWrites counts the requests, failing answers them.
	statusWrites int
	failing      error
}

func (a *api) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return a.shelf.Get(ctx, key, into, opts...)
}

func (a *api) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return a.shelf.List(ctx, list, opts...)
}

func (a *api) Scheme() *runtime.Scheme { return scheme.Scheme }

func (a *api) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	if _, ok := a.shelf[placeOf(obj)]; ok {
		return apierrors.NewAlreadyExists(things, obj.GetName())
	}
	obj.SetUID(types.UID("uid-" + obj.GetName()))
	a.store(obj)
	return nil
}

func (a *api) store(obj client.Object) {
	a.version++
	obj.SetResourceVersion(strconv.Itoa(a.version))
	a.shelf[placeOf(obj)] = obj.DeepCopyObject().(client.Object)
}

func (a *api) Status() client.SubResourceWriter { return status{api: a} }

// status is the status subresource. It takes merge patches that name the version they are for.
type status struct {
	client.SubResourceWriter
	api *api
}

func (s status) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption,
) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.api.statusWrites++
	if s.api.failing != nil {
		return s.api.failing
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	before := s.api.shelf[placeOf(obj)]
	if !strings.Contains(string(data), `"resourceVersion":`) {
		return errors.New("a status write that is not conditional")
	}
	if !strings.Contains(string(data), `"resourceVersion":"`+before.GetResourceVersion()+`"`) {
		return apierrors.NewConflict(things, obj.GetName(), errors.New("the object has been modified"))
	}
	document, err := json.Marshal(before)
	if err != nil {
		return err
	}
	if document, err = jsonpatch.MergePatch(document, data); err != nil {
		return err
	}
	after := reflect.New(reflect.TypeOf(before).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(document, after); err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(before, after) {
		s.api.store(after)
	}
	fill(obj, after)
	return nil
}

// lagging reads from a cache and writes to the server, as the client of a manager does.
type lagging struct {
	*api
	w *world
}

func (l lagging) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return l.w.cache.Get(ctx, key, obj, opts...)
}

func (l lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.w.cache.List(ctx, list, opts...)
}
