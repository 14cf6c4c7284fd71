//go:build cluster

package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// TestLogVolume makes a database whose log has a volume of its own, looks at the mounts of the primary and of a
// replica, and lets the volumes of the logs grow.
func TestLogVolume(t *testing.T) {
	if *rollingChanges != "all" {
		t.Skip("it takes a minute; -changes=all does it")
	}
	const space, name = "logs", "rivers"
	c := connect(t)
	install(c)
	c.namespace(space)
	database := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}
	database.Spec.Instances = 2
	database.Spec.Storage.Size.Set(1 << 30)
	database.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete
	size := resource.MustParse("512Mi")
	database.Spec.Storage.WALSize = &size
	if err := c.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	well := func(ctx context.Context) (bool, string) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(database), database); err != nil {
			return false, err.Error()
		}
		return condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady), database.Status.WaitingFor
	}
	t.Logf("both instances were ready after %s", c.until("both instances are ready", 3*time.Minute, well))
	for _, pod := range []string{name + "-1-0", name + "-2-0"} {
		run := func(words ...string) string {
			return c.kubectl(append([]string{"-n", space, "exec", pod, "-c", "database", "--"}, words...)...)
		}
		const data, log = "/var/lib/meridian/pgdata", "/var/lib/meridian-wal/pg_wal"
		if link := run("readlink", data+"/pg_wal"); strings.TrimSpace(link) != log {
			t.Errorf("pg_wal of %s leads to %q", pod, link)
		}
		devices := strings.Fields(run("stat", "-L", "-c", "%d", data, data+"/pg_wal"))
		if len(devices) != 2 || devices[0] == devices[1] {
			t.Errorf("data and log of %s are on the devices %v", pod, devices)
		}
	}
	c.kubectl("-n", space, "patch", "gdb", name, "--type=merge", "-p", `{"spec":{"storage":{"walSize":"1Gi"}}}`)
	took := c.until("the volumes of the logs have grown", 3*time.Minute, func(ctx context.Context) (bool, string) {
		for _, claim := range []string{name + "-1-wal", name + "-2-wal"} {
			var found corev1.PersistentVolumeClaim
			if err := c.Get(ctx, client.ObjectKey{Namespace: space, Name: claim}, &found); err != nil {
				return false, err.Error()
			}
			if has := found.Status.Capacity.Storage(); has.Cmp(resource.MustParse("1Gi")) != 0 {
				return false, claim + " has " + has.String()
			}
		}
		return true, ""
	})
	t.Logf("the volumes of the logs had grown after %s", took.Round(100*time.Millisecond))
	c.until("all is well again", time.Minute, well)
}
