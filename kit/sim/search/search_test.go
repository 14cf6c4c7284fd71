package search_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
)

// startFunc makes the reconciler of a new life.
type startFunc = func(search.Birth) (reconcile.Reconciler, error)

// TestSameSeedSameTrace runs random schedules twice, and once more from what they say they have decided.
func TestSameSeedSameTrace(t *testing.T) {
	scenario := fleet("careful", startCareful, strict)
	hashes := map[string]bool{}
	decisions := 0
	for seed := range uint64(25) {
		first := runSeed(t, scenario, seed)
		second := runSeed(t, scenario, seed)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("seed %d, -first +second:\n%s", seed, diff)
		}
		followed, err := search.Run(scenario, first.Schedule, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, followed); diff != "" {
			t.Fatalf("seed %d, -decided +followed:\n%s", seed, diff)
		}
		hashes[first.Hash] = true
		decisions += len(first.Schedule.Decisions)
	}
	if len(hashes) < 15 || decisions < 40 {
		t.Errorf("%d traces and %d decisions: the seeds do little", len(hashes), decisions)
	}
}

func runSeed(t *testing.T, scenario search.Scenario, seed uint64) search.Result {
	t.Helper()
	result, err := search.Random(scenario, seed, 0)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// mutant is the careful controller with one mistake.
type mutant struct {
	careful
	// amnesia forgets own writes, trust believes a cache from the first moment on, byName deletes whatever has the name.
	amnesia, trust, byName bool
}

func (m mutant) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := m.client.Get(ctx, request.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	owner := expect.OwnerOf(set)
	if m.trust {
		m.tracker.Confirm(owner)
	}
	if m.amnesia {
		m.tracker.Forget(owner.NamespacedName)
		m.tracker.Confirm(owner)
	}
	if m.byName {
		m.careful.client = loose{m.client}
	}
	return m.careful.Reconcile(ctx, request)
}

// loose deletes without preconditions.
type loose struct{ client.Client }

func (l loose) Delete(ctx context.Context, obj client.Object, _ ...client.DeleteOption) error {
	return l.Client.Delete(ctx, obj)
}

func startMutant(mistake mutant) startFunc {
	return func(birth search.Birth) (reconcile.Reconciler, error) {
		made, err := startCareful(birth)
		mistake.careful = made.(careful)
		return mistake, err
	}
}

// TestItBites seeds mistakes that people have made into the careful controller. Each has to be found.
func TestItBites(t *testing.T) {
	for name, start := range map[string]startFunc{
		"own writes are forgotten, and pods are deleted by name":    startMutant(mutant{amnesia: true, byName: true}),
		"the first cache is believed, and pods are deleted by name": startMutant(mutant{trust: true, byName: true}),
		"pods are deleted by name":                                  startMutant(mutant{byName: true}),
	} {
		t.Run(name, func(t *testing.T) {
			report, err := search.Explore(fleet("mutant", start, strict), search.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if report.Failure == nil {
				t.Fatalf("not found: %s", report)
			}
			t.Logf("found after %d schedules: %s: %s", report.Failure.After, report.Failure.Violation,
				report.Failure.Schedule)
			if len(report.Failure.Schedule.Decisions) > 2 {
				t.Errorf("it takes %d decisions", len(report.Failure.Schedule.Decisions))
			}
		})
	}
}

// TestShrink begins with many decisions, most of which have nothing to do with the accident.
func TestShrink(t *testing.T) {
	scenario := fleet("naive", startNaive, oneRestart)
	tried := 0
	for seed := uint64(0); seed < 300 && tried < 2; seed++ {
		found := runSeed(t, scenario, seed)
		if found.Violation == nil || len(found.Schedule.Decisions) < 5 {
			continue
		}
		tried++
		shrunk := search.Shrink(scenario, found, 0)
		if shrunk.Violation == nil || shrunk.Violation.Rule != found.Violation.Rule {
			t.Fatalf("seed %d: shrunk to a run that breaks %v, not %v", seed, shrunk.Violation, found.Violation)
		}
		if len(shrunk.Schedule.Decisions) > 2 {
			t.Errorf("seed %d: of %d decisions, %d are left:\n%s", seed, len(found.Schedule.Decisions),
				len(shrunk.Schedule.Decisions), shrunk.Schedule)
		}
	}
	if tried < 2 {
		t.Errorf("only %d random schedules failed with many decisions", tried)
	}
}

// small is a scenario with one Secret and a reconciler that is a function.
func small(reconciler reconcile.Func) search.Scenario {
	return search.Scenario{
		Name: "small", Scheme: scheme.Scheme,
		Programs: []search.Program{{
			Name:    "program",
			Start:   func(search.Birth) (reconcile.Reconciler, error) { return reconciler, nil },
			Watches: []search.Watch{search.Itself(secretKind)},
		}},
		Setup: func(ctx context.Context, cluster client.Client) error {
			return cluster.Create(ctx, secret("one"))
		},
	}
}

func secret(name string) *corev1.Secret {
	made := &corev1.Secret{}
	made.Namespace, made.Name = "a", name
	return made
}

// TestOwnRules: what is wrong with any controller is found without a rule of the scenario's.
func TestOwnRules(t *testing.T) {
	count := 0
	for name, test := range map[string]struct {
		reconciler func(process *client.Client) reconcile.Func
		rule       string
	}{
		"it panics": {rule: "Panic", reconciler: func(*client.Client) reconcile.Func {
			return func(context.Context, reconcile.Request) (reconcile.Result, error) { panic("on purpose") }
		}},
		"it fails for ever": {rule: "Rest", reconciler: func(*client.Client) reconcile.Func {
			return func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, errors.New("on purpose")
			}
		}},
		"it fails for good": {rule: "Rest", reconciler: func(*client.Client) reconcile.Func {
			return func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, reconcile.TerminalError(errors.New("on purpose"))
			}
		}},
		"it writes for ever": {rule: "Rest", reconciler: func(own *client.Client) reconcile.Func {
			return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
				found := &corev1.Secret{}
				if err := (*own).Get(ctx, request.NamespacedName, found); err != nil {
					return reconcile.Result{}, err
				}
				found.Data = map[string][]byte{"version": []byte(found.ResourceVersion)}
				return reconcile.Result{}, (*own).Update(ctx, found)
			}
		}},
		"it is not the same twice": {rule: "Same", reconciler: func(own *client.Client) reconcile.Func {
			return func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				count++
				return reconcile.Result{}, client.IgnoreAlreadyExists(
					(*own).Create(ctx, secret(fmt.Sprintf("n%d", min(count, 2)))))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var own client.Client
			scenario := small(test.reconciler(&own))
			inner := scenario.Programs[0].Start
			scenario.Programs[0].Start = func(birth search.Birth) (reconcile.Reconciler, error) {
				own = birth.Process.Client()
				return inner(birth)
			}
			report, err := search.Explore(scenario, search.Options{Turns: 200})
			if err != nil {
				t.Fatal(err)
			}
			if report.Failure == nil || report.Failure.Violation.Rule != test.rule {
				t.Errorf("found %+v, want the rule %s", report.Failure, test.rule)
			}
		})
	}
}

// TestRequeue has a reconciler that asks for another pass in the old way, and is done with the third.
func TestRequeue(t *testing.T) {
	var own client.Client
	passes := 0
	scenario := small(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		if passes++; passes < 3 {
			return reconcile.Result{Requeue: true}, nil //nolint:staticcheck // That is what is tested.
		}
		return reconcile.Result{}, client.IgnoreAlreadyExists(own.Create(ctx, secret("two")))
	})
	inner := scenario.Programs[0].Start
	scenario.Programs[0].Start = func(birth search.Birth) (reconcile.Reconciler, error) {
		own, passes = birth.Process.Client(), 0
		return inner(birth)
	}
	scenario.Finally = func(state search.State) error {
		return state.Get(context.Background(), client.ObjectKey{Namespace: "a", Name: "two"}, &corev1.Secret{})
	}
	result, err := search.Run(scenario, search.Schedule{}, 100)
	if err != nil || result.Violation != nil {
		t.Errorf("%v, %v", err, result.Violation)
	}
}

// TestHeldCacheLetsTimePass has a reconciler that waits for a minute, and a cache that stands still before that: what
// is asked for meanwhile does not count as the end.
func TestHeldCacheLetsTimePass(t *testing.T) {
	var birthday search.Birth
	begun := time.Time{}
	scenario := small(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		if left := time.Minute - birthday.Now().Sub(begun); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
		return reconcile.Result{}, client.IgnoreAlreadyExists(birthday.Process.Client().Create(ctx, secret("two")))
	})
	inner := scenario.Programs[0].Start
	scenario.Programs[0].Start = func(birth search.Birth) (reconcile.Reconciler, error) {
		birthday, begun = birth, birth.Now()
		return inner(birth)
	}
	scenario.Finally = func(state search.State) error {
		return state.Get(context.Background(), client.ObjectKey{Namespace: "a", Name: "two"}, &corev1.Secret{})
	}
	held := search.Schedule{Decisions: []search.Decision{
		{Turn: 2, Do: search.Hold, Program: "program", Kind: "Secret", For: 30},
	}}
	result, err := search.Run(scenario, held, 200)
	if err != nil || result.Violation != nil {
		t.Errorf("%v, %v\n%s", err, result.Violation, result.Story())
	}
}

// TestLeads has another process take over while a pass is under way: the first one hears of it when it asks.
func TestLeads(t *testing.T) {
	var heard []bool
	scenario := small(nil)
	scenario.Programs[0].Start = func(birth search.Birth) (reconcile.Reconciler, error) {
		return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			err := birth.Process.Live().Get(ctx, request.NamespacedName, &corev1.Secret{})
			heard = append(heard, apierrors.IsConflict(birth.Leads(ctx)))
			return reconcile.Result{}, err
		}), nil
	}
	overtaken := search.Schedule{Decisions: []search.Decision{{Call: 1, Do: search.Overtake, For: 1}}}
	result, err := search.Run(scenario, overtaken, 100)
	if err != nil || result.Violation != nil {
		t.Fatalf("%v, %v", err, result.Violation)
	}
	if len(heard) < 2 || heard[0] || !heard[1] {
		t.Errorf("the second leads, then the first does not: %v\n%s", heard, result.Story())
	}
}

// TestReplay lets a search fail in a process of its own, and runs the command that it prints.
func TestReplay(t *testing.T) {
	folder := t.TempDir()
	output, err := again(folder)
	if err == nil || !strings.Contains(output, "restarted twice") {
		t.Fatalf("the search has found nothing: %v\n%s", err, output)
	}
	file := filepath.Join(folder, "testdata", "failed", "TestInOwnProcess.json")
	if !strings.Contains(output, "-sim.replay="+file) {
		t.Errorf("no command to run it again:\n%s", output)
	}
	saved, err := search.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(saved.Schedule.Decisions) != 1 || saved.Hash == "" || saved.Violation == nil {
		t.Errorf("saved: %+v", saved)
	}
	replayed, err := again(folder, "-sim.replay="+file)
	if err == nil || !strings.Contains(replayed, "restarted twice") || strings.Contains(replayed, "another one") ||
		!strings.Contains(replayed, "the next life begins with a cache that is 3 versions behind") {
		t.Errorf("replayed: %v\n%s", err, replayed)
	}
}

func again(folder string, args ...string) (string, error) {
	command := exec.Command(os.Args[0], append([]string{"-test.run=^TestInOwnProcess$", "-test.v"}, args...)...)
	command.Dir, command.Env = folder, append(os.Environ(), "SEARCH_TEST_CHILD=yes")
	output, err := command.CombinedOutput()
	return string(output), err
}

func TestInOwnProcess(t *testing.T) {
	if os.Getenv("SEARCH_TEST_CHILD") == "" {
		t.Skip("it is started by TestReplay")
	}
	search.Test(t, fleet("naive", startNaive, oneRestart), search.Options{})
}

func BenchmarkRun(b *testing.B) {
	scenario := fleet("careful", startCareful, strict)
	for seed := uint64(0); b.Loop(); seed++ {
		if _, err := search.Random(scenario, seed, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSettle begins a story at the end of another one, and finds there what that has left, at a later time.
func TestSettle(t *testing.T) {
	before := fleet("before", startCareful, strict)
	settled, err := search.Settle(before)
	if err != nil {
		t.Fatal(err)
	}
	after := fleet("after", startCareful, nil)
	after.Setup, after.Script, after.From = nil, nil, settled
	for range 2 {
		result, err := search.Run(after, search.Schedule{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if result.Violation != nil || strings.Contains(result.Story(), "→") {
			t.Fatalf("%v: a world at rest is not at rest any more:\n%s", result.Violation, result.Story())
		}
	}
	before.Finally = func(search.State) error { return errors.New("it never is") }
	if _, err := search.Settle(before); err == nil {
		t.Error("a world that breaks a rule is a beginning")
	}
}

// TestCalls asks about every write before it is carried out, with what it is conditional on.
func TestCalls(t *testing.T) {
	scenario := fleet("careful", startCareful, strict)
	seen := map[sim.Verb]int{}
	scenario.Calls = func(state search.State, call sim.Call) error {
		seen[call.Verb]++
		if call.Verb == sim.Delete && (call.UID == "" || call.ResourceVersion == "") {
			return errors.New("it is conditional on nothing")
		}
		if call.Verb == sim.Delete {
			return state.Get(context.Background(), call.Key, &corev1.Pod{}) // It is there as yet.
		}
		return nil
	}
	result, err := search.Run(scenario, search.Schedule{}, 0)
	if err != nil || result.Violation != nil {
		t.Fatal(err, result.Violation)
	}
	if seen[sim.Create] != 1 || seen[sim.Delete] != 2 || seen[sim.Get] != 0 {
		t.Errorf("asked about %v", seen)
	}
	naive := fleet("naive", startNaive, nil)
	naive.Calls = scenario.Calls
	if result, err = search.Run(naive, search.Schedule{}, 0); err != nil || result.Violation == nil {
		t.Fatalf("%v: a blind delete is not found", err)
	}
	if result.Violation.Rule != "Calls" {
		t.Errorf("found by %s", result.Violation)
	}
}

// TestNewsAndSteps shows that a change that is no news leads to no pass, that a step lets time pass, and that it can
// start a program anew.
func TestNewsAndSteps(t *testing.T) {
	scenario := fleet("careful", startCareful, strict)
	scenario.Programs[0].Watches[1].News = func(_, _ *unstructured.Unstructured) bool { return false }
	begin := time.Time{}
	scenario.Script = []search.Step{
		{Name: "a pod is labelled", Do: func(ctx context.Context, cluster client.Client) error {
			begin = search.Now(ctx)
			pod := &corev1.Pod{}
			if err := cluster.Get(ctx, client.ObjectKey{Namespace: "sea", Name: "ship-0"}, pod); err != nil {
				return err
			}
			pod.Labels["another"] = "one"
			return cluster.Update(ctx, pod)
		}},
		{Name: "an hour passes", Wait: time.Hour, Restarts: []string{"careful"}},
		{Name: "what time is it", Do: func(ctx context.Context, _ client.Client) error {
			if passed := search.Now(ctx).Sub(begin); passed < time.Hour {
				return fmt.Errorf("only %s have passed", passed)
			}
			return nil
		}},
	}
	scenario.Finally = nil
	result, err := search.Run(scenario, search.Schedule{}, 0)
	if err != nil || result.Violation != nil {
		t.Fatal(err, result.Violation)
	}
	_, story, _ := strings.Cut(result.Story(), "a pod is labelled")
	labelled, later, _ := strings.Cut(story, "an hour passes")
	if strings.Contains(labelled, "looks at") || !strings.Contains(later, "careful'2 starts") {
		t.Errorf("the story is another one:\n%s", result.Story())
	}
}
