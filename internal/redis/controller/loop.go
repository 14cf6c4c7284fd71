// Package controller runs the stages of the loop of one cache instance in turn, for as long as the pod lives. It is the
// only one that knows all of them. Start reading at Loop.Pass.
package controller

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/act"
	"meridian.dev/meridian/internal/redis/observe"
	"meridian.dev/meridian/internal/redis/plan"
	"meridian.dev/meridian/internal/redis/status"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// State is what the loop shows to the servers of the agent.
type State struct {
	Report wire.CacheReport
	Ready  bool
	// At is when the pass began that this is from.
	At time.Time
}

// Loop is the loop of one instance. It is the engine of the loop of the lease: see server.go.
type Loop struct {
	Observer *observe.Observer
	Actor    *act.Actor
	Log      logr.Logger

	wake    chan struct{}
	changed chan struct{}
	state   atomic.Pointer[State]
	engine  atomic.Pointer[tenure.Engine]
	told    string // What was told last.
	plan    string // The last plan that had actions, and how often it came again.
	again   int
	heard   time.Time // When the server last answered, or started.

	mutex    sync.Mutex
	standing tenure.Standing
	fenced   uint64
	cancel   context.CancelFunc
}

// New makes the loop. The Authority of the actor is set before it runs.
func New(observer *observe.Observer, actor *act.Actor, log logr.Logger) *Loop {
	return &Loop{
		Observer: observer, Actor: actor, Log: log, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
}

// Times of the loop.
const (
	// idle is between two passes when all is as wished; it is also how soon changed files are seen.
	idle = time.Second
	// busy is after a pass that did something, whose effect is to be seen.
	busy = 10 * time.Millisecond
	// trying is after a pass that failed, or that came to the same plan as the one before.
	trying = 500 * time.Millisecond
	// leading is between two passes of a primary, or of an instance that becomes another: others wait for its facts.
	leading = 100 * time.Millisecond
	// following is between two passes of a replica: it must not be long until it knows that its primary has gone.
	following = 250 * time.Millisecond
	// longest is between two passes whatever happens.
	longest = 10 * time.Second
	// passLimit bounds a pass: a server that hangs must not hang the agent.
	passLimit = 30 * time.Second
)

// State returns what the last pass has shown; ok is false before the first.
func (l *Loop) State() (state State, ok bool) {
	if shown := l.state.Load(); shown != nil {
		return *shown, true
	}
	return State{}, false
}

// Run makes passes until it is told to stop and the server has ended. The context ends it at once.
func (l *Loop) Run(ctx context.Context, told <-chan struct{}) error {
	for stopping := false; ; {
		limited, cancel := context.WithTimeout(ctx, passLimit)
		finished, next := l.Pass(limited, stopping)
		cancel()
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
		case <-l.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Pass is one pass: observe, decide, check, act, report. It returns whether the loop has ended, or else when to pass
// again.
func (l *Loop) Pass(ctx context.Context, stopping bool) (finished bool, next time.Duration) {
	look := ctx
	ctx, told := l.begin(ctx)
	told.Stopping = stopping
	snapshot := l.Observer.Look(look, told)
	decided := plan.Decide(snapshot)
	var outcome redis.Outcome
	if outcome.Violations = plan.Check(snapshot, decided); len(outcome.Violations) == 0 {
		l.show(snapshot, decided, outcome)
		outcome = l.Actor.Do(ctx, snapshot, decided)
	}
	if ctx.Err() != nil && look.Err() == nil {
		// Another standing has come: what failed did so because it was given up.
		outcome.Failed, outcome.Problem = "", ""
	}
	l.show(snapshot, decided, outcome)
	l.tell(decided, outcome)
	if len(outcome.Done) > 0 || outcome.Failed != "" {
		l.Observer.Doubt()
	}
	if stopping && len(decided.Actions) == 0 {
		return true, 0
	}
	next = l.pause(decided, outcome)
	if moving(snapshot) {
		next = min(next, leading)
	} else if snapshot.Standing.Role == tenure.RoleFollow {
		next = min(next, following)
	}
	return false, next
}

// moving says that somebody waits for the facts of this instance: it leads, or is not yet what it is told to be.
func moving(s redis.Snapshot) bool {
	switch s.Standing.Role {
	case tenure.RoleLead, tenure.RoleYield, tenure.RoleBegin:
		return true
	case tenure.RoleFollow:
		return !s.Server.Up
	case tenure.RoleIdle, tenure.RoleCatchUp:
	}
	return false
}

// pause is longer for a plan that comes again and again: its effect does not show, and the next attempt will hardly
// help.
func (l *Loop) pause(decided redis.Plan, outcome redis.Outcome) time.Duration {
	text := decided.String()
	if len(decided.Actions) == 0 || text != l.plan {
		l.plan, l.again = text, 0
	} else {
		l.again++
	}
	next := idle
	switch {
	case len(outcome.Violations) > 0:
	case outcome.Failed != "" || l.again > 0:
		next = min(trying<<min(l.again, 10), longest)
	case len(outcome.Done) > 0:
		next = busy
	}
	for _, hold := range decided.Holds {
		if hold.Reason == wire.ReasonServerRecovering {
			next = min(next, busy)
		}
		if hold.Recheck > 0 {
			next = min(next, hold.Recheck)
		}
	}
	return next
}

func (l *Loop) show(snapshot redis.Snapshot, decided redis.Plan, outcome redis.Outcome) {
	l.state.Store(&State{
		Report: status.Report(snapshot, decided, outcome), Ready: status.Ready(snapshot), At: snapshot.Now,
	})
	if snapshot.Stopping {
		return // Nobody asks any more.
	}
	if !snapshot.Process.Running || snapshot.Server.Reachable || l.heard.IsZero() {
		l.heard = snapshot.Now
	}
	engine := status.Engine(snapshot, snapshot.Now.Sub(l.heard))
	if before := l.engine.Load(); before != nil && engine.Leading != nil && before.Leading != nil &&
		before.Leading.Start == engine.Leading.Start && !snapshot.Server.Reachable {
		// A primary that does not answer for a moment is what it was.
		leading := *before.Leading
		leading.Term = engine.Leading.Term // It may go on under a later one.
		engine.Leading = &leading
	}
	l.engine.Store(&engine)
	select {
	case l.changed <- struct{}{}:
	default: // Nobody has looked since the last change.
	}
}

// tell logs what a pass could not do, once for as long as it stays the same.
func (l *Loop) tell(decided redis.Plan, outcome redis.Outcome) {
	var lines []string
	for _, hold := range decided.Holds {
		if hold.Recheck == 0 && hold.Reason != wire.ReasonServerRecovering {
			lines = append(lines, string(hold.Reason)+": "+hold.Detail)
		}
	}
	for _, violation := range outcome.Violations {
		lines = append(lines, violation.Rule+": "+violation.Detail)
	}
	if outcome.Failed != "" {
		lines = append(lines, outcome.Failed+": "+outcome.Problem)
	}
	text := strings.Join(lines, "; ")
	if text != "" && text != l.told {
		l.Log.Info("waiting", "for", text, "refused", len(outcome.Violations) > 0)
	}
	l.told = text
}
