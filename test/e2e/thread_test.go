//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

const (
	space = "e2e-thread"
	name  = "cities"
)

// TestThread follows one database through its life: manifest, operator, three instances, SQL, idle, deletion.
func TestThread(t *testing.T) {
	c := connect(t)
	build(c)
	install(c)
	c.namespace(space)
	sample := filepath.Join("deploy", "samples", "minimal.yaml")

	applied := time.Now()
	c.kubectl("apply", "-n", space, "-f", sample)
	awaitServing(c)
	t.Logf("Serving %v after the manifest was applied", time.Since(applied).Round(time.Millisecond))
	awaitReady(c)
	t.Logf("Ready %v after the manifest was applied", time.Since(applied).Round(time.Millisecond))

	version := query(c, "select postgis_full_version()")
	if !strings.Contains(version, "POSTGIS=") {
		t.Errorf("postgis_full_version() is %q", version)
	}
	t.Logf("answered: %s", version)
	checkSpread(c)
	checkColumns(c)
	checkIdle(c, sample)
	query(c, "create table kept as select 42 as answer")
	checkDeletion(c)
	checkReturn(c, sample)
}

// shared says that somebody else works on this cluster, and has installed the operator: it is neither built nor
// installed anew, and what it does for others is not counted.
func shared() bool { return os.Getenv("MERIDIAN_TEST_SHARED") != "" }

// build builds and loads the image of Meridian, once for all tests of this process.
func build(c *cluster) {
	c.t.Helper()
	if !shared() {
		loadImage.Do(func() { c.sandbox("image", "build", "meridian", "--load") })
	}
}

var loadImage sync.Once

// install applies what a user applies, and waits until both replicas of the operator run the image that was just
// loaded. Where a test of this process has done so already, nothing is restarted.
func install(c *cluster) {
	c.t.Helper()
	if shared() {
		return
	}
	installing.Lock()
	defer installing.Unlock()
	c.kubectl("apply", "-k", "deploy")
	if !restarted(c) {
		c.kubectl("-n", operatorNamespace, "rollout", "restart", "deployment/meridian-operator")
	}
	c.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/meridian-operator", "--timeout=120s")
}

// installing is held by the test that installs the operator, for those that run beside each other.
var installing sync.Mutex

// programs builds those of bin/, once for all tests of this process: a test may be calling one of them.
func programs(c *cluster) {
	c.t.Helper()
	if output, err := buildPrograms(); err != nil {
		c.t.Fatalf("build the programs: %v\n%s", err, output)
	}
}

var buildPrograms = sync.OnceValues(func() ([]byte, error) {
	build := exec.Command("go", "build", "-o", "bin/", "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	return build.CombinedOutput()
})

// processBegun is when this process began.
var processBegun = time.Now()

// restarted reports whether the operator was restarted since this process began, so that it runs the image of now.
func restarted(c *cluster) bool {
	c.t.Helper()
	var operator appsv1.Deployment
	key := client.ObjectKey{Namespace: operatorNamespace, Name: "meridian-operator"}
	if err := c.Get(c.t.Context(), key, &operator); err != nil {
		c.t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, operator.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"])
	return err == nil && at.After(processBegun)
}

func awaitServing(c *cluster) {
	c.t.Helper()
	c.until("the database serves", 2*time.Minute, func(ctx context.Context) (bool, string) {
		status := get(ctx, c).Status
		return condition.IsTrue(status.Conditions, v1alpha1.ConditionServing), fmt.Sprintf("%+v", status)
	})
}

func awaitReady(c *cluster) {
	c.t.Helper()
	c.until("the database is Ready", 3*time.Minute, func(ctx context.Context) (bool, string) {
		database := get(ctx, c)
		return condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady) &&
			database.Status.ObservedGeneration == database.Generation, fmt.Sprintf("%+v", database.Status)
	})
}

func get(ctx context.Context, c *cluster) *v1alpha1.GeoDatabase {
	c.t.Helper()
	var database v1alpha1.GeoDatabase
	if err := c.Get(ctx, client.ObjectKey{Namespace: space, Name: name}, &database); err != nil {
		c.t.Fatal(err)
	}
	return &database
}

// query runs SQL as an application does: from a pod of its own, with the Secret, over the write address, and with the
// certificate of the server checked by name. Ready knows where the write address leads, and not whether every node of
// the cluster knows already; so a refused connection is tried again, and told.
func query(c *cluster, sql string) string {
	c.t.Helper()
	const patience = 15 * time.Second
	for start := time.Now(); ; {
		output, ok := ask(c, sql)
		switch {
		case ok:
			return output
		case time.Since(start) > patience || !strings.Contains(output, "Connection refused"):
			c.t.Fatalf("the application failed: %s", output)
		}
		c.t.Logf("refused %v after the first try: %s", time.Since(start).Round(time.Millisecond), output)
	}
}

// ask runs one application and returns what it printed, and whether it succeeded.
func ask(c *cluster, sql string) (string, bool) {
	c.t.Helper()
	pod := applicationPod(sql)
	if err := c.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = c.Delete(context.Background(), pod) }()
	c.until("the application has its answer", time.Minute, func(ctx context.Context) (bool, string) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			c.t.Fatal(err)
		}
		phase := pod.Status.Phase
		return phase == corev1.PodSucceeded || phase == corev1.PodFailed, string(phase)
	})
	stream, err := c.plain.CoreV1().Pods(space).GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	output, err := io.ReadAll(stream)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(output)), pod.Status.Phase == corev1.PodSucceeded
}

func applicationPod(sql string) *corev1.Pod {
	yes, no := true, false
	from := func(variable, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name + "-app"}, Key: key,
		}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, GenerateName: "application-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "psql", Image: "localhost/meridian/postgis:17", ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"psql", "-XAtq", "-c", sql},
				Env: []corev1.EnvVar{
					from("PGHOST", "host"), from("PGPORT", "port"), from("PGDATABASE", "dbname"),
					from("PGUSER", "user"), from("PGPASSWORD", "password"),
					{Name: "PGSSLMODE", Value: "verify-full"}, {Name: "PGSSLROOTCERT", Value: "/app/ca.crt"},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "app", MountPath: "/app", ReadOnly: true}},
				SecurityContext: &corev1.SecurityContext{
					RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no,
					Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
			}},
			Volumes: []corev1.Volume{{Name: "app", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{
					SecretName: name + "-app", Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				},
			}}},
		},
	}
}

// checkColumns looks at what the user of kubectl sees.
func checkColumns(c *cluster) {
	c.t.Helper()
	lines := strings.Split(strings.TrimSpace(c.kubectl("get", "gdb", "-n", space)), "\n")
	if len(lines) != 2 {
		c.t.Fatalf("kubectl get gdb prints %q", lines)
	}
	c.t.Logf("kubectl get gdb:\n%s", strings.Join(lines, "\n"))
	header, row := strings.Fields(lines[0]), strings.Fields(lines[1])
	want := []string{"NAME", "READY", "SERVING", "PRIMARY", "REPLICAS", "LAG", "VERSION", "RECOVERABLE", "AGE"}
	if diff := cmp.Diff(want, header); diff != "" {
		c.t.Errorf("columns (-want +got):\n%s", diff)
	}
	if len(row) != len(header)-1 || row[0] != name || row[1] != "True" || row[2] != "True" ||
		!strings.HasPrefix(row[3], name+"-") || row[4] != "2/2" || row[5] != "<1s" || !strings.HasPrefix(row[6], "17.") {
		c.t.Errorf("the row is %q", row)
	}
}

// checkSpread looks at the instances: each on another node, each counted on, each write on two of them.
func checkSpread(c *cluster) {
	c.t.Helper()
	status := get(c.t.Context(), c).Status
	nodes := map[string]bool{}
	for _, member := range status.Members {
		nodes[member.Node] = true
		if !member.Ready {
			c.t.Errorf("%s is not well: %s", member.Name, member.Message)
		}
	}
	if len(status.Members) != 3 || len(nodes) != 3 {
		c.t.Errorf("the instances are %+v", status.Members)
	}
	var budget policyv1.PodDisruptionBudget
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: space, Name: name + "-pods"}, &budget); err != nil {
		c.t.Fatal(err)
	}
	if budget.Status.DisruptionsAllowed != 1 || budget.Status.ExpectedPods != 3 {
		c.t.Errorf("the budget is %+v", budget.Status)
	}
	if status.Durability != v1alpha1.DurabilityStrict || status.Term < 1 {
		c.t.Errorf("durability %s at term %d", status.Durability, status.Term)
	}
}

// checkIdle applies the manifest again and waits for a minute: nobody must write at all. On a machine that is busy with
// something else a probe may fail, and then it was no idle minute; an operator or agent that writes by itself does so
// in each.
func checkIdle(c *cluster, sample string) {
	c.t.Helper()
	c.awaitLeaving("")
	// The last events of the start are still under way.
	time.Sleep(5 * time.Second)
	for attempt := 1; ; attempt++ {
		problem := idleMinute(c, sample)
		if problem == "" {
			return
		}
		if attempt == 3 {
			c.t.Errorf("three times: %s", problem)
			return
		}
		c.t.Logf("once more: %s", problem)
	}
}

// idleMinute says what was written in a minute in which nothing was to be done, empty if nothing was.
func idleMinute(c *cluster, sample string) string {
	c.t.Helper()
	before, versions := c.writes(), versionsOf(c)
	c.kubectl("apply", "-n", space, "-f", sample)
	time.Sleep(time.Minute)
	if diff := cmp.Diff(versions, versionsOf(c)); diff != "" {
		return "versions after an idle minute (-before +after):\n" + diff
	}
	if shared() {
		return ""
	}
	after := c.writes()
	// Whoever asks for the figures with a new token makes each of the two replicas ask whose it is, and what that one may.
	const reviews = 2 * 2
	after["POST"] -= reviews
	for _, method := range []string{"POST", "PATCH", "DELETE"} {
		if after[method] != before[method] {
			return fmt.Sprintf("an idle minute has %v writes by %s", after[method]-before[method], method)
		}
	}
	if after["PUT"] == before["PUT"] {
		c.t.Error("the lease was not renewed: the operator does not run, and the check shows nothing")
	}
	c.t.Logf("idle minute: %d reads, %d lease renewals, no other write",
		after["GET"]-before["GET"], after["PUT"]-before["PUT"])
	return ""
}

// versionsOf are the resourceVersions of the database and of everything that the operator has made for it.
func versionsOf(c *cluster) map[string]string {
	c.t.Helper()
	found := map[string]string{"GeoDatabase": get(c.t.Context(), c).ResourceVersion}
	for kind, list := range map[string]client.ObjectList{
		"Service": &corev1.ServiceList{}, "ConfigMap": &corev1.ConfigMapList{}, "Secret": &corev1.SecretList{},
		"Claim": &corev1.PersistentVolumeClaimList{}, "Set": &appsv1.StatefulSetList{},
		"Role": &rbacv1.RoleList{}, "Slice": &discoveryv1.EndpointSliceList{}, "Budget": &policyv1.PodDisruptionBudgetList{},
	} {
		selector := client.MatchingLabels{"meridian.dev/database": name}
		if err := c.List(c.t.Context(), list, client.InNamespace(space), selector); err != nil {
			c.t.Fatal(err)
		}
		objects, err := itemsOf(list)
		if err != nil || len(objects) == 0 {
			c.t.Fatalf("no %s of the database: %v", kind, err)
		}
		for _, object := range objects {
			found[kind+" "+object.GetName()] = object.GetResourceVersion()
		}
	}
	return found
}

// checkDeletion deletes the database, which keeps its volumes by default.
func checkDeletion(c *cluster) {
	c.t.Helper()
	before := claimsOf(c)
	if len(before) != 3 {
		c.t.Fatalf("there are %d claims", len(before))
	}
	c.kubectl("delete", "gdb", name, "-n", space, "--wait=true", "--timeout=60s")
	selector := client.MatchingLabels{"meridian.dev/database": name}
	c.until("the instances and the lease are gone", 2*time.Minute, func(ctx context.Context) (bool, string) {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(space), selector); err != nil {
			c.t.Fatal(err)
		}
		err := c.Get(ctx, client.ObjectKey{Namespace: space, Name: name + "-primary"}, &coordinationv1.Lease{})
		return len(pods.Items) == 0 && apierrors.IsNotFound(err), fmt.Sprintf("%d pods, lease: %v", len(pods.Items), err)
	})
	// Whoever would take the claims along has had the time to do so.
	time.Sleep(5 * time.Second)
	if diff := cmp.Diff(before, claimsOf(c)); diff != "" {
		c.t.Errorf("claims after the deletion (-before +after):\n%s", diff)
	}
}

// checkReturn makes the database again: it takes nothing over by accident, says what the word is, and comes back with
// its volumes and its data when it is said.
func checkReturn(c *cluster, sample string) {
	c.t.Helper()
	before := claimsOf(c)
	c.kubectl("apply", "-n", space, "-f", sample)
	var said string
	c.until("the new database asks what to do with the volumes", time.Minute, func(ctx context.Context) (bool, string) {
		stalled := condition.Find(get(ctx, c).Status.Conditions, v1alpha1.ConditionStalled)
		if stalled == nil || stalled.Reason != "ForeignClaim" {
			return false, fmt.Sprintf("%+v", stalled)
		}
		_, said, _ = strings.Cut(stalled.Message, "set spec.storage.adopt to ")
		said, _, _ = strings.Cut(said, ";")
		return said != "", stalled.Message
	})
	begun := time.Now()
	c.kubectl("patch", "gdb", name, "-n", space, "--type=merge", "-p", `{"spec":{"storage":{"adopt":"`+said+`"}}}`)
	awaitReady(c)
	c.t.Logf("Ready with the volumes of before %v after spec.storage.adopt", time.Since(begun).Round(time.Millisecond))
	if got := query(c, "select answer from kept"); got != "42" {
		c.t.Errorf("what was written before the deletion is %q", got)
	}
	if diff := cmp.Diff(before, claimsOf(c)); diff != "" {
		c.t.Errorf("claims (-before +after the return):\n%s", diff)
	}
	if status := get(c.t.Context(), c).Status; len(status.Members) != 3 {
		c.t.Errorf("writes are counted on %+v", status.Members)
	}
}

// claimsOf are the claims that are there to stay, by name, each with its UID.
func claimsOf(c *cluster) map[string]string {
	c.t.Helper()
	var claims corev1.PersistentVolumeClaimList
	selector := client.MatchingLabels{"meridian.dev/database": name}
	if err := c.List(c.t.Context(), &claims, client.InNamespace(space), selector); err != nil {
		c.t.Fatal(err)
	}
	found := map[string]string{}
	for _, claim := range claims.Items {
		if claim.DeletionTimestamp == nil {
			found[claim.Name] = string(claim.UID)
		}
	}
	return found
}
