package search

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/kit/sim"
)

// A crash leaves nothing of a process but what it has written. So the lives that may come after it, each with a cache
// that begins elsewhere, share the run up to the crash; and a crash before a write is the one after the write before
// it, if nobody has written anything in between.

// fall is a crash in a pass of the calm run: the turn, all that was written before, and how far behind the next life
// begins.
type fall struct {
	turn int
	past state
	back int
}

// crash is a run that stands still at a crash, and the call at which that was.
type crash struct {
	call    int
	verdict string
	run     *run
}

// fallAt is the only decision of a schedule, if that is a crash at a call of the calm run.
func (e *explorer) fallAt(schedule Schedule) (Decision, bool) {
	if len(schedule.Decisions) != 1 || schedule.Until > 0 {
		return Decision{}, false
	}
	only := schedule.Decisions[0]
	verdict := only.verdict()
	return only, only.Do == Answer && only.Call > 0 && only.Call <= len(e.pasts) &&
		(verdict == sim.CrashBefore || verdict == sim.CrashAfter)
}

// fromFall runs a schedule that is one crash, from where another one has fallen if there is such a run.
func (e *explorer) fromFall(decision Decision) (Result, error) {
	if decision.verdict() == sim.CrashBefore && e.endings != nil {
		known := fall{e.calm.CallTurns[decision.Call-1], e.pasts[decision.Call-1], decision.Back}
		if world, found := e.falls[known]; found {
			e.report.Fallen++
			return Result{World: world, Hash: world, Joined: true, Schedule: Schedule{Decisions: []Decision{decision}}}, nil
		}
	}
	if e.crash == nil || e.crash.call != decision.Call || e.crash.verdict != decision.Verdict {
		fallen, err := e.trunk.fork(follow(Schedule{Decisions: []Decision{decision}}))
		if err != nil {
			return Result{}, err
		}
		fallen.falling = true
		if fallen.goesOn(); fallen.violation != nil {
			return e.fromBranch(Schedule{Decisions: []Decision{decision}}) // to be told to its end
		}
		if fallen.fallen == nil {
			return Result{}, fmt.Errorf("nothing has crashed at call %d", decision.Call)
		}
		e.crash = &crash{decision.Call, decision.Verdict, fallen}
	} else {
		e.report.Fallen++
	}
	next, err := e.crash.run.riseAgain(decision)
	if err != nil {
		return Result{}, err
	}
	known := fall{e.crash.run.turn, e.crash.run.past, decision.Back}
	next.endings = e.endings
	next.turn++
	next.live()
	result := next.result()
	if e.endings != nil && result.Violation == nil {
		e.falls[known] = result.World
	}
	return result, nil
}

// riseAgain returns a copy of a run that stands still at a crash, in which the next life has begun, as it would have
// with this decision.
func (r *run) riseAgain(decision Decision) (*run, error) {
	branch, err := r.fork(follow(Schedule{Decisions: []Decision{decision}}))
	if err != nil {
		return nil, err
	}
	at := slices.Index(r.seats, r.fallen)
	branch.falling, branch.fallen = false, nil
	branch.decisions = []Decision{decision}
	branch.trace = slices.Clone(r.trace)
	for i, line := range slices.Backward(branch.trace) {
		if line.Decided {
			branch.trace[i].Text = "  " + decision.String()
			break
		}
	}
	branch.begin(branch.seats[at], decision.Back)
	branch.observe()
	return branch, nil
}
