package expect

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// View shows what the caches of a process know. Look answers from memory at once, and reads the position
// of the cache before the object, so that the object is never older than the position. It is safe for concurrent use.
type View interface {
	Look(kind schema.GroupVersionKind, key types.NamespacedName) Sight
}

// Sight is what a cache shows of one object.
type Sight struct {
	// Cached is false for kinds that are always read live: every write to them is seen at once.
	Cached bool
	// Position is the resourceVersion up to which the cache of this kind and namespace has taken in everything, empty
	// if it cannot tell.
	Position string
	// Found, UID, ResourceVersion and Terminating describe the cached object of that name.
	Found           bool
	UID             types.UID
	ResourceVersion string
	Terminating     bool
	// Trouble says in words why the cache cannot be looked at, if it cannot.
	Trouble string
}

// Caches is the View over the informers that a controller reads from. Every kind that it writes has to be named here,
// by Watch or by ReadLive, when the process is put together: a kind that is not named counts as never
// seen, because silence would turn the protection off without a sign.
type Caches struct {
	scheme *runtime.Scheme

	mu      sync.RWMutex
	sources map[place]source
	live    map[schema.GroupVersionKind]bool
}

var _ View = (*Caches)(nil)

// place is what one informer covers. The empty namespace covers all, and is that of cluster-scoped kinds.
type place struct {
	kind      schema.GroupVersionKind
	namespace string
}

// source is one informer, by its store if it shows it, by the cache's reader otherwise.
type source struct {
	synced func() bool
	store  toolscache.Store
	reader client.Reader
}

// NewCaches returns a view of no caches.
func NewCaches(scheme *runtime.Scheme) *Caches {
	return &Caches{scheme: scheme, sources: map[place]source{}, live: map[schema.GroupVersionKind]bool{}}
}

// Watch adds the kinds of objs as read from c. The namespace is the one that c is restricted to, empty if c covers
// all. It starts the informers of these kinds if they do not run yet, and does not wait for them.
//
// A cache over a list of namespaces hides the stores behind its informers. It works, with the object-level test only;
// one cache per namespace is better. An object that the selector of a cache leaves out never shows there, only the
// position moves past it with the next bookmark: do not expect such objects.
func (c *Caches) Watch(ctx context.Context, from cache.Cache, namespace string, objs ...client.Object) error {
	for _, obj := range objs {
		kind, err := apiutil.GVKForObject(obj, c.scheme)
		if err != nil {
			return fmt.Errorf("find the kind of %T: %w", obj, err)
		}
		informer, err := from.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("get the informer of %s: %w", kind.Kind, err)
		}
		found := source{synced: informer.HasSynced, reader: from}
		if open, ok := informer.(interface{ GetStore() toolscache.Store }); ok {
			found.store = open.GetStore()
		}
		c.mu.Lock()
		c.sources[place{kind, namespace}] = found
		c.mu.Unlock()
	}
	return nil
}

// ReadLive adds the kinds of objs as never read from a cache.
func (c *Caches) ReadLive(objs ...client.Object) error {
	for _, obj := range objs {
		kind, err := apiutil.GVKForObject(obj, c.scheme)
		if err != nil {
			return fmt.Errorf("find the kind of %T: %w", obj, err)
		}
		c.mu.Lock()
		c.live[kind] = true
		c.mu.Unlock()
	}
	return nil
}

// Look implements View.
func (c *Caches) Look(kind schema.GroupVersionKind, key types.NamespacedName) Sight {
	c.mu.RLock()
	live := c.live[kind]
	from, ok := c.sources[place{kind, key.Namespace}]
	if !ok {
		from, ok = c.sources[place{kind, ""}]
	}
	c.mu.RUnlock()
	switch {
	case live:
		return Sight{}
	case !ok:
		return Sight{Cached: true, Trouble: "no cache of this kind and namespace is known"}
	case !from.synced():
		return Sight{Cached: true, Trouble: "the cache has not been filled yet"}
	case from.store != nil:
		return lookInStore(from.store, key)
	default:
		return c.lookThroughReader(from.reader, kind, key)
	}
}

func lookInStore(store toolscache.Store, key types.NamespacedName) Sight {
	sight := Sight{Cached: true, Position: store.LastStoreSyncResourceVersion()}
	item, found, err := store.GetByKey(cacheKey(key))
	if err != nil || !found {
		return sight
	}
	obj, err := meta.Accessor(item)
	if err != nil {
		return sight
	}
	return sight.of(obj)
}

// lookThroughReader never blocks, because the informer has been filled already.
func (c *Caches) lookThroughReader(reader client.Reader, kind schema.GroupVersionKind, key types.NamespacedName) Sight {
	sight := Sight{Cached: true}
	blank, err := c.scheme.New(kind)
	if err != nil {
		sight.Trouble = err.Error()
		return sight
	}
	obj, ok := blank.(client.Object)
	if !ok {
		sight.Trouble = fmt.Sprintf("%T is not an object", blank)
		return sight
	}
	if err := reader.Get(context.Background(), key, obj); err != nil {
		if !apierrors.IsNotFound(err) {
			sight.Trouble = fmt.Sprintf("the cache cannot be read: %v", err)
		}
		return sight
	}
	return sight.of(obj)
}

func (s Sight) of(obj metav1.Object) Sight {
	s.Found, s.UID, s.ResourceVersion = true, obj.GetUID(), obj.GetResourceVersion()
	s.Terminating = obj.GetDeletionTimestamp() != nil
	return s
}

// cacheKey is the key of toolscache.MetaNamespaceKeyFunc.
func cacheKey(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}
