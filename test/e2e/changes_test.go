//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// TestChanges changes a running database of three instances. None of these changes may restart an instance, but for the
// one whose pod is deleted.
func TestChanges(t *testing.T) {
	beside(t)
	c := connect(t)
	build(c)
	install(c)
	c.namespace(space)
	c.kubectl("apply", "-n", space, "-f", "deploy/samples/minimal.yaml")
	awaitReady(c)
	pods := podsOf(c)

	t.Run("a parameter is reloaded", func(*testing.T) {
		begun := time.Now()
		patch(c, `{"spec":{"parameters":{"work_mem":"77MB"}}}`)
		awaitReady(c)
		t.Logf("all three have it after %v", time.Since(begun).Round(time.Millisecond))
		if got := query(c, "show work_mem"); got != "77MB" {
			t.Errorf("work_mem is %s, want 77MB", got)
		}
	})
	t.Run("the volumes grow", func(*testing.T) { growVolumes(c) })
	t.Run("an invalid spec is refused at the door", func(*testing.T) {
		before := get(t.Context(), c)
		broken := before.DeepCopy()
		broken.Spec.Parameters = map[string]v1alpha1.Setting{"no_such_parameter": "1"}
		err := c.Update(t.Context(), broken)
		if err == nil || !strings.Contains(err.Error(), "spec.parameters.no_such_parameter") {
			t.Errorf("the API server says %v", err)
		}
	})
	t.Run("a class that cannot expand", func(*testing.T) { growInFixedClass(c) })
	t.Run("paused", func(*testing.T) { pauseAndChange(c) })
	t.Run("an extension is older than that of the image", func(*testing.T) { updateExtension(c) })
	t.Run("another primary is asked for", func(*testing.T) { switchOver(c) })
	t.Run("five instances and then two", func(*testing.T) { scaleUpAndDown(c) })
	for name, pod := range podsOf(c) {
		before, known := pods[name]
		if known && (pod.UID != before.UID || pod.Status.ContainerStatuses[0].RestartCount != 0) {
			t.Errorf("%s was replaced or restarted: %s, %d restarts", name, pod.UID,
				pod.Status.ContainerStatuses[0].RestartCount)
		}
	}
	t.Run("the pod of the primary is deleted", func(*testing.T) { deletePrimary(c) })
}

// podsOf are the pods of the database, by name.
func podsOf(c *cluster) map[string]corev1.Pod {
	c.t.Helper()
	var pods corev1.PodList
	selector := client.MatchingLabels{"meridian.dev/database": name}
	if err := c.List(c.t.Context(), &pods, client.InNamespace(space), selector); err != nil {
		c.t.Fatal(err)
	}
	found := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		found[pod.Name] = pod
	}
	return found
}

// growVolumes raises the size: the volumes of all instances grow.
func growVolumes(c *cluster) {
	c.t.Helper()
	patch(c, `{"spec":{"storage":{"size":"1536Mi"}}}`)
	want := resource.MustParse("1536Mi")
	took := c.until("the volumes have grown", 3*time.Minute, func(ctx context.Context) (bool, string) {
		var claims corev1.PersistentVolumeClaimList
		if err := c.List(ctx, &claims, client.InNamespace(space)); err != nil {
			c.t.Fatal(err)
		}
		var small []string
		for _, claim := range claims.Items {
			if capacity := claim.Status.Capacity[corev1.ResourceStorage]; capacity.Cmp(want) < 0 {
				small = append(small, claim.Name+" "+capacity.String())
			}
		}
		return len(claims.Items) == 3 && len(small) == 0, fmt.Sprint(small)
	})
	c.t.Logf("the volumes have grown after %v", took.Round(time.Millisecond))
	awaitReady(c)
}

// growInFixedClass asks for larger volumes in a storage class that cannot give them: the door is where that ends.
func growInFixedClass(c *cluster) {
	c.t.Helper()
	fixed := &v1alpha1.GeoDatabase{}
	fixed.Namespace, fixed.Name = space, "fixed"
	fixed.Spec.Instances = 1
	fixed.Spec.Storage = v1alpha1.Storage{
		Size: resource.MustParse("1Gi"), Class: "xfs-fixed", Reclaim: v1alpha1.ReclaimDelete,
	}
	if err := c.Create(c.t.Context(), fixed); err != nil {
		c.t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(fixed)
	c.until("the database in the fixed class serves", 2*time.Minute, func(ctx context.Context) (bool, string) {
		if err := c.Get(ctx, key, fixed); err != nil {
			return false, err.Error()
		}
		return condition.IsTrue(fixed.Status.Conditions, v1alpha1.ConditionServing), fmt.Sprintf("%+v", fixed.Status)
	})
	larger := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"storage":{"size":"2Gi"}}}`))
	err := c.Patch(c.t.Context(), fixed, larger)
	if err == nil || !strings.Contains(err.Error(), "spec.storage.size") || !strings.Contains(err.Error(), "xfs-fixed") {
		c.t.Errorf("the API server says %v", err)
	}
	c.t.Logf("refused: %v", err)
	c.kubectl("delete", "gdb", "fixed", "-n", space, "--timeout=60s")
	c.until("its claim is gone", time.Minute, func(ctx context.Context) (bool, string) {
		err := c.Get(ctx, client.ObjectKey{Namespace: space, Name: "fixed-1"}, &corev1.PersistentVolumeClaim{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// pauseAndChange changes a parameter while the operator is told to change nothing: it waits, and says so.
func pauseAndChange(c *cluster) {
	c.t.Helper()
	patch(c, `{"spec":{"paused":true,"parameters":{"work_mem":"55MB"}}}`)
	c.until("the change is pending", time.Minute, func(ctx context.Context) (bool, string) {
		status := get(ctx, c).Status
		return len(status.PendingChanges) > 0, fmt.Sprintf("%+v", status)
	})
	time.Sleep(5 * time.Second)
	if got := query(c, "show work_mem"); got != "77MB" {
		c.t.Errorf("work_mem is %s while the database is paused", got)
	}
	c.t.Logf("pending: %v", get(c.t.Context(), c).Status.PendingChanges)
	patch(c, `{"spec":{"paused":false}}`)
	awaitReady(c)
	if got := query(c, "show work_mem"); got != "55MB" {
		c.t.Errorf("work_mem is %s, want 55MB", got)
	}
}

// updateExtension puts an extension back to an older version, as if the image had been replaced by one with a newer:
// the agent of the primary updates it.
func updateExtension(c *cluster) {
	c.t.Helper()
	patch(c, `{"spec":{"extensions":["postgis","cube"]}}`)
	version := func() string { return query(c, "select max(extversion) from pg_extension where extname = 'cube'") }
	c.until("the extension is there", time.Minute, func(context.Context) (bool, string) { return version() != "", "" })
	newest, database := version(), query(c, "select current_database()")
	const older = "1.4"
	c.kubectl("exec", "-n", space, get(c.t.Context(), c).Status.Primary+"-0", "-c", "database", "--", "psql",
		"-h", "/run/meridian", "-d", database, "-v", "ON_ERROR_STOP=1", "-qc",
		"begin; drop extension cube; create extension cube version '"+older+"'; commit")
	if newest == older {
		c.t.Fatalf("the image has %s as well: this shows nothing", older)
	}
	took := c.until("the extension is updated", 2*time.Minute, func(context.Context) (bool, string) {
		now := version()
		return now == newest, now
	})
	c.t.Logf("cube went from %s to %s within %v", older, newest, took.Round(time.Second))
	awaitReady(c)
}

// switchOver asks for a certain primary, and then for one that does not exist.
func switchOver(c *cluster) {
	c.t.Helper()
	before := get(c.t.Context(), c).Status
	target := name + "-1"
	if before.Primary == target {
		target = name + "-2"
	}
	annotate := func(target string) {
		c.kubectl("annotate", "gdb", name, "-n", space, "--overwrite", "meridian.dev/switchover="+target)
		c.until("the request is answered", time.Minute, func(ctx context.Context) (bool, string) {
			left := get(ctx, c).Annotations["meridian.dev/switchover"]
			return left == "", left
		})
	}
	begun := time.Now()
	annotate(target)
	awaitReady(c)
	after := get(c.t.Context(), c).Status
	c.t.Logf("%s is the primary and all is well %v after the request", after.Primary,
		time.Since(begun).Round(time.Millisecond))
	if after.Primary != target || after.Term != before.Term+1 {
		c.t.Errorf("the primary is %s at term %d, want %s at %d", after.Primary, after.Term, target, before.Term+1)
	}
	annotate("nobody")
	if now := get(c.t.Context(), c).Status; now.Primary != target || now.Term != after.Term {
		c.t.Errorf("a request that makes no sense led to %s at term %d", now.Primary, now.Term)
	}
}

// scaleUpAndDown adds two replicas and takes three away. The primary stays, what was written stays, and the claims of
// those that left are kept.
func scaleUpAndDown(c *cluster) {
	c.t.Helper()
	query(c, "create table kept as select generate_series(1, 1000) as number")
	primary, claims := get(c.t.Context(), c).Status.Primary, len(claimsOf(c))
	for _, number := range []int{5, 2} {
		begun, before := time.Now(), readTicks(c.t)
		c.kubectl("scale", "gdb/"+name, "-n", space, fmt.Sprintf("--replicas=%d", number))
		awaitReady(c)
		status := get(c.t.Context(), c).Status
		c.t.Logf("%d instances %v after the wish", number, time.Since(begun).Round(time.Millisecond))
		if status.Replicas != fmt.Sprintf("%d/%d", number-1, number-1) || len(status.Members) != number {
			c.t.Errorf("replicas %s, members %+v", status.Replicas, status.Members)
		}
		// A primary that is kept from running for longer than its lease is replaced, as it shall be.
		if _, stolen := readTicks(c.t).share(before); status.Primary != primary && stolen >= starved {
			c.t.Logf("the primary was %s and is %s: the processors were taken away for %d %%", primary, status.Primary, stolen)
			primary = status.Primary
		} else if status.Primary != primary {
			c.t.Errorf("the primary was %s and is %s", primary, status.Primary)
		}
	}
	if now := len(claimsOf(c)); now != claims+2 {
		c.t.Errorf("there are %d claims, want %d: those of instances that left are kept", now, claims+2)
	}
	if got := query(c, "select count(*) from kept"); got != "1000" {
		c.t.Errorf("%s rows are left of 1000", got)
	}
}

// deletePrimary deletes the pod of the primary: another one takes over, and the instance comes back as a replica.
func deletePrimary(c *cluster) {
	c.t.Helper()
	before := get(c.t.Context(), c).Status
	begun := time.Now()
	c.kubectl("delete", "pod", before.Primary+"-0", "-n", space, "--wait=false")
	c.until("there is another primary", time.Minute, func(ctx context.Context) (bool, string) {
		now := get(ctx, c).Status
		return now.Term > before.Term && now.Primary != "", fmt.Sprintf("%s at term %d", now.Primary, now.Term)
	})
	c.t.Logf("another primary after %v", time.Since(begun).Round(time.Millisecond))
	awaitReady(c)
	if got := query(c, "select count(*) from kept"); got != "1000" {
		c.t.Errorf("%s rows are left of 1000", got)
	}
}

func patch(c *cluster, document string) {
	c.t.Helper()
	c.kubectl("patch", "gdb", name, "-n", space, "--type=merge", "-p", document)
}
