//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

const fleetSpace = "fleet"

// fleet is some databases of one operator. One of them has a single instance: it is the first and the last of its roll.
var fleet = map[string]int32{"berlin": 2, "lagos": 1, "lima": 2, "quito": 1}

// TestFleet makes the same change to several databases at once, with an operator that restarts one of them at a time
// and stops after two failures: first a change that does no harm, then one that does.
func TestFleet(t *testing.T) {
	if *rollingChanges != "all" {
		t.Skip("it takes minutes; -changes=all does it")
	}
	if shared() {
		t.Skip("it needs an operator of its own")
	}
	c := connect(t)
	install(c)
	c.namespace(fleetSpace)
	defer c.kubectl("apply", "-k", "deploy") // The operator of before; a cleanup would come too late for a command.
	c.kubectl("-n", operatorNamespace, "patch", "deployment", "meridian-operator", "--type=json", "-p",
		`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--max-rolls=1"},
		{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--max-roll-failures=2"}]`)
	c.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/meridian-operator", "--timeout=180s")
	for name, instances := range fleet {
		database := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: fleetSpace, Name: name}}
		database.Spec.Instances = instances
		database.Spec.Storage.Size.Set(1 << 30)
		database.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete
		if err := c.Create(t.Context(), database); err != nil {
			t.Fatal(err)
		}
	}
	before := awaitFleet(c, "the fleet is Ready")
	restartFleet(c, before)
	stopFleet(c)
}

// state is what is seen of one database.
type state struct {
	database v1alpha1.GeoDatabase
	pods     map[string]types.UID
}

func (s state) reason(typ string) string {
	if found := condition.Find(s.database.Status.Conditions, typ); found != nil && found.Status == metav1.ConditionTrue {
		return found.Reason
	}
	return ""
}

// ready says that the status is about the present spec, and good.
func (s state) ready() bool {
	return s.database.Status.ObservedGeneration == s.database.Generation &&
		condition.IsTrue(s.database.Status.Conditions, v1alpha1.ConditionReady)
}

// touched says that a pod is another one than before.
func (s state) touched(before state) bool {
	return changed(before.pods, s.pods) > 0 || len(s.pods) != len(before.pods)
}

func lookAtFleet(ctx context.Context, c *cluster) map[string]state {
	c.t.Helper()
	var databases v1alpha1.GeoDatabaseList
	var pods corev1.PodList
	// The pods come last: whoever is Ready has all of them.
	for _, list := range []client.ObjectList{&databases, &pods} {
		if err := c.List(ctx, list, client.InNamespace(fleetSpace)); err != nil {
			c.t.Fatal(err)
		}
	}
	found := map[string]state{}
	for _, database := range databases.Items {
		one := state{database: database, pods: map[string]types.UID{}}
		for _, pod := range pods.Items {
			if pod.Labels["meridian.dev/database"] == database.Name && pod.DeletionTimestamp == nil {
				one.pods[pod.Name] = pod.UID
			}
		}
		found[database.Name] = one
	}
	return found
}

func awaitFleet(c *cluster, what string) map[string]state {
	c.t.Helper()
	var seen map[string]state
	c.until(what, 4*time.Minute, func(ctx context.Context) (bool, string) {
		seen = lookAtFleet(ctx, c)
		for name, one := range seen {
			if !one.ready() || len(one.pods) != int(fleet[name]) {
				return false, fmt.Sprintf("%s: %+v", name, one.database.Status)
			}
		}
		return len(seen) == len(fleet), fmt.Sprint(len(seen))
	})
	return seen
}

func patchFleet(c *cluster, document string) {
	c.t.Helper()
	for name := range fleet {
		one := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: fleetSpace, Name: name}}
		if err := c.Patch(c.t.Context(), one, client.RawPatch(types.MergePatchType, []byte(document))); err != nil {
			c.t.Fatal(err)
		}
	}
}

// restartFleet restarts all of them: one database after the other.
func restartFleet(c *cluster, before map[string]state) {
	c.t.Helper()
	patchFleet(c, `{"spec":{"restart":"once"}}`)
	var order []string
	waited := map[string]bool{}
	c.until("all databases are restarted", 6*time.Minute, func(ctx context.Context) (bool, string) {
		done := 0
		var underWay []string
		for name, one := range lookAtFleet(ctx, c) {
			switch touched := one.touched(before[name]); {
			case touched && one.ready():
				done++
			case touched:
				underWay = append(underWay, name)
			case strings.Contains(message(one, v1alpha1.ConditionProgressing), "at most 1 may be at once"):
				waited[name] = true
			}
			if one.touched(before[name]) && !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		if len(underWay) > 1 {
			c.t.Errorf("restarted at once: %v", underWay)
		}
		return done == len(fleet), fmt.Sprintf("%d done, under way %v", done, underWay)
	})
	c.t.Logf("restarted one after the other: %v; %d were seen to wait for others", order, len(waited))
	if len(waited) < 2 {
		c.t.Errorf("only these said that they wait for others: %v", waited)
	}
}

func message(one state, typ string) string {
	if found := condition.Find(one.database.Status.Conditions, typ); found != nil {
		return found.Message
	}
	return ""
}

// stopFleet gives all of them an image that is not there. Two come to harm, and the others are not touched, also not
// by the next process of the operator; then the change is undone.
func stopFleet(c *cluster) {
	c.t.Helper()
	before := awaitFleet(c, "the fleet is Ready before the harm")
	patchFleet(c, `{"spec":{"image":"localhost/meridian/nothing:17"}}`)
	stopped := func(what string) (harmed []string) {
		c.until(what, 4*time.Minute, func(ctx context.Context) (bool, string) {
			seen := lookAtFleet(ctx, c)
			harmed = nil
			held := 0
			for name, one := range seen {
				if one.reason(v1alpha1.ConditionStalled) == "RollStopped" {
					harmed = append(harmed, name)
				}
				if strings.Contains(message(one, v1alpha1.ConditionProgressing), "have done harm to other databases") {
					held++
				}
			}
			slices.Sort(harmed)
			return len(harmed) == 2 && held == 2, fmt.Sprintf("harmed %v, held %d", harmed, held)
		})
		return harmed
	}
	harmed := stopped("two databases come to harm and the others are held")
	c.kubectl("-n", operatorNamespace, "rollout", "restart", "deployment/meridian-operator")
	c.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/meridian-operator", "--timeout=180s")
	time.Sleep(20 * time.Second)
	again := stopped("the next process knows of the harm")
	if !slices.Equal(harmed, again) {
		c.t.Errorf("harmed were %v, and then %v", harmed, again)
	}
	for name, one := range lookAtFleet(c.t.Context(), c) {
		if !slices.Contains(harmed, name) && one.touched(before[name]) {
			c.t.Errorf("%s was touched after the fleet was stopped", name)
		}
	}
	patchFleet(c, `{"spec":{"image":null}}`)
	start := time.Now()
	after := awaitFleet(c, "all are Ready after the undo")
	c.t.Logf("the harm was done to %v and to nobody else; all Ready %s after the undo", harmed,
		time.Since(start).Round(time.Second))
	for name, one := range after {
		if !slices.Contains(harmed, name) && one.touched(before[name]) {
			c.t.Errorf("%s was touched by the undo", name)
		}
	}
}
