package search

import (
	"fmt"
	"maps"
	"slices"

	"meridian.dev/meridian/kit/sim"
)

// fromTrunk runs a schedule. Up to its first decision it is the calm run, so it begins as a copy of that, made at the
// turn of the decision, if every program can be copied.
func (e *explorer) fromTrunk(schedule Schedule) (Result, error) {
	turn := e.firstTurn(schedule)
	if turn <= 1 || slices.ContainsFunc(e.scenario.Programs, func(each Program) bool { return each.Fork == nil }) {
		return e.alone(schedule)
	}
	if err := e.growTrunk(turn); err != nil {
		return Result{}, err
	}
	if single, ok := e.fallAt(schedule); ok {
		return e.fromFall(single)
	}
	return e.fromBranch(schedule)
}

// fromBranch runs a schedule from where the calm run is now.
func (e *explorer) fromBranch(schedule Schedule) (Result, error) {
	branch, err := e.trunk.fork(follow(schedule))
	if err != nil {
		return Result{}, err
	}
	branch.endings = e.endings
	branch.live()
	return branch.result(), nil
}

// growTrunk lets the calm run go on up to a turn.
func (e *explorer) growTrunk(turn int) error {
	if e.trunk == nil || e.trunk.turn > turn {
		fresh, err := begun(&e.scenario, follow(Schedule{}), e.options.Turns)
		if err != nil {
			return err
		}
		e.trunk = fresh
	}
	for e.trunk.turn < turn {
		if !e.trunk.goesOn() {
			return fmt.Errorf("the calm run has ended in turn %d, before %d", e.trunk.turn, turn)
		}
		e.trunk.turn++
	}
	return nil
}

// alone runs a schedule from its beginning.
func (e *explorer) alone(schedule Schedule) (Result, error) {
	r, err := lived(&e.scenario, follow(schedule), e.options.Turns, e.endings)
	if err != nil {
		return Result{}, err
	}
	return r.result(), nil
}

// firstTurn is the turn of the calm run in which a schedule first differs from it, 0 if that is before the first.
func (e *explorer) firstTurn(schedule Schedule) int {
	first := e.calm.Turns
	for _, decision := range schedule.Decisions {
		turn := decision.Turn
		if decision.Call > 0 {
			if decision.Call > len(e.calm.CallTurns) {
				continue // It is after all the others, if it ever is.
			}
			turn = e.calm.CallTurns[decision.Call-1]
		}
		first = min(first, turn)
	}
	return first
}

// fork returns a copy of a run between two turns, which goes its own way from here on.
func (r *run) fork(chooser chooser) (*run, error) {
	branch := *r
	branch.chooser = chooser
	branch.clock = &sim.Clock{}
	*branch.clock = *r.clock
	branch.server = r.server.Fork(branch.clock.Now)
	cluster, err := branch.server.Start(sim.Life{Name: "cluster"})
	if err != nil {
		return nil, err
	}
	branch.cluster = cluster.Live()
	branch.idle, branch.values = maps.Clone(r.idle), maps.Clone(r.values)
	// What is appended to one is not in the other.
	branch.verbs, branch.turns, branch.pasts = slices.Clip(r.verbs), slices.Clip(r.turns), slices.Clip(r.pasts)
	branch.events, branch.trace, branch.decisions = slices.Clip(r.events), slices.Clip(r.trace), slices.Clip(r.decisions)
	branch.seats = nil
	for _, taken := range r.seats {
		twin := &seat{program: taken.program, begun: taken.begun}
		branch.seats = append(branch.seats, twin)
		if err := branch.copyLife(twin, taken.current); err != nil {
			return nil, fmt.Errorf("fork %s: %w", taken.current.name, err)
		}
	}
	return &branch, nil
}

// copyLife gives the seat a copy of a process in another world.
func (r *run) copyLife(at *seat, original *life) error {
	twin := *original
	twin.seat = at
	twin.queue, twin.held = slices.Clone(original.queue), maps.Clone(original.held)
	twin.forGood = maps.Clone(original.forGood)
	twin.process = original.process.Fork(r.server, r.hook(&twin))
	at.current = &twin
	var err error
	twin.reconciler, err = at.program.Fork(r.birth(&twin), original.reconciler)
	return err
}
