package sim_test

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"

	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/swarms"
)

var (
	biteFlag  = flag.Int("bite", 0, "how many schedules to look for a flaw in")
	huntsFlag = flag.Int("hunts", 1, "how many schedules of each hunt to run without the flaw")
)

// TestBites shows that red is possible: every rule that is broken on purpose is found out.
func TestBites(t *testing.T) {
	if *biteFlag == 0 {
		t.Skip("-bite says how many schedules to look for each flaw in")
	}
	var lock sync.Mutex
	var needed []int
	t.Run("of", func(t *testing.T) {
		for _, flaw := range sim.Flaws() {
			t.Run(strings.ReplaceAll(string(flaw.Bug), " ", "_"), func(t *testing.T) {
				t.Parallel()
				if after := bite(t, flaw); after > 0 {
					lock.Lock()
					defer lock.Unlock()
					needed = append(needed, after)
				}
			})
		}
	})
	slices.Sort(needed)
	if len(needed) > 0 {
		t.Logf("%d of %d found, median after %d schedules, at most %d", len(needed), len(sim.Flaws()),
			needed[len(needed)/2], needed[len(needed)-1])
	}
}

// bite looks for one flaw, and says after how many schedules it was found, 0 if it was not.
func bite(t *testing.T, flaw sim.Flaw) (after int) {
	t.Helper()
	refused := 0
	for seed := 1; seed <= *biteFlag; seed++ {
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
	t.Errorf("%s not found in %d schedules (%d with plans that Check refuses)", flaw.Rule, *biteFlag, refused)
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
