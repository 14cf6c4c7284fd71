package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/sim"
)

// patience is how often in a row a pass may fail before nobody waits for it to succeed any more.
const patience = 12

// DefaultTurns is how many turns a run may take before it counts as one that never comes to rest.
const DefaultTurns = 3000

// Result is what a run has come to.
type Result struct {
	// Violation is nil if every rule held.
	Violation *Violation
	// Schedule is what was decided.
	Schedule Schedule
	// Trace is everything that happened, Hash the sha256 of it.
	Trace []Line
	Hash  string
	// Turns and Calls say how long it was, World is a hash of all writes and their times, for counting distinct ones.
	Turns, Calls int
	World        string
	// Joined means that the rest of it was as in another run of the same search, and is not told again.
	Joined bool
	// Verbs are those of the calls, in their order.
	Verbs []sim.Verb
	// CallTurns are the turns in which they were made.
	CallTurns []int
	// Kinds are those that the cache of each program follows in the end, by the name of the program.
	Kinds map[string][]string
}

// Line is one line of a trace.
type Line struct {
	Turn int
	Text string
	// Decided marks a decision, Detail what matters in a long story only.
	Decided, Detail bool
}

// run is one run under way.
type run struct {
	scenario *Scenario
	chooser  chooser
	limit    int

	server  *sim.Server
	clock   *sim.Clock
	cluster client.Client
	seats   []*seat

	// idle is when an actor, by name, and the collector, by no name, had nothing to do.
	idle map[string]moment

	turn, calls, depth int
	verbs              []sim.Verb
	turns              []int   // of the calls
	pasts              []state // before the calls
	script             int     // steps done
	calm               int     // passes since the last write, and since a cache has moved
	told               uint64
	events             []sim.Event
	decisions          []Decision
	trace              []Line
	violation          *Violation

	history
	// endings are those of the runs before this one, nil if it joins none. passages are where it has been itself, and
	// joined is where it has ended early.
	endings  map[state]ending
	passages []passage
	joined   *ending
	// falling means that it stands still when a verdict has ended a process, before the next life begins: see fall.go.
	falling bool
	fallen  *seat
}

// moment is a state of the world that an actor has seen.
type moment struct {
	version uint64
	time    time.Time
}

// Run carries out a schedule. The error says that there was no run to speak of: the scenario itself is wrong.
func Run(scenario Scenario, schedule Schedule, turns int) (Result, error) {
	return newRun(&scenario, follow(schedule), turns)
}

func newRun(scenario *Scenario, chooser chooser, turns int) (Result, error) {
	r, err := lived(scenario, chooser, turns, nil)
	if err != nil {
		return Result{}, err
	}
	return r.result(), nil
}

func lived(scenario *Scenario, chooser chooser, turns int, endings map[state]ending) (*run, error) {
	r, err := begun(scenario, chooser, turns)
	if err != nil {
		return nil, err
	}
	r.endings = endings
	r.live()
	return r, nil
}

// begun is a run before its first turn.
func begun(scenario *Scenario, chooser chooser, turns int) (*run, error) {
	if err := scenario.check(); err != nil {
		return nil, err
	}
	r := &run{
		scenario: scenario, chooser: chooser, limit: cmp.Or(turns, DefaultTurns), clock: &sim.Clock{},
		idle: map[string]moment{}, history: history{values: map[string]int{}},
	}
	if err := r.setUp(); err != nil {
		return nil, fmt.Errorf("set up %s: %w", scenario.Name, err)
	}
	r.turn = 1
	return r, nil
}

// context has the clock for what is not under test.
func (r *run) context() context.Context {
	return context.WithValue(context.Background(), clockKey{}, r.clock.Now)
}

func (r *run) newServer() (*sim.Server, error) {
	if from := r.scenario.From; from != nil {
		r.clock.Advance(from.passed)
		r.told = from.server.Version()
		return from.server.Fork(r.clock.Now), nil
	}
	return sim.New(sim.Options{Scheme: r.scenario.Scheme, Kinds: r.scenario.Kinds, Now: r.clock.Now})
}

func (r *run) setUp() (err error) {
	if r.server, err = r.newServer(); err != nil {
		return err
	}
	process, err := r.server.Start(sim.Life{Name: "cluster"})
	if err != nil {
		return err
	}
	r.cluster = process.Live()
	if r.scenario.Setup != nil {
		if err := r.scenario.Setup(r.context(), r.cluster); err != nil {
			return err
		}
	}
	r.observe()
	for i := range r.scenario.Programs {
		r.seats = append(r.seats, &seat{program: &r.scenario.Programs[i]})
	}
	for _, seat := range r.seats {
		r.begin(seat, 0)
	}
	return nil
}

// live makes turns until everything is done, a rule is broken, or another run has done the rest before.
func (r *run) live() {
	for r.violation == nil && !r.join() && r.goesOn() {
		r.turn++
	}
}

// goesOn makes one turn, and reports whether there is another one.
func (r *run) goesOn() bool {
	if r.turn > r.limit {
		r.fail("Rest", "after %d turns there is still something to do", r.limit)
		return false
	}
	moved := false
	for _, decision := range r.chooser.atTurn(r) {
		moved = r.carryOut(decision) || moved
	}
	moved = moved || r.next(nil)
	r.observe()
	if !moved && r.chooser.over(r) {
		r.finish()
		return false
	}
	if !moved {
		r.clock.Advance(time.Second)
	}
	return r.violation == nil
}

// carryOut does what was decided for this turn. It reports whether that was a move.
func (r *run) carryOut(decision Decision) bool {
	r.decisions = append(r.decisions, decision)
	r.tell(Line{Text: decision.String(), Decided: true})
	switch decision.Do {
	case Hold:
		if seat := r.seat(decision.Program); seat != nil {
			seat.current.hold(decision.Kind, r.turn+decision.For)
		}
	case Crash:
		if seat := r.seat(decision.Program); seat != nil {
			seat.current.process.Crash()
			r.begin(seat, decision.Back)
		}
		return true
	case Move:
		return r.move(decision.What)
	default:
	}
	return false
}

// move makes a named move, if it can be made now.
func (r *run) move(what string) bool {
	verb, name, _ := strings.Cut(what, " ")
	switch verb {
	case "script":
		return r.goOn()
	case "collect":
		return r.collect()
	case "pass":
		seat := r.seat(name)
		return seat != nil && r.passOf(seat)
	case "actor":
		for _, actor := range r.scenario.Actors {
			if actor.Name == name {
				return r.step(actor)
			}
		}
	}
	return false
}

// next makes the move of a calm world. The seat that is left out makes none.
func (r *run) next(without *seat) bool {
	for _, seat := range r.seats {
		if seat != without && r.deliver(seat) {
			return true
		}
	}
	for _, seat := range r.seats {
		if seat != without && r.passOf(seat) {
			return true
		}
	}
	for _, actor := range r.scenario.Actors {
		if r.step(actor) {
			return true
		}
	}
	return r.collect() || without == nil && (r.waitForHolds() || r.goOn() || r.letTimePass())
}

// collect takes a step of the garbage collector.
func (r *run) collect() bool {
	now := moment{version: r.server.Version()}
	if r.idle[""] == now {
		return false
	}
	if !r.server.Collect() {
		r.idle[""] = now
		return false
	}
	r.tell(Line{Text: "the garbage collector acts"})
	r.observe()
	return true
}

func (r *run) step(actor Actor) bool {
	now := moment{version: r.server.Version()}
	if actor.Timed {
		now.time = r.clock.Now()
	}
	if r.idle[actor.Name] == now {
		return false
	}
	acted, err := actor.Step(r.context(), r.cluster)
	if err != nil {
		r.fail("World", "the actor %s: %v", actor.Name, err)
	}
	if acted {
		r.tell(Line{Text: actor.Name + " acts"})
		r.observe()
	} else {
		r.idle[actor.Name] = now
	}
	return acted
}

// goOn does the next step of the script.
func (r *run) goOn() bool {
	if r.script == len(r.scenario.Script) {
		return false
	}
	step := r.scenario.Script[r.script]
	r.script++
	r.calm = 0
	r.tell(Line{Text: "the user: " + step.Name})
	if step.Do != nil {
		if err := step.Do(r.context(), r.cluster); err != nil {
			r.fail("World", "the step %q: %v", step.Name, err)
		}
	}
	r.clock.Advance(step.Wait)
	for _, name := range step.Restarts {
		if seat := r.seat(name); seat != nil {
			seat.current.process.Crash()
			r.begin(seat, 0)
		}
	}
	r.observe()
	return true
}

// waitForHolds lets a second pass while a cache stands still, so that the rest of the world does not wait for it.
func (r *run) waitForHolds() bool {
	for _, seat := range r.seats {
		if len(seat.current.held) > 0 {
			r.clock.Advance(time.Second)
			return true
		}
	}
	return false
}

// letTimePass goes to the moment of the next pass. When all passes have been made since the last write, and nothing has
// come of them, then nothing will.
func (r *run) letTimePass() bool {
	var earliest time.Time
	waiting, failing := 0, false
	for _, seat := range r.seats {
		waiting += len(seat.current.queue)
		for _, entry := range seat.current.queue {
			failing = failing || entry.err != nil && entry.failures < patience
			if earliest.IsZero() || entry.due.Before(earliest) {
				earliest = entry.due
			}
		}
	}
	if waiting == 0 || !failing && r.calm > 2*waiting+len(r.seats) && r.chooser.over(r) {
		return false
	}
	r.clock.Advance(earliest.Sub(r.clock.Now()))
	r.tell(Line{Text: "time passes: " + r.clock.Now().Format("15:04:05"), Detail: true})
	return true
}

// finish asks what must hold in the end: nothing fails any more, one more pass over everything writes nothing, and the
// world is as it should be.
func (r *run) finish() {
	r.tell(Line{Text: "nothing is left to do"})
	before := r.server.Version()
	for _, seat := range r.seats {
		for _, entry := range seat.current.queue {
			if entry.err != nil {
				r.fail("Rest", "in the end the pass of %s over %s still fails: %v", seat.program.Name,
					entry.request.NamespacedName, entry.err)
			}
		}
		seat.current.askForAll(r)
		for count := len(seat.current.queue); count > 0 && r.violation == nil; count-- {
			r.passOf(seat)
		}
	}
	r.observe()
	for _, seat := range r.seats {
		for _, request := range slices.SortedFunc(maps.Keys(seat.current.forGood), byName) {
			r.fail("Rest", "in the end the pass of %s over %s fails for good: %v", seat.program.Name,
				request.NamespacedName, seat.current.forGood[request])
		}
	}
	if r.violation == nil && r.server.Version() != before {
		r.fail("Rest", "a pass over a world at rest has written: %s", r.events[len(r.events)-1])
	}
	if r.violation == nil && r.scenario.Finally != nil {
		if err := r.ask(r.scenario.Finally, r.server.Version(), len(r.events)); err != nil {
			r.fail("Finally", "%v", err)
		}
	}
}

// observe tells what was written since it was called last, and asks about every single version of it.
func (r *run) observe() {
	latest := r.server.Version()
	if latest == r.told {
		return
	}
	fresh := r.server.Events(schema.GroupVersionKind{}, r.told, latest)
	r.told, r.calm = latest, 0
	for _, event := range fresh {
		r.events = append(r.events, event)
		r.add(event, r.clock.Now(), slices.Contains(r.scenario.Chance, event.Kind))
		r.tell(Line{Text: fmt.Sprintf("  → %s %s %s", strings.ToLower(string(event.Type)), event.Kind.Kind, event.Key)})
		if r.scenario.Always == nil || r.violation != nil {
			continue
		}
		if err := r.ask(r.scenario.Always, event.Version, len(r.events)); err != nil {
			r.fail("Always", "%v", err)
		}
	}
}

func (r *run) ask(rule func(State) error, version uint64, events int) error {
	return rule(State{
		Reader: r.at(version), Events: r.events[:events], Version: version, Now: r.clock.Now(), At: r.at,
	})
}

// at shows the world at a version of the past.
func (r *run) at(version uint64) client.Reader {
	process, err := r.server.Start(sim.Life{Name: "observer", Cache: sim.CacheOptions{At: version}})
	if err != nil {
		panic(err) // A rule asks for the future.
	}
	return process.Cache()
}

// judge asks about a write that is about to be carried out.
func (r *run) judge(call sim.Call) {
	if r.scenario.Calls == nil || !call.Verb.Writes() || r.violation != nil {
		return
	}
	r.observe() // what others have done while it was delayed
	rule := func(state State) error { return r.scenario.Calls(state, call) }
	if err := r.ask(rule, r.server.Version(), len(r.events)); err != nil {
		r.fail("Calls", "%s: %v", call, err)
	}
}

func (r *run) fail(rule, format string, args ...any) {
	if r.violation == nil {
		r.violation = &Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)}
		r.tell(Line{Text: "✗ " + r.violation.String()})
	}
}

func (r *run) tell(line Line) {
	line.Turn = r.turn
	line.Text = strings.Repeat("  ", r.depth) + line.Text
	r.trace = append(r.trace, line)
}

func (r *run) seat(name string) *seat {
	for _, seat := range r.seats {
		if seat.program.Name == name {
			return seat
		}
	}
	return nil
}

func (r *run) result() Result {
	trace := sha256.New()
	for _, line := range r.trace {
		_, _ = fmt.Fprintf(trace, "%d %s\n", line.Turn, line.Text) // A hash takes everything.
	}
	world := r.past.String()
	if r.joined != nil {
		world = r.joined.world
	}
	r.remember(world)
	_, _ = trace.Write([]byte(world))
	kinds := map[string][]string{}
	for _, seat := range r.seats {
		for _, source := range seat.current.sources() {
			kinds[seat.program.Name] = append(kinds[seat.program.Name], source.Kind.Kind)
		}
	}
	return Result{
		Violation: r.violation, Schedule: Schedule{Decisions: r.decisions, Until: r.chooser.until()},
		Trace: r.trace, Turns: r.turn, Calls: r.calls, Verbs: r.verbs, CallTurns: r.turns,
		Hash: hex.EncodeToString(trace.Sum(nil)), World: world,
		Joined: r.joined != nil, Kinds: kinds,
	}
}
