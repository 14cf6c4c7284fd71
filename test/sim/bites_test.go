package sim_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"meridian.dev/meridian/test/sim"
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
	var needed []int
	for _, flaw := range sim.Flaws() {
		t.Run(strings.ReplaceAll(string(flaw.Bug), " ", "_"), func(t *testing.T) {
			refused := 0
			for seed := 1; seed <= *biteFlag; seed++ {
				c := sim.Hunt(flaw, uint64(seed))
				out := sim.Run(c, false)
				if out.Refusals > 0 {
					refused++
				}
				if flaw.Gap > 0 && out.Gap > flaw.Gap {
					out.Problems = append(out.Problems, "writes were unavailable for "+out.Gap.String())
				}
				if len(out.Problems) > 0 && !strings.HasPrefix(out.Problems[0], "L") {
					needed = append(needed, seed)
					control := c
					control.Bug = ""
					if out := sim.Run(control, false); len(out.Problems) > 0 || flaw.Gap > 0 && out.Gap > flaw.Gap {
						t.Errorf("the loop without the flaw fails too, seed %d: %s %v", seed, out.Gap, out.Problems)
					}
					t.Logf("%s found after %d schedules (%d with plans that Check refuses): %.150s",
						flaw.Rule, seed, refused, out.Problems[0])
					if *loudFlag {
						report(t, c, out)
					}
					return
				}
			}
			t.Errorf("%s not found in %d schedules (%d with plans that Check refuses)", flaw.Rule, *biteFlag, refused)
		})
	}
	slices.Sort(needed)
	if len(needed) > 0 {
		t.Logf("%d of %d found, median after %d schedules", len(needed), len(sim.Flaws()), needed[len(needed)/2])
	}
}

// TestHuntsWithoutAFlaw runs the same searches on the loop as it is: what they find must come from the flaw.
func TestHuntsWithoutAFlaw(t *testing.T) {
	for _, flaw := range sim.Flaws() {
		for seed := *fromFlag; seed < *fromFlag+uint64(*huntsFlag); seed++ {
			c := sim.Hunt(flaw, seed)
			c.Bug = ""
			if out := sim.Run(c, false); len(out.Problems) > 0 {
				report(t, c, out)
				return
			}
		}
	}
}
