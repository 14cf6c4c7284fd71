//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// TestChanges changes a running database. No change may restart it: restarts are not carried out yet.
func TestChanges(t *testing.T) {
	c := connect(t)
	c.sandbox("image", "build", "meridian", "--load")
	install(c)
	c.namespace(space)
	c.kubectl("apply", "-n", space, "-f", "deploy/samples/minimal.yaml")
	awaitReady(c)
	pod := podOf(c)

	t.Run("a parameter is reloaded", func(*testing.T) {
		patch(c, `{"spec":{"parameters":{"work_mem":"77MB"}}}`)
		awaitReady(c)
		if got := query(c, "show work_mem"); got != "77MB" {
			t.Errorf("work_mem is %s, want 77MB", got)
		}
	})
	t.Run("a volume grows", func(*testing.T) {
		patch(c, `{"spec":{"storage":{"size":"1536Mi"}}}`)
		want := resource.MustParse("1536Mi")
		took := c.until("the volume has grown", 3*time.Minute, func(ctx context.Context) (bool, string) {
			var claim corev1.PersistentVolumeClaim
			if err := c.Get(ctx, client.ObjectKey{Namespace: space, Name: name + "-1"}, &claim); err != nil {
				t.Fatal(err)
			}
			capacity := claim.Status.Capacity[corev1.ResourceStorage]
			return capacity.Cmp(want) >= 0, capacity.String()
		})
		t.Logf("the volume has grown after %v", took.Round(time.Millisecond))
		awaitReady(c)
	})
	t.Run("a bad image changes nothing that runs, and undoing it leaves no trace", func(*testing.T) {
		patch(c, `{"spec":{"image":"localhost/meridian/nothing:17"}}`)
		awaitReason(c, v1alpha1.ConditionDegraded, "RestartPending")
		if !condition.IsTrue(get(t.Context(), c).Status.Conditions, v1alpha1.ConditionServing) {
			t.Error("the database does not serve any more")
		}
		patch(c, `{"spec":{"image":null}}`)
		awaitReady(c)
	})
	t.Run("an invalid spec is refused at the door", func(*testing.T) {
		before := get(t.Context(), c)
		broken := before.DeepCopy()
		broken.Spec.Parameters = map[string]v1alpha1.Setting{"no_such_parameter": "1"}
		err := c.Update(t.Context(), broken)
		if err == nil || !strings.Contains(err.Error(), "spec.parameters.no_such_parameter") {
			t.Errorf("the API server says %v", err)
		}
	})
	t.Run("more instances are held by name", func(*testing.T) {
		c.kubectl("scale", "gdb/"+name, "-n", space, "--replicas=3")
		awaitReason(c, v1alpha1.ConditionDegraded, "ReplicasNotCarriedOut")
		c.kubectl("scale", "gdb/"+name, "-n", space, "--replicas=1")
		awaitReady(c)
	})
	if now := podOf(c); now.UID != pod.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod was replaced or restarted: %s, %d restarts", now.UID, now.Status.ContainerStatuses[0].RestartCount)
	}
}

func podOf(c *cluster) *corev1.Pod {
	c.t.Helper()
	var pod corev1.Pod
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: space, Name: name + "-1-0"}, &pod); err != nil {
		c.t.Fatal(err)
	}
	return &pod
}

func patch(c *cluster, document string) {
	c.t.Helper()
	c.kubectl("patch", "gdb", name, "-n", space, "--type=merge", "-p", document)
}

func awaitReason(c *cluster, typ, reason string) {
	c.t.Helper()
	c.until(typ+" for "+reason, time.Minute, func(ctx context.Context) (bool, string) {
		found := condition.Find(get(ctx, c).Status.Conditions, typ)
		return found != nil && found.Status == "True" && found.Reason == reason, fmt.Sprintf("%+v", found)
	})
}
