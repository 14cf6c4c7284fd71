package operated

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
	store "meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/lives"
)

// operator is one process of the operator: its loop, its cache, and when it makes its next pass.
type operator struct {
	c       *Cluster
	process *store.Process
	loop    reconcile.Reconciler
	watches []search.Watch
	pulse   *service.Pulse
	seen    map[string]*unstructured.Unstructured // What the cache has shown last, by kind and name.
	moving  map[schema.GroupVersionKind]bool      // The cache of a kind is about to move.
	stalls  time.Duration                         // Until when it does not.
	planned int
	failed  int
	ended   bool
	// passing says that a pass is under way, asked that another one is wanted after it.
	passing, asked bool
	// began is when it began, and saidExpired whether the status called the lease expired then.
	began       time.Duration
	saidExpired bool
	pause       func(time.Duration) bool // Lets time pass within a pass.
	stop        func()
}

// startOperator begins a life, with a cache that may begin some versions in the past.
func (c *Cluster) startOperator(back uint64) {
	c.begun++
	o := &operator{
		c: c, moving: map[schema.GroupVersionKind]bool{}, seen: map[string]*unstructured.Unstructured{},
		pulse: &service.Pulse{Label: c.names.label},
	}
	o.watches = lives.Watches(c.names.kind, c.names.cached, c.names.label)
	var watched []schema.GroupVersionKind
	for _, watch := range o.watches {
		watched = append(watched, watch.Kind)
	}
	version := c.server.Version()
	var err error
	o.process, err = c.server.Start(store.Life{
		Name: fmt.Sprintf("%s %d", c.names.program, c.begun), Hook: o.call,
		Cache: store.CacheOptions{
			Uncached: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret")}, Watched: watched,
			At: version - min(back, version-1),
		},
	})
	c.must(err)
	inner, err := o.assemble()
	c.must(err)
	o.loop = lives.Strictly(inner)
	c.operator = o
	c.Note(-1, "%s %d starts", c.names.program, c.begun)
	for _, kind := range watched {
		o.hear(kind)
	}
	o.ask(0)
	o.listen()
}

// memo is shared by all worlds: the same objects are wanted again and again.
var memo = apply.NewMemo(4096)

// parts are what a loop is put together from.
type parts struct {
	config loop.Config
	author apply.Author
	pulse  *service.Pulse
}

// assemble puts the loop together.
func (o *operator) assemble() (reconcile.Reconciler, error) {
	c := o.c
	cached, live := o.process.Client(), o.process.Live()
	if c.flaw.Sees != nil {
		change := c.flaw.Sees()
		cached, live = lives.Seeing(cached, change), lives.Seeing(live, change)
	}
	if c.flaw.OldLeases {
		live = oldLeases{live, cached}
	}
	author := apply.Author{
		Scheme: live.Scheme(), Prefix: database.AnnotationPrefix, Manager: database.FieldManager, Memo: memo,
	}
	pulse := o.pulse
	if c.flaw.Deaf {
		pulse = nil
	}
	return c.of.loop(o, parts{author: author, pulse: pulse, config: loop.Config{
		Name: c.names.program, Client: cached, Live: live, Now: c.clock, Leads: o.leads,
		Tracker: expect.New(o.process.Cache(), live.Scheme(), expect.Options{Now: c.clock}),
	}})
}

// leads reads who leads among operators. There is no such object: that is known here.
func (o *operator) leads(ctx context.Context) error {
	lease := &unstructured.Unstructured{}
	lease.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	err := o.process.Live().Get(ctx, client.ObjectKey{Namespace: "leaders", Name: "leader"}, lease)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read who leads: %w", err)
	}
	if o.c.operator != o {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "leader", errors.New("another process leads"))
	}
	return nil
}

// hear has the cache of a kind move soon. Changes coalesce.
func (o *operator) hear(kind schema.GroupVersionKind) {
	if o.moving[kind] || o.ended {
		return
	}
	o.moving[kind] = true
	o.c.After(max(o.c.Between(2*time.Millisecond, 60*time.Millisecond), o.stalls-o.c.Now()), func() {
		if o.moving[kind] = false; !o.ended {
			o.move(kind)
		}
	})
}

// move moves the cache of a kind to the present, and asks for a pass if there is news.
func (o *operator) move(kind schema.GroupVersionKind) {
	if o.c.Away() || o.c.Now() < o.stalls {
		o.hear(kind)
		return
	}
	cache := o.process.Cache()
	for _, watch := range o.watches {
		if watch.Kind != kind {
			continue
		}
		events, err := cache.Advance(kind, o.c.server.Version())
		o.c.must(err)
		for _, event := range events {
			if o.isNews(watch, event) && len(watch.Map(event.Object)) > 0 {
				o.ask(0)
			}
		}
		return
	}
	for _, read := range cache.Read() {
		_, err := cache.Advance(read, o.c.server.Version())
		o.c.must(err)
	}
}

// isNews tells renewals of the lease, and writes of the own status, from what somebody wants a pass for.
func (o *operator) isNews(watch search.Watch, event store.Event) bool {
	key := event.Kind.Kind + " " + event.Key.String()
	before := o.seen[key]
	if o.seen[key] = event.Object; before == nil {
		return true
	}
	if event.Kind.Kind == "Lease" && event.Type != "DELETED" {
		was, is := leaseOf(before), leaseOf(event.Object)
		return o.pulse.Beat(is, o.c.clock()) || service.LeaseChanged(was, is)
	}
	return watch.News == nil || event.Type != "MODIFIED" || watch.News(before, event.Object)
}

// listen has a pass run when a lease is late or ends, which is no event.
func (o *operator) listen() {
	o.c.After(250*time.Millisecond, func() {
		if o.ended {
			return
		}
		if len(o.pulse.Silent(o.c.clock())) > 0 {
			o.ask(0)
		}
		o.listen()
	})
}

// ask asks for a pass after a while. A sooner one takes the place of a later one.
func (o *operator) ask(in time.Duration) {
	if o.passing {
		o.asked = o.asked || in == 0
		return
	}
	o.planned++
	planned := o.planned
	o.c.After(in, func() {
		if o.planned == planned && !o.ended && !o.passing {
			o.pass()
		}
	})
}

// pass makes one pass. Whenever it calls somebody, the world goes on until the call is there.
func (o *operator) pass() {
	o.passing, o.asked, o.began, o.saidExpired = true, false, o.c.Now(), o.c.saysExpired()
	var result reconcile.Result
	var failure error
	next, stop := iter.Pull(func(yield func(time.Duration) bool) {
		defer func() {
			if thrown := recover(); thrown != nil {
				o.c.Wrong(law.OperatorCheck, "%v", thrown)
			}
		}()
		o.pause = yield
		result, failure = o.loop.Reconcile(context.Background(), reconcile.Request{NamespacedName: name})
	})
	o.stop = stop
	var step func()
	step = func() {
		if o.ended {
			return
		}
		pause, more := next()
		o.c.show()
		switch {
		case more:
			o.c.After(pause, step)
		case o.c.operator != o: // It was overtaken, and its lease is lost.
			o.end()
		case !o.ended:
			o.finish(result, failure)
		}
	}
	step()
}

// finish does what a work queue does with what a pass returns.
func (o *operator) finish(result reconcile.Result, failure error) {
	o.passing = false
	o.c.judgePass(o)
	switch {
	case o.process.Crashed():
		o.end()
		o.c.After(o.c.Between(time.Second, 15*time.Second), func() { o.c.replace(o) })
		return
	case failure != nil:
		o.c.Note(-1, "the pass fails: %v", failure)
		o.ask(min(time.Second<<min(o.failed, 10), time.Minute))
		o.failed++
	case result.RequeueAfter > 0:
		o.failed = 0
		o.ask(result.RequeueAfter)
	default:
		o.failed = 0
	}
	if o.asked {
		o.ask(0)
	}
}

// end ends the process, in the middle of a pass if there is one.
func (o *operator) end() {
	if o.ended {
		return
	}
	o.ended = true
	o.process.Crash()
	if o.stop != nil {
		o.stop()
	}
	o.c.show()
}

// replace begins another life, unless that has happened already.
func (c *Cluster) replace(o *operator) {
	if c.operator == o {
		c.replaced = c.Now()
		c.startOperator(uint64(c.Between(0, 30)))
	}
}

// sleep lets time pass within a pass. It returns false if the process has ended meanwhile.
func (o *operator) sleep(pause time.Duration) bool {
	return !o.ended && o.pause(pause) && !o.ended
}

// travel is the way of a call to the API server.
func (o *operator) travel() time.Duration {
	if o.c.Chance(0.05) {
		return o.c.Between(20*time.Millisecond, 900*time.Millisecond)
	}
	return o.c.Between(time.Millisecond, 15*time.Millisecond)
}

// call decides about each call of the process, and lets the world go on until it arrives.
func (o *operator) call(call store.Call) store.Verdict {
	c := o.c
	if o.ended {
		return store.CrashBefore
	}
	c.show() // What the call before this one has done.
	fault := c.Meets(PointCall)
	way := o.travel()
	if fault != nil && (fault.Kind == sim.FaultLate || fault.Kind == FaultOvertaken) {
		way += fault.For
	}
	if fault != nil && fault.Kind == FaultOvertaken && c.operator == o {
		c.After(0, func() { c.replace(o) })
	}
	if !o.sleep(way) {
		return store.CrashBefore
	}
	verdict := o.verdict(fault)
	if call.Verb.Writes() && (verdict == store.Done || verdict == store.Applied || verdict == store.CrashAfter) {
		c.Act()
		c.Note(-1, "%s", call)
		c.judgeCall(call)
	}
	return verdict
}

func (o *operator) verdict(fault *sim.Fault) store.Verdict {
	switch {
	case o.c.Away():
		return store.Refused
	case fault == nil:
		return store.Done
	}
	verdicts := map[sim.FaultKind]store.Verdict{
		sim.FaultRefused: store.Refused, sim.FaultApplied: store.Applied, FaultConflict: store.Conflicted,
		sim.FaultCrashBefore: store.CrashBefore, sim.FaultCrashAfter: store.CrashAfter,
	}
	return verdicts[fault.Kind] // Done for the others.
}

// at is the instance whose container is reached at an address.
func (c *Cluster) at(address string) (int, error) {
	for who, p := range c.pods {
		if p.address == address && p.uid != "" && c.powered(who) && c.Reached(who) {
			return who, nil
		}
	}
	return 0, errors.New("no answer")
}

// asks is how the operator gets a report, of a database or of a cache.
type asks[R any] func(context.Context, service.Agent) (R, error)

// asking asks an agent for its report, which goes over the wire as it does in production. Several are asked at once, so
// nothing here waits or is left to chance.
func asking[R interface{ Encode() ([]byte, error) }](
	c *Cluster, report func(who int) (R, bool), decode func([]byte) (R, error),
) asks[R] {
	return func(_ context.Context, agent service.Agent) (none R, err error) {
		who, err := c.at(agent.Address)
		if err != nil {
			return none, err
		}
		told, ok := report(who)
		if !ok {
			return none, errors.New("there is no report yet")
		}
		document, err := told.Encode()
		if err != nil {
			return none, err
		}
		return decode(document)
	}
}

// reach is the instance whose agent is called, when the call is there.
func (o *operator) reach(agent service.Agent) (int, error) {
	if !o.sleep(o.c.Between(time.Millisecond, 20*time.Millisecond)) {
		return 0, store.ErrCrashed
	}
	return o.c.at(agent.Address)
}

// leaseOf reads a lease of the API.
func leaseOf(object *unstructured.Unstructured) *coordinationv1.Lease {
	var read coordinationv1.Lease
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read) != nil {
		return &coordinationv1.Lease{}
	}
	return &read
}
