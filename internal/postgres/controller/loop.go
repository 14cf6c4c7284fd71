// Package controller runs the stages of the instance loop in turn, for as long as the pod lives. It is the only one
// that knows all of them. Start reading at Loop.Pass.
package controller

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/act"
	"meridian.dev/meridian/internal/postgres/observe"
	"meridian.dev/meridian/internal/postgres/plan"
	"meridian.dev/meridian/internal/postgres/status"
	"meridian.dev/meridian/internal/wire"
)

// State is what the loop shows to the servers of the agent.
type State struct {
	Report wire.Report
	Ready  bool
	// At is when the pass began that this is from.
	At time.Time
}

// Loop is the loop of one instance.
type Loop struct {
	Observer *observe.Observer
	Actor    *act.Actor
	Log      logr.Logger
	// Wake asks for a pass before the next is due.
	Wake <-chan struct{}

	state    atomic.Pointer[State]
	last     string // What was told last.
	plan     string // The last plan, and how often it was the same before.
	repeated int
}

// Times of the loop.
const (
	// idle is between two passes when all is as wished; it is also how soon changed files are seen.
	idle = time.Second
	// busy is after a pass that did something, whose effect is to be seen.
	busy = 20 * time.Millisecond
	// trying is after a pass that failed.
	trying = 500 * time.Millisecond
	// longest is between two passes whatever happens.
	longest = 10 * time.Second
	// passLimit bounds a pass. Making a data directory or a large extension takes its time.
	passLimit = 5 * time.Minute
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
	stopping := false
	for {
		finished, next := l.pass(ctx, stopping, told)
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
		case <-l.Wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass gives up what a pass is about when the pod is told to end in the middle of it: everything can be done again.
func (l *Loop) pass(ctx context.Context, stopping bool, told <-chan struct{}) (finished bool, next time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, passLimit)
	defer cancel()
	if !stopping {
		go func() {
			select {
			case <-told:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return l.Pass(ctx, stopping)
}

// Pass is one pass: observe, decide, check, act, report. It returns whether the loop has ended, or else when to pass
// again.
func (l *Loop) Pass(ctx context.Context, stopping bool) (finished bool, next time.Duration) {
	snapshot := l.Observer.Look(ctx, stopping)
	decided := plan.Decide(snapshot)
	var outcome postgres.Outcome
	if outcome.Violations = plan.Check(snapshot, decided); len(outcome.Violations) == 0 {
		l.show(snapshot, decided, outcome)
		outcome = l.Actor.Do(ctx, decided)
	}
	l.show(snapshot, decided, outcome)
	l.tell(decided, outcome)
	if len(outcome.Done) > 0 || outcome.Failed != "" {
		l.Observer.Doubt()
	}
	if stopping && len(decided.Actions) == 0 {
		return true, 0
	}
	return false, l.patience(decided, pause(decided, outcome))
}

// patience lengthens the pause before a plan that is the same again and again: its effect does not show, and neither
// haste nor a line in the log for each attempt will help.
func (l *Loop) patience(decided postgres.Plan, next time.Duration) time.Duration {
	text := decided.String()
	if len(decided.Actions) == 0 || text != l.plan {
		l.plan, l.repeated = text, 0
		return next
	}
	l.repeated++
	return min(max(next, trying<<min(l.repeated-1, 10)), longest)
}

func pause(decided postgres.Plan, outcome postgres.Outcome) time.Duration {
	switch {
	case len(outcome.Violations) > 0:
		return idle
	case outcome.Failed != "":
		return trying
	case len(outcome.Done) > 0:
		return busy
	}
	next := idle
	for _, hold := range decided.Holds {
		if hold.Reason == wire.ReasonServerRecovering {
			next = min(next, 2*busy)
		}
		if hold.Recheck > 0 {
			next = min(next, hold.Recheck)
		}
	}
	return next
}

func (l *Loop) show(snapshot postgres.Snapshot, decided postgres.Plan, outcome postgres.Outcome) {
	l.state.Store(&State{
		Report: status.Report(snapshot, decided, outcome), Ready: status.Ready(snapshot), At: snapshot.Now,
	})
}

// tell logs what a pass could not do, once for as long as it stays the same.
func (l *Loop) tell(decided postgres.Plan, outcome postgres.Outcome) {
	text := ""
	for _, hold := range decided.Holds {
		if hold.Recheck == 0 && hold.Reason != wire.ReasonServerRecovering {
			text += string(hold.Reason) + ": " + hold.Detail + "\n"
		}
	}
	for _, violation := range outcome.Violations {
		text += violation.Rule + ": " + violation.Detail + "\n"
	}
	if outcome.Failed != "" {
		text += outcome.Failed + ": " + outcome.Problem + "\n"
	}
	if text != "" && text != l.last {
		l.Log.Info("waiting", "for", text, "refused", len(outcome.Violations) > 0)
	}
	l.last = text
}
