package search

import (
	"fmt"
	"strings"

	"meridian.dev/meridian/kit/sim"
)

// Deed is what a decision does.
type Deed string

const (
	// Answer gives a call another verdict than Done.
	Answer Deed = "answer"
	// Delay lets the others make For moves before a call is carried out.
	Delay Deed = "delay"
	// Overtake lets another process of the same program begin and make up to For passes before a call is carried out, as
	// when a leader freezes, loses its lease and thaws. The overtaken process ends with its pass.
	Overtake Deed = "overtake"
	// Hold lets the cache of a kind stand still for For turns, in each of which the program is asked for a pass.
	Hold Deed = "hold"
	// Crash ends a process between two passes.
	Crash Deed = "crash"
	// Move makes another move than the usual one.
	Move Deed = "move"
)

// Decision is one departure from the calm run. It is taken at a turn or at a call, which are counted from 1.
type Decision struct {
	Turn int  `json:"turn,omitempty"`
	Call int  `json:"call,omitempty"`
	Do   Deed `json:"do"`
	// Verdict is that of an Answer, in the words of package sim.
	Verdict string `json:"verdict,omitempty"`
	// Program is that of a Hold or a Crash, Kind the one that is held.
	Program string `json:"program,omitempty"`
	Kind    string `json:"kind,omitempty"`
	// What is the move: "script", "collect", "pass NAME" or "actor NAME".
	What string `json:"what,omitempty"`
	// For is how long, Back how many versions the cache of a process that starts anew begins in the past.
	For  int `json:"for,omitempty"`
	Back int `json:"back,omitempty"`
}

// String tells the decision to people.
func (d Decision) String() string {
	behind := ""
	if d.Back > 0 {
		behind = fmt.Sprintf(", and the next life begins with a cache that is %d versions behind", d.Back)
	}
	switch d.Do {
	case Answer:
		return fmt.Sprintf("the answer to this call is: %s%s", d.Verdict, behind)
	case Delay:
		return fmt.Sprintf("this call is delayed by up to %d moves of others", d.For)
	case Overtake:
		return fmt.Sprintf("before this call arrives, another process takes over and makes up to %d passes", d.For)
	case Hold:
		return fmt.Sprintf("the cache of %s in %s stands still for %d turns", d.Kind, d.Program, d.For)
	case Crash:
		return fmt.Sprintf("%s crashes%s", d.Program, behind)
	case Move:
		return "next is, out of turn: " + d.What
	default:
		return "unknown decision " + string(d.Do)
	}
}

// Schedule is what is decided in one run. Without decisions it is the calm one.
type Schedule struct {
	Decisions []Decision `json:"decisions"`
	// Until is the turn before which the run does not end, although nothing is left to do.
	Until int `json:"until,omitempty"`
}

func (s Schedule) String() string {
	lines := make([]string, 0, len(s.Decisions))
	for _, decision := range s.Decisions {
		at := fmt.Sprintf("turn %d", decision.Turn)
		if decision.Call > 0 {
			at = fmt.Sprintf("call %d", decision.Call)
		}
		lines = append(lines, at+": "+decision.String())
	}
	return strings.Join(lines, "\n")
}

// verdicts are those that a decision can name.
var verdicts = []sim.Verdict{sim.Refused, sim.Applied, sim.Conflicted, sim.CrashBefore, sim.CrashAfter}

func (d Decision) verdict() sim.Verdict {
	for _, verdict := range verdicts {
		if verdict.String() == d.Verdict {
			return verdict
		}
	}
	return sim.Done
}

// chooser decides. It is asked at every turn and at every call, in order.
type chooser interface {
	atTurn(*run) []Decision
	atCall(*run, sim.Call) (Decision, bool)
	// over says that there will be no more decisions about turns; until is the last turn for which there could be any.
	over(*run) bool
	until() int
	// spent says that there will be no more decisions at all.
	spent(*run) bool
}

// fixed decides what a schedule says.
type fixed struct {
	turns map[int][]Decision
	calls map[int]Decision
	last  int
	// lastCall is the last one with a decision.
	lastCall int
}

func follow(schedule Schedule) *fixed {
	made := &fixed{turns: map[int][]Decision{}, calls: map[int]Decision{}, last: schedule.Until}
	for _, decision := range schedule.Decisions {
		if decision.Call > 0 {
			made.calls[decision.Call] = decision
			made.lastCall = max(made.lastCall, decision.Call)
			continue
		}
		made.turns[decision.Turn] = append(made.turns[decision.Turn], decision)
		made.last = max(made.last, decision.Turn)
	}
	return made
}

func (f *fixed) atTurn(r *run) []Decision { return f.turns[r.turn] }

func (f *fixed) atCall(r *run, _ sim.Call) (Decision, bool) {
	decision, found := f.calls[r.calls]
	return decision, found
}

// over does not wait for calls: one that is never made is never answered.
func (f *fixed) over(r *run) bool { return r.turn > f.last }

func (f *fixed) until() int { return f.last }

func (f *fixed) spent(r *run) bool { return f.over(r) && r.calls >= f.lastCall }
