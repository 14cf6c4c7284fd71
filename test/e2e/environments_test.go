//go:build cluster

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
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
	"meridian.dev/meridian/test/e2e/checks"
)

var (
	chosenEnvironments = flag.String("environments", "short",
		"short, all, or names of environments with semicolons between")
	calmTime = flag.Duration("calm", 15*time.Second,
		"for how long nothing may happen while something is refused; an image that admission rewrites takes twice that")
)

// environment is a cluster as people run it, played on the sandbox.
type environment struct {
	name string
	// short says that it is in the list of every run, in which other tests run beside it.
	short bool
	// files are those of testdata/environments that make it, before there is a database; the namespace bears its name.
	files []string
	// operator are arguments that the operator needs there.
	operator []string
	// prepare is what files cannot say, adjust what a user has to say in the spec.
	prepare func(*cluster)
	adjust  func(*v1alpha1.GeoDatabase)
	// try shows that the database is well there.
	try func(*failover)
}

// environments are those of docs/guide/platforms.md.
var environments = []environment{
	{name: "quota", try: (*failover).tryQuota},
	{
		name: "deny", short: true, prepare: denyEverything, try: (*failover).tryDeny,
		adjust: func(database *v1alpha1.GeoDatabase) { database.Spec.Network.Egress = v1alpha1.EgressNeeded },
	},
	{
		name: "import", short: true, try: (*failover).tryImport,
		adjust: func(database *v1alpha1.GeoDatabase) { database.Spec.Storage.Reclaim = v1alpha1.ReclaimRetain },
	},
	{
		name: "openshift", files: []string{"openshift"}, operator: []string{"--any-user"},
		try: (*failover).tryOpenShift,
	},
	{name: "mirror", prepare: loadMirror, files: []string{"mirror"}, try: (*failover).tryMirror},
	{name: "sidecar", prepare: letSidecarsIn, files: []string{"sidecar"}, try: (*failover).trySidecar},
	{name: "native-sidecar", prepare: letSidecarsIn, files: []string{"native-sidecar"}, try: (*failover).trySidecar},
	{
		name: "static", files: []string{"static"}, prepare: makeVolumes, try: (*failover).tryStatic,
		adjust: func(database *v1alpha1.GeoDatabase) {
			database.Spec.Storage.Class = staticClass
			database.Spec.Storage.AccessMode = v1alpha1.AccessNode
		},
	},
	{name: "flood", try: (*failover).tryFlood},
	{name: "registry", prepare: moveToRegistry, try: (*failover).tryRegistry},
}

// TestEnvironments makes a database in each environment, and does there what the environment makes hard.
func TestEnvironments(t *testing.T) {
	if shared() {
		t.Skip("it needs an operator and a cluster of its own")
	}
	together := *chosenEnvironments == "short"
	if together { // They leave operator and nodes as they are, and nobody counts how long anything takes there.
		beside(t)
	}
	c := connect(t)
	build(c)
	tried := 0
	for _, one := range environments {
		named := slices.Contains(strings.Split(*chosenEnvironments, ";"), one.name)
		if *chosenEnvironments != "all" && !(*chosenEnvironments == "short" && one.short) && !named {
			continue
		}
		tried++
		t.Run(one.name, func(t *testing.T) {
			if together {
				t.Parallel()
			}
			begun := time.Now()
			one.play(t)
			t.Logf("%s took %s", one.name, time.Since(begun).Round(time.Second))
		})
	}
	if tried == 0 {
		t.Fatalf("-environments=%s names none", *chosenEnvironments)
	}
}

// play makes the environment and a database in it. The operator of before comes back at the end.
func (e environment) play(t *testing.T) {
	c := connect(t)
	defer func() { // A cleanup would come too late for a command.
		for _, file := range e.files {
			c.kubectl("delete", "--ignore-not-found", "-f", manifest(file))
		}
	}()
	defer restoreOperator(c)
	f := newFailover(t, func(database *v1alpha1.GeoDatabase) {
		c.kubectl("label", "namespace", c.space, "meridian.dev/environment="+e.name)
		if len(e.operator) > 0 {
			tellOperator(c, e.operator...)
		}
		if e.prepare != nil {
			e.prepare(c)
		}
		for _, file := range e.files {
			c.kubectl("apply", "-f", manifest(file))
		}
		if len(e.files) > 0 {
			time.Sleep(3 * time.Second) // Policies are in force a moment after they were written.
		}
		if e.adjust != nil {
			e.adjust(database)
		}
	})
	t.Logf("Ready after %s", f.allStreaming.Round(100*time.Millisecond))
	e.try(f)
	f.awaitWell()
	f.checkCopies()
}

func manifest(name string) string {
	return filepath.Join("test", "e2e", "testdata", "environments", name+".yaml")
}

// restoreOperator has the operator run again as it is installed.
func restoreOperator(c *cluster) {
	c.kubectl("apply", "-k", "deploy")
	c.kubectl("-n", operatorNamespace, "patch", "deployment", "meridian-operator", "--type=merge", "-p",
		`{"spec":{"template":{"spec":{"imagePullSecrets":null}}}}`)
}

// tellOperator has the operator run with more arguments.
func tellOperator(c *cluster, arguments ...string) {
	c.t.Helper()
	var patches []string
	for _, argument := range arguments {
		patches = append(patches, fmt.Sprintf(
			`{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":%q}`, argument))
	}
	c.kubectl("-n", operatorNamespace, "patch", "deployment", "meridian-operator", "--type=json", "-p",
		"["+strings.Join(patches, ",")+"]")
	c.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/meridian-operator", "--timeout=180s")
}

// apply applies a manifest in the namespace of the database.
func (f *failover) apply(manifest string) {
	f.t.Helper()
	if output, err := try(f.c, manifest, "-n", f.c.space, "apply", "-f", "-"); err != nil {
		f.t.Fatalf("apply: %v: %s", err, output)
	}
}

// begin starts the traffic, and returns what ends it: nothing that was acknowledged may be lost, and no write may wait
// for longer than the limit.
func (f *failover) begin(limit time.Duration) (end func()) {
	f.t.Helper()
	f.awaitWell()
	f.steer()
	f.startTraffic()
	f.awaitSteady("writes are accepted before anything is changed")
	times := checks.Times{Fault: f.traffic.Now()}
	return func() {
		f.t.Helper()
		f.awaitSteady("writes are accepted at the end")
		times.End = f.traffic.Now()
		verdict := checks.Judge(f.endTraffic(times.Fault), f.present(), times)
		f.t.Logf("in %s: acknowledged %d, unknown %d, failed %d, lost %d, longest gap %s",
			(times.End - times.Fault).Round(time.Second), verdict.Acknowledged, verdict.Unknown, verdict.Failed,
			len(verdict.Lost), ms(verdict.Gap))
		if problem := verdict.Bad() + verdict.Invalid(); problem != "" {
			f.t.Error(problem)
		}
		if verdict.Gap > limit {
			f.t.Errorf("no write was accepted for %s, and %s is promised", verdict.Gap, limit)
		}
	}
}

// awaitStatus waits for what the status says.
func (f *failover) awaitStatus(what string, limit time.Duration, right func(*v1alpha1.GeoDatabase) bool) {
	f.t.Helper()
	f.c.until(what, limit, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		return database.Status.ObservedGeneration == database.Generation && right(database),
			fmt.Sprintf("%+v", database.Status)
	})
}

// stalledBy says that the condition Stalled has a reason, and words in its message.
func stalledBy(database *v1alpha1.GeoDatabase, reason, words string) bool {
	found := condition.Find(database.Status.Conditions, v1alpha1.ConditionStalled)
	return found != nil && found.Status == metav1.ConditionTrue && found.Reason == reason &&
		strings.Contains(found.Message, words)
}

// stayPut looks for a while: no pod is another one, and the database serves all the time.
func (f *failover) stayPut(before map[string]types.UID) {
	f.t.Helper()
	looks := 0
	for begun := time.Now(); time.Since(begun) < *calmTime; time.Sleep(500 * time.Millisecond) {
		database, err := f.get(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		now := map[string]types.UID{}
		for name, pod := range f.presentPods() {
			now[name] = pod.UID
		}
		if !maps.Equal(now, before) {
			f.t.Fatalf("after %s the pods are %v, and were %v", time.Since(begun), now, before)
		}
		if !condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionServing) {
			f.t.Fatalf("after %s it does not serve: %+v", time.Since(begun), database.Status)
		}
		looks++
	}
	f.t.Logf("%d looks in %s: the same pods, and Serving in each", looks, *calmTime)
}

// operatorPods are the pods of the operator, each with how often it was started.
func operatorPods(c *cluster) string {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.List(c.t.Context(), &pods, client.InNamespace(operatorNamespace),
		client.MatchingLabels{"app.kubernetes.io/component": "operator"}); err != nil {
		c.t.Fatal(err)
	}
	var found []string
	for _, pod := range pods.Items {
		restarts := int32(0)
		for _, status := range pod.Status.ContainerStatuses {
			restarts += status.RestartCount
		}
		found = append(found, fmt.Sprintf("%s %s %d", pod.Name, pod.UID, restarts))
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

// presentPods are the pods of the database that are there at this moment, by instance.
func (f *failover) presentPods() map[string]corev1.Pod {
	f.t.Helper()
	var pods corev1.PodList
	if err := f.c.List(f.t.Context(), &pods, client.InNamespace(f.c.space),
		client.MatchingLabels{"meridian.dev/database": failoverName}); err != nil {
		f.t.Fatal(err)
	}
	found := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		found[pod.Labels["meridian.dev/instance"]] = pod
	}
	return found
}
