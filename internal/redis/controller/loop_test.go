package controller_test

import (
	"context"
	"slices"
	"testing"

	"meridian.dev/meridian/internal/redis/controller"
	"meridian.dev/meridian/internal/wire"
)

func well(w *world, state controller.State) bool {
	return state.Ready && state.Report.State == wire.StateRunning && state.Report.Role == wire.RolePrimary &&
		state.Report.Reason == "" && state.Report.SettingsHash == w.settings.Hash()
}

func TestFromNothingToServing(t *testing.T) {
	w := newWorld(t)
	loop := w.loop()
	if state := w.rest(loop); !well(w, state) {
		t.Errorf("state %+v after %v", state, w.effects)
	}
	before := len(w.effects)
	for range 10 {
		w.rest(loop)
	}
	if len(w.effects) != before || w.starts != 1 {
		t.Errorf("a server that is as wished was touched: %v", w.effects[before:])
	}
}

// Everything that a user can change is changed in a running server, at once and under clients, and it is never stopped.
func TestEverythingChangesLive(t *testing.T) {
	w := newWorld(t)
	loop := w.loop()
	w.rest(loop)
	w.limit = wire.CacheLimit(256 << 20)
	for name, change := range map[string]func(){
		"more memory": func() { w.settings.Memory = 256 << 20 },
		"less memory": func() { w.settings.Memory = 16 << 20 },
		"a policy":    func() { w.settings.EvictionPolicy = "noeviction" },
		"a parameter": func() { w.settings.Parameters = []wire.Parameter{{Name: "hz", Value: "33"}} },
		"another value": func() {
			w.settings.Parameters = []wire.Parameter{{Name: "hz", Value: "44"}}
		},
		"no parameter":  func() { w.settings.Parameters = []wire.Parameter{} },
		"a certificate": func() { w.mounted = "c2" },
		"a password":    func() { w.password = "p2" },
	} {
		t.Run(name, func(t *testing.T) {
			change()
			if state := w.rest(loop); !well(w, state) {
				t.Errorf("state %+v after %v", state, w.effects)
			}
		})
	}
	if w.starts != 1 || slices.Contains(w.effects, "stop") {
		t.Errorf("%d starts: %v", w.starts, w.effects)
	}
	if w.server.Loaded != "c2" || w.said["password"] != "p2" {
		t.Errorf("certificate %s, password %s", w.server.Loaded, w.said["password"])
	}
}

// Each effect fails once, in the making of a server and in a change of everything. It always comes to the same end.
func TestEveryEffectFails(t *testing.T) {
	whole := newWorld(t)
	story(whole)
	total := len(whole.effects)
	if total < 10 {
		t.Fatalf("only %d effects: %v", total, whole.effects)
	}
	for number := 1; number <= total; number++ {
		w := newWorld(t)
		count := 0
		w.fail = func(string) error {
			if count++; count == number {
				return errOnPurpose
			}
			return nil
		}
		if state := story(w); !well(w, state) || count < number {
			t.Errorf("effect %d (%s) failed: state %+v after %v", number, whole.effects[number-1], state, w.effects)
		}
	}
}

func story(w *world) controller.State {
	loop := w.loop()
	w.rest(loop)
	w.limit, w.settings.Memory, w.settings.EvictionPolicy = wire.CacheLimit(128<<20), 128<<20, "allkeys-lfu"
	w.settings.Parameters = []wire.Parameter{{Name: "hz", Value: "33"}}
	w.password, w.mounted = "p2", "c2"
	w.rest(loop)
	w.die()
	return w.rest(loop)
}

// A parameter that a server takes at its start only costs a second start when the pod is new, and waits when the cache
// is in use.
func TestFixedParameters(t *testing.T) {
	w := newWorld(t)
	w.immutable = []string{"databases", "io-threads"}
	w.settings.Parameters = []wire.Parameter{{Name: "databases", Value: "4"}}
	loop := w.loop()
	if state := w.rest(loop); !well(w, state) || w.starts != 2 || len(state.Report.PendingRestart) != 0 {
		t.Errorf("%d starts, state %+v", w.starts, state)
	}
	w.settings.Parameters = append(w.settings.Parameters, wire.Parameter{Name: "io-threads", Value: "2"})
	if state := w.rest(loop); w.starts != 2 || !slices.Equal(state.Report.PendingRestart, []string{"io-threads"}) {
		t.Errorf("%d starts, state %+v", w.starts, state)
	}
}

// A server that does not start with a parameter of the user starts without it, and says so.
func TestDeadlyParameters(t *testing.T) {
	w := newWorld(t)
	w.immutable, w.deadly = []string{"databases"}, []string{"databases"}
	w.settings.Parameters = []wire.Parameter{{Name: "databases", Value: "-4"}}
	state := w.rest(w.loop())
	if !state.Ready || state.Report.Reason != wire.ReasonParametersRefused || w.starts != 3 {
		t.Errorf("%d starts, state %+v", w.starts, state)
	}
}

// A container that is too small for what is wanted bounds the server; when it grows, the server follows.
func TestMemoryFollowsTheContainer(t *testing.T) {
	w := newWorld(t)
	loop := w.loop()
	w.rest(loop)
	w.settings.Memory = 256 << 20
	state := w.rest(loop)
	if w.server.MaxMemory != 64<<20 || state.Report.Reason != wire.ReasonMemoryLimited || state.Report.SettingsHash != "" {
		t.Errorf("%d bytes, state %+v", w.server.MaxMemory, state)
	}
	w.limit = wire.CacheLimit(256 << 20)
	if state := w.rest(loop); !well(w, state) || w.server.MaxMemory != 256<<20 {
		t.Errorf("%d bytes, state %+v", w.server.MaxMemory, state)
	}
}

func TestSettingsOfBeforeStay(t *testing.T) {
	w := newWorld(t)
	loop := w.loop()
	w.rest(loop)
	w.unusable = errOnPurpose
	w.die()
	state := w.rest(loop)
	if !state.Ready || w.server.MaxMemory != 64<<20 || state.Report.Reason != wire.ReasonSettingsUnreadable {
		t.Errorf("state %+v", state)
	}
}

func TestRunEndsWhenTold(t *testing.T) {
	w := newWorld(t)
	told := make(chan struct{})
	close(told)
	if err := w.loop().Run(context.Background(), told); err != nil || w.process.Running {
		t.Errorf("%v, running %t", err, w.process.Running)
	}
}

// A request to empty the cache is carried out once; one that was made to a primary that has ended since is forgotten,
// and not carried out when this instance leads again some day.
func TestFlush(t *testing.T) {
	w := newWorld(t)
	loop := w.loop()
	w.rest(loop)
	flushes := func() int {
		return len(slices.DeleteFunc(slices.Clone(w.effects), func(effect string) bool { return effect != "flush" }))
	}
	for range 2 {
		w.track.Ask("a")
		w.rest(loop)
	}
	if flushes() != 1 {
		t.Fatalf("emptied %d times for one request: %v", flushes(), w.effects)
	}
	w.track.Ask("b")
	w.die()
	w.rest(loop)
	if flushes() != 1 {
		t.Errorf("another server was emptied for a request that was made to the one before: %v", w.effects)
	}
}
