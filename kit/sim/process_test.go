package sim_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/sim"
)

// start begins a life in the world.
func (w *world) start(life sim.Life) *sim.Process {
	w.t.Helper()
	process, err := w.server.Start(life)
	w.must(err)
	return process
}

func TestVerdicts(t *testing.T) {
	crashed := func(err error) bool { return errors.Is(err, sim.ErrCrashed) }
	none := func(err error) bool { return err == nil }
	tests := map[sim.Verdict]struct {
		want             func(error) bool
		applied, crashed bool
	}{
		sim.Done:        {none, true, false},
		sim.Refused:     {apierrors.IsTimeout, false, false},
		sim.Applied:     {apierrors.IsTimeout, true, false},
		sim.Conflicted:  {apierrors.IsConflict, false, false},
		sim.CrashBefore: {crashed, false, true},
		sim.CrashAfter:  {crashed, true, true},
	}
	for verdict, test := range tests {
		t.Run(verdict.String(), func(t *testing.T) {
			w := newWorld(t)
			made := config("a")
			w.create(made)
			process := w.start(sim.Life{Name: "p", Hook: func(sim.Call) sim.Verdict { return verdict }})
			made.Data["a"] = "2"
			sent := made.DeepCopy()
			err := process.Client().Update(t.Context(), sent)
			if !test.want(err) {
				t.Errorf("got %v", err)
			}
			if err != nil && !apierrors.IsConflict(err) && !expect.Undecided(err) {
				t.Errorf("a client would take %v for certain", err)
			}
			if told := sent.ResourceVersion != made.ResourceVersion; told != (verdict == sim.Done) {
				t.Errorf("the caller has the new version: %t", told)
			}
			w.must(w.Get(t.Context(), client.ObjectKeyFromObject(made), made))
			if applied := made.Data["a"] == "2"; applied != test.applied {
				t.Errorf("applied %t, want %t", applied, test.applied)
			}
			if process.Crashed() != test.crashed {
				t.Errorf("crashed %t, want %t", process.Crashed(), test.crashed)
			}
			before := w.server.Version()
			if test.crashed && !crashed(process.Client().Create(t.Context(), config("late"))) {
				t.Error("a dead process has written")
			}
			if w.server.Version() != before && test.crashed {
				t.Error("a dead process has had an effect")
			}
		})
	}
}

// TestRefusalsLookAlike: a client must not be able to tell whether what timed out was carried out.
func TestRefusalsLookAlike(t *testing.T) {
	w := newWorld(t)
	answer := func(verdict sim.Verdict) string {
		process := w.start(sim.Life{Name: "p", Hook: func(sim.Call) sim.Verdict { return verdict }})
		return process.Client().Create(t.Context(), config("a")).Error()
	}
	if diff := cmp.Diff(answer(sim.Refused), answer(sim.Applied)); diff != "" {
		t.Errorf("-refused +applied:\n%s", diff)
	}
}

func TestHookSeesEveryCallAndDelaysIt(t *testing.T) {
	w := newWorld(t)
	made := config("a")
	w.create(made)
	var calls []string
	process := w.start(sim.Life{Name: "p", Hook: func(call sim.Call) sim.Verdict {
		calls = append(calls, call.String())
		if call.Verb == sim.Update { // somebody else is faster
			other := config("a")
			other.Data["a"] = "other"
			w.must(w.Update(t.Context(), other))
		}
		return sim.Done
	}})
	ctx := t.Context()
	cached, live := process.Client(), process.Live()
	w.must(cached.Get(ctx, client.ObjectKeyFromObject(made), made)) // from the cache: no call
	w.must(live.Get(ctx, client.ObjectKeyFromObject(made), made))
	w.must(live.List(ctx, &corev1.ConfigMapList{}))
	if err := cached.Update(ctx, made); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	w.must(cached.Delete(ctx, made))
	want := []string{
		"p 1: get ConfigMap ns/a", "p 2: list ConfigMap /", "p 3: update ConfigMap ns/a", "p 4: delete ConfigMap ns/a",
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCrashPassesRecover: code that recovers from panics must not survive a crash.
func TestCrashPassesRecover(t *testing.T) {
	w := newWorld(t)
	process := w.start(sim.Life{
		Name: "p", Crashing: runtime.Goexit, Hook: func(sim.Call) sim.Verdict { return sim.CrashAfter },
	})
	survived := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		func() {
			defer func() { _ = recover() }()
			_ = process.Client().Create(context.Background(), config("a"))
		}()
		survived = true
	}()
	<-done
	if survived || !process.Crashed() {
		t.Error("the process lives on")
	}
	w.must(w.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "a"}, &corev1.ConfigMap{}))
}

func TestCacheStandsInThePast(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	process := w.start(sim.Life{Name: "p"})
	cache := process.Cache()
	made := config("a")
	w.create(made)
	created := w.server.Version()
	w.create(pod("a", "n1"))
	made.Data["a"] = "2"
	w.must(w.Update(ctx, made))
	w.must(w.Delete(ctx, made))

	read := &corev1.ConfigMap{}
	key := client.ObjectKeyFromObject(made)
	if err := process.Client().Get(ctx, key, read); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if behind := cache.Behind(configKind); len(behind) != 3 {
		t.Errorf("%d events behind, want 3", len(behind))
	}
	seen, err := cache.Advance(configKind, created)
	w.must(err)
	if len(seen) != 1 {
		t.Errorf("saw %v", seen)
	}
	w.must(process.Client().Get(ctx, key, read))
	if read.Data["a"] != "1" || read.Kind != "ConfigMap" {
		t.Errorf("read %q of kind %q", read.Data["a"], read.Kind)
	}
	pods := &corev1.PodList{}
	w.must(process.Client().List(ctx, pods))
	if len(pods.Items) != 0 {
		t.Error("a kind has moved together with another")
	}
	if _, err := cache.Advance(configKind, created-1); err == nil {
		t.Error("it went back")
	}
	if _, err := cache.Advance(configKind, w.server.Version()+1); err == nil {
		t.Error("it went into the future")
	}
	if events := cache.CatchUp(); len(events) != 3 {
		t.Errorf("saw %v", events)
	}
	if err := process.Client().Get(ctx, key, read); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	restarted := w.start(sim.Life{Name: "p", Cache: sim.CacheOptions{At: created}})
	w.must(restarted.Client().Get(ctx, key, read))
}

func TestCacheOfOneNamespace(t *testing.T) {
	w := newWorld(t)
	here, there := config("a"), config("b")
	there.Namespace = "other"
	w.create(here)
	w.create(there)
	process := w.start(sim.Life{Name: "p", Cache: sim.CacheOptions{
		Namespace: "ns", Uncached: []schema.GroupVersionKind{podKind},
	}})
	list := &corev1.ConfigMapList{}
	w.must(process.Client().List(t.Context(), list))
	if len(list.Items) != 1 || list.Items[0].Name != "a" {
		t.Errorf("got %d items", len(list.Items))
	}
	w.create(pod("late", "n1"))
	w.must(process.Client().Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "late"}, &corev1.Pod{}))
	if process.Calls() != 1 {
		t.Errorf("%d calls, want the one to the server", process.Calls())
	}
}

func TestCacheIsAView(t *testing.T) {
	w := newWorld(t)
	process := w.start(sim.Life{Name: "p"})
	clock := w.clock
	tracker := expect.New(process.Cache(), process.Client().Scheme(), expect.Options{Now: clock.Now})
	owner := expect.Owner{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "o"}, UID: "u"}
	tracker.Confirm(owner)
	made := pod("a", "n1")
	w.must(process.Client().Create(t.Context(), made))
	tracker.Wrote(owner, made)
	if verdict := tracker.Check(owner); verdict.Answer != expect.Wait || !strings.Contains(verdict.Reason, "stands at 1") {
		t.Errorf("got %+v", verdict)
	}
	process.Cache().CatchUp()
	if verdict := tracker.Check(owner); verdict.Answer != expect.ReadCache {
		t.Errorf("got %+v", verdict)
	}
}
