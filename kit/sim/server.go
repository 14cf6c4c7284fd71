package sim

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Options are what a server is made of.
type Options struct {
	// Scheme has the Go types. Built-in kinds that are missing in it are left out.
	Scheme *runtime.Scheme
	// Kinds are added to the built-in ones, and replace those of the same name.
	Kinds []Kind
	// Now is the time of creations and deletions, that of a Clock that stands if nil.
	Now func() time.Time
}

// Server is an API server in memory. Everything that it returns is a copy, except for the objects of events. It may be
// used by several goroutines, but needs none: the order of calls alone determines every answer, including names, UIDs
// and versions.
type Server struct {
	scheme *runtime.Scheme
	now    func() time.Time
	mapper meta.RESTMapper

	mu      sync.Mutex
	tables  []*table // in the order of their names
	byKind  map[schema.GroupVersionKind]*table
	version uint64
	log     []Event
	made    uint64 // objects that were given a UID

}

// table has all objects of a kind, those of the past as well.
type table struct {
	kind    *Kind
	keys    []types.NamespacedName // sorted
	objects map[types.NamespacedName][]state
}

// state is an object from one version on, until the next state. A nil object is none.
type state struct {
	version uint64
	object  *unstructured.Unstructured // never changed once it is here
	forms   *forms                     // nil for no object
}

// Event is one entry of the log: every write that changed something, in order, makes one.
type Event struct {
	Version uint64
	// Type is Added, Modified or Deleted.
	Type watch.EventType
	Kind schema.GroupVersionKind
	Key  types.NamespacedName
	// Object is the new state, for a deletion the last one with the version of the deletion. It is shared, as it is in the
	// caches of a real client: who wants to change it makes a copy.
	Object *unstructured.Unstructured
}

func (e Event) String() string {
	return fmt.Sprintf("%d %s %s %s", e.Version, strings.ToLower(string(e.Type)), e.Kind.Kind, e.Key)
}

// New returns a server without objects.
func New(options Options) (*Server, error) {
	if options.Scheme == nil {
		return nil, errors.New("a scheme is required")
	}
	if options.Now == nil {
		options.Now = new(Clock).Now
	}
	server := &Server{
		scheme: options.Scheme, now: options.Now, byKind: map[schema.GroupVersionKind]*table{},
		version: 1, // 0 is what clients say for "any"
	}
	for _, kind := range BuiltIn() {
		if options.Scheme.Recognizes(kind.GroupVersionKind) {
			server.register(kind)
		}
	}
	for _, kind := range options.Kinds {
		if !kind.Custom && !options.Scheme.Recognizes(kind.GroupVersionKind) {
			return nil, fmt.Errorf("kind %s is not custom, and has no type in the scheme", kind.GroupVersionKind)
		}
		server.register(kind)
	}
	slices.SortFunc(server.tables, func(a, b *table) int {
		return strings.Compare(a.kind.GroupVersionKind.String(), b.kind.GroupVersionKind.String())
	})
	server.mapper = server.makeMapper()
	return server, nil
}

func (s *Server) register(kind Kind) {
	if known, ok := s.byKind[kind.GroupVersionKind]; ok {
		known.kind = &kind
		return
	}
	made := &table{kind: &kind, objects: map[types.NamespacedName][]state{}}
	s.byKind[kind.GroupVersionKind] = made
	s.tables = append(s.tables, made)
}

func (s *Server) makeMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, table := range s.tables {
		scope := meta.RESTScope(meta.RESTScopeNamespace)
		if table.kind.Cluster {
			scope = meta.RESTScopeRoot
		}
		resource := table.kind.GroupVersion().WithResource(table.kind.plural())
		singular := table.kind.GroupVersion().WithResource(strings.ToLower(table.kind.GroupVersionKind.Kind))
		mapper.AddSpecific(table.kind.GroupVersionKind, resource, singular, scope)
	}
	return mapper
}

// Fork returns a server that has everything of this one, its past as well, and goes its own way from here on. It costs
// next to nothing, however much there is: a search that begins in the middle of a story forks its beginning.
func (s *Server) Fork(now func() time.Time) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	forked := &Server{
		scheme: s.scheme, now: now, mapper: s.mapper, byKind: make(map[schema.GroupVersionKind]*table, len(s.byKind)),
		version: s.version, made: s.made, log: slices.Clip(s.log),
	}
	for _, each := range s.tables {
		twin := &table{
			kind: each.kind, keys: slices.Clip(each.keys), objects: make(map[types.NamespacedName][]state, len(each.objects)),
		}
		for key, states := range each.objects {
			twin.objects[key] = slices.Clip(states) // What is appended to one is not in the other.
		}
		forked.tables = append(forked.tables, twin)
		forked.byKind[each.kind.GroupVersionKind] = twin
	}
	return forked
}

// Version returns the version of the latest change.
func (s *Server) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Kinds returns the names of the kinds that the server knows, sorted.
func (s *Server) Kinds() []schema.GroupVersionKind {
	names := make([]schema.GroupVersionKind, 0, len(s.tables))
	for _, table := range s.tables {
		names = append(names, table.kind.GroupVersionKind)
	}
	return names
}

// Events returns what happened to a kind after one version, up to and including another. The empty kind means all.
func (s *Server) Events(kind schema.GroupVersionKind, after, until uint64) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := sort.Search(len(s.log), func(i int) bool { return s.log[i].Version > after })
	var events []Event
	for _, event := range s.log[first:] {
		if event.Version > until {
			break
		}
		if kind.Empty() || event.Kind == kind {
			events = append(events, event)
		}
	}
	return events
}

// table finds a kind, and fails as a client does that discovers what the server has.
func (s *Server) table(kind schema.GroupVersionKind) (*table, error) {
	if found, ok := s.byKind[kind]; ok {
		return found, nil
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
}

// open finds the table and the key of a request.
func (s *Server) open(at Target) (*table, types.NamespacedName, error) {
	found, err := s.table(at.Kind)
	if err != nil {
		return nil, at.Key, err
	}
	key := at.Key
	if found.kind.Cluster {
		key.Namespace = ""
	} else if key.Namespace == "" {
		return nil, key, apierrors.NewBadRequest("an empty namespace may not be set for a namespaced kind")
	}
	if err := found.kind.hasSubresource(at.Subresource); err != nil {
		return nil, key, apierrors.NewNotFound(found.kind.resource(), key.Name)
	}
	return found, key, nil
}

// at returns the object as it was at a version, empty if there was none. The result is shared.
func (t *table) at(key types.NamespacedName, version uint64) state {
	states := t.objects[key]
	for next := len(states) - 1; next >= 0; next-- { // The latest is what is asked for most.
		if states[next].version <= version {
			return states[next]
		}
	}
	return state{}
}

// now returns the latest object, nil if there is none. The result is shared.
func (t *table) now(key types.NamespacedName) *unstructured.Unstructured {
	states := t.objects[key]
	if len(states) == 0 {
		return nil
	}
	return states[len(states)-1].object
}

// put stores an object that belongs to the server from now on, under a new version.
func (s *Server) put(t *table, object *unstructured.Unstructured) state {
	kind := watch.Modified
	key := keyOf(object)
	if t.now(key) == nil {
		kind = watch.Added
	}
	s.version++
	object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	return s.record(t, kind, key, object)
}

// remove ends an object. The event has its last state, with the version of the end.
func (s *Server) remove(t *table, key types.NamespacedName) {
	last := t.now(key).DeepCopy()
	s.version++
	last.SetResourceVersion(strconv.FormatUint(s.version, 10))
	s.record(t, watch.Deleted, key, last)
}

func (s *Server) record(
	t *table, kind watch.EventType, key types.NamespacedName, object *unstructured.Unstructured,
) state {
	s.log = append(s.log, Event{
		Version: s.version, Type: kind, Kind: t.kind.GroupVersionKind, Key: key, Object: object,
	})
	if _, known := t.objects[key]; !known {
		place, _ := slices.BinarySearchFunc(t.keys, key, compareKeys)
		t.keys = slices.Insert(t.keys, place, key)
	}
	next := state{version: s.version, object: object, forms: &forms{}}
	if kind == watch.Deleted {
		next.object, next.forms = nil, nil
	}
	t.objects[key] = append(t.objects[key], next)
	return next
}

// uid makes the next identity. It looks like the real ones, because some code parses them.
func (s *Server) uid() types.UID {
	s.made++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", s.made))
}

func keyOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func compareKeys(a, b types.NamespacedName) int {
	if order := strings.Compare(a.Namespace, b.Namespace); order != 0 {
		return order
	}
	return strings.Compare(a.Name, b.Name)
}

// Clock is virtual time: it stands until it is advanced. The zero Clock stands at the start of the year 2030, so that
// nobody mistakes its times for real ones.
type Clock struct {
	passed time.Duration
}

// Now returns the virtual time.
func (c *Clock) Now() time.Time {
	return time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC).Add(c.passed)
}

// Advance lets time pass. It never runs backwards.
func (c *Clock) Advance(by time.Duration) { c.passed += max(by, 0) }
