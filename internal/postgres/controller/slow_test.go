//go:build !cluster

package controller_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
)

// A primary that does not answer for a moment keeps its sessions and its place, but soon it is not said to serve.
func TestASlowServerIsNotSaidToServe(t *testing.T) {
	w := newWorld(t)
	loop := w.settle(w.loop())
	w.passed = 3 * time.Second
	if state, _ := loop.State(); state.Report.Serving {
		t.Error("a pass that does not end is said to serve")
	}
	w.passed, w.mute = 0, true
	for _, want := range []struct {
		passed  time.Duration
		serving bool
		ready   bool
	}{{time.Second, true, true}, {2 * time.Second, false, false}, {6 * time.Second, false, false}} {
		w.passed = want.passed
		loop.Pass(t.Context(), false)
		state, _ := loop.State()
		if state.Report.Serving != want.serving || state.Ready != want.ready {
			t.Errorf("after %s: serving %t, ready %t", want.passed, state.Report.Serving, state.Ready)
		}
	}
}

// A disk that stands still holds up the passes too: that the server does not write is told all the same.
func TestAHungServerIsToldBetweenPasses(t *testing.T) {
	w := newWorld(t)
	loop := w.settle(w.loop())
	now := tenure.Instant(7 * time.Second)
	loop.Instant = func() tenure.Instant { return now }
	if facts := loop.Facts(); facts.Hung {
		t.Error("a server that writes is said to hang")
	}
	w.hung = true
	if facts := loop.Facts(); !facts.Hung || facts.Probed != now {
		t.Errorf("hung %t, known at %s", facts.Hung, facts.Probed)
	}
}
