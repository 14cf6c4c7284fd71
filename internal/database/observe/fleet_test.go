package observe_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
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
	if why := fleet.Look(key("a"), true, false).Held; why != "" {
		t.Errorf("one that has begun is held: %s", why)
	}
	fleet.Look(key("a"), false, false)
	if why := fleet.Look(key("c"), false, false).Held; why != "" {
		t.Errorf("there is room, and it is held: %s", why)
	}
	fleet.Note(key("a"), database.RollStopped)
	if why := fleet.Look(key("c"), false, false).Held; why != "" {
		t.Errorf("held after one failure: %s", why)
	}
	fleet.Note(key("b"), database.RollStopped)
	if why := fleet.Look(key("c"), false, false).Held; !strings.Contains(why, "a, b") {
		t.Errorf("goes on after two failures: %q", why)
	}
	fleet.Forget(key("a"))
	if why := fleet.Begin(key("c")); why != "" {
		t.Errorf("held although one was mended: %s", why)
	}
	var none *observe.Fleet
	if why := none.Look(key("a"), false, false).Held; why != "" {
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
			fleet.Note(key(number+1), database.RollDue)
		}
		if got := fleet.Look(key(1), false, false).Recheck(); got != want {
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
	if why := fleet.Look(key("gis", 2), false, false).Held; why == "" || strings.Contains(why, "rival") {
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
		fleet.Look(one, true, true)
		fleet.Note(one, database.RollStopped)
	}
	stop(key("one", "a"))
	stop(key("one", "b"))
	if why := fleet.Look(key("gis", "cities"), false, true).Held; why != "" {
		t.Errorf("one namespace stops all: %s", why)
	}
	stop(key("two", "c"))
	why := fleet.Look(key("gis", "cities"), false, true).Held
	if !strings.Contains(why, "in 2 other namespaces") || strings.Contains(why, "two") {
		t.Errorf("the mistake of a version reaches everybody, or names are told: %q", why)
	}
	fleet.Look(key("gis", "cities"), false, false)
	if why := fleet.Begin(key("gis", "cities")); why != "" {
		t.Errorf("a change that the tenant asks for is held: %s", why)
	}
}

// TestAPlanIsNoRestart has two passes see the same room: one gets it, and the other one is held afterwards, whatever it
// had planned. One whose mark did not get there gives the room back.
func TestAPlanIsNoRestart(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "gis", Name: name} }
	fleet := &observe.Fleet{Most: 1, Failures: 1}
	held := func(name string, begun bool) string { return fleet.Look(key(name), begun, false).Held }
	if held("a", false) != "" || held("b", false) != "" {
		t.Fatal("there is no room for either")
	}
	first, second := fleet.Begin(key("a")), fleet.Begin(key("b"))
	fleet.Note(key("a"), database.RollDue)
	fleet.Note(key("b"), database.RollDue)
	if first != "" || second == "" {
		t.Errorf("both begin: %q, %q", first, second)
	}
	if held("b", false) == "" || fleet.Begin(key("b")) == "" {
		t.Error("a plan that was refused counts as a restart that has begun")
	}
	if why := held("a", true); why != "" {
		t.Errorf("one that has begun does not go on: %s", why)
	}
	fleet.Note(key("a"), database.RollStopped)
	if fleet.Begin(key("b")) == "" {
		t.Error("it begins after harm was done to another one")
	}
	fleet.Note(key("a"), database.RollRunning)
	if fleet.Begin(key("b")) == "" {
		t.Error("one that is mended is not under way")
	}
	held("a", false)
	if why := fleet.Begin(key("b")); why != "" {
		t.Errorf("the other one is not over: %s", why)
	}
	held("b", false)
	if why := fleet.Begin(key("a")); why != "" {
		t.Errorf("a mark that was not written takes the room: %s", why)
	}
}

// TestAPausedRollWaitsForRoom pauses a database in the middle: another one begins, and the first goes on after it.
func TestAPausedRollWaitsForRoom(t *testing.T) {
	a, b := types.NamespacedName{Namespace: "gis", Name: "a"}, types.NamespacedName{Namespace: "gis", Name: "b"}
	fleet := &observe.Fleet{Most: 1}
	if why := fleet.Begin(a); why != "" {
		t.Fatal(why)
	}
	fleet.Look(a, false, false)
	if why := fleet.Begin(b); why != "" {
		t.Errorf("one that is paused holds up others: %s", why)
	}
	if why := fleet.Look(a, true, false).Held; why == "" {
		t.Error("two are under way")
	}
	fleet.Look(b, false, false)
	if why := fleet.Look(a, true, false).Held; why != "" {
		t.Errorf("there is room, and it is held: %s", why)
	}
	if fleet.Begin(b) == "" {
		t.Error("one that goes on does not count")
	}
}

// before is what a process of the operator finds: databases, and the settings of those whose restart has begun.
type before struct {
	client.Reader
	databases []v1alpha1.GeoDatabase
	marked    []corev1.ConfigMap
	listed    int
}

func (b *before) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	b.listed++
	where := (&client.ListOptions{}).ApplyOptions(options).Namespace
	switch where {
	case "", "gis":
	case "lost":
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no role"))
	default:
		return nil
	}
	switch list := list.(type) {
	case *v1alpha1.GeoDatabaseList:
		list.Items = b.databases
	case *corev1.ConfigMapList:
		list.Items = b.marked
	}
	return nil
}

// add has a database, whose status tells one condition.
func (b *before) add(name, typ, reason string, begun bool) {
	one := v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: "gis", Name: name, UID: types.UID("uid-" + name)}}
	one.Status.Conditions = []metav1.Condition{{Type: typ, Status: metav1.ConditionTrue, Reason: reason}}
	b.databases = append(b.databases, one)
	if begun {
		b.mark(name, "uid-"+name)
	}
}

func (b *before) mark(name, owner string) {
	b.marked = append(b.marked, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "gis", Name: database.SettingsName(name),
		Labels: map[string]string{database.LabelRoll: database.RollBegun},
		OwnerReferences: []metav1.OwnerReference{{
			Kind: "GeoDatabase", Name: name, UID: types.UID(owner), Controller: ptr.To(true),
		}},
	}})
}

// TestARollCountsWhateverTheStatusTells starts an operator anew while a database is being restarted, and its status
// tells of something else, or of nothing: others wait for it until it was looked at.
func TestARollCountsWhateverTheStatusTells(t *testing.T) {
	a, b := types.NamespacedName{Namespace: "gis", Name: "a"}, types.NamespacedName{Namespace: "gis", Name: "b"}
	for typ, reason := range map[string]string{
		v1alpha1.ConditionStalled: "TemplateRefused", v1alpha1.ConditionDegraded: "CopiesMissing",
		v1alpha1.ConditionProgressing: "Switchover", v1alpha1.ConditionReady: "AsWished",
	} {
		for _, fleet := range []*observe.Fleet{{Most: 1}, {Failures: 1}} {
			known := &before{}
			known.add("a", typ, reason, true)
			known.add("b", v1alpha1.ConditionReady, "AsWished", false)
			for range 2 {
				if err := fleet.Recall(t.Context(), known); err != nil {
					t.Fatal(err)
				}
			}
			if known.listed != 2 {
				t.Errorf("listed %d times for one process", known.listed)
			}
			if fleet.Begin(b) == "" {
				t.Errorf("%s: another database begins before the first was looked at", reason)
			}
			if why := fleet.Look(a, true, false).Held; why != "" {
				t.Errorf("%s: what has begun does not go on: %s", reason, why)
			}
			fleet.Note(a, database.RollRunning)
			if why := fleet.Begin(b); (why == "") == (fleet.Most == 1) {
				t.Errorf("%s: while the first goes on, another one is held because %q", reason, why)
			}
		}
	}
}

// TestANewProcessKnowsOfTheHarm starts an operator anew while changes have done harm to some databases: the first
// database that it looks at is not one of them.
func TestANewProcessKnowsOfTheHarm(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "gis", Name: name} }
	known := &before{}
	known.add("a", v1alpha1.ConditionStalled, "RollStopped", true)
	known.add("b", v1alpha1.ConditionProgressing, "Rolling", true)
	known.add("c", v1alpha1.ConditionProgressing, "RollWaiting", false)
	known.add("d", v1alpha1.ConditionReady, "AsWished", false)
	known.mark("gone", "uid-gone")
	for _, one := range []struct {
		most, failures int
		why            string
	}{{0, 2, ": a, b"}, {0, 3, ""}, {2, 0, "at most 2"}, {3, 0, ""}} {
		fleet := &observe.Fleet{Most: one.most, Failures: one.failures}
		if err := fleet.Recall(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		if why := fleet.Begin(key("d")); (why == "") != (one.why == "") || !strings.Contains(why, one.why) {
			t.Errorf("at most %d at once, until %d have failed: held because %q", fleet.Most, fleet.Failures, why)
		}
	}
	fleet := &observe.Fleet{Most: 2, Failures: 2}
	if err := fleet.Recall(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	fleet.Note(key("a"), database.RollStopped)
	fleet.Note(key("b"), database.RollRunning)
	if why := fleet.Begin(key("c")); why != "" {
		t.Errorf("what this process has seen itself does not count: %s", why)
	}
	if fleet.Begin(key("d")) == "" {
		t.Error("two are under way, and a third one begins")
	}
}

// TestANewProcessKnowsOfAllItsNamespaces starts an operator of two namespaces anew while a database of the one is being
// restarted. The first that it looks at is of the other one. A third namespace has lost its roles meanwhile.
func TestANewProcessKnowsOfAllItsNamespaces(t *testing.T) {
	known := &before{}
	known.add("a", v1alpha1.ConditionProgressing, "Rolling", true)
	fleet := &observe.Fleet{Most: 1, Namespaces: []string{"lost", "roses", "gis"}}
	if err := fleet.Recall(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	if why := fleet.Look(types.NamespacedName{Namespace: "roses", Name: "b"}, false, true).Held; why == "" {
		t.Error("two are under way, and one may be")
	}
}
