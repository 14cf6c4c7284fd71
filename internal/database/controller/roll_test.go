package controller_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/sim"
)

// mayEnd is asked about every pod that the operator deletes: all others must be up, and it must not lead.
func (w *town) mayEnd(pod string) {
	w.t.Helper()
	name := strings.TrimSuffix(pod, "-0")
	if !w.up(name) {
		return
	}
	for _, other := range w.instances() {
		if other != name && !w.up(other) {
			w.t.Errorf("write %d met %s: %s is stopped while %s is not up", w.number, w.fault, name, other)
		}
	}
	if w.holder() == name && len(w.instances()) > 1 {
		w.t.Errorf("write %d met %s: the primary %s is stopped", w.number, w.fault, name)
	}
}

func (w *town) wish(change func(*v1alpha1.GeoDatabaseSpec)) {
	w.t.Helper()
	w.change(&v1alpha1.GeoDatabase{}, towns.Name, func(object client.Object) {
		change(&object.(*v1alpha1.GeoDatabase).Spec)
	})
}

func (w *town) createNodes() {
	w.t.Helper()
	for serial := range 9 {
		w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node%d", serial+1)}})
	}
}

// rollTown is a town whose agents hand over. It counts from now on.
func rollTown(t *testing.T) *town {
	t.Helper()
	w := readyTown(t)
	w.yields, w.answered = true, len(w.told)
	w.createNodes()
	clear(w.births)
	clear(w.starts)
	return w
}

// checkRoll demands that each pod was made anew once and the primary moved once.
func (w *town) checkRoll(births, moves int) {
	w.t.Helper()
	for _, name := range w.instances() {
		if w.births[name] != births {
			w.t.Errorf("write %d met %s: %s has had %d new pods, want %d", w.number, w.fault, name, w.births[name], births)
		}
	}
	if w.moves != moves {
		w.t.Errorf("write %d met %s: the primary moved %d times, want %d", w.number, w.fault, w.moves, moves)
	}
}

// TestDoubleRoll rolls another image through, with caches that are behind, and a fault at each write in turn: the
// operator crashes, meets a conflict, or never hears that it has written. No pod is made anew twice.
func TestDoubleRoll(t *testing.T) {
	// Each fault meets one write in so many, each at others.
	step := 4
	if os.Getenv("MERIDIAN_TEST_CRASHES") == "all" {
		step = 1
	}
	for place, fault := range []sim.Verdict{sim.CrashBefore, sim.CrashAfter, sim.Applied, sim.Conflicted} {
		t.Run(fault.String(), func(t *testing.T) {
			reached := 0
			for number := 1 + place; ; number += step {
				w := rollTown(t)
				w.hit, w.writes, w.number, w.fault = false, 0, number, fault
				w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Image = "mine:2" })
				w.until("the image is rolled through", func() bool { return w.ready() && w.allRun("mine:2") })
				w.checkRoll(1, 1)
				if !w.hit {
					break
				}
				reached = number
			}
			if reached < 8 {
				t.Errorf("only %d writes were met: the test has not seen the whole roll", reached)
			}
		})
	}
}

// allRun says that the pods of all instances have an image.
func (w *town) allRun(image string) bool {
	for _, name := range w.instances() {
		var pod corev1.Pod
		if !w.get(database.PodName(name), &pod) || pod.Spec.Containers[0].Image != image {
			return false
		}
	}
	return true
}

// TestNewTarget changes the wish in the middle of a roll, after each of its steps: the roll does not start over, and
// nobody is restarted more than twice.
func TestNewTarget(t *testing.T) {
	for begun := range 3 {
		t.Run(fmt.Sprintf("after %d", begun), func(t *testing.T) {
			w := rollTown(t)
			w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Image = "mine:2" })
			total := func() int {
				sum := 0
				for _, count := range w.births {
					sum += count
				}
				return sum
			}
			w.until("some are done", func() bool { return total() >= begun })
			w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Image = "mine:3" })
			w.until("the last wish is rolled through", func() bool { return w.ready() && w.allRun("mine:3") })
			if total() > 3+begun+1 || w.moves > 2 {
				t.Errorf("%v new pods and %d moves", w.births, w.moves)
			}
		})
	}
}

// TestHarm asks for an image that cannot be pulled: one replica meets it, nobody else, and undoing the wish is all that
// a user has to do.
func TestHarm(t *testing.T) {
	w := rollTown(t)
	holder := w.holder()
	w.bad = []string{"bad:1"}
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Image = "bad:1" })
	w.until("the roll stops", func() bool {
		return condition.Find(w.database().Status.Conditions, v1alpha1.ConditionStalled).Reason == "RollStopped"
	})
	w.rounds(30)
	met := 0
	for _, name := range w.instances() {
		var set appsv1.StatefulSet
		if w.get(name, &set); set.Spec.Template.Spec.Containers[0].Image == "bad:1" {
			met++
		}
	}
	if met != 1 || w.births[holder] != 0 || w.moves != 0 || w.holder() != holder {
		t.Errorf("%d have the bad image; new pods %v; %d moves", met, w.births, w.moves)
	}
	if !condition.IsTrue(w.database().Status.Conditions, v1alpha1.ConditionServing) {
		t.Error("the database does not serve")
	}
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Image = "" })
	w.until("it has recovered", func() bool { return w.ready() && !w.allRun("bad:1") })
	if w.moves != 0 || w.births[holder] != 0 {
		t.Errorf("new pods %v; %d moves", w.births, w.moves)
	}
}

// TestAllBroken makes a database with an image that cannot be pulled, and then corrects it: nobody is well, and nobody
// is waited for.
func TestAllBroken(t *testing.T) {
	w := newTown(t, -1, sim.Done)
	w.bad = []string{"bad:1"}
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Image = "bad:1" })
	w.until("all are stuck", func() bool { return len(w.births) == 3 && !w.up("towns-1") })
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Image = "" })
	w.until("it is ready", w.ready)
}

// TestValuesAreNotTold gives a container a password. What is observed, and therefore what plans, events and logs tell,
// is the name of the variable alone.
func TestValuesAreNotTold(t *testing.T) {
	w := rollTown(t)
	const secret = "hunter2"
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: []byte(
			`{"containers":[{"name":"side","image":"side:1","env":[{"name":"TOKEN","value":"` + secret + `"}]}]}`)}}
	})
	observer := observe.Observer{
		Live: w.admin, Now: w.clock.Now, Ask: w.ask, Installation: "home/operator",
		Author: apply.Author{
			Scheme: w.admin.Scheme(), Prefix: database.AnnotationPrefix, Manager: database.FieldManager,
		},
		Images: database.Images{Agent: w.agent, Server: "postgis"},
	}
	seen, err := observer.Observe(t.Context(), w.admin, w.database())
	if err != nil {
		t.Fatal(err)
	}
	told := fmt.Sprint(seen.Children)
	if strings.Contains(told, secret) || !strings.Contains(told, "spec.template.spec.containers") {
		t.Errorf("the children are %s", told)
	}
}

// TestHeldRollTriesNothing has a change wait for another database: the API server is not asked about its pods before
// its turn has come.
func TestHeldRollTriesNothing(t *testing.T) {
	w := rollTown(t)
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Image = "mine:2" })
	tries, other := 0, client.ObjectKey{Namespace: towns.Namespace, Name: "villages"}
	fleet := &observe.Fleet{Most: 1}
	if why := fleet.Begin(other); why != "" {
		t.Fatal(why)
	}
	observer := observe.Observer{
		Live: w.admin, Now: w.clock.Now, Ask: w.ask, Installation: "home/operator",
		Author: apply.Author{
			Scheme: w.admin.Scheme(), Prefix: database.AnnotationPrefix, Manager: database.FieldManager,
		},
		Images: database.Images{Agent: w.agent, Server: "postgis"}, Fleet: fleet,
		Try: func(context.Context, *corev1.Pod) error { tries++; return nil },
	}
	seen, err := observer.Observe(t.Context(), w.admin, w.database())
	if err != nil || seen.Fleet.Held == "" || tries != 0 || seen.Trial != nil {
		t.Errorf("while it waits (%q) the API server is asked %d times: %v", seen.Fleet.Held, tries, err)
	}
	fleet.Forget(other)
	seen, err = observer.Observe(t.Context(), w.admin, w.database())
	if err != nil || seen.Fleet.Held != "" || tries != 1 || seen.Trial == nil {
		t.Errorf("at its turn (%q) the API server is asked %d times: %v", seen.Fleet.Held, tries, err)
	}
}

// TestOperatorUpgrade has another version of the operator take over, with another agent: nothing restarts, and what
// waits is told with its difference. The user's word for a restart takes it along.
func TestOperatorUpgrade(t *testing.T) {
	w := rollTown(t)
	w.agent = "meridian:2"
	w.start(w.admin.Scheme(), w.server.Version())
	w.rounds(30)
	status := w.database().Status
	if len(w.births) != 0 || w.moves != 0 || !w.ready() {
		t.Errorf("new pods %v; %d moves; ready %t", w.births, w.moves, w.ready())
	}
	if !slices.ContainsFunc(status.PendingChanges, func(text string) bool {
		return strings.Contains(text, "meridian:1") && strings.Contains(text, "meridian:2")
	}) || len(status.PendingChanges) != 3 {
		t.Errorf("pending changes: %q", status.PendingChanges)
	}
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Restart = "now" })
	w.until("all are restarted", func() bool { return w.ready() && len(w.births) == 3 })
	w.checkRoll(1, 1)
	if left := w.database().Status.PendingChanges; len(left) != 0 {
		t.Errorf("still pending: %q", left)
	}
	var pod corev1.Pod
	if w.get("towns-1-0", &pod); pod.Spec.InitContainers[0].Image != "meridian:2" {
		t.Errorf("the agent is %s", pod.Spec.InitContainers[0].Image)
	}
}

// TestParameterRestart changes a parameter that takes a restart: servers start anew, pods do not.
func TestParameterRestart(t *testing.T) {
	w := rollTown(t)
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.Parameters = map[string]v1alpha1.Setting{"max_connections": "150"}
	})
	w.until("all have it", func() bool {
		for _, server := range w.servers {
			if server.connections != "150" {
				return false
			}
		}
		return w.ready()
	})
	for _, name := range w.instances() {
		if w.starts[name] != 1 || w.births[name] != 0 {
			t.Errorf("%s: %d starts and %d new pods", name, w.starts[name], w.births[name])
		}
	}
	if w.moves != 1 {
		t.Errorf("the primary moved %d times", w.moves)
	}
}

// TestMergedRoll changes an image and a parameter at once: each pod is made anew once, and nothing is started besides.
func TestMergedRoll(t *testing.T) {
	w := rollTown(t)
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.Image, spec.Parameters = "mine:2", map[string]v1alpha1.Setting{"max_connections": "150"}
	})
	w.until("all is done", func() bool { return w.ready() && w.allRun("mine:2") })
	w.checkRoll(1, 1)
	for _, name := range w.instances() {
		if w.starts[name] != 1 || w.servers[name].connections != "150" {
			t.Errorf("%s was started %d times, with %+v", name, w.starts[name], w.servers[name])
		}
	}
}

// TestHibernate puts a database to sleep and wakes it: the primary is the last to stop, and the volumes stay.
func TestHibernate(t *testing.T) {
	w := rollTown(t)
	w.yields = false
	holder := w.holder()
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Hibernated = true })
	w.until("it sleeps", func() bool {
		for _, name := range w.instances() {
			if w.up(name) {
				if !w.up(holder) {
					t.Errorf("%s runs while the primary is gone", name)
				}
				return false
			}
		}
		return condition.Find(w.database().Status.Conditions, v1alpha1.ConditionReady).Reason == "Hibernated"
	})
	var claims corev1.PersistentVolumeClaimList
	w.must(w.admin.List(t.Context(), &claims))
	if len(claims.Items) != 3 {
		t.Errorf("%d claims are left", len(claims.Items))
	}
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) { spec.Hibernated = false })
	w.until("it is awake", func() bool { return w.ready() && w.up(holder) })
}

// TestMarksOfOthers starts an operator where somebody else has put the mark of a restart onto an object of their own.
// No cache holds that, so a pass that waited for it would wait long.
func TestMarksOfOthers(t *testing.T) {
	w := rollTown(t)
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "elsewhere", Name: "notes", Labels: map[string]string{database.LabelRoll: database.RollBegun},
	}})
	observer := observe.Observer{
		Live: w.admin, Now: w.clock.Now, Ask: w.ask, Installation: "home/operator",
		Author: apply.Author{
			Scheme: w.admin.Scheme(), Prefix: database.AnnotationPrefix, Manager: database.FieldManager,
		},
		Images: database.Images{Agent: w.agent, Server: "postgis"}, Fleet: &observe.Fleet{Most: 1},
	}
	witness := expect.NewWitness(w.admin, w.admin.Scheme())
	if _, err := observer.Observe(t.Context(), witness, w.database()); err != nil {
		t.Fatal(err)
	}
	for _, seen := range witness.Saw() {
		if seen.GetNamespace() != towns.Namespace && seen.GetNamespace() != "" {
			t.Errorf("a pass waits for %s of another namespace", client.ObjectKeyFromObject(seen))
		}
	}
}
