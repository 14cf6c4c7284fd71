package search

import (
	"math/rand/v2"

	"meridian.dev/meridian/kit/sim"
)

// swarm tries random schedules, one seed after the other.
func (e *explorer) swarm() {
	before := e.report.Schedules
	for i := range max(e.options.Swarm, 0) {
		if !e.run(newSwarm(&e.scenario, e.options.Seed+uint64(i))) {
			break
		}
	}
	e.report.Phases = append(e.report.Phases, Phase{Swarms, e.report.Schedules - before})
}

// random decides by a seed. Each seed has a temper of its own: which deeds there are at all, and how often. Runs in
// which everything happens all the time look alike; these do not.
type random struct {
	source   *rand.Rand
	scenario *Scenario
	// chances are one in so many, 0 for never.
	chances map[Deed]int
	horizon int // the last turn at which something is decided
	left    int // decisions
}

func newSwarm(scenario *Scenario, seed uint64) *random {
	made := &random{
		source: rand.New(rand.NewPCG(seed, 0x5eed)), scenario: scenario, chances: map[Deed]int{}, //nolint:gosec // for tests
	}
	for _, deed := range []Deed{Answer, Delay, Overtake, Hold, Crash, Move} {
		if made.source.IntN(2) == 0 {
			made.chances[deed] = []int{3, 10, 40}[made.source.IntN(3)]
		}
	}
	made.horizon = []int{30, 100, 300}[made.source.IntN(3)]
	made.left = 1 + made.source.IntN(20)
	return made
}

// Random runs one random schedule: the same seed gives the same trace.
func Random(scenario Scenario, seed uint64, turns int) (Result, error) {
	return newRun(&scenario, newSwarm(&scenario, seed), turns)
}

func (s *random) happens(deed Deed) bool {
	chance := s.chances[deed]
	if chance == 0 || s.left == 0 || s.source.IntN(chance) > 0 {
		return false
	}
	s.left--
	return true
}

func (s *random) over(r *run) bool { return r.turn > s.horizon }

func (s *random) until() int { return s.horizon }

func (s *random) spent(r *run) bool { return s.over(r) }

func (s *random) atTurn(r *run) []Decision {
	if s.over(r) {
		return nil
	}
	var decided []Decision
	program := s.scenario.Programs[s.source.IntN(len(s.scenario.Programs))]
	if sources := r.seat(program.Name).current.sources(); len(sources) > 0 && s.happens(Hold) {
		kind := sources[s.source.IntN(len(sources))].Kind.Kind
		decided = append(decided, Decision{
			Turn: r.turn, Do: Hold, Program: program.Name, Kind: kind, For: 1 + s.source.IntN(40),
		})
	}
	switch moves := s.scenario.moves(); {
	case s.happens(Crash):
		decided = append(decided, Decision{Turn: r.turn, Do: Crash, Program: program.Name, Back: s.past()})
	case len(moves) > 0 && s.happens(Move):
		decided = append(decided, Decision{Turn: r.turn, Do: Move, What: moves[s.source.IntN(len(moves))]})
	}
	return decided
}

func (s *random) atCall(r *run, _ sim.Call) (Decision, bool) {
	if s.over(r) {
		return Decision{}, false
	}
	switch {
	case s.happens(Answer):
		verdict := verdicts[s.source.IntN(len(verdicts))]
		return Decision{Call: r.calls, Do: Answer, Verdict: verdict.String(), Back: s.past()}, true
	case r.depth == 0 && s.happens(Delay):
		return Decision{Call: r.calls, Do: Delay, For: 1 + s.source.IntN(20)}, true
	case r.depth == 0 && s.happens(Overtake):
		return Decision{Call: r.calls, Do: Overtake, For: 1 + s.source.IntN(6), Back: s.past()}, true
	}
	return Decision{}, false
}

func (s *random) past() int { return []int{0, 0, 1, 4, 20}[s.source.IntN(5)] }
