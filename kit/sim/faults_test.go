package sim_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/sim"
)

// fault is one verdict at one call, counted over all lives.
type fault struct {
	call    int
	verdict sim.Verdict
}

// trial runs a controller with one fault: first with a cache that stands still, then with one that follows. A process
// that has crashed starts again with empty memory and a cache at the very beginning.
type trial struct {
	world      *world
	fault      fault
	calls      int
	most       int // pods that there ever were
	reconciler func(*world, *sim.Process) reconcile.Reconciler
}

func (r *trial) start() *sim.Process {
	return r.world.start(sim.Life{Name: "controller", Cache: sim.CacheOptions{At: 2}, Hook: func(sim.Call) sim.Verdict {
		r.calls++
		r.most = max(r.most, countPods(r.world.server))
		if r.calls == r.fault.call {
			return r.fault.verdict
		}
		return sim.Done
	}})
}

// run returns whether the world was quiet in the end.
func (r *trial) run(t *testing.T) bool {
	t.Helper()
	owner := config("web")
	r.world.create(owner)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)}
	process := r.start()
	reconciler := r.reconciler(r.world, process)
	var before uint64
	const stale, passes = 5, 20
	for pass := range passes {
		if pass > stale {
			process.Cache().CatchUp()
		}
		before = r.world.server.Version()
		_, _ = reconciler.Reconcile(t.Context(), request) // An error is retried, as it is by a work queue.
		r.world.clock.Advance(time.Second)
		if process.Crashed() {
			process = r.start()
			reconciler = r.reconciler(r.world, process)
		}
	}
	r.most = max(r.most, countPods(r.world.server))
	return r.world.server.Version() == before
}

func newCareful(w *world, process *sim.Process) reconcile.Reconciler {
	tracker := expect.New(process.Cache(), scheme.Scheme, expect.Options{Now: w.clock.Now})
	return &careful{client: process.Client(), live: process.Live(), tracker: tracker, wished: 2}
}

func newNaive(_ *world, process *sim.Process) reconcile.Reconciler {
	return &naive{client: process.Client(), wished: 2}
}

// TestEverySingleFault tries each verdict at each call of the careful controller: there are never too many pods, in the
// end there are enough, and then nothing is written any more.
func TestEverySingleFault(t *testing.T) {
	plain := &trial{world: newWorld(t), reconciler: newCareful}
	plain.run(t)
	if plain.calls < 4 {
		t.Fatalf("only %d calls: there is hardly anything to disturb", plain.calls)
	}
	for call := 1; call <= plain.calls; call++ {
		for verdict := sim.Done; verdict <= sim.CrashAfter; verdict++ {
			t.Run(fmt.Sprintf("%d %s", call, verdict), func(t *testing.T) {
				disturbed := &trial{world: newWorld(t), fault: fault{call, verdict}, reconciler: newCareful}
				quiet := disturbed.run(t)
				if left := countPods(disturbed.world.server); left != 2 || disturbed.most > 2 || !quiet {
					t.Errorf("%d pods in the end, %d at most, quiet %t", left, disturbed.most, quiet)
				}
			})
		}
	}
}

// TestFaultsAreFelt: the same trial finds the naive controller out, even without a fault.
func TestFaultsAreFelt(t *testing.T) {
	undisturbed := &trial{world: newWorld(t), reconciler: newNaive}
	undisturbed.run(t)
	if undisturbed.most <= 2 {
		t.Errorf("%d pods at most: the trial does not bite", undisturbed.most)
	}
}

// BenchmarkTrial measures how many runs of twenty passes there are in a second.
func BenchmarkTrial(b *testing.B) {
	for b.Loop() {
		server, err := sim.New(sim.Options{Scheme: scheme.Scheme})
		if err != nil {
			b.Fatal(err)
		}
		process, err := server.Start(sim.Life{Name: "controller"})
		if err != nil {
			b.Fatal(err)
		}
		owner := config("web")
		if err := process.Live().Create(b.Context(), owner); err != nil {
			b.Fatal(err)
		}
		tracker := expect.New(process.Cache(), scheme.Scheme, expect.Options{Now: new(sim.Clock).Now})
		reconciler := &careful{client: process.Client(), live: process.Live(), tracker: tracker, wished: 2}
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)}
		for range 20 {
			process.Cache().CatchUp()
			if _, err := reconciler.Reconcile(b.Context(), request); err != nil {
				b.Fatal(err)
			}
		}
	}
}
