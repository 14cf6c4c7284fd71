package lives

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	cacheact "meridian.dev/meridian/internal/cache/act"
	cacheloop "meridian.dev/meridian/internal/cache/controller"
	cacheobserve "meridian.dev/meridian/internal/cache/observe"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	databaseloop "meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
)

// The programs.
const (
	databaseOperator = "operator"
	cacheOperator    = "cache operator"
)

// parts are what a life of the operator is put together from. A flaw changes them.
type parts struct {
	// client reads from the caches and writes, live reads from the API server.
	client, live client.Client
	// tracker and leads may be nil.
	tracker *expect.Tracker
	leads   func(context.Context) error
	author  apply.Author
	now     func() time.Time
	version string
	agents  agents
	// lostAfter is how long a node may be away.
	lostAfter time.Duration
}

func newParts(birth search.Birth) (parts, error) {
	var chosen corev1.ConfigMap
	err := birth.Cluster.Get(context.Background(), client.ObjectKey{Namespace: home, Name: versionName}, &chosen)
	if err != nil {
		return parts{}, err
	}
	known := birth.Cluster.Scheme()
	return parts{
		client: birth.Process.Client(), live: birth.Process.Live(), now: birth.Now, leads: birth.Leads,
		version: chosen.Data["version"],
		tracker: expect.New(birth.Process.Cache(), known, expect.Options{Now: birth.Now}),
		author: apply.Author{
			Scheme: known, Prefix: database.AnnotationPrefix, Manager: database.FieldManager, Memo: memo,
		},
		agents: agents{cluster: birth.Cluster, now: birth.Now}, lostAfter: 5 * time.Minute,
	}, nil
}

// memo is shared by all lives: the same objects are wanted again and again.
var memo = apply.NewMemo(4096)

// inWorld are the same parts in another world, with all that they remember.
func (p parts) inWorld(birth search.Birth) parts {
	p.client, p.live, p.now, p.leads = birth.Process.Client(), birth.Process.Live(), birth.Now, birth.Leads
	p.tracker = p.tracker.Fork(birth.Process.Cache(), birth.Now)
	p.agents.cluster, p.agents.now = birth.Cluster, birth.Now
	return p
}

// running is a loop with the parts that it was put together from. It has no other memory than they have.
type running struct {
	reconcile.Reconciler
	parts parts
}

// assembly puts a loop together.
type assembly func(parts) (reconcile.Reconciler, error)

// start begins a life of a loop.
func start(assemble assembly, flaw Flaw) func(search.Birth) (reconcile.Reconciler, error) {
	return func(birth search.Birth) (reconcile.Reconciler, error) {
		made, err := newParts(birth)
		if err != nil {
			return nil, err
		}
		if flaw.Parts != nil {
			flaw.Parts(&made)
		}
		started, err := strictly(assemble, made)
		if err == nil && flaw.Around != nil {
			started = flaw.Around(started)
		}
		return running{started, made}, err
	}
}

// fork copies a life, nil where there is a flaw: that may remember anything.
func fork(assemble assembly, flaw Flaw) func(search.Birth, reconcile.Reconciler) (reconcile.Reconciler, error) {
	if flaw.Parts != nil || flaw.Around != nil {
		return nil
	}
	return func(birth search.Birth, original reconcile.Reconciler) (reconcile.Reconciler, error) {
		made := original.(running).parts.inWorld(birth)
		started, err := strictly(assemble, made)
		return running{started, made}, err
	}
}

// strictly puts a loop together that does not go on after a panic, a plan that its own check refuses, or an error that
// no retry helps against: in no life is there a reason for one. The search takes a panic for a broken rule.
func strictly(assemble assembly, made parts) (reconcile.Reconciler, error) {
	inner, err := assemble(made)
	if err != nil {
		return nil, err
	}
	return Strictly(inner), nil
}

// Strictly is a loop that does not go on like that.
func Strictly(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconciler(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		heard := &witness{}
		result, err := inner.Reconcile(logr.NewContext(ctx, logr.New(heard)), request)
		panicked := (*loop.PanicError)(nil)
		switch {
		case errors.As(err, &panicked):
			panic(panicked.Value) // Its stack is another one in each run.
		case errors.As(err, new(*loop.RefusedError)), errors.Is(err, reconcile.TerminalError(nil)):
			panic(err)
		case heard.terminal != nil:
			panic(heard.terminal)
		}
		return result, err
	})
}

// witness hears of terminal errors that a pass only logs, because it has something to wait for as well.
type witness struct{ terminal error }

// Error hears.
func (w *witness) Error(err error, _ string, _ ...any) {
	if loop.Classify(err) == loop.Terminal {
		w.terminal = err
	}
}

// Init and the others make it a sink of logs.
func (*witness) Init(logr.RuntimeInfo)            {}
func (*witness) Enabled(int) bool                 { return false }
func (*witness) Info(int, string, ...any)         {}
func (w *witness) WithValues(...any) logr.LogSink { return w }
func (w *witness) WithName(string) logr.LogSink   { return w }

// memory tells what a life remembers, nil where there is a flaw.
func memory(flaw Flaw) func(reconcile.Reconciler) string {
	if flaw.Parts != nil || flaw.Around != nil {
		return nil
	}
	return func(life reconcile.Reconciler) string { return life.(running).parts.tracker.Memory() }
}

// loopOfDatabases puts the loop of databases together.
func loopOfDatabases(made parts) (reconcile.Reconciler, error) {
	crowd := &observe.Crowd{Most: 10}
	return databaseloop.New(loop.Config{
		Name: databaseOperator, Client: made.client, Live: made.live, Now: made.now, Tracker: made.tracker, Leads: made.leads,
	}, observe.Observer{
		Live: made.live, Author: made.author, Now: made.now, Ask: made.agents.ask, Try: takesEveryPod,
		Crowd:        crowd,
		Images:       database.Images{Agent: "meridian:" + made.version, Server: "postgis"},
		Installation: home + "/operator", LostAfter: made.lostAfter,
	}, act.Actor{
		Client: made.client, Live: made.live, Author: made.author, Random: rand.Reader, Now: made.now,
		Tell: made.agents.tell, Try: crowd.Begin,
	}, nil)
}

// takesEveryPod is an API server that has nothing against a pod.
func takesEveryPod(context.Context, *corev1.Pod) error { return nil }

// loopOfCaches puts the loop of caches together.
func loopOfCaches(made parts) (reconcile.Reconciler, error) {
	return cacheloop.New(loop.Config{
		Name: cacheOperator, Client: made.client, Live: made.live, Now: made.now, Tracker: made.tracker, Leads: made.leads,
	}, cacheobserve.Observer{
		Live: made.live, Author: made.author, Now: made.now, Ask: made.agents.askCache,
		Images: cache.Images{Agent: "meridian:" + made.version, Redis: "redis:8", Valkey: "valkey:8"},
	}, cacheact.Actor{
		Client: made.client, Live: made.live, Author: made.author, Random: rand.Reader, Now: made.now,
		Flush: made.agents.flush,
	}, nil)
}

func programs(flaw Flaw, withCaches bool) []search.Program {
	made := search.Program{
		Name: databaseOperator, Start: start(loopOfDatabases, flaw), Fork: fork(loopOfDatabases, flaw),
		Memory:  memory(flaw),
		Watches: Watches(databaseKind, databaseloop.Cached(), database.LabelDatabase),
	}
	if withCaches {
		made = search.Program{
			Name: cacheOperator, Start: start(loopOfCaches, flaw), Fork: fork(loopOfCaches, flaw),
			Memory:  memory(flaw),
			Watches: Watches(cacheKind, cacheloop.Cached(), cache.LabelCache),
		}
	}
	made.Uncached = []schema.GroupVersionKind{secretKind}
	return []search.Program{made}
}

// Watches are those of the controllers: the owner when more than its status is new, and its children by their label.
func Watches(owner schema.GroupVersionKind, cached []client.Object, label string) []search.Watch {
	itself := search.Itself(owner)
	itself.News = moreThanStatus
	made := []search.Watch{itself}
	for _, object := range cached {
		kind := kube.KindOf(object)
		if kind == owner {
			continue
		}
		if kind == databaseKind { // of a cache, which wants to know whether it comes, goes, hibernates or wakes
			made = append(made, search.Watch{Kind: kind, Map: toTiles, News: moreThanStatus})
			continue
		}
		if kind == cacheKind { // of a database, which wants to know whether it comes or goes, and where it is
			made = append(made, search.Watch{Kind: kind, Map: toCities, News: otherCache})
			continue
		}
		made = append(made, search.Watch{Kind: kind, Map: func(child *unstructured.Unstructured) []reconcile.Request {
			name := child.GetLabels()[label]
			if name == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}}}
		}})
	}
	return made
}

func toTiles(*unstructured.Unstructured) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: Tiles}}
}

func toCities(*unstructured.Unstructured) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: Cities}}
}

func otherCache(before, after *unstructured.Unstructured) bool {
	var was, is v1alpha1.GeoCache
	convert := runtime.DefaultUnstructuredConverter
	if convert.FromUnstructured(before.Object, &was) != nil || convert.FromUnstructured(after.Object, &is) != nil {
		return true
	}
	return databaseloop.CacheChanged(&was, &is)
}

func moreThanStatus(before, after *unstructured.Unstructured) bool {
	if before.GetGeneration() != after.GetGeneration() {
		return true
	}
	was, is := before.GetAnnotations(), after.GetAnnotations()
	if len(was) != len(is) {
		return true
	}
	for name, value := range was {
		if is[name] != value {
			return true
		}
	}
	return false
}
