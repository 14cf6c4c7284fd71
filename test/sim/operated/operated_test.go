package operated_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/operated"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "run one schedule by its seed and tell its story")
	seedsFlag  = flag.Int("seeds", 20, "how many swarms")
	fromFlag   = flag.Uint64("from", 1, "the first seed")
	timeFlag   = flag.Duration("time", 0, "swarms for so long, instead of a number of them")
	mostFlag   = flag.Int("most", 1, "tell the stories of so many failures")
	shrinkFlag = flag.Bool("shrink", true, "leave out of a failing schedule what it does not need to fail")
	loudFlag   = flag.Bool("loud", false, "tell of every action")
)

// TestMain collects garbage less often: runs are short, and make much of it.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// report tells of a failing case, shrunk, as a story.
func report(t *testing.T, c sim.Case) {
	t.Helper()
	if *shrinkFlag {
		c = sim.Shrink(c)
	}
	c.Loud = *loudFlag
	out := sim.Run(c, true)
	var faults strings.Builder
	for _, fault := range c.Faults {
		faults.WriteString("  " + fault.String() + "\n")
	}
	t.Errorf("%s, seed %d, %d instances, %s: %s\nfaults:\n%s\nstory:\n%s", c.Name, c.Seed, c.Instances, c.Durability,
		strings.Join(out.Problems, "\n"), faults.String(), strings.Join(out.Story, "\n"))
}

func TestScenarios(t *testing.T) {
	for _, s := range operated.Scenarios() {
		t.Run(strings.ReplaceAll(s.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s.Seed = max(*seedFlag, 1)
			began := time.Now()
			out := sim.Run(s.Case, s.Shows != "")
			if !strings.Contains(strings.Join(out.Story, "\n"), s.Shows) {
				out.Problems = append(out.Problems, "its story lacks "+s.Shows)
			}
			if s.Gap > 0 && out.Gap > s.Gap {
				out.Problems = append(out.Problems, "writes were unavailable for "+out.Gap.String())
			}
			if s.Moves >= 0 && out.Transfers != s.Moves {
				out.Problems = append(out.Problems, fmt.Sprintf("the primary was handed over %d times", out.Transfers))
			}
			if len(out.Problems) > 0 {
				s.Loud = *loudFlag
				t.Fatalf("%s\n%s", strings.Join(out.Problems, "\n"), strings.Join(sim.Run(s.Case, true).Story, "\n"))
			}
			t.Logf("%s without writes, %d acknowledged, %d hand-overs, %s of %s, %d steps", out.Gap, out.Acks, out.Transfers,
				time.Since(began), out.Took, out.Steps)
		})
	}
}

// TestSwarm is about users who do not wait, machines that fail, and an operator that is not well.
func TestSwarm(t *testing.T) { swarm(t, 1, operated.Swarm) }

// TestServerSwarm has troubles of servers beside that: disks and processes that hang, slow replay, long checkpoints,
// connections that say nothing.
func TestServerSwarm(t *testing.T) { swarm(t, 10, operated.ServerSwarm) }

// TestCacheSwarm is the same as the first with a cache.
func TestCacheSwarm(t *testing.T) { swarm(t, 2, operated.CacheSwarm) }

// swarm runs one of so many seeds, where no time is given.
func swarm(t *testing.T, one int, draw func(seed uint64) sim.Case) {
	t.Helper()
	if *seedFlag != 0 {
		c := draw(*seedFlag)
		if out := sim.Run(c, false); len(out.Problems) > 0 {
			report(t, c)
		} else {
			t.Logf("seed %d breaks nothing", *seedFlag)
		}
		return
	}
	began, count, failures := time.Now(), 0, 0
	traces := map[uint64]bool{}
	for ; *timeFlag == 0 && count < *seedsFlag/one || *timeFlag > 0 && time.Since(began) < *timeFlag; count++ {
		c := draw(*fromFlag + uint64(count))
		out := sim.Run(c, false)
		traces[out.Hash] = true
		if len(out.Problems) == 0 {
			continue
		}
		if failures++; failures > *mostFlag {
			t.Errorf("seed %d: %.300s", c.Seed, out.Problems[0])
			continue
		}
		report(t, c)
	}
	t.Logf("%d schedules, %d distinct traces, %d violations, %s", count, len(traces), failures,
		time.Since(began).Round(time.Millisecond))
}

// TestSameSeedSameTrace is what replaying and shrinking rest on.
func TestSameSeedSameTrace(t *testing.T) {
	cases := []sim.Case{operated.Swarm(1), operated.Swarm(2), operated.CacheSwarm(1), operated.CacheSwarm(2)}
	for _, c := range cases {
		seed := c.Seed
		one, other := sim.Run(c, true), sim.Run(c, true)
		for line := range one.Story {
			if line >= len(other.Story) || one.Story[line] != other.Story[line] {
				t.Fatalf("seed %d: two traces: %s", seed, strings.Join(one.Story[max(0, line-5):line+1], "\n"))
			}
		}
		if one.Hash != other.Hash {
			t.Fatalf("seed %d: two traces with one story", seed)
		}
	}
}

var biteFlag = flag.Int("bite", 6, "how many schedules to look for each flaw in")

// TestBites shows that red is possible: every mistake that was put in where operator and agents meet is found, and what
// finds it passes without it.
func TestBites(t *testing.T) {
	for _, flaw := range operated.Flaws() {
		t.Run(strings.ReplaceAll(flaw.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= uint64(*biteFlag); seed++ {
				c := operated.Hunt(flaw, seed)
				out := sim.Run(c, false)
				if len(out.Problems) == 0 || !strings.HasPrefix(out.Problems[0], flaw.Rule) {
					t.Logf("seed %d: %.200q", seed, out.Problems)
					continue
				}
				c.Around = operated.New(operated.Flaw{})
				if sound := sim.Run(c, false); len(sound.Problems) > 0 {
					report(t, c)
				}
				t.Logf("found after %d schedules: %.200s", seed, out.Problems[0])
				return
			}
			t.Errorf("%s is not broken in %d schedules", flaw.Rule, *biteFlag)
		})
	}
}

var callsFlag = flag.Int("calls", 800, "give answers to one call of the operator in so many")

// TestCallFaults gives every answer to calls of the operator while it scales, rolls and cleans up.
func TestCallFaults(t *testing.T) {
	tried := []string{"scale from three to five to two", "another image", "deleted"}
	for _, s := range operated.Scenarios() {
		if !slices.Contains(tried, strings.TrimPrefix(s.Name, "cache, ")) {
			continue
		}
		t.Run(strings.ReplaceAll(s.Name, " ", "_"), func(t *testing.T) {
			s.Seed = 1
			ran, calls := 0, sim.Run(s.Case, false).Met(operated.PointCall)
			first := int(*fromFlag) - 1 + min(*callsFlag, calls)*9/10 // Not in the beginning, which all have.
			for ordinal := first; ordinal < calls; ordinal += *callsFlag {
				for _, kind := range operated.Answers() {
					c := s.Case
					c.Faults = append(slices.Clone(c.Faults), sim.Fault{
						Kind: kind, Point: operated.PointCall, Node: operated.Nowhere, Ordinal: ordinal, For: 5 * time.Second,
					})
					if ran++; len(sim.Run(c, false).Problems) > 0 {
						report(t, c)
						return
					}
				}
			}
			t.Logf("%d schedules of %d calls", ran, calls)
			if ran == 0 {
				t.Error("nothing was run")
			}
		})
	}
}
