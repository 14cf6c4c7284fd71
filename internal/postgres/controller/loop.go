// Package controller runs the stages of the instance loop in turn, for as long as the pod lives. It is the only one
// that knows all of them. Start reading at Loop.Pass.
package controller

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/act"
	"meridian.dev/meridian/internal/postgres/invariant"
	"meridian.dev/meridian/internal/postgres/observe"
	"meridian.dev/meridian/internal/postgres/plan"
	"meridian.dev/meridian/internal/postgres/status"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// State is what the loop shows to the servers of the agent.
type State struct {
	Report wire.Report
	Ready  bool
	// At is when the pass began that this is from.
	At time.Time
}

// Identity is who the instance is, and where its server is.
type Identity struct {
	// Instance and Database are names.
	Instance, Database string
	// Runtime is the folder of the socket and of the certificate's copy.
	Runtime string
	// Listen and Port are where the server listens; empty and 0 for everywhere and the usual port.
	Listen string
	Port   uint16
	// Fresh makes a new random id.
	Fresh func() string
}

// Loop is the loop of one instance. It is the engine of the loop of the lease: see server.go.
type Loop struct {
	// Authority is asked before what cannot be taken back. It is set before Run.
	Authority tenure.Authority
	Log       logr.Logger
	// Instant reads the clock of the loop of the lease, for how old the facts are. It may be nil. It is set before Run.
	Instant func() tenure.Instant
	// Yield asks for another primary, so that the server here can be started anew with this token. It may be nil, and
	// must not wait. It is set before Run.
	Yield func(token string)

	observer *observe.Observer
	actor    *act.Actor
	jobs     *act.Jobs
	ports    postgres.Ports
	wake     chan struct{}
	changed  chan struct{}

	state    atomic.Pointer[State]
	engine   atomic.Pointer[tenure.Engine]
	replayed atomic.Uint64  // How far the log was replayed, which saves time when its end is looked for.
	last     string         // What was told last.
	looked   tenure.Instant // When the present pass began to look.
	plan     string         // The last plan, and how often it was the same before.
	repeated int
	vain     vain
	answered string // The start of the server that answered last, and when.
	answer   time.Time

	// turn is held by short acts, so that none of an older standing goes on after a new one has come.
	turn     sync.Mutex
	mutex    sync.Mutex
	standing tenure.Standing
	fenced   uint64
	cancel   context.CancelFunc
}

// vain counts acts that lead and failed in a row, in a term.
type vain struct {
	term    int64
	failed  int
	problem string
}

// inVain is how many make a copy one that cannot lead.
const inVain = 5

func (v *vain) count(snapshot postgres.Snapshot, outcome postgres.Outcome) {
	standing := snapshot.Standing
	unwritten := outcome.Kept && !snapshot.Process.Running
	if standing.Role != tenure.RoleLead || standing.Term != v.term {
		*v = vain{term: standing.Term}
	}
	switch {
	case standing.Role != tenure.RoleLead:
	case strings.HasPrefix(outcome.Failed, "Promote") || outcome.Failed == "StartServer" || unwritten:
		v.failed++
		v.problem = outcome.Failed + ": " + outcome.Problem
	case outcome.Failed == "" && len(outcome.Done) > 0:
		v.failed = 0
	}
}

func (v *vain) text() string {
	if v.failed < inVain {
		return ""
	}
	return v.problem
}

// New makes the loop of an instance. Set its Authority before it runs.
func New(ports postgres.Ports, who Identity, log logr.Logger) *Loop {
	l := &Loop{Log: log, ports: ports, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
	l.observer = &observe.Observer{
		Instance: who.Instance, Database: who.Database, Runtime: who.Runtime, Listen: who.Listen, Port: who.Port,
		Ports: ports,
	}
	l.jobs = &act.Jobs{Clock: ports.Clock, Ended: l.Wake, Go: ports.Go}
	l.actor = &act.Actor{
		Ports: ports, Jobs: l.jobs, Incarnation: func() string { return fitting(who) }, Turn: l.takeTurn,
		Asked: l.observer.Asked, Positioned: l.observer.Positioned,
		Promoting: l.observer.Promoting, Rewinding: l.observer.Rewinding, Fenced: l.isFenced,
		Before: func(action postgres.Action) {
			level := 0
			if _, routine := action.(postgres.AskPositions); routine {
				level = 1
			}
			log.V(level).Info("carrying out an action", "action", action.Verb(), "why", action.Because())
		},
	}
	l.actor.Yield = func(token string) {
		l.observer.Asking(token)
		if l.Yield != nil {
			l.Yield(token)
		}
	}
	if ports.Subscribe != nil {
		ports.Subscribe(l.Wake)
	}
	return l
}

// longestName is what PostgreSQL keeps of the name that a replica goes by.
const longestName = 63

// fitting makes a new id that fits into the name of a replica as a whole: one that was cut would be another.
func fitting(who Identity) string {
	id := who.Fresh()
	return id[:min(len(id), max(longestName-1-len(who.Instance), 8))]
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
	// leading is between two passes of a primary, or of an instance that is becoming another: others wait for its facts.
	leading = 150 * time.Millisecond
	// opening is the same while applications wait for the gate.
	opening = 50 * time.Millisecond
	// patient is how long a server may be slow, and doubtful how long it may be so and be said to serve.
	patient  = 5 * time.Second
	doubtful = 1500 * time.Millisecond
	// stale is how old a report may be and still say that applications are served.
	stale = 2500 * time.Millisecond
	// passLimit bounds a pass. Making a data directory takes its time.
	passLimit = 5 * time.Minute
)

// State returns what the last pass has shown; ok is false before the first. A pass that a server holds up for long
// shows nothing new, so what it showed last is in doubt.
func (l *Loop) State() (state State, ok bool) {
	shown := l.state.Load()
	if shown == nil {
		return State{}, false
	}
	if l.ports.Clock.Now().Sub(shown.At) >= stale {
		return shown.inDoubt(), true
	}
	return *shown, true
}

// inDoubt is the state of a server that has not answered for a while. That a primary is not ready takes nothing from
// it, and is how others come to know that they had better ask.
func (s State) inDoubt() State {
	s.Report.Serving = false
	s.Ready = s.Ready && s.Report.Role != wire.RolePrimary
	return s
}

// Wake asks for a pass before the next is due. It may be called from any goroutine.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default: // A pass is due already.
	}
}

// Run makes passes until it is told to stop and the server has ended. The context ends it at once.
func (l *Loop) Run(ctx context.Context, told <-chan struct{}) error {
	defer l.jobs.Close()
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
		case <-l.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// pass gives up what a pass is about when the pod is told to end in the middle of it, or when another standing comes:
// everything can be done again.
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
	// A look is short, and is not given up: its end would end the session that it goes by.
	look := ctx
	ctx, told := l.begin(ctx)
	told.Stopping = stopping
	if l.Authority != nil {
		told.Places = l.Authority.Places()
	}
	if l.Instant != nil {
		l.looked = l.Instant()
	}
	snapshot := l.observer.Look(look, told)
	decided := plan.Decide(snapshot)
	l.replayed.Store(snapshot.Server.Replication.Replayed)
	if replication := snapshot.Server.Replication; replication.Receiving && replication.Place != nil {
		l.ports.Disk.Received(*replication.Place)
	}
	var outcome postgres.Outcome
	if outcome.Violations = invariant.Check(snapshot, decided); len(outcome.Violations) == 0 {
		l.show(snapshot, decided, outcome)
		l.actor.Authority = l.Authority
		outcome = l.actor.Do(ctx, snapshot.Standing, decided)
	}
	if ctx.Err() != nil && !stopping {
		// Another standing has come: what failed did so because it was given up.
		outcome.Failed, outcome.Problem = "", ""
	}
	l.vain.count(snapshot, outcome)
	l.show(snapshot, decided, outcome)
	l.tell(decided, outcome)
	if len(outcome.Done) > 0 || outcome.Failed != "" {
		l.observer.Doubt()
	}
	if stopping && len(decided.Actions) == 0 && !snapshot.Process.Running && snapshot.Process.Leftover == 0 {
		return true, 0
	}
	next = l.patience(decided, pause(snapshot, decided, outcome))
	if moving(snapshot) {
		next = min(next, trying)
	}
	return false, next
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

func pause(snapshot postgres.Snapshot, decided postgres.Plan, outcome postgres.Outcome) time.Duration {
	switch {
	case len(outcome.Violations) > 0:
		return idle
	case outcome.Failed != "":
		return trying
	case len(outcome.Done) > 0:
		return busy
	}
	next := idle
	if moving(snapshot) {
		next = leading
	}
	if snapshot.Standing.Role == tenure.RoleLead && snapshot.Standing.OpenStart == "" {
		next = opening
	}
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

// moving says that somebody waits for the facts of this instance: it leads, or is not yet what it is told to be.
func moving(s postgres.Snapshot) bool {
	switch s.Standing.Role {
	case tenure.RoleLead, tenure.RoleYield, tenure.RoleCatchUp, tenure.RoleBegin:
		return true
	case tenure.RoleFollow:
		return !s.Server.Replication.Receiving || s.Server.Replication.Received < s.Server.Replication.Ahead
	case tenure.RoleIdle:
	}
	return false
}

// slow says that a server that has answered before does not for a moment: that alone takes nobody's sessions away.
func (l *Loop) slow(s postgres.Snapshot) bool {
	if s.Server.Reachable {
		l.answered, l.answer = s.Process.Start, s.Now
	}
	return s.Process.Running && !s.Server.Reachable && !s.Stopping && !s.Hung && l.answered == s.Process.Start &&
		s.Now.Sub(l.answer) < patient
}

func (l *Loop) show(snapshot postgres.Snapshot, decided postgres.Plan, outcome postgres.Outcome) {
	state := State{
		Report: status.Report(snapshot, decided, outcome), Ready: status.Ready(snapshot), At: snapshot.Now,
	}
	slow := l.slow(snapshot)
	if before := l.state.Load(); before != nil && before.Ready && slow {
		state.Report, state.Ready = before.Report, true
		if snapshot.Now.Sub(l.answer) >= doubtful {
			state = state.inDoubt()
		}
	}
	l.state.Store(&state)
	engine := status.Engine(snapshot, l.vain.text())
	engine.At = l.looked
	if before := l.engine.Load(); before != nil && engine.Leading == nil && snapshot.KnownStart() != "" &&
		before.Leading != nil && before.Leading.Start == snapshot.KnownStart() {
		// A primary that does not answer for a moment still is one. When it hangs, the probe tells.
		engine.Leading, engine.At = before.Leading, before.At
	}
	if before := l.engine.Load(); before != nil && snapshot.Volume.Problem != "" && engine.Incarnation == "" {
		// A look that failed does not make it another copy.
		engine.Incarnation, engine.SystemIdentifier = before.Incarnation, before.SystemIdentifier
	}
	l.engine.Store(&engine)
	select {
	case l.changed <- struct{}{}:
	default: // Nobody has looked since the last change.
	}
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
