//go:build cluster

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/e2e/checks"
)

// TestRepairs takes a replica's volume away, and then a replica's node, under traffic: the operator puts another
// instance in its place, with a new name and a new claim, and no write is lost or refused for it. A volume that comes
// back under another claim gets a new copy in its place.
func TestRepairs(t *testing.T) {
	if *failoverFaults == "short" {
		t.Skip("it takes minutes; -faults=all does it")
	}
	f := newFailover(t)
	for _, one := range []struct {
		name string
		do   func(*failover, string) (undo func())
		// stays says that the instance keeps its name.
		stays bool
	}{
		{name: "a volume is put back", do: (*failover).putVolumeBack, stays: true},
		{name: "a volume is wiped", do: (*failover).wipeVolume},
		{name: "a volume is lost", do: (*failover).loseVolume},
		{name: "a node is gone", do: (*failover).removeNode},
		{name: "a node is out of service", do: (*failover).loseNode},
	} {
		if *failoverRepairs != "" && !strings.Contains(one.name, *failoverRepairs) {
			continue
		}
		f.awaitWell()
		lost := f.replica()
		before := f.instances()
		f.steer()
		f.startTraffic()
		f.awaitSteady("writes are accepted before " + one.name)
		times := checks.Times{Fault: f.traffic.Now()}
		copied := f.incarnation(t.Context(), lost)
		undo := one.do(f, lost)
		if one.stays {
			f.awaitNewCopy(lost, copied)
		} else {
			f.awaitReplacement(before, lost)
		}
		took := f.traffic.Now() - times.Fault
		undo()
		f.awaitWell()
		f.awaitSteady("writes are accepted after " + one.name)
		times.End = f.traffic.Now()
		verdict := checks.Judge(f.endTraffic(times.Fault), f.present(), times)
		t.Logf("%s (%s): replaced after %s by one of %v; longest pause of writes %s, lost %d", one.name, lost,
			took.Round(time.Second), f.instances(), verdict.Gap.Round(time.Millisecond), len(verdict.Lost))
		if problem := verdict.Bad() + verdict.Invalid(); problem != "" {
			t.Errorf("%s: %s", one.name, problem)
		}
	}
	f.checkCopies()
}

// replica is an instance that does not lead and runs elsewhere than the primary.
func (f *failover) replica() string {
	f.t.Helper()
	for _, instance := range f.instances() {
		if instance != f.before && f.pod(instance).Spec.NodeName != f.node {
			return instance
		}
	}
	f.t.Fatal("there is no replica on another node")
	return ""
}

// wipeVolume removes the data under a running server, and leaves the volume and what the agent keeps beside the data.
func (f *failover) wipeVolume(lost string) func() {
	f.c.kubectl("exec", "-n", f.c.space, lost+"-0", "-c", "database", "--", "rm", "-rf", "/var/lib/meridian/pgdata")
	return func() {}
}

// putVolumeBack puts the volume of a replica under another claim of the same name, as a restore from a snapshot does.
// The operator is away: it would put another instance in the place of one whose claim is lost.
func (f *failover) putVolumeBack(lost string) func() {
	ctx := f.t.Context()
	var claim corev1.PersistentVolumeClaim
	if err := f.c.Get(ctx, client.ObjectKey{Namespace: f.c.space, Name: lost}, &claim); err != nil {
		f.t.Fatal(err)
	}
	volume := claim.Spec.VolumeName
	f.c.kubectl("patch", "pv", volume, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	startOperator := f.stopOperator()
	f.loseVolume(lost)
	f.c.until("the claim is gone", time.Minute, func(ctx context.Context) (bool, string) {
		err := f.c.Get(ctx, client.ObjectKeyFromObject(&claim), &corev1.PersistentVolumeClaim{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	f.c.kubectl("patch", "pv", volume, "-p", `{"spec":{"claimRef":null}}`)
	again := &corev1.PersistentVolumeClaim{Spec: claim.Spec}
	again.Namespace, again.Name, again.Labels = f.c.space, lost, claim.Labels
	again.Annotations = map[string]string{}
	for name, value := range claim.Annotations {
		if strings.HasPrefix(name, "meridian.dev/") {
			again.Annotations[name] = value
		}
	}
	if err := f.c.Create(ctx, again); err != nil {
		f.t.Fatal(err)
	}
	return func() {
		startOperator()
		f.c.kubectl("patch", "pv", volume, "-p", `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`)
	}
}

// incarnation is that of the copy of a member, by the record on the lease; empty if it is none.
func (f *failover) incarnation(ctx context.Context, instance string) string {
	var lease coordinationv1.Lease
	var record wire.LeaseRecord
	if err := f.c.Get(ctx, f.named("-primary"), &lease); err != nil ||
		json.Unmarshal([]byte(lease.Annotations[wire.AnnotationRecord]), &record) != nil {
		return ""
	}
	for _, member := range record.Members {
		if member.Name == instance {
			return member.Incarnation
		}
	}
	return ""
}

// awaitNewCopy waits until a member has another copy than before.
func (f *failover) awaitNewCopy(instance, before string) {
	f.t.Helper()
	f.c.until(instance+" has another copy", 3*time.Minute, func(ctx context.Context) (bool, string) {
		now := f.incarnation(ctx, instance)
		return now != "" && now != before, now
	})
}

func (f *failover) loseVolume(lost string) func() {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = f.c.space, lost
	if err := f.c.Delete(f.t.Context(), claim); err != nil {
		f.t.Fatal(err)
	}
	if err := f.c.Delete(f.t.Context(), f.pod(lost)); err != nil {
		f.t.Fatal(err)
	}
	return func() {}
}

// removeNode powers a node off and removes it from the cluster: nobody is left who could say that its pod has ended.
func (f *failover) removeNode(lost string) func() {
	node := f.pod(lost).Spec.NodeName
	f.c.sandbox("node", "stop", f.number(node))
	f.c.kubectl("delete", "node", node)
	return func() {
		f.c.sandbox("node", "start", f.number(node))
		f.c.until(node+" is back", time.Minute, func(ctx context.Context) (bool, string) {
			err := f.c.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{})
			return err == nil, fmt.Sprint(err)
		})
	}
}

// loseNode powers a node off and says, as an administrator does, that it will not come back by itself. Kubernetes takes
// the pod away then, and no other node can take the next one, because the volume is on that node; so the operator
// replaces it after the time that it gives to any node (--node-lost-after, five minutes).
func (f *failover) loseNode(lost string) func() {
	node := f.pod(lost).Spec.NodeName
	f.c.sandbox("node", "stop", f.number(node))
	const taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
	f.c.kubectl("taint", "node", node, taint)
	return func() {
		f.c.kubectl("taint", "node", node, taint+"-")
		f.c.sandbox("node", "start", f.number(node))
	}
}

// awaitReplacement waits until the lost instance is no more, its pod included, and a new one is counted on.
func (f *failover) awaitReplacement(before []string, lost string) {
	f.t.Helper()
	f.c.until(lost+" is replaced", 8*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		var pod corev1.Pod
		err = f.c.Get(ctx, client.ObjectKey{Namespace: f.c.space, Name: lost + "-0"}, &pod)
		gone := apierrors.IsNotFound(err)
		ready := 0
		fresh := false
		for _, member := range database.Status.Members {
			if member.Ready {
				ready++
			}
			fresh = fresh || !slices.Contains(before, member.Name)
		}
		return gone && ready == 3 && fresh, fmt.Sprintf("%+v", database.Status)
	})
}
