package observe_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/observe"
)

func TestFleet(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "gis", Name: name} }
	fleet := &observe.Fleet{Most: 2, Failures: 2}
	for _, name := range []string{"a", "b"} {
		if why := fleet.Begin(key(name)); why != "" {
			t.Fatalf("%s is held: %s", name, why)
		}
	}
	if why := fleet.Begin(key("c")); !strings.Contains(why, "at most 2") {
		t.Errorf("a third one begins: %q", why)
	}
	if why := fleet.Of(key("a")).Held; why != "" {
		t.Errorf("one that has begun is held: %s", why)
	}
	fleet.Note(key("a"), "")
	if why := fleet.Of(key("c")).Held; why != "" {
		t.Errorf("there is room, and it is held: %s", why)
	}
	fleet.Note(key("a"), database.RollStopped)
	if why := fleet.Of(key("c")).Held; why != "" {
		t.Errorf("held after one failure: %s", why)
	}
	fleet.Note(key("b"), database.RollStopped)
	if why := fleet.Of(key("c")).Held; !strings.Contains(why, "a, b") {
		t.Errorf("goes on after two failures: %q", why)
	}
	fleet.Forget(key("a"))
	if why := fleet.Begin(key("c")); why != "" {
		t.Errorf("held although one was mended: %s", why)
	}
	var none *observe.Fleet
	if why := none.Of(key("a")).Held; why != "" {
		t.Errorf("held without a fleet: %s", why)
	}
}

// TestWaitingRollsTakeTurns has five hundred databases wait: each looks the less often the more there are, up to a
// bound, so that all together look a few times a second.
func TestWaitingRollsTakeTurns(t *testing.T) {
	fleet := &observe.Fleet{Most: 1}
	key := func(number int) types.NamespacedName {
		return types.NamespacedName{Namespace: "gis", Name: strconv.Itoa(number)}
	}
	if why := fleet.Begin(key(0)); why != "" {
		t.Fatal(why)
	}
	for waiting, want := range map[int]time.Duration{1: 3 * time.Second, 60: time.Minute, 500: 2 * time.Minute} {
		for number := range waiting {
			fleet.Note(key(number+1), database.RollHeld)
		}
		if got := fleet.Of(key(1)).Recheck(); got != want {
			t.Errorf("of %d that wait, one looks again after %s, want %s", waiting, got, want)
		}
		for number := range waiting {
			fleet.Forget(key(number + 1))
		}
	}
}

// TestTenantsDoNotStopEachOther has a tenant make mistakes in five databases and keep ten others busy: the databases of
// another namespace go on, and learn no foreign name.
func TestTenantsDoNotStopEachOther(t *testing.T) {
	key := func(namespace string, number int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: namespace + "-" + strconv.Itoa(number)}
	}
	fleet := &observe.Fleet{Most: 10, Failures: 5}
	for number := range 5 {
		fleet.Note(key("rival", number), database.RollStopped)
	}
	if why := fleet.Begin(key("gis", 1)); why != "" {
		t.Errorf("mistakes of another tenant stop a change: %s", why)
	}
	fleet.Forget(key("gis", 1))
	for number := range 5 {
		fleet.Forget(key("rival", number))
	}
	for number := range 10 {
		if why := fleet.Begin(key("rival", number)); why != "" {
			t.Fatal(why)
		}
	}
	if why := fleet.Begin(key("gis", 1)); why != "" {
		t.Errorf("restarts of another tenant hold up the first change of a namespace: %s", why)
	}
	if why := fleet.Of(key("gis", 2)).Held; why == "" || strings.Contains(why, "rival") {
		t.Errorf("the second change of a namespace is held by the total, without foreign names: %q", why)
	}
}

// TestHarmOfANewVersionCountsEverywhere has restarts that put a new version of Meridian in force do harm: one namespace
// counts once, and changes that tenants ask for go on.
func TestHarmOfANewVersionCountsEverywhere(t *testing.T) {
	key := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	fleet := &observe.Fleet{Failures: 2}
	stop := func(one types.NamespacedName) {
		fleet.Restarts(one, true)
		fleet.Note(one, database.RollStopped)
	}
	stop(key("one", "a"))
	stop(key("one", "b"))
	fleet.Restarts(key("gis", "cities"), true)
	if why := fleet.Of(key("gis", "cities")).Held; why != "" {
		t.Errorf("one namespace stops all: %s", why)
	}
	stop(key("two", "c"))
	why := fleet.Of(key("gis", "cities")).Held
	if !strings.Contains(why, "in 2 other namespaces") || strings.Contains(why, "two") {
		t.Errorf("the mistake of a version reaches everybody, or names are told: %q", why)
	}
	fleet.Restarts(key("gis", "cities"), false)
	if why := fleet.Begin(key("gis", "cities")); why != "" {
		t.Errorf("a change that the tenant asks for is held: %s", why)
	}
}

// TestAPlanIsNoRestart has two passes see the same room: one gets it, and the other one is held afterwards, whatever it
// had planned.
func TestAPlanIsNoRestart(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "gis", Name: name} }
	fleet := &observe.Fleet{Most: 1, Failures: 1}
	if fleet.Of(key("a")).Held != "" || fleet.Of(key("b")).Held != "" {
		t.Fatal("there is no room for either")
	}
	first, second := fleet.Begin(key("a")), fleet.Begin(key("b"))
	fleet.Note(key("a"), database.RollRunning)
	fleet.Note(key("b"), database.RollRunning)
	if first != "" || second == "" {
		t.Errorf("both begin: %q, %q", first, second)
	}
	if fleet.Of(key("b")).Held == "" || fleet.Begin(key("b")) == "" {
		t.Error("a plan that was refused counts as a restart that has begun")
	}
	if why := fleet.Begin(key("a")); why != "" {
		t.Errorf("one that has begun does not go on: %s", why)
	}
	fleet.Note(key("a"), database.RollStopped)
	fleet.Note(key("b"), database.RollRunning)
	if fleet.Begin(key("b")) == "" {
		t.Error("it begins after harm was done to another one")
	}
	fleet.Note(key("a"), database.RollRunning)
	if fleet.Of(key("a")).Roll != database.RollRunning {
		t.Error("one that is mended is not under way")
	}
}

// remembered lists databases with a status that the process before has written.
type remembered struct {
	client.Reader
	databases []v1alpha1.GeoDatabase
	listed    int
}

func (r *remembered) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	r.listed++
	list.(*v1alpha1.GeoDatabaseList).Items = r.databases
	return nil
}

func (r *remembered) add(name, typ, reason string) {
	one := v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: "gis", Name: name}}
	one.Status.Conditions = []metav1.Condition{{Type: typ, Status: metav1.ConditionTrue, Reason: reason}}
	r.databases = append(r.databases, one)
}

// TestANewProcessRemembersTheFleet starts an operator anew while changes have done harm to some databases: the first
// database that it looks at is not one of them.
func TestANewProcessRemembersTheFleet(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "gis", Name: name} }
	before := &remembered{}
	before.add("a", v1alpha1.ConditionStalled, "RollStopped")
	before.add("b", v1alpha1.ConditionStalled, "TemplateRefused")
	before.add("c", v1alpha1.ConditionProgressing, "Rolling")
	before.add("d", v1alpha1.ConditionProgressing, "RollWaiting")
	before.add("e", v1alpha1.ConditionReady, "AsWished")
	for _, one := range []struct {
		most, failures int
		why            string
	}{{0, 1, ": a"}, {0, 2, ""}, {2, 0, "at most 2"}, {3, 0, ""}} {
		fleet := &observe.Fleet{Most: one.most, Failures: one.failures}
		for range 2 {
			if err := fleet.Recall(t.Context(), before, ""); err != nil {
				t.Fatal(err)
			}
		}
		if why := fleet.Begin(key("e")); (why == "") != (one.why == "") || !strings.Contains(why, one.why) {
			t.Errorf("at most %d at once, until %d have failed: held because %q", fleet.Most, fleet.Failures, why)
		}
	}
	if before.listed != 4 {
		t.Errorf("listed %d times for 4 processes", before.listed)
	}
	narrow, fleet := &observe.Fleet{Most: 1}, &observe.Fleet{Most: 2}
	for _, one := range []*observe.Fleet{narrow, fleet} {
		if err := one.Recall(t.Context(), before, ""); err != nil {
			t.Fatal(err)
		}
	}
	if narrow.Of(key("d")).Held == "" {
		t.Error("one that may only have waited is exempt")
	}
	fleet.Note(key("d"), database.RollHeld)
	if why := fleet.Begin(key("e")); why != "" {
		t.Errorf("what this process has seen itself does not count: %s", why)
	}
}

// TestARestartOfTheOperatorExemptsNobody has something else than the fleet hold up each database in the first pass of a
// new process: none of them has begun by its leave.
func TestARestartOfTheOperatorExemptsNobody(t *testing.T) {
	before, fleet := &remembered{}, &observe.Fleet{Most: 1, Failures: 1}
	names := strings.Fields("a b c d e f")
	for _, name := range names {
		before.add(name, v1alpha1.ConditionProgressing, "RollWaiting")
	}
	if err := fleet.Recall(t.Context(), before, ""); err != nil {
		t.Fatal(err)
	}
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "gis", Name: name} }
	for _, name := range names {
		fleet.Note(key(name), database.RollRunning)
	}
	for _, name := range names {
		if why := fleet.Begin(key(name)); why == "" {
			t.Errorf("%s begins while others may be under way", name)
		}
	}
	for _, name := range names {
		fleet.Note(key(name), database.RollHeld)
	}
	begun := 0
	for _, name := range names {
		if fleet.Begin(key(name)) == "" {
			begun++
		}
	}
	if begun != 1 {
		t.Errorf("%d begin at once, at most 1 may", begun)
	}
}

// TestARollBehindASwitchoverCounts starts an operator anew while the primary of a database that is being restarted
// moves: its status tells of that, and not of the roll that it is a part of.
func TestARollBehindASwitchoverCounts(t *testing.T) {
	before, fleet := &remembered{}, &observe.Fleet{Most: 1}
	before.add("a", v1alpha1.ConditionProgressing, "Switchover")
	if err := fleet.Recall(t.Context(), before, ""); err != nil {
		t.Fatal(err)
	}
	a, b := types.NamespacedName{Namespace: "gis", Name: "a"}, types.NamespacedName{Namespace: "gis", Name: "b"}
	if roll := fleet.Of(a).Roll; roll != "" {
		t.Errorf("what may not be a roll is told to be one: %s", roll)
	}
	if fleet.Begin(b) == "" {
		t.Error("another database begins before the first was looked at")
	}
	fleet.Note(a, database.RollRunning)
	if fleet.Begin(b) == "" {
		t.Error("another database begins while the first goes on")
	}
	fleet.Note(a, "")
	if why := fleet.Begin(b); why != "" {
		t.Errorf("the first has nothing to restart, and the other one waits: %s", why)
	}
}
