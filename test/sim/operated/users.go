package operated

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/lives"
)

// What users do, beside scaling (sim.FaultWish), switchovers (sim.FaultSwitchover) and the end of a pod
// (sim.FaultTerminate).
const (
	// FaultParameter changes a parameter that takes a start of the server, FaultImage the image of all pods.
	FaultParameter sim.FaultKind = "user-changes-parameter"
	FaultImage     sim.FaultKind = "user-changes-image"
	FaultRestart   sim.FaultKind = "user-asks-for-restart"
	FaultHibernate sim.FaultKind = "user-hibernates"
	FaultWake      sim.FaultKind = "user-wakes"
	FaultDelete    sim.FaultKind = "user-deletes"
	// FaultMemory changes the memory of a cache.
	FaultMemory sim.FaultKind = "user-changes-memory"
)

// What goes wrong with the operator, beside its end (sim.FaultOperator).
const (
	// PointCall is each call of the operator to the API server. It belongs to no machine: its faults have Nowhere.
	PointCall sim.PointKind = "operator-call"
	// FaultConflict answers a write with a conflict. FaultOvertaken has another process lead while a call is on its way.
	FaultConflict  sim.FaultKind = "conflict"
	FaultOvertaken sim.FaultKind = "operator-overtaken"
	// FaultStall keeps the caches of the operator where they are.
	FaultStall sim.FaultKind = "operator-cache-stalls"
	// Nowhere is the machine of what happens on none.
	Nowhere = -1
)

// Befall implements sim.Cluster.
func (c *Cluster) Befall(fault sim.Fault) bool {
	object := c.of.seen()
	if object == nil || object.GetDeletionTimestamp() != nil {
		made := c.of.made()
		object = &seen{Object: made[len(made)-1]} // Of which nothing is written.
	}
	if !c.of.edit(object.Object, fault) {
		return c.befall(fault)
	}
	c.Note(-1, "FAULT %s, %d", fault.Kind, fault.Wish)
	if object.GetUID() != "" {
		if err := c.cluster.Update(c.ctx, object.Object); err != nil {
			c.Note(-1, "it is refused: %v", err)
		}
	}
	c.show()
	return true
}

func (c *Cluster) befall(fault sim.Fault) bool {
	switch fault.Kind {
	case FaultDelete:
		c.Note(-1, "FAULT %s", fault.Kind)
		if object := c.of.seen(); object != nil {
			c.must(c.cluster.Delete(c.ctx, object.Object))
		}
	case sim.FaultTerminate:
		who := c.Whom(fault.Node)
		c.Note(who, "FAULT somebody deletes the pod")
		c.deletePod(who)
	case sim.FaultLeaseLost, sim.FaultRouteGone:
		c.Note(-1, "FAULT %s", fault.Kind)
		c.takeAway(fault.Kind)
	case sim.FaultVolumeLost:
		c.takeVolume(c.Whom(fault.Node))
	case sim.FaultSettings:
		who := c.Whom(fault.Node)
		c.Note(who, "FAULT %s", fault.Kind)
		c.pods[who].late = max(c.pods[who].late, c.Now()+fault.For)
	case sim.FaultOperator:
		c.Note(-1, "FAULT %s", fault.Kind)
		ending := c.operator
		ending.end()
		c.After(fault.For, func() { c.replace(ending) })
	case FaultStall:
		c.Note(-1, "FAULT %s", fault.Kind)
		c.operator.stalls = max(c.operator.stalls, c.Now()+fault.For)
	default:
		return false
	}
	c.show()
	return true
}

func (c *Cluster) deletePod(who int) {
	var object corev1.Pod
	if c.get(podName(who), &object) == nil {
		c.must(c.cluster.Delete(c.ctx, &object))
	}
}

// takeAway deletes the lease, finalizer and all, or the write address.
func (c *Cluster) takeAway(kind sim.FaultKind) {
	var object client.Object = &discoveryv1.EndpointSlice{}
	of := c.names.write
	if kind == sim.FaultLeaseLost {
		object, of = &coordinationv1.Lease{}, c.names.lease
	}
	record := c.Stored()
	if record == nil || !record.Initialised || !c.Serves() || c.get(of, object) != nil {
		return // Before there is data nobody mends it: the user makes the database anew.
	}
	object.SetFinalizers(nil)
	c.must(c.cluster.Update(c.ctx, object))
	c.must(client.IgnoreNotFound(c.cluster.Delete(c.ctx, object)))
}

// takeVolume is a user who deletes the claim of an instance and its pod, as the runbook says where a volume is broken.
func (c *Cluster) takeVolume(who int) {
	var claim corev1.PersistentVolumeClaim
	var object corev1.Pod
	if !c.Serves() || !c.Spares(who) || c.get(instanceName(who), &claim) != nil || c.get(podName(who), &object) != nil {
		return
	}
	c.Note(who, "FAULT somebody deletes the claim and the pod")
	c.must(c.cluster.Delete(c.ctx, &claim))
	c.must(c.cluster.Delete(c.ctx, &object))
}

// Serves implements sim.Cluster.
func (c *Cluster) Serves() bool {
	object := c.of.seen()
	return object != nil && object.GetDeletionTimestamp() == nil && !object.asleep
}

// Unsettled implements sim.Cluster.
func (c *Cluster) Unsettled() string {
	object := c.of.seen()
	switch {
	case c.operator.ended || c.Now() < c.operator.stalls:
		return "the operator is not well"
	case object == nil:
		return c.left()
	case object.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	case object.observed != object.GetGeneration():
		return "the operator has not seen the last change"
	case object.asks != "":
		return "something is asked for: " + object.asks
	case object.asleep:
		return c.unslept()
	}
	if reason := c.UnsettledInstances(); reason != "" {
		return reason
	}
	if !condition.IsTrue(object.conditions, condition.Ready) {
		return fmt.Sprintf("the status is %+v", object.conditions)
	}
	if object.primary != c.Holder().Name {
		return fmt.Sprintf("the status names %q as the primary, and %s is", object.primary, c.Holder().Name)
	}
	return c.unrolled(object)
}

// unrolled says which pod is not as wished.
func (c *Cluster) unrolled(object *seen) string {
	var list corev1.PodList
	c.must(c.cluster.List(c.ctx, &list, client.InNamespace(kube.Space)))
	if len(list.Items) != object.count {
		return fmt.Sprintf("there are %d pods", len(list.Items))
	}
	for _, pod := range list.Items {
		who, _ := c.whose(pod.Name)
		image := object.image
		differs := func(container corev1.Container) bool { return container.Image != image }
		switch {
		case !kube.Ready(&pod) || pod.DeletionTimestamp != nil:
			return pod.Name + " is not ready"
		case image != "" && slices.ContainsFunc(pod.Spec.Containers, differs):
			return pod.Name + " has another image"
		}
		if lacks := c.of.lacks(who, &pod); lacks != "" {
			return pod.Name + " waits for " + lacks
		}
	}
	return ""
}

// unslept says what still runs of what hibernates.
func (c *Cluster) unslept() string {
	var list corev1.PodList
	c.must(c.cluster.List(c.ctx, &list, client.InNamespace(kube.Space)))
	if len(list.Items) > 0 {
		return fmt.Sprintf("%d pods run", len(list.Items))
	}
	return ""
}

// left says what is left of what is gone.
func (c *Cluster) left() string {
	of, is := c.of.(geodatabase)
	kept := is && of.keeps()
	for _, kind := range c.server.Kinds() {
		if kept && kind.Kind == "PersistentVolumeClaim" {
			continue
		}
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		err := c.cluster.List(c.ctx, &list, client.InNamespace(kube.Space))
		if meta.IsNoMatchError(err) {
			continue
		}
		for _, item := range list.Items {
			if item.GetNamespace() == kube.Space && item.GetLabels()[c.names.label] != "" && !lives.Foreign(&item) {
				return fmt.Sprintf("%s %s is left", item.GetKind(), item.GetName())
			}
		}
	}
	return ""
}

const watchEvery = 250 * time.Millisecond
