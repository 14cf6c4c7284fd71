package sim

import (
	"context"
	"errors"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/act"
	"meridian.dev/meridian/internal/tenure/invariant"
	"meridian.dev/meridian/internal/tenure/observe"
	"meridian.dev/meridian/internal/tenure/plan"

	"github.com/go-logr/logr"
)

// sloppyLoop is the loop of production with a flaw between its stages, and without the check of its plans: what a flaw
// does is to be found in the world, not prevented. Production code has no hook for it.
type sloppyLoop struct {
	a        *agent
	flaw     Flaw
	observer *observe.Observer
	actor    *act.Actor
	ports    tenure.Ports
	state    tenure.State
	last     tenure.Snapshot
	granted  tenure.Standing
	since    time.Duration // For flaws that need to wait.
	promised bool          // For one that promises in this life alone.
}

var errSloppy = errors.New("not by this standing")

func newSloppyLoop(a *agent, ports tenure.Ports, log logr.Logger) loop {
	l := &sloppyLoop{a: a, flaw: flawOf(a.n.w.bug), ports: ports}
	l.observer = &observe.Observer{Ports: ports, Name: a.n.name, Address: a.n.address}
	l.actor = &act.Actor{
		Ports: ports, Exclusive: func(do func()) { do() },
		Publish: func(state *tenure.State) { l.granted = state.Memory.Standing },
		Before: func(action tenure.Action) {
			log.V(1).Info("carrying out an action", "action", action.Verb(), "why", action.Because())
		},
	}
	return l
}

// Take implements loop.
func (l *sloppyLoop) Take(event tenure.Event) {
	if l.flaw.Event != nil {
		event = l.flaw.Event(l, event)
	}
	here := tenure.Snapshot{Name: l.a.n.name, Engine: l.ports.Server.Facts(), Stored: l.state.Stored}
	event.Apply(&l.state, here.Self(), l.ports.Clock.Now())
	if l.flaw.State != nil {
		l.flaw.State(l, event)
	}
}

// Pass implements loop.
func (l *sloppyLoop) Pass(ctx context.Context, stopping bool) (finished bool, next time.Duration) {
	snapshot := l.observer.Look(&l.state, stopping)
	if l.flaw.Snapshot != nil {
		l.flaw.Snapshot(l, &snapshot)
	}
	l.last = snapshot
	decided := plan.Decide(snapshot)
	if l.flaw.Plan != nil {
		decided.Actions = l.flaw.Plan(l, snapshot, decided.Actions)
	}
	if len(invariant.Check(snapshot, decided)) > 0 {
		l.a.n.w.truth.refusals++
	}
	_ = l.actor.Do(ctx, decided, &l.state)
	next = 200 * time.Millisecond
	if decided.Again > 0 {
		next = min(next, max(decided.Again, 5*time.Millisecond))
	}
	return stopping && decided.Finished, next
}

// MayLead implements tenure.Authority.
func (l *sloppyLoop) MayLead(serial uint64) error {
	snapshot := l.last
	snapshot.Memory, snapshot.Stored, snapshot.Now = l.state.Memory, l.state.Stored, l.ports.Clock.Now()
	if l.flaw.Snapshot != nil {
		l.flaw.Snapshot(l, &snapshot)
	}
	term, may := snapshot.MayLead()
	if l.granted.Serial != serial || l.granted.Role != tenure.RoleLead ||
		(!may || term != l.granted.Term) && !l.flaw.Usurps {
		return errSloppy
	}
	return nil
}

// Confirm implements tenure.Authority.
func (l *sloppyLoop) Confirm(ctx context.Context, serial uint64) error {
	view, err := l.ports.Leases.Get(ctx)
	if err != nil || l.granted.Serial != serial || view.Holder != l.granted.Upstream || view.Term != l.granted.Term {
		return errSloppy
	}
	return nil
}

// Places implements tenure.Authority.
func (l *sloppyLoop) Places() []tenure.Place { return l.state.Memory.Places }

// Exclude implements tenure.Authority.
func (l *sloppyLoop) Exclude(serial uint64, do func() error) error {
	if l.granted.Serial != serial {
		return errSloppy
	}
	return do()
}

// sees, plans and hears are mistakes that need nothing of the loop.
func sees(mistake func(*tenure.Snapshot)) func(*sloppyLoop, *tenure.Snapshot) {
	return func(_ *sloppyLoop, s *tenure.Snapshot) { mistake(s) }
}

func plans(
	mistake func(tenure.Snapshot, []tenure.Action) []tenure.Action,
) func(*sloppyLoop, tenure.Snapshot, []tenure.Action) []tenure.Action {
	return func(_ *sloppyLoop, s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
		return mistake(s, actions)
	}
}

func hears(mistake func(tenure.Event) tenure.Event) func(*sloppyLoop, tenure.Event) tenure.Event {
	return func(_ *sloppyLoop, event tenure.Event) tenure.Event { return mistake(event) }
}

// hesitates lets the first moments of something pass: the other half of a change comes later.
func (l *sloppyLoop) hesitates(d time.Duration) bool {
	now := l.a.n.w.now
	if l.since == 0 || now-l.since > 2*d {
		l.since = now
	}
	return now-l.since < d
}
