// Package controller runs the stages of the loop that decides who an instance is, and is the authority that the loop of
// the server asks before it does what cannot be taken back. It is the only one that knows all stages. Start reading at
// Loop.Pass.
package controller

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/act"
	"meridian.dev/meridian/internal/tenure/invariant"
	"meridian.dev/meridian/internal/tenure/observe"
	"meridian.dev/meridian/internal/tenure/plan"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
)

// Shown is what the last pass has shown.
type Shown struct {
	Snapshot tenure.Snapshot
	Plan     tenure.Plan
	// Violations are why the plan was refused, and Problem what could not be done, if anything.
	Violations []rule.Violation
	Problem    string
}

// Loop is the loop. But for the methods of tenure.Authority and for Shown, it is for one goroutine.
type Loop struct {
	observer *observe.Observer
	actor    *act.Actor
	ports    tenure.Ports
	log      logr.Logger

	state   tenure.State
	last    tenure.Snapshot
	greeted bool
	told    string // What was logged last.

	lock  sync.Mutex // Held while the standing changes, during a fence, and by whoever acts by a standing.
	grant atomic.Pointer[grant]
	shown atomic.Pointer[Shown]
}

// Times of the loop.
const (
	// idle is between two passes when nothing is going on, busy when something is.
	idle = time.Second
	busy = 200 * time.Millisecond
	// shortest is between two passes that nothing has asked for but the plan.
	shortest = 5 * time.Millisecond
)

// New makes the loop of the instance with this name, whose peers reach it at the address.
func New(ports tenure.Ports, name, address string, log logr.Logger) *Loop {
	l := &Loop{ports: ports, log: log, observer: &observe.Observer{Ports: ports, Name: name, Address: address}}
	l.actor = &act.Actor{Ports: ports, Exclusive: l.exclusive, Publish: l.publish, Before: l.announce}
	return l
}

// Shown returns what the last pass has shown; ok is false before the first.
func (l *Loop) Shown() (shown Shown, ok bool) {
	if last := l.shown.Load(); last != nil {
		return *last, true
	}
	return Shown{}, false
}

// Run makes passes until it is told to end and nothing is left to give away. Each event and each sign of change is
// followed by a pass at once.
func (l *Loop) Run(ctx context.Context, told, changed <-chan struct{}, events <-chan tenure.Event) error {
	for stopping := false; ; {
		finished, next := l.Pass(ctx, stopping)
		if finished {
			return nil
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-told:
			stopping, told = true, nil
		case event := <-events:
			l.Take(event)
			l.drain(events)
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// drain takes what else has happened: one pass sees it all.
func (l *Loop) drain(events <-chan tenure.Event) {
	for {
		select {
		case event := <-events:
			l.Take(event)
		default:
			return
		}
	}
}

// Take takes an event.
func (l *Loop) Take(event tenure.Event) {
	engine := l.state.Memory.Look(l.ports.Server.Facts(), l.ports.Clock.Now())
	here := tenure.Snapshot{Name: l.observer.Name, Engine: engine, Stored: l.state.Stored}
	event.Apply(&l.state, here.Self(), l.ports.Clock.Now())
}

// Pass is one pass: observe, decide, check, act. It returns whether the loop has ended, or else when to pass again.
func (l *Loop) Pass(ctx context.Context, stopping bool) (finished bool, next time.Duration) {
	snapshot := l.observer.Look(&l.state, stopping)
	l.last = snapshot
	decided := plan.Decide(snapshot)
	shown := Shown{Snapshot: snapshot, Plan: decided, Violations: invariant.Check(snapshot, decided)}
	if len(shown.Violations) == 0 {
		l.greet(ctx, snapshot)
		if err := l.actor.Do(ctx, decided, &l.state); err != nil {
			shown.Problem = err.Error()
		}
	}
	l.publish(&l.state)
	l.shown.Store(&shown)
	l.tell(shown)
	if stopping && decided.Finished && len(shown.Violations) == 0 {
		return true, 0
	}
	return false, pause(snapshot, shown)
}

// greet tells the others once where this instance is, so that nobody waits for a name server.
func (l *Loop) greet(ctx context.Context, snapshot tenure.Snapshot) {
	if l.greeted || !snapshot.Policy.Known {
		return
	}
	l.greeted = true
	var hello tenure.Plan
	for _, name := range snapshot.Policy.Instances {
		if name == snapshot.Name {
			continue
		}
		hello.Actions = append(hello.Actions, tenure.Send{
			Why: "this instance has begun to live", Request: wire.PeerRequest{
				PeerHeader: wire.PeerHeader{
					DatabaseUID: snapshot.DatabaseUID, LeaseUID: snapshot.Stored.LeaseUID, Term: snapshot.Stored.MaxTerm,
					From: snapshot.Self(), Address: snapshot.Address,
				},
				Kind: wire.PeerTell, To: wire.Member{Name: name},
			},
		})
	}
	_ = l.actor.Do(ctx, hello, &l.state) // To send cannot fail; whether it arrives shows later.
}

// pause is how long to wait when nothing happens.
func pause(snapshot tenure.Snapshot, shown Shown) time.Duration {
	next := idle
	role := snapshot.Standing.Role
	going := role == tenure.RoleLead || role == tenure.RoleYield || role == tenure.RoleBegin || role == tenure.RoleCatchUp
	if going || snapshot.Ballot != nil || snapshot.Lease.Failing != nil || snapshot.Stopping || shown.Problem != "" {
		next = busy
	}
	if again := shown.Plan.Again; again > 0 {
		next = min(next, max(again, shortest))
	}
	return next
}

// announce logs an action, unless it is one that comes again and again in an ordinary day.
func (l *Loop) announce(action tenure.Action) {
	level := 0
	switch action := action.(type) {
	case tenure.WriteLease:
		if action.Kind == tenure.WriteRenew {
			level = 1
		}
	case tenure.Arm:
		if action.Until > 0 {
			level = 1
		}
	case tenure.ReadLease, tenure.Reply, tenure.Send, tenure.ReadRoute, tenure.ReadCuts, tenure.NoteStreamLost:
		level = 1
	}
	l.log.V(level).Info("carrying out an action", "action", action.Verb(), "why", action.Because())
}

// tell logs what a pass waits for or could not do, once for as long as it stays the same.
func (l *Loop) tell(shown Shown) {
	var text strings.Builder
	for _, hold := range shown.Plan.Holds {
		text.WriteString(string(hold.Reason) + ": " + hold.Detail + "\n")
	}
	for _, violation := range shown.Violations {
		text.WriteString(violation.Rule + ": " + violation.Detail + "\n")
	}
	if shown.Problem != "" {
		text.WriteString(shown.Problem + "\n")
	}
	if text.String() != l.told && text.Len() > 0 {
		l.log.Info("waiting", "for", text.String(), "refused", len(shown.Violations) > 0)
	}
	l.told = text.String()
}
