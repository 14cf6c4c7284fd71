package sim_test

import (
	"cmp"
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"

	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/swarms"
)

var (
	biteFlag  = flag.Int("bite", 0, "how many schedules to look for a flaw in, and each must be found; 0 for a sample")
	huntsFlag = flag.Int("hunts", 1, "how many schedules of each hunt to run without the flaw")
)

const (
	// sampleSchedules is in how many schedules a flaw is looked for without -bite, and fewestFound how many of all flaws
	// show so soon at least.
	sampleSchedules = 4
	fewestFound     = 12
)

// TestBites shows that red is possible: every rule that is broken on purpose is found out. Without -bite each is looked
// for so shortly that most are missed, and the simulator must not have become blind.
func TestBites(t *testing.T) {
	var lock sync.Mutex
	var needed []int
	schedules := cmp.Or(*biteFlag, sampleSchedules)
	t.Run("of", func(t *testing.T) {
		for _, flaw := range sim.Flaws() {
			t.Run(strings.ReplaceAll(string(flaw.Bug), " ", "_"), func(t *testing.T) {
				t.Parallel()
				if after := bite(t, flaw, schedules); after > 0 {
					lock.Lock()
					defer lock.Unlock()
					needed = append(needed, after)
				}
			})
		}
	})
	slices.Sort(needed)
	if *biteFlag == 0 && len(needed) < fewestFound {
		t.Errorf("only %d of %d were found in %d schedules each", len(needed), len(sim.Flaws()), schedules)
	}
	if len(needed) > 0 {
		t.Logf("%d of %d found, median after %d schedules, at most %d", len(needed), len(sim.Flaws()),
			needed[len(needed)/2], needed[len(needed)-1])
	}
}

// bite looks for one flaw, and says after how many schedules it was found, 0 if it was not.
func bite(t *testing.T, flaw sim.Flaw, schedules int) (after int) {
	t.Helper()
	refused := 0
	for seed := 1; seed <= schedules; seed++ {
		c := swarms.Hunt(flaw, uint64(seed))
		out := sim.Run(c, false)
		if out.Refusals > 0 {
			refused++
		}
		if flaw.Gap > 0 && out.Gap > flaw.Gap {
			out.Problems = append(out.Problems, "writes were unavailable for "+out.Gap.String())
		}
		if flaw.Discards && out.Discards > 0 {
			out.Problems = append(out.Problems, "a copy was given up")
		}
		if len(out.Problems) == 0 || strings.HasPrefix(out.Problems[0], "L") {
			continue
		}
		control := c
		control.Bug = ""
		sound := sim.Run(control, false)
		if flaw.Discards && sound.Discards > 0 {
			continue // It is given up without the flaw, too.
		}
		if len(sound.Problems) == 0 && flaw.Gap > 0 && sound.Gap > flaw.Gap {
			continue // So long a gap says nothing of the flaw here.
		}
		if out := sound; len(out.Problems) > 0 {
			t.Errorf("the loop without the flaw fails too, seed %d: %s %v", seed, out.Gap, out.Problems)
		}
		t.Logf("%s found after %d schedules (%d with plans that Check refuses): %.150s", flaw.Rule, seed, refused,
			out.Problems[0])
		if *loudFlag {
			report(t, c, out)
		}
		return seed
	}
	if *biteFlag > 0 {
		t.Errorf("%s not found in %d schedules (%d with plans that Check refuses)", flaw.Rule, schedules, refused)
	}
	return 0
}

// TestHuntsWithoutAFlaw runs the same searches on the loop as it is: what they find must come from the flaw.
func TestHuntsWithoutAFlaw(t *testing.T) {
	for _, flaw := range sim.Flaws() {
		for seed := *fromFlag; seed < *fromFlag+uint64(*huntsFlag); seed++ {
			c := swarms.Hunt(flaw, seed)
			c.Bug = ""
			if out := sim.Run(c, false); len(out.Problems) > 0 {
				report(t, c, out)
				return
			}
		}
	}
}
