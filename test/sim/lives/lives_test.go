package lives_test

import (
	"flag"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/lives"
)

var (
	everyFlag  = flag.Int("every", 74, "single faults: run only every nth schedule; 1 for all")
	shardFlag  = flag.Int("shard", 1, "single faults: with which schedule to begin, below -every")
	seedsFlag  = flag.Int("seeds", 1, "how many swarms in each life")
	fromFlag   = flag.Uint64("from", 1, "the first seed")
	timeFlag   = flag.Duration("time", 0, "swarms for so long in all, instead of a number of them")
	widerFlag  = flag.Bool("wider", false, "stale reads, late and overtaken calls, other orders and pairs of crashes too")
	sharedFlag = flag.Int("shared", 27, "shared beginnings: try only every nth life; 1 for all")
	pairsFlag  = flag.Int("pairs", 100, "with -wider: how many pairs of crashes in each life")
)

// turns is more than any life takes.
const turns = 1500

func each(t *testing.T, do func(*testing.T, lives.Life, search.Scenario)) {
	t.Helper()
	for _, life := range lives.Lives() {
		t.Run(strings.ReplaceAll(life.Name, " ", "_"), func(t *testing.T) {
			scenario, err := life.Scenario(lives.Flaw{})
			if err != nil {
				t.Fatal(err)
			}
			do(t, life, scenario)
		})
	}
}

// TestCalm lives every life without a fault, fast and slowly.
func TestCalm(t *testing.T) {
	each(t, func(t *testing.T, life lives.Life, _ search.Scenario) {
		t.Parallel()
		for _, life.Slow = range []bool{false, true} {
			scenario, err := life.Scenario(lives.Flaw{})
			if err != nil {
				t.Fatal(err)
			}
			result, err := search.Run(scenario, search.Schedule{}, turns)
			if err != nil {
				t.Fatal(err)
			}
			if result.Violation != nil {
				t.Fatalf("%s\n%s", result.Violation, result.Story())
			}
			t.Logf("%d turns, %d calls", result.Turns, result.Calls)
		}
	})
}

// TestSingleFaults gives every answer to every call of every life, each in a life of its own, and with -wider lets
// every cache stand still, every call come late and be overtaken, and every move be out of turn.
func TestSingleFaults(t *testing.T) {
	phases := []string{search.Answers}
	if *widerFlag {
		phases = nil
	}
	var ran, joined atomic.Int64
	t.Cleanup(func() { t.Logf("%d schedules, of which %d joined others", ran.Load(), joined.Load()) })
	each(t, func(t *testing.T, _ lives.Life, scenario search.Scenario) {
		t.Parallel()
		report := search.Test(t, scenario, search.Options{
			Turns: turns, Phases: phases, Every: *everyFlag, Shard: *shardFlag, Pairs: *pairsFlag, Swarm: -1,
		})
		ran.Add(int64(report.Schedules))
		joined.Add(int64(report.Joined))
	})
}

// TestShareTheirBeginning shows that schedules which begin as copies of a calm life have the very traces that they have
// when each is lived from its beginning, and that those which end where another one has been have the very history that
// they have when each is lived to its end.
func TestShareTheirBeginning(t *testing.T) {
	seen, joined, count := 0, 0, 0
	each(t, func(t *testing.T, _ lives.Life, scenario search.Scenario) {
		if count++; count%*sharedFlag != 0 {
			return
		}
		alone := scenario
		alone.Programs = slices.Clone(scenario.Programs)
		for i := range alone.Programs {
			alone.Programs[i].Fork = nil
		}
		options := search.Options{Turns: turns, Every: 397, Shard: 7 * count, Pairs: 1, Swarm: -1}
		together, err := search.Explore(scenario, options)
		if err != nil {
			t.Fatal(err)
		}
		options.Alone = true
		one, err := search.Explore(scenario, options)
		if err != nil || one.Schedules != together.Schedules || one.Histories != together.Histories {
			t.Errorf("%s, with joined ends; to the end: %s, %v", together, one, err)
		}
		other, err := search.Explore(alone, options)
		if err != nil || one.Schedules != other.Schedules || one.Digest != other.Digest {
			t.Errorf("%s, with the beginning shared; alone: %s, %v", one, other, err)
		}
		seen += one.Schedules
		joined += together.Joined
	})
	if seen < 30 || joined < 10 {
		t.Errorf("only %d schedules, of which %d joined others: this shows nothing", seen, joined)
	}
}

// TestShareTheirCrash is the same for schedules that crash where another one has crashed, which they do only where
// every answer to every call is given.
func TestShareTheirCrash(t *testing.T) {
	all := lives.Lives()
	at := slices.IndexFunc(all, func(life lives.Life) bool { return life.Name == "deleted and kept" })
	scenario, err := all[at].Scenario(lives.Flaw{})
	if err != nil {
		t.Fatal(err)
	}
	options := search.Options{Turns: turns, Phases: []string{search.Answers}, Swarm: -1}
	together, err := search.Explore(scenario, options)
	if err != nil {
		t.Fatal(err)
	}
	options.Alone = true
	one, err := search.Explore(scenario, options)
	if one.Fallen < 10 || together.Fallen <= one.Fallen {
		t.Errorf("%d have shared a crash, and %d that of another call: this shows nothing", one.Fallen, together.Fallen)
	}
	if err != nil || one.Schedules != together.Schedules || one.Histories != together.Histories {
		t.Errorf("%s, with crashes shared; to the end: %s, %v", together, one, err)
	}
	scenario.Programs = slices.Clone(scenario.Programs)
	scenario.Programs[0].Fork = nil
	other, err := search.Explore(scenario, options)
	if err != nil || one.Schedules != other.Schedules || one.Digest != other.Digest {
		t.Errorf("%s, with the beginning shared; alone: %s, %v", one, other, err)
	}
}

// TestSwarm lives every life slowly with many faults at random.
func TestSwarm(t *testing.T) {
	began := time.Now()
	var schedules, histories, violations atomic.Int64
	t.Cleanup(func() {
		took := time.Since(began)
		t.Logf("in all %d schedules, %d distinct histories, %d violations, %s: %.1f schedules per second", schedules.Load(),
			histories.Load(), violations.Load(), took.Round(time.Second), float64(schedules.Load())/took.Seconds())
	})
	each(t, func(t *testing.T, life lives.Life, _ search.Scenario) {
		if life.Timed {
			t.Skip("the hours of its script may pass while a call stands still")
		}
		t.Parallel()
		life.Slow = true
		scenario, err := life.Scenario(lives.Flaw{})
		if err != nil {
			t.Fatal(err)
		}
		options := search.Options{
			Turns: turns, Phases: []string{search.Swarms}, Swarm: *seedsFlag, Seed: *fromFlag,
		}
		if *timeFlag > 0 {
			options.Swarm, options.Time = 1<<30, *timeFlag/time.Duration(len(lives.Lives()))
		}
		report := search.Test(t, scenario, options)
		schedules.Add(int64(report.Schedules))
		histories.Add(int64(report.Worlds))
		if report.Failure != nil {
			violations.Add(1)
		}
	})
}

// BenchmarkLife is one calm life after the other: schedules per second.
func BenchmarkLife(b *testing.B) {
	for _, life := range lives.Lives() {
		b.Run(strings.ReplaceAll(life.Name, " ", "_"), func(b *testing.B) {
			scenario, err := life.Scenario(lives.Flaw{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				result, err := search.Run(scenario, search.Schedule{}, turns)
				if err != nil || result.Violation != nil {
					b.Fatal(err, result.Violation)
				}
			}
		})
	}
}
