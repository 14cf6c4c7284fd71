package sim_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/scenarios"
	"meridian.dev/meridian/test/sim/swarms"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run one swarm by its seed and tell its story")
	onlyFlag  = flag.Bool("only-caches", false, "swarms of caches alone")
	seedsFlag = flag.Int("seeds", 300, "how many swarms")
	fromFlag  = flag.Uint64("from", 1, "the first seed")
	timeFlag  = flag.Duration("time", 0, "swarms for so long, instead of a number of them")
	loudFlag  = flag.Bool("loud", false, "tell of every action")
	faultFlag = flag.Int("fault", 0, "exhaustive: only the schedule with this number")
	everyFlag = flag.Int("every", 360, "exhaustive: run only every nth schedule; 1 for all")
	callsFlag = flag.Int("calls", 36, "exhaustive, calls of the API server alone: run only every nth schedule; 1 for all")
	cacheFlag = flag.Int("caches", 8, "exhaustive, all places: of a cache, run only every nth of those; 1 for all")
	shardFlag = flag.Int("shard", 0, "exhaustive: with which schedule to begin, below -every")
	mostFlag  = flag.Int("most", 1, "stop after so many failures")
)

// report tells of a failing case, shrunk, as a story.
func report(t *testing.T, c sim.Case, out sim.Outcome) {
	t.Helper()
	c = sim.Shrink(c)
	c.Loud = *loudFlag
	again := sim.Run(c, true)
	t.Errorf("%s, seed %d, %d instances, %s, wild %t: %s\nfaults:\n%s\nstory:\n%s", c.Name, c.Seed, c.Instances,
		c.Durability, c.WildClocks, strings.Join(out.Problems, "\n"), list(c.Faults), strings.Join(again.Story, "\n"))
}

func list(faults []sim.Fault) string {
	var text strings.Builder
	for _, fault := range faults {
		fmt.Fprintf(&text, "  %s\n", fault)
	}
	return text.String()
}

// C1: a wall clock that is put forward by less than half of a lease ends no healthy primary, in no mode; put forward by
// more than the lease it does, because a machine that stood still as long looks the same.
func TestTheWallClockIsPutForward(t *testing.T) {
	for _, s := range scenarios.All() {
		if !strings.HasPrefix(s.Name, "wall clock of the holder put forward") {
			continue
		}
		for _, s.Durability = range []tenure.Durability{"", tenure.Async} {
			for s.Seed = range uint64(10) {
				story := strings.Join(sim.Run(s.Case, true).Story, "\n")
				_, after, _ := strings.Cut(story, "FAULT wall-clock")
				want := strings.Contains(s.Name, "by more than the lease")
				if ended := strings.Contains(after, "the server is gone"); ended != want {
					t.Fatalf("%s, %q, seed %d: ended %t\n%s", s.Name, s.Durability, s.Seed, ended, story)
				}
			}
		}
	}
}

// judge ends the test with the story if a scenario broke a rule, or its own promise.
func judge(t *testing.T, s sim.Scenario, out sim.Outcome) {
	t.Helper()
	if s.Gap > 0 && out.Gap > s.Gap {
		out.Problems = append(out.Problems, fmt.Sprintf("writes were unavailable for %s", out.Gap))
	}
	if s.HandsOver() && out.Transfers == 0 {
		out.Problems = append(out.Problems, "nothing was handed over")
	}
	if out.Astray {
		out.Problems = append(out.Problems, "the scenario ends where nothing is promised")
	}
	if len(out.Problems) > 0 {
		c := s.Case
		c.Loud = *loudFlag
		t.Fatalf("seed %d: %s\nstory:\n%s", c.Seed, strings.Join(out.Problems, "\n"),
			strings.Join(sim.Run(c, true).Story, "\n"))
	}
}

func TestScenarios(t *testing.T) {
	for _, s := range scenarios.All() {
		t.Run(strings.ReplaceAll(s.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			var worst time.Duration
			seeds := uint64(10)
			if s.Volatile {
				seeds = 3
			}
			for seed := uint64(1); seed <= max(seeds, *seedFlag); seed++ {
				if *seedFlag != 0 && seed != *seedFlag {
					continue
				}
				s.Seed = seed
				out := sim.Run(s.Case, false)
				worst = max(worst, out.Gap)
				judge(t, s, out)
			}
			t.Logf("longest gap between two acknowledged writes: %s", worst)
		})
	}
}

// TestForgottenWrites is about an agent that ends with a write of the lease under way, which is done long after the
// next life of that agent has read the lease without it, and leads by promises (E5).
func TestForgottenWrites(t *testing.T) {
	runs := 0
	for _, s := range scenarios.All() {
		s.Seed, s.Budget = 1, 150*time.Second
		for _, c := range sim.Singles(s) {
			if c.Faults[len(c.Faults)-1].Kind != sim.FaultForgotten {
				continue
			}
			runs++
			if out := sim.Run(c, false); len(out.Problems) > 0 {
				report(t, c, out)
				return
			}
		}
	}
	if runs < 100 {
		t.Errorf("only %d schedules: this shows nothing", runs)
	}
	t.Logf("%d schedules", runs)
}

// TestCallFaults gives every answer to every call of the API server that an agent makes, in every scenario, and lets
// the agent end before and after every write.
func TestCallFaults(t *testing.T) { singles(t, sim.CallSingles, *callsFlag, 1, scenarios.All()) }

// TestSingleFaults has a fault at each place: messages, stores and boundaries of acts too.
func TestSingleFaults(t *testing.T) { singles(t, sim.Singles, *everyFlag, *cacheFlag, scenarios.All()) }

// singles runs each scenario with one more fault, a schedule for each, or for one in so many; of caches one in so many
// of those. Schedules share nothing, so scenarios run beside each other.
func singles(t *testing.T, casesOf func(sim.Scenario) []sim.Case, every, ofCaches int, all []sim.Scenario) {
	t.Helper()
	began, ran, cases, astray := time.Now(), atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
	t.Run("of", func(t *testing.T) {
		for _, s := range all {
			t.Run(strings.ReplaceAll(s.Name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				every := every
				s.Seed, s.Budget = 1, 150*time.Second
				found := casesOf(s)
				cases.Add(int64(len(found)))
				if s.Volatile {
					every *= ofCaches
				}
				failures := 0
				for index, c := range found {
					if *faultFlag != 0 && index != *faultFlag || *faultFlag == 0 && index%every != *shardFlag%every {
						continue
					}
					ran.Add(1)
					out := sim.Run(c, false)
					if out.Astray {
						astray.Add(1)
					}
					if len(out.Problems) > 0 {
						t.Logf("schedule %d", index)
						report(t, c, out)
						if failures++; failures >= *mostFlag {
							return
						}
					}
				}
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d of %d schedules, %d ended where nothing is promised, %s: %.0f schedules per second", ran.Load(),
		cases.Load(), astray.Load(), took.Round(time.Millisecond), float64(ran.Load())/took.Seconds())
	if ran.Load() == 0 && *faultFlag == 0 {
		t.Error("nothing was run")
	}
	if every*ofCaches == 1 && *faultFlag == 0 && !t.Failed() && ran.Load() != cases.Load() {
		t.Error("some were left out")
	}
}

func TestSwarm(t *testing.T) {
	swarmsOf(t, *seedsFlag, func(seed uint64) sim.Case {
		if *onlyFlag && *seedFlag == 0 {
			seed = 6*seed - 1
		}
		return swarms.Swarm(seed)
	})
}

// swarms runs so many random cases, or as many as there is time for.
func swarmsOf(t *testing.T, seeds int, of func(seed uint64) sim.Case) {
	t.Helper()
	if *seedFlag != 0 {
		c := of(*seedFlag)
		if out := sim.Run(c, false); len(out.Problems) > 0 {
			report(t, c, out)
		} else {
			t.Logf("seed %d breaks nothing", *seedFlag)
		}
		return
	}
	began, failures, steps := time.Now(), 0, 0
	count, astray, traces := 0, 0, map[uint64]bool{}
	for ; *timeFlag == 0 && count < seeds || *timeFlag > 0 && time.Since(began) < *timeFlag; count++ {
		c := of(*fromFlag + uint64(count))
		out := sim.Run(c, false)
		steps += out.Steps
		traces[out.Hash] = true
		if out.Astray {
			astray++
		}
		if len(out.Problems) > 0 {
			if failures++; failures <= *mostFlag {
				report(t, c, out)
			} else {
				t.Logf("seed %d: %.200s", c.Seed, out.Problems[0])
			}
			if failures > 20**mostFlag {
				break
			}
		}
	}
	took := time.Since(began)
	t.Logf("%d schedules, %d distinct traces, %d violations, %d ended where nothing is promised, %d steps, %s: "+
		"%.0f schedules per second", count, len(traces), failures, astray, steps, took.Round(time.Millisecond),
		float64(count)/took.Seconds())
}

// TestVolumesPutBack is about claims that are made again from older snapshots (I1).
func TestVolumesPutBack(t *testing.T) {
	put := 0
	for seed := *fromFlag; seed < *fromFlag+uint64(*seedsFlag/3); seed++ {
		if *seedFlag != 0 && seed != *seedFlag {
			continue
		}
		c := swarms.PutBackSwarm(seed)
		out := sim.Run(c, false)
		put += out.PutBack
		if len(out.Problems) > 0 {
			report(t, c, out)
			return
		}
	}
	if put == 0 {
		t.Error("no volume was put back: this shows nothing")
	}
	t.Logf("%d volumes were put back", put)
}

func TestSameSeedSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		c := swarms.Swarm(seed)
		if one, other := sim.Run(c, false), sim.Run(c, true); one.Hash != other.Hash {
			t.Fatalf("seed %d: two traces", seed)
		}
	}
}

// BenchmarkFailover is how long one schedule takes in which the primary's machine is powered off.
func BenchmarkFailover(b *testing.B) {
	for _, s := range scenarios.All() {
		if s.Name != "holder powered off" {
			continue
		}
		for seed := range b.N {
			s.Seed = uint64(seed)
			if out := sim.Run(s.Case, false); len(out.Problems) > 0 {
				b.Fatal(out.Problems)
			}
		}
	}
}

// TestFlawsNameRules keeps the list of flaws beside the page of rules: what a flaw breaks can be looked up.
func TestFlawsNameRules(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, flaw := range sim.Flaws() {
		if flaw.Rule != "" && !strings.Contains(string(page), "| `"+flaw.Rule+"` |") {
			t.Errorf("%q breaks %s, which is not on the page of rules", flaw.Bug, flaw.Rule)
		}
	}
}
