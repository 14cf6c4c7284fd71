package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"meridian.dev/meridian/kit/expect"
)

// CacheOptions say what a cache holds and where it starts.
type CacheOptions struct {
	// Namespace restricts the cache, empty for all.
	Namespace string
	// Uncached are kinds that are read from the server instead.
	Uncached []schema.GroupVersionKind
	// Watched are the kinds that the cache follows from the start, nil for all. It follows another one from its first read
	// on, which shows the latest version: so does a cache that starts an informer for it.
	Watched []schema.GroupVersionKind
	// At is the version at which every such kind starts, 0 for the latest. A restarted process may find itself further in
	// the past than the one before it.
	At uint64
}

// Cache is what a process knows of the server. Each kind stands at a version of its own and moves forward only, when it
// is told to: nothing in it changes by itself. It implements client.Reader, and expect.View for the sibling package.
type Cache struct {
	server   *Server
	options  CacheOptions
	mu       sync.Mutex
	position map[schema.GroupVersionKind]uint64 // of the kinds that have moved since the start
	read     []schema.GroupVersionKind          // without being watched, in the order of the first read
}

var (
	_ client.Reader = (*Cache)(nil)
	_ expect.View   = (*Cache)(nil)
)

func newCache(server *Server, options CacheOptions) (*Cache, error) {
	latest := server.Version()
	if options.At == 0 {
		options.At = latest
	}
	if options.At > latest {
		return nil, fmt.Errorf("a cache cannot start at %d, the server is at %d", options.At, latest)
	}
	return &Cache{server: server, options: options, position: map[schema.GroupVersionKind]uint64{}}, nil
}

func (c *Cache) fork(server *Server) *Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Cache{
		server: server, options: c.options, position: maps.Clone(c.position), read: slices.Clip(c.read),
	}
}

// Position returns the version at which a kind stands.
func (c *Cache) Position(kind schema.GroupVersionKind) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(kind)
}

func (c *Cache) at(kind schema.GroupVersionKind) uint64 {
	if moved, ok := c.position[kind]; ok {
		return moved
	}
	return c.options.At
}

// Read returns the kinds that were read without being watched, in the order of the first read.
func (c *Cache) Read() []schema.GroupVersionKind {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.read)
}

// follow returns the version at which a kind is read.
func (c *Cache) follow(kind schema.GroupVersionKind) uint64 {
	latest := c.server.Version()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.options.Watched != nil && !slices.Contains(c.options.Watched, kind) && !slices.Contains(c.read, kind) {
		c.read = append(c.read, kind)
		c.position[kind] = latest
	}
	return c.at(kind)
}

// Behind returns what the cache has not seen of a kind yet, oldest first. Each of the versions is a place where it may
// stop next; the events of an object that are passed over at once are seen as one.
func (c *Cache) Behind(kind schema.GroupVersionKind) []Event {
	return c.visible(c.server.Events(kind, c.Position(kind), c.server.Version()))
}

// Advance moves a kind forward to a version, and returns what there was to see on the way. It refuses to go back, and
// to go where the server has not been.
func (c *Cache) Advance(kind schema.GroupVersionKind, to uint64) ([]Event, error) {
	latest := c.server.Version()
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.at(kind)
	_, err := c.server.table(kind)
	switch {
	case err != nil:
		return nil, err
	case to < from || to > latest:
		return nil, fmt.Errorf("the cache of %s stands at %d and cannot go to %d (the server is at %d)",
			kind.Kind, from, to, latest)
	}
	c.position[kind] = to
	return c.visible(c.server.Events(kind, from, to)), nil
}

// CatchUp moves every kind to the latest version, and returns what there was to see in order of versions.
func (c *Cache) CatchUp() []Event {
	var events []Event
	for _, kind := range c.server.Kinds() {
		seen, err := c.Advance(kind, c.server.Version())
		if err != nil { // It goes forward, to where the server is.
			panic(err)
		}
		events = append(events, seen...)
	}
	slices.SortFunc(events, func(a, b Event) int { return int(a.Version) - int(b.Version) })
	return events
}

func (c *Cache) visible(events []Event) []Event {
	if c.options.Namespace == "" {
		return events
	}
	return slices.DeleteFunc(events, func(event Event) bool {
		return event.Key.Namespace != c.options.Namespace
	})
}

// Holds reports whether a kind is read from this cache.
func (c *Cache) Holds(kind schema.GroupVersionKind) bool {
	return !slices.Contains(c.options.Uncached, kind)
}

// Get implements client.Reader.
func (c *Cache) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(into, c.server.scheme)
	if err != nil {
		return err
	}
	found, err := c.server.look(Target{Kind: kind, Key: key}, c.follow(kind))
	switch {
	case err != nil:
		return err
	case !c.within(found.object):
		return apierrors.NewNotFound(c.server.resource(kind), key.Name)
	}
	if err := c.server.decodeStored(found, into); err != nil {
		return err
	}
	into.GetObjectKind().SetGroupVersionKind(kind) // a cache leaves it there, a live read does not
	return nil
}

// List implements client.Reader.
func (c *Cache) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	query, err := c.server.query(into, options)
	if err != nil {
		return err
	}
	query.At = c.follow(query.Kind)
	found, version, err := c.server.list(query)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(each state) bool { return !c.within(each.object) })
	return c.server.decodeList(found, version, into)
}

// Look implements expect.View.
func (c *Cache) Look(kind schema.GroupVersionKind, key types.NamespacedName) expect.Sight {
	if !c.Holds(kind) {
		return expect.Sight{}
	}
	position := c.follow(kind)
	sight := expect.Sight{Cached: true, Position: strconv.FormatUint(position, 10)}
	seen, err := c.server.look(Target{Kind: kind, Key: key}, position)
	switch {
	case apierrors.IsNotFound(err), err == nil && !c.within(seen.object):
		return sight
	case err != nil:
		sight.Trouble = err.Error()
		return sight
	}
	sight.Found, sight.UID, sight.ResourceVersion = true, seen.object.GetUID(), seen.object.GetResourceVersion()
	sight.Terminating = valueAt(seen.object.Object, "metadata.deletionTimestamp") != nil
	return sight
}

func (c *Cache) within(object *unstructured.Unstructured) bool {
	return c.options.Namespace == "" || object.GetNamespace() == "" || object.GetNamespace() == c.options.Namespace
}
