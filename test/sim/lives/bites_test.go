package lives_test

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"

	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/lives"
)

var biteFlag = flag.Bool("bite", false, "look for every mistake that was put in on purpose, and not only for a sample")

// sampled says that without -bite every so manyth mistake is looked for.
const sampled = 9

// TestBites shows that red is possible: every mistake that is made on purpose is found, and the same search finds
// nothing without it, as far as it went.
func TestBites(t *testing.T) {
	var lock sync.Mutex
	var needed []int
	t.Run("of", func(t *testing.T) {
		for index, flaw := range lives.Flaws() {
			if !*biteFlag && index%sampled != 0 {
				continue
			}
			t.Run(strings.ReplaceAll(flaw.Name, " ", "_"), func(t *testing.T) {
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
		t.Logf("%d of %d found, median after %d schedules, at most %d", len(needed), len(lives.Flaws()),
			needed[len(needed)/2], needed[len(needed)-1])
	}
}

// bite looks for one mistake, and says after how many schedules it was found, 0 if it was not.
func bite(t *testing.T, flaw lives.Flaw) (after int) {
	t.Helper()
	tried := 0
	for _, life := range lives.Lives() {
		if !slices.Contains(flaw.Lives, life.Name) {
			continue
		}
		report := hunt(t, life, flaw)
		if report.Failure == nil {
			tried += report.Schedules
			continue
		}
		after = tried + report.Failure.After
		t.Logf("found after %d schedules in %q: %.220s", after, life.Name, report.Failure.Violation.String())
		if again := control(t, life, flaw, report.Failure.Schedule); again != nil {
			t.Errorf("the loop without the mistake fails as well: %s", again)
		}
		return after
	}
	t.Errorf("not found in %d schedules", tried)
	return 0
}

func hunt(t *testing.T, life lives.Life, flaw lives.Flaw) search.Report {
	t.Helper()
	scenario, err := life.Scenario(flaw)
	if err != nil {
		t.Fatal(err)
	}
	phases := flaw.Phases
	if len(phases) == 0 {
		phases = []string{search.Answers}
	}
	report, err := search.Explore(scenario, search.Options{
		Turns: turns, Phases: phases, Pairs: -1, Swarm: -1, NoShrink: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// control runs what has found a mistake once more without it.
func control(t *testing.T, life lives.Life, flaw lives.Flaw, schedule search.Schedule) *search.Violation {
	t.Helper()
	scenario, err := life.Scenario(lives.Flaw{Blind: flaw.Blind})
	if err != nil {
		t.Fatal(err)
	}
	result, err := search.Run(scenario, schedule, turns)
	if err != nil {
		t.Fatal(err)
	}
	return result.Violation
}
