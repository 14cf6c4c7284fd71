package search

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"time"

	"meridian.dev/meridian/kit/sim"
)

// Options say how far a search goes. The zero value is a good beginning.
type Options struct {
	// Turns is how many turns a run may take, DefaultTurns if 0.
	Turns int
	// Pairs is how many pairs of crashes are tried at most, 300 if 0, none if negative.
	Pairs int
	// Swarm is how many random schedules are tried, 300 if 0, none if negative. Seed is that of the first.
	Swarm int
	Seed  uint64
	// Phases are the names of those that are gone through, all if there are none.
	Phases []string
	// Every lets only each so manyth single decision be tried: 0 and 1 for all of them. Shard says which: with Every 8,
	// the shards 0 to 7 together are all.
	Every, Shard int
	// Alone lets every run go to its end, also where another one has been in the same state before.
	Alone bool
	// NoShrink leaves a failing schedule as it was found, which is faster.
	NoShrink bool
	// Time ends the search early, 0 for never. With it, the number of schedules depends on the machine.
	Time time.Duration
}

// Report is what a search has come to.
type Report struct {
	// Schedules is how many were tried, Phases the same phase by phase, Worlds how many distinct histories they made.
	Schedules int
	Phases    []Phase
	Worlds    int
	// Joined is how many ended early, because the rest of them was as in another one, and Fallen how many began where
	// another one had crashed.
	Joined, Fallen int
	// Calls is how many the calm run had.
	Calls   int
	Elapsed time.Duration
	// Digest is a hash of all traces in their order: two searches with the same one have seen the same. Histories is one
	// of all that was written only, the same whether or not runs have joined others.
	Digest, Histories string
	// Failure is nil if every rule held in every run.
	Failure *Failure
	// Complete is false if the time was up.
	Complete bool
}

// Phase is a part of a search.
type Phase struct {
	Name      string
	Schedules int
}

func (r Report) String() string {
	text := ""
	for _, phase := range r.Phases {
		text += fmt.Sprintf("%s %d, ", phase.Name, phase.Schedules)
	}
	rate := float64(r.Schedules) / max(r.Elapsed.Seconds(), 1e-6)
	return fmt.Sprintf("%sin all %d schedules (%d joined others) and %d distinct histories, %.0f schedules per second",
		text, r.Schedules, r.Joined, r.Worlds, rate)
}

// Failure is a schedule that breaks a rule, shrunk.
type Failure struct {
	Result
	// Found is the schedule before it was shrunk, After how many schedules it was found.
	Found Schedule
	After int
}

// explorer is a search under way.
type explorer struct {
	scenario Scenario
	options  Options
	begun    time.Time
	report   Report
	worlds   map[string]bool
	traces   hash.Hash
	wrote    hash.Hash // in all runs
	calm     Result
	pasts    []state          // before each call of the calm run
	endings  map[state]ending // nil if runs do not join others
	falls    map[fall]string  // the histories of runs with one crash
	crash    *crash           // the last one
	trunk    *run             // a calm run as far as schedules have been tried, nil if there is none
}

// Explore searches for a schedule that breaks a rule, and stops at the first. The error says that there was nothing to
// search in.
func Explore(scenario Scenario, options Options) (Report, error) {
	options.Pairs, options.Swarm = cmp.Or(options.Pairs, 300), cmp.Or(options.Swarm, 300)
	e := &explorer{
		scenario: scenario, options: options, begun: time.Now(), worlds: map[string]bool{}, traces: sha256.New(),
		wrote: sha256.New(), falls: map[fall]string{},
	}
	if !options.Alone && scenario.canJoin() {
		e.endings = map[state]ending{}
	}
	calm, err := lived(&e.scenario, follow(Schedule{}), e.options.Turns, e.endings)
	if err != nil {
		return Report{}, err
	}
	e.calm, e.pasts = calm.result(), calm.pasts
	e.report.Calls, e.report.Complete = calm.calls, true
	for _, phase := range []struct {
		name string
		try  func(e *explorer, try func(Schedule) bool)
	}{
		{Calm, (*explorer).tryCalm},
		{Answers, (*explorer).tryAnswers},
		{LateCalls, (*explorer).tryLateCalls},
		{StaleReads, (*explorer).tryStaleReads},
		{Crashes, (*explorer).tryCrashes},
		{OtherOrders, (*explorer).tryOrders},
		{PairsOfCrashes, (*explorer).tryPairs},
	} {
		if !e.wants(phase.name) {
			continue
		}
		before := e.report.Schedules
		phase.try(e, e.some(phase.name))
		e.report.Phases = append(e.report.Phases, Phase{phase.name, e.report.Schedules - before})
		if e.done() {
			return e.end(), nil
		}
	}
	if e.wants(Swarms) {
		e.swarm()
	}
	return e.end(), nil
}

// The phases of a search, in their order.
const (
	Calm           = "calm"
	Answers        = "answers"
	LateCalls      = "late and overtaken calls"
	StaleReads     = "stale reads"
	Crashes        = "crashes"
	OtherOrders    = "other orders"
	PairsOfCrashes = "pairs of crashes"
	Swarms         = "swarm"
)

func (e *explorer) wants(phase string) bool {
	return phase == Calm || len(e.options.Phases) == 0 || slices.Contains(e.options.Phases, phase)
}

// some tries one decision in so many. Pairs are counted by themselves.
func (e *explorer) some(phase string) func(Schedule) bool {
	if e.options.Every <= 1 || phase == Calm || phase == PairsOfCrashes {
		return e.try
	}
	count := 0
	return func(schedule Schedule) bool {
		count++
		return (count-1)%e.options.Every != e.options.Shard%e.options.Every || e.try(schedule)
	}
}

func (e *explorer) end() Report {
	e.report.Worlds, e.report.Elapsed = len(e.worlds), time.Since(e.begun)
	e.report.Digest, e.report.Histories = hex.EncodeToString(e.traces.Sum(nil)), hex.EncodeToString(e.wrote.Sum(nil))
	return e.report
}

// done says that there is a failure, or no time left.
func (e *explorer) done() bool {
	if e.options.Time > 0 && time.Since(e.begun) > e.options.Time {
		e.report.Complete = false
	}
	return e.report.Failure != nil || !e.report.Complete
}

// try runs one schedule, and reports whether to go on.
func (e *explorer) try(schedule Schedule) bool {
	if e.done() {
		return false
	}
	return e.judge(e.fromTrunk(schedule))
}

func (e *explorer) run(chooser chooser) bool {
	if e.done() {
		return false
	}
	return e.judge(newRun(&e.scenario, chooser, e.options.Turns))
}

// judge counts a run, and reports whether to go on.
func (e *explorer) judge(result Result, err error) bool {
	if err != nil { // The calm run had none, with the same scenario.
		result = Result{Violation: &Violation{Rule: "World", Detail: err.Error()}}
	}
	e.report.Schedules++
	e.worlds[result.World] = true
	if result.Joined {
		e.report.Joined++
	}
	_, _ = e.traces.Write([]byte(result.Hash)) // A hash takes everything.
	_, _ = e.wrote.Write([]byte(result.World))
	if result.Violation != nil {
		e.report.Failure = e.failure(result)
	}
	return result.Violation == nil
}

// tryCalm runs the calm schedule again: what is not the same twice cannot be searched.
func (e *explorer) tryCalm(func(Schedule) bool) {
	if e.judge(e.calm, nil) {
		again, err := Run(e.scenario, Schedule{}, e.options.Turns)
		if err != nil || again.Hash != e.calm.Hash {
			e.report.Failure = &Failure{Result: notSame(e.calm, again), After: e.report.Schedules}
		}
	}
}

// tryAnswers gives every answer to every call. A read is answered or not: it changes nothing, so a crash at it is a
// crash after the write before it, or between two passes.
func (e *explorer) tryAnswers(try func(Schedule) bool) {
	for call := 1; call <= e.calm.Calls; call++ {
		for _, verdict := range verdicts {
			if !e.calm.Verbs[call-1].Writes() && verdict != sim.Refused {
				continue
			}
			backs := []int{0}
			if verdict == sim.CrashBefore || verdict == sim.CrashAfter {
				backs = pasts
			}
			for _, back := range backs {
				decision := Decision{Call: call, Do: Answer, Verdict: verdict.String(), Back: back}
				if !try(Schedule{Decisions: []Decision{decision}}) {
					return
				}
			}
		}
	}
}

// pasts are how far behind a cache begins: not at all, a little, and at the very beginning.
var pasts = []int{0, 3, 1 << 20}

func (e *explorer) tryLateCalls(try func(Schedule) bool) {
	for call := 1; call <= e.calm.Calls; call++ {
		for _, decision := range []Decision{
			{Call: call, Do: Delay, For: 2}, {Call: call, Do: Delay, For: 20},
			{Call: call, Do: Overtake, For: 1}, {Call: call, Do: Overtake, For: 5}, {Call: call, Do: Overtake, For: 5, Back: 3},
		} {
			if !try(Schedule{Decisions: []Decision{decision}}) {
				return
			}
		}
	}
}

func (e *explorer) tryStaleReads(try func(Schedule) bool) {
	for turn := 1; turn <= e.calm.Turns; turn++ {
		for _, program := range e.scenario.Programs {
			for _, kind := range e.calm.Kinds[program.Name] {
				for _, long := range []int{6, 20} {
					decision := Decision{Turn: turn, Do: Hold, Program: program.Name, Kind: kind, For: long}
					if !try(Schedule{Decisions: []Decision{decision}}) {
						return
					}
				}
			}
		}
	}
}

func (e *explorer) tryCrashes(try func(Schedule) bool) {
	for turn := 1; turn <= e.calm.Turns; turn++ {
		for _, program := range e.scenario.Programs {
			for _, back := range pasts {
				if !try(Schedule{Decisions: []Decision{{Turn: turn, Do: Crash, Program: program.Name, Back: back}}}) {
					return
				}
			}
		}
	}
}

// tryOrders makes each move out of turn at each turn: the user who does not wait, the actor who is faster.
func (e *explorer) tryOrders(try func(Schedule) bool) {
	for turn := 1; turn <= e.calm.Turns; turn++ {
		for _, what := range e.scenario.moves() {
			if !try(Schedule{Decisions: []Decision{{Turn: turn, Do: Move, What: what}}}) {
				return
			}
		}
	}
}

func (s *Scenario) moves() []string {
	var moves []string
	if len(s.Script) > 0 {
		moves = append(moves, "script")
	}
	for _, actor := range s.Actors {
		moves = append(moves, "actor "+actor.Name)
	}
	return moves
}

// tryPairs crashes at two calls. When there are too many pairs, every so manyth is tried.
func (e *explorer) tryPairs(try func(Schedule) bool) {
	calls := e.calm.Calls
	all := calls * (calls + 1) / 2 // The second call may be one that the calm run does not have.
	if e.options.Pairs < 0 || all == 0 {
		return
	}
	stride := max(1, (all+e.options.Pairs-1)/max(e.options.Pairs, 1))
	count := 0
	for first := 1; first <= calls; first++ {
		for second := first + 1; second <= calls+1; second++ {
			if count++; count%stride != 0 {
				continue
			}
			kinds := [2]sim.Verdict{sim.CrashAfter, sim.CrashBefore}
			if !try(Schedule{Decisions: []Decision{
				{Call: first, Do: Answer, Verdict: kinds[count/stride%2].String()},
				{Call: second, Do: Answer, Verdict: kinds[count/stride/2%2].String()},
			}}) {
				return
			}
		}
	}
}
