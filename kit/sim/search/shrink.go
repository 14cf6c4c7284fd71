package search

import "slices"

// failure makes sure that a failing run can be run again, and shrinks it.
func (e *explorer) failure(found Result) *Failure {
	failed := &Failure{Result: found, Found: found.Schedule, After: e.report.Schedules}
	again, err := Run(e.scenario, found.Schedule, e.options.Turns)
	if err != nil || again.Hash != found.Hash {
		failed.Result = notSame(found, again)
		return failed
	}
	if !e.options.NoShrink {
		failed.Result = Shrink(e.scenario, found, e.options.Turns)
	}
	return failed
}

// notSame says that two runs of one schedule differ, and where.
func notSame(first, second Result) Result {
	where := "at the end"
	for i, line := range first.Trace {
		if i >= len(second.Trace) || second.Trace[i].Text != line.Text {
			where = "at: " + line.Text
			break
		}
	}
	first.Violation = &Violation{
		Rule: "Same", Detail: "two runs of the same schedule differ, " + where +
			"; code under test must take time, chance and the order of maps from the outside",
	}
	return first
}

// Shrink makes a failing schedule as small as it can: fewer decisions, each of them less. The rule that is broken stays
// the same.
func Shrink(scenario Scenario, failed Result, turns int) Result {
	smallest := failed
	try := func(schedule Schedule) bool {
		result, err := Run(scenario, schedule, turns)
		if err != nil || result.Violation == nil || result.Violation.Rule != failed.Violation.Rule {
			return false
		}
		smallest = result
		return true
	}
	try(Schedule{Decisions: failed.Schedule.Decisions})
	for shrunk := true; shrunk; {
		shrunk = removeSome(smallest.Schedule, try) || leaveAlone(smallest.Schedule, try) ||
			removeAndShift(smallest.Schedule, try) || lessen(smallest.Schedule, try)
	}
	return smallest
}

// near is how far a decision is moved: those that are left out have moved everything after them.
const near = 30

// leaveAlone tries each decision alone, at its turn or call and at those around it.
func leaveAlone(schedule Schedule, try func(Schedule) bool) bool {
	if len(schedule.Decisions) < 2 {
		return false
	}
	for distance := 0; distance <= near; distance++ {
		for _, decision := range schedule.Decisions {
			for _, by := range []int{-distance, distance} {
				if moved, ok := decision.moved(by); ok && try(Schedule{[]Decision{moved}, schedule.Until}) {
					return true
				}
			}
		}
	}
	return false
}

// removeAndShift leaves one decision out and moves those after it.
func removeAndShift(schedule Schedule, try func(Schedule) bool) bool {
	for i := range schedule.Decisions {
		for by := -near / 3; by <= near/3; by++ {
			rest := slices.Clone(schedule.Decisions[:i])
			for _, decision := range schedule.Decisions[i+1:] {
				if moved, ok := decision.moved(by); ok {
					rest = append(rest, moved)
				}
			}
			if try(Schedule{rest, schedule.Until}) {
				return true
			}
		}
	}
	return false
}

// moved is the decision some turns or calls later, or earlier, if there is such a time.
func (d Decision) moved(by int) (Decision, bool) {
	if d.Call > 0 {
		d.Call += by
		return d, d.Call > 0
	}
	d.Turn += by
	return d, d.Turn > 0
}

// removeSome leaves decisions out, first half of them at a time, then fewer.
func removeSome(schedule Schedule, try func(Schedule) bool) bool {
	for size := (len(schedule.Decisions) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(schedule.Decisions); from++ {
			rest := slices.Delete(slices.Clone(schedule.Decisions), from, from+size)
			if try(Schedule{rest, schedule.Until}) {
				return true
			}
		}
	}
	return false
}

// lessen makes one decision smaller.
func lessen(schedule Schedule, try func(Schedule) bool) bool {
	for i, decision := range schedule.Decisions {
		for _, less := range smaller(decision) {
			changed := slices.Clone(schedule.Decisions)
			changed[i] = less
			if try(Schedule{changed, schedule.Until}) {
				return true
			}
		}
	}
	return false
}

func smaller(decision Decision) []Decision {
	var list []Decision
	for _, back := range []int{0, decision.Back / 2, decision.Back - 1} {
		if back >= 0 && back < decision.Back {
			less := decision
			less.Back = back
			list = append(list, less)
		}
	}
	for _, long := range []int{1, decision.For / 2, decision.For - 1} {
		if long > 0 && long < decision.For {
			less := decision
			less.For = long
			list = append(list, less)
		}
	}
	return list
}
