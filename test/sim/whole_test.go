package sim_test

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/scenarios"
	"meridian.dev/meridian/test/sim/swarms"
)

var wholeFlag = flag.Int("whole", 10, "of a whole database, run so many times fewer swarms and single faults")

// TestWholeSwarm is TestSwarm with the loop of production that runs the servers.
func TestWholeSwarm(t *testing.T) { swarmsOf(t, *seedsFlag / *wholeFlag, swarms.WholeSwarm) }

// The next primary is lost a moment after its promotion, when a replica has learned of its timeline and has no record
// of it: that replica streams from the primary after that all the same.
func TestAStrayedReplicaStreams(t *testing.T) {
	strayed := 0
	for seed, at := range map[uint64]time.Duration{
		1: 580 * time.Millisecond, 3: 480 * time.Millisecond, 5: 540 * time.Millisecond, 12: 600 * time.Millisecond,
	} {
		c := sim.Case{
			Name: "strayed", Seed: seed, Instances: 3, Nodes: 3, Whole: true, Last: sim.Began + time.Second,
			Budget: 150 * time.Second, Loud: true, Faults: []sim.Fault{
				{Kind: sim.FaultSwitchover, At: sim.Began},
				{Kind: sim.FaultPowerOff, At: sim.Began + at, Node: sim.Holder, For: 30 * time.Second},
			},
		}
		out := sim.Run(c, true)
		if len(out.Problems) > 0 {
			report(t, c, out)
			return
		}
		if out.Gap > 20*time.Second {
			t.Errorf("seed %d: %s without writes", seed, out.Gap)
		}
		if strings.Contains(strings.Join(out.Story, "\n"), "StopServer  (it waits for timeline") {
			strayed++
		}
	}
	if strayed == 0 {
		t.Error("no replica has strayed")
	}
}

// The next primary is lost when a replica has heard of its timeline and has no WAL up to where that begins. That
// replica leads next, as soon as it has started without that timeline. TestBites shows what comes of it otherwise.
func TestNoReplicaLeadsAstray(t *testing.T) {
	flaws := sim.Flaws()
	flaw := flaws[slices.IndexFunc(flaws, func(f sim.Flaw) bool { return f.Pod.Astray })]
	waited := 0
	for _, seed := range []uint64{11, 16, 25, 26} {
		c := swarms.Hunt(flaw, seed)
		c.Bug, c.Loud = "", true
		out := sim.Run(c, true)
		if len(out.Problems) > 0 {
			report(t, c, out)
			return
		}
		if strings.Contains(strings.Join(out.Story, "\n"), "whose primary is lost, and starts again without") {
			waited++
		}
	}
	if waited == 0 {
		t.Error("no replica that was to lead has waited for a lost timeline")
	}
}

// TestWholeSameSeedSameTrace is about the jobs of that loop: they wait in virtual time.
func TestWholeSameSeedSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		c := swarms.WholeSwarm(seed)
		if one, other := sim.Run(c, false), sim.Run(c, true); one.Hash != other.Hash {
			t.Fatalf("seed %d: two traces", seed)
		}
	}
}

// TestWholeSingleFaults is TestSingleFaults with that loop. Its own acts are places as well.
func TestWholeSingleFaults(t *testing.T) {
	singles(t, sim.Singles, *everyFlag**wholeFlag, 1, whole())
}

// TestWholeCallFaults is TestCallFaults with that loop, of two scenarios; of all with -whole 1.
func TestWholeCallFaults(t *testing.T) {
	all := whole()
	if *wholeFlag > 1 {
		all = slices.DeleteFunc(all, func(s sim.Scenario) bool {
			return s.Name != "holder powered off" && s.Name != "API server away, holder crashes"
		})
	}
	singles(t, sim.CallSingles, *callsFlag**wholeFlag, 1, all)
}

// whole are the scenarios of databases, with the loop of production that runs the servers.
func whole() []sim.Scenario {
	var all []sim.Scenario
	for _, s := range scenarios.All() {
		putBack := slices.ContainsFunc(s.Faults, func(f sim.Fault) bool { return f.Kind == sim.FaultPutBack })
		if s.Whole = true; !s.Volatile && !putBack {
			all = append(all, s)
		}
	}
	return append(all, scenarios.Servers()...)
}

// TestWholeScenarios runs the scenarios with the loop of production that runs the servers, on the model of PostgreSQL.
func TestWholeScenarios(t *testing.T) {
	for _, s := range whole() {
		t.Run(strings.ReplaceAll(s.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= max(1, *seedFlag); seed++ {
				if *seedFlag != 0 && seed != *seedFlag {
					continue
				}
				s.Seed = seed
				began := time.Now()
				out := sim.Run(s.Case, false)
				judge(t, s, out)
				t.Logf("seed %d: %s without writes, %d acknowledged, %s of %s, %d steps", seed, out.Gap, out.Acks,
					time.Since(began), out.Took, out.Steps)
			}
		})
	}
}
