package search_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/sim/search"
)

// remembering is the fleet with a program that tells what it remembers.
func remembering(name string, start startFunc, memory func(reconcile.Reconciler) string) search.Scenario {
	scenario := fleet(name, start, strict)
	scenario.Programs[0].Memory = memory
	return scenario
}

// bothWays searches with runs that join others, and with runs that go to their end.
func bothWays(t *testing.T, scenario search.Scenario, options search.Options) (together, alone search.Report) {
	t.Helper()
	var err error
	if together, err = search.Explore(scenario, options); err != nil {
		t.Fatal(err)
	}
	options.Alone = true
	if alone, err = search.Explore(scenario, options); err != nil {
		t.Fatal(err)
	}
	return together, alone
}

// TestJoin shows that runs which end where another one has been make the very histories that they make alone.
func TestJoin(t *testing.T) {
	scenario := remembering("careful", startCareful, func(life reconcile.Reconciler) string {
		return life.(careful).tracker.Memory()
	})
	together, alone := bothWays(t, scenario, search.Options{Swarm: -1, Pairs: 60, Every: 2})
	if together.Schedules != alone.Schedules || together.Worlds != alone.Worlds ||
		together.Histories != alone.Histories || together.Failure != nil {
		t.Errorf("%s; alone: %s", together, alone)
	}
	if alone.Joined != 0 || together.Joined < together.Schedules/2 {
		t.Errorf("%d of %d schedules have joined others, and %d alone", together.Joined, together.Schedules, alone.Joined)
	}
}

// TestFall shows that runs which go on from where another one has crashed have the very traces that they have when each
// of them is run from its beginning.
func TestFall(t *testing.T) {
	scenario := fleet("careful", startCareful, strict)
	options := search.Options{Phases: []string{search.Answers}, Alone: true}
	alone, err := search.Explore(scenario, options)
	if err != nil {
		t.Fatal(err)
	}
	scenario.Programs[0].Fork = func(birth search.Birth, original reconcile.Reconciler) (reconcile.Reconciler, error) {
		made, err := startCareful(birth)
		twin := made.(careful)
		twin.tracker = original.(careful).tracker.Fork(birth.Process.Cache(), birth.Now)
		return twin, err
	}
	shared, err := search.Explore(scenario, options)
	if err != nil || shared.Schedules != alone.Schedules || shared.Digest != alone.Digest || shared.Failure != nil {
		t.Errorf("%s, with crashes shared; each from its beginning: %s, %v", shared, alone, err)
	}
	if alone.Fallen != 0 || shared.Fallen < 5 {
		t.Errorf("%d of %d schedules have shared a crash, and %d alone", shared.Fallen, shared.Schedules, alone.Fallen)
	}
}

// TestOldCache looks for a program that believes the cache that it begins with, with crashes at calls alone.
func TestOldCache(t *testing.T) {
	scenario := fleet("mutant", startMutant(mutant{trust: true, byName: true}), strict)
	report, err := search.Explore(scenario, search.Options{Phases: []string{search.Answers}})
	if err != nil {
		t.Fatal(err)
	}
	if report.Failure == nil {
		t.Fatalf("not found: %s", report)
	}
	if found := report.Failure.Schedule; len(found.Decisions) != 1 || found.Decisions[0].Back == 0 {
		t.Errorf("found without an old cache: %s", found)
	}
}

// TestJoinBites looks for mistakes with runs that join others: each is found at the same place as without.
func TestJoinBites(t *testing.T) {
	for name, mistake := range map[string]mutant{
		"own writes are forgotten":    {amnesia: true, byName: true},
		"the first cache is believed": {trust: true, byName: true},
	} {
		t.Run(name, func(t *testing.T) {
			scenario := remembering(name, startMutant(mistake), func(life reconcile.Reconciler) string {
				return life.(mutant).tracker.Memory()
			})
			together, alone := bothWays(t, scenario, search.Options{Swarm: -1, NoShrink: true})
			if together.Failure == nil || alone.Failure == nil || together.Failure.After != alone.Failure.After {
				t.Errorf("%s, %v; alone: %s, %v", together, together.Failure, alone, alone.Failure)
			}
		})
	}
}
