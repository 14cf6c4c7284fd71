package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/sim"
)

const (
	// Pauses after a pass that failed: the first, and the longest.
	firstPause   = time.Second
	longestPause = time.Minute
	// nagging is how many turns there are between two passes over a cache that stands still. In between others move.
	nagging = 3
)

// seat is the place of a program, with the process that has it now.
type seat struct {
	program *Program
	current *life
	begun   int
}

// life is one process with its memory and its queue.
type life struct {
	seat       *seat
	name       string
	process    *sim.Process
	reconciler reconcile.Reconciler
	queue      []entry // in the order of requests
	held       map[string]int
	forGood    map[reconcile.Request]error // The last pass of these has failed, and is not tried again.
	back       int                         // where the cache of the next life begins, if a verdict ends this one
	// early means that its passes come before its cache moves on: it began in the past, and nothing makes it wait.
	early bool
}

// entry is a request that waits for its pass.
type entry struct {
	request  reconcile.Request
	due      time.Time
	failures int
	err      error // of the last pass
}

// begin gives the seat to a new process, with empty memory and a cache that may begin in the past. All that the cache
// shows is asked about once, as informers do.
func (r *run) begin(at *seat, back int) {
	at.begun++
	name := at.program.Name
	if at.begun > 1 {
		name = fmt.Sprintf("%s'%d", name, at.begun)
	}
	born := &life{
		seat: at, name: name, held: map[string]int{}, forGood: map[reconcile.Request]error{}, early: back > 0,
	}
	at.current = born
	version := r.server.Version()
	process, err := r.server.Start(sim.Life{
		Name: name, Hook: r.hook(born), Crashing: runtime.Goexit,
		Cache: sim.CacheOptions{
			Namespace: at.program.Namespace, Uncached: at.program.Uncached, Watched: at.program.watched(),
			At: version - min(uint64(max(back, 0)), version-1),
		},
	})
	if err != nil {
		r.fail("World", "start %s: %v", name, err)
		return
	}
	born.process = process
	r.apart(func() {
		born.reconciler, err = at.program.Start(r.birth(born))
	})
	if err != nil {
		r.fail("World", "start %s: %v", name, err)
		return
	}
	r.tell(Line{Text: name + " starts", Detail: at.begun == 1})
	born.askForAll(r)
}

// birth is what a life begins with.
func (r *run) birth(of *life) Birth {
	return Birth{Process: of.process, Now: r.clock.Now, Leads: of.leads, Cluster: r.cluster}
}

// leads makes the call that reads the lease of the election. There is no such object: who leads is known here.
func (l *life) leads(ctx context.Context) error {
	lease := &unstructured.Unstructured{}
	lease.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"})
	err := l.process.Live().Get(ctx, client.ObjectKey{Namespace: "leaders", Name: "leader"}, lease)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read who leads: %w", err)
	}
	if l.seat.current != l {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "leader", errors.New("another process leads"))
	}
	return nil
}

// apart runs code under test in a goroutine of its own, so that a crash ends it wherever it is, and waits for it. It
// reports whether the code came to its end.
func (r *run) apart(code func()) (ended bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				r.fail("Panic", "%v", value)
			}
		}()
		code()
		ended = true
	}()
	<-done
	return ended
}

// askForAll asks for a pass over everything that the cache shows.
func (l *life) askForAll(r *run) {
	for _, watch := range l.seat.program.Watches {
		objects, _, err := r.server.List(sim.Query{Kind: watch.Kind, At: l.process.Cache().Position(watch.Kind)})
		if err != nil {
			r.fail("World", "list %s: %v", watch.Kind.Kind, err)
			return
		}
		for _, object := range objects {
			l.ask(r, watch, object)
		}
	}
}

// sources are what the cache follows: the watches, and the kinds that are read without one, of which no event leads to
// a pass.
func (l *life) sources() []Watch {
	sources := slices.Clip(l.seat.program.Watches)
	for _, kind := range l.process.Cache().Read() {
		sources = append(sources, Watch{Kind: kind, Map: func(*unstructured.Unstructured) []reconcile.Request { return nil }})
	}
	return sources
}

func (l *life) ask(r *run, watch Watch, object *unstructured.Unstructured) {
	if namespace := l.seat.program.Namespace; namespace != "" && object.GetNamespace() != namespace {
		return
	}
	for _, request := range watch.Map(object) {
		l.enqueue(entry{request: request, due: r.clock.Now()})
	}
}

func byName(a, b reconcile.Request) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// enqueue keeps one entry per request, with the earlier time.
func (l *life) enqueue(added entry) {
	at, found := slices.BinarySearchFunc(l.queue, added, func(a, b entry) int { return byName(a.request, b.request) })
	if !found {
		l.queue = slices.Insert(l.queue, at, added)
		return
	}
	if added.due.Before(l.queue[at].due) {
		l.queue[at].due = added.due
	}
}

// hold lets the cache of a kind stand still until a turn.
func (l *life) hold(kind string, until int) { l.held[kind] = max(l.held[kind], until) }

// deliver moves the cache of one kind by one event. A cache that is held does not move, and its program is asked to
// look all the same.
func (r *run) deliver(at *seat) bool {
	current := at.current
	if current.early && current.due(r) >= 0 {
		return false
	}
	if still := len(current.held); still > 0 {
		maps.DeleteFunc(current.held, func(_ string, until int) bool { return until <= r.turn })
		if len(current.held) < still {
			r.calm = 0 // Passes that were asked for meanwhile say nothing of those that time brings.
		}
	}
	if len(current.held) > 0 && r.turn%nagging == 0 {
		current.askForAll(r)
	}
	for _, watch := range current.sources() {
		if _, still := current.held[watch.Kind.Kind]; still {
			continue
		}
		behind := current.process.Cache().Behind(watch.Kind)
		if len(behind) == 0 {
			continue
		}
		seen, err := current.process.Cache().Advance(watch.Kind, behind[0].Version)
		if err != nil {
			r.fail("World", "advance the cache of %s: %v", at.program.Name, err)
			return false
		}
		r.calm = 0 // What was decided before was decided on less.
		for _, event := range seen {
			r.tell(Line{Text: fmt.Sprintf("%s sees: %s", at.program.Name, event), Detail: true})
			if r.isNews(watch, event) {
				current.ask(r, watch, event.Object)
			}
		}
		return true
	}
	return false
}

// isNews asks the predicate of a watch about a change.
func (r *run) isNews(watch Watch, event sim.Event) bool {
	if watch.News == nil || event.Type != apiwatch.Modified {
		return true
	}
	before, err := r.server.GetAt(sim.Target{Kind: event.Kind, Key: event.Key}, event.Version-1)
	return err != nil || watch.News(before, event.Object)
}

// due is the place of the first request in the queue whose time has come, negative if there is none.
func (l *life) due(r *run) int {
	return slices.IndexFunc(l.queue, func(waiting entry) bool { return !waiting.due.After(r.clock.Now()) })
}

// passOf runs the first pass of a seat that is due.
func (r *run) passOf(at *seat) bool {
	acting := at.current
	next := acting.due(r)
	if next < 0 {
		return false
	}
	job := acting.queue[next]
	acting.queue = slices.Delete(acting.queue, next, next+1)
	r.calm++
	r.tell(Line{Text: fmt.Sprintf("%s looks at %s", acting.name, job.request.NamespacedName)})
	var result reconcile.Result
	var err error
	ended := r.apart(func() { result, err = acting.reconciler.Reconcile(context.Background(), job.request) })
	r.observe()
	switch {
	case acting != at.current: // It was overtaken, and its lease is lost.
		acting.process.Crash()
	case !ended || acting.process.Crashed():
		acting.process.Crash()
		if r.falling {
			r.fallen = at
			return true
		}
		r.begin(at, acting.back)
	default:
		r.requeue(acting, job, result, err)
		acting.early = acting.early && acting.due(r) >= 0
	}
	return true
}

// requeue does what a work queue does with what a pass returns.
func (r *run) requeue(acting *life, job entry, result reconcile.Result, err error) {
	job.err = err
	delete(acting.forGood, job.request)
	switch {
	case errors.Is(err, reconcile.TerminalError(nil)):
		r.tell(Line{Text: fmt.Sprintf("  the pass fails for good: %v", err)})
		acting.forGood[job.request] = err
		return
	case err != nil:
		r.tell(Line{Text: fmt.Sprintf("  the pass fails: %v", err)})
		job.due = r.clock.Now().Add(min(firstPause<<min(job.failures, 10), longestPause))
		job.failures++
	case result.RequeueAfter > 0:
		job.due, job.failures = r.clock.Now().Add(result.RequeueAfter), 0
	case result.Requeue: //nolint:staticcheck // Reconcilers of others still return it.
		job.due = r.clock.Now().Add(min(firstPause<<min(job.failures, 10), longestPause))
		job.failures++
	default:
		return
	}
	acting.enqueue(job)
}
