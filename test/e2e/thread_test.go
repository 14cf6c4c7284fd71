//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// TestThread follows one database through its life: manifest, operator, instance, SQL, idle, deletion.
func TestThread(t *testing.T) {
	c := connect(t)
	c.sandbox("image", "build", "meridian", "--load")
	install(c)
	c.namespace(space)
	sample := filepath.Join("deploy", "samples", "minimal.yaml")

	applied := time.Now()
	c.kubectl("apply", "-n", space, "-f", sample)
	awaitReady(c)
	t.Logf("Ready %v after the manifest was applied", time.Since(applied).Round(time.Millisecond))

	version := query(c, "select postgis_full_version()")
	if !strings.Contains(version, "POSTGIS=") {
		t.Errorf("postgis_full_version() is %q", version)
	}
	t.Logf("answered: %s", version)
	checkColumns(c)
	checkIdle(c, sample)
	checkDeletion(c)
}

// install applies what a user applies, and waits until both replicas of the operator run the image that was just
// loaded.
func install(c *cluster) {
	c.t.Helper()
	c.kubectl("apply", "-k", "deploy")
	c.kubectl("-n", operatorNamespace, "rollout", "restart", "deployment/meridian-operator")
	c.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/meridian-operator", "--timeout=120s")
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
// certificate of the server checked by name. Ready does not look at the endpoints of the address yet, and connections
// were seen to be refused for some seconds after it; until it does, a refused connection is tried again, and told.
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
	if diff := cmp.Diff([]string{"NAME", "READY", "PRIMARY", "REPLICAS", "LAG", "VERSION", "AGE"}, header); diff != "" {
		c.t.Errorf("columns (-want +got):\n%s", diff)
	}
	// Without replicas there is no lag, so that column is empty.
	if len(row) < 5 || row[0] != name || row[1] != "True" || row[2] != name+"-1" || row[3] != "0/0" ||
		!strings.HasPrefix(row[4], "17.") {
		c.t.Errorf("the row is %q", row)
	}
}

// checkIdle applies the manifest again and waits for a minute: the operator must not write at all.
func checkIdle(c *cluster, sample string) {
	c.t.Helper()
	// The last events of the start are still under way.
	time.Sleep(5 * time.Second)
	before, versions := c.writes(), versionsOf(c)
	c.kubectl("apply", "-n", space, "-f", sample)
	time.Sleep(time.Minute)
	after := c.writes()
	for _, method := range []string{"POST", "PATCH", "DELETE"} {
		if after[method] != before[method] {
			c.t.Errorf("an idle minute has %d writes by %s", after[method]-before[method], method)
		}
	}
	if after["PUT"] == before["PUT"] {
		c.t.Error("the lease was not renewed: the operator does not run, and the check shows nothing")
	}
	if diff := cmp.Diff(versions, versionsOf(c)); diff != "" {
		c.t.Errorf("versions after an idle minute (-before +after):\n%s", diff)
	}
	c.t.Logf("idle minute: %d reads, %d lease renewals, no other write",
		after["GET"]-before["GET"], after["PUT"]-before["PUT"])
}

// versionsOf are the resourceVersions of the database and of everything that the operator has made for it.
func versionsOf(c *cluster) map[string]string {
	c.t.Helper()
	found := map[string]string{"GeoDatabase": get(c.t.Context(), c).ResourceVersion}
	for kind, list := range map[string]client.ObjectList{
		"Service": &corev1.ServiceList{}, "ConfigMap": &corev1.ConfigMapList{}, "Secret": &corev1.SecretList{},
		"Claim": &corev1.PersistentVolumeClaimList{}, "Set": &appsv1.StatefulSetList{},
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
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: space, Name: name + "-1"}
	if err := c.Get(c.t.Context(), key, claim); err != nil {
		c.t.Fatal(err)
	}
	uid := claim.UID
	c.kubectl("delete", "gdb", name, "-n", space, "--wait=true", "--timeout=60s")
	c.until("the instance is gone", time.Minute, func(ctx context.Context) (bool, string) {
		err := c.Get(ctx, client.ObjectKey{Namespace: space, Name: name + "-1-0"}, &corev1.Pod{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	// Whoever would take the claim along has had the time to do so.
	time.Sleep(5 * time.Second)
	if err := c.Get(c.t.Context(), key, claim); err != nil || claim.UID != uid || claim.DeletionTimestamp != nil {
		c.t.Errorf("the claim after the deletion: %v, UID %s, deleted at %v", err, claim.UID, claim.DeletionTimestamp)
	}
}
