package operated

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/tenure"
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

// wished is the database that a user asks for in the beginning.
func wished(c sim.Case) *v1alpha1.GeoDatabase {
	durability := map[tenure.Durability]v1alpha1.Durability{
		tenure.Available: v1alpha1.DurabilityAvailable, tenure.Async: v1alpha1.DurabilityAsync,
	}[c.Durability]
	if durability == "" {
		durability = v1alpha1.DurabilityStrict
	}
	reclaim := v1alpha1.ReclaimDelete
	if c.Seed%3 == 0 {
		reclaim = v1alpha1.ReclaimRetain
	}
	return &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: int32(c.Instances), Durability: durability,
			Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), Reclaim: reclaim},
		},
	}
}

// Befall implements sim.Cluster.
func (d *Database) Befall(fault sim.Fault) bool {
	edits := map[sim.FaultKind]func(*v1alpha1.GeoDatabase){
		sim.FaultWish:       func(o *v1alpha1.GeoDatabase) { o.Spec.Instances = int32(fault.Wish) },
		sim.FaultSwitchover: func(o *v1alpha1.GeoDatabase) { d.askSwitchover(o, fault) },
		FaultParameter: func(o *v1alpha1.GeoDatabase) {
			o.Spec.Parameters = map[string]v1alpha1.Setting{
				"max_connections": v1alpha1.Setting(fmt.Sprint(200 + 10*fault.Wish)),
			}
		},
		FaultImage:     func(o *v1alpha1.GeoDatabase) { o.Spec.Image = fmt.Sprintf("postgis:17.%d", fault.Wish) },
		FaultRestart:   func(o *v1alpha1.GeoDatabase) { o.Spec.Restart = d.Identity("token-") },
		FaultHibernate: func(o *v1alpha1.GeoDatabase) { o.Spec.Hibernated = true },
		FaultWake:      func(o *v1alpha1.GeoDatabase) { o.Spec.Hibernated = false },
	}
	if edit := edits[fault.Kind]; edit != nil {
		d.Note(-1, "FAULT %s, %d", fault.Kind, fault.Wish)
		if object := d.object(); object != nil && object.DeletionTimestamp == nil {
			edit(object)
			if err := d.cluster.Update(d.ctx, object); err != nil {
				d.Note(-1, "it is refused: %v", err)
			}
			d.show()
		}
		return true
	}
	return d.befall(fault)
}

func (d *Database) askSwitchover(object *v1alpha1.GeoDatabase, fault sim.Fault) {
	target := database.AnyInstance
	if fault.Other > 0 {
		target = instanceName(fault.Other % int(object.Spec.Instances))
	}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, database.AnnotationSwitchover, target)
}

func (d *Database) befall(fault sim.Fault) bool {
	switch fault.Kind {
	case FaultDelete:
		d.Note(-1, "FAULT %s", fault.Kind)
		if object := d.object(); object != nil {
			d.must(d.cluster.Delete(d.ctx, object))
		}
	case sim.FaultTerminate:
		var object corev1.Pod
		who := d.Whom(fault.Node)
		d.Note(who, "FAULT somebody deletes the pod")
		if d.get(podName(who), &object) == nil {
			d.must(d.cluster.Delete(d.ctx, &object))
		}
	case sim.FaultLeaseLost, sim.FaultRouteGone:
		d.Note(-1, "FAULT %s", fault.Kind)
		d.takeAway(fault.Kind)
	case sim.FaultVolumeLost:
		d.takeVolume(d.Whom(fault.Node))
	case sim.FaultSettings:
		who := d.Whom(fault.Node)
		d.Note(who, "FAULT %s", fault.Kind)
		d.pods[who].late = max(d.pods[who].late, d.Now()+fault.For)
	case sim.FaultOperator:
		d.Note(-1, "FAULT %s", fault.Kind)
		ending := d.operator
		ending.end()
		d.After(fault.For, func() { d.replace(ending) })
	case FaultStall:
		d.Note(-1, "FAULT %s", fault.Kind)
		d.operator.stalls = max(d.operator.stalls, d.Now()+fault.For)
	default:
		return false
	}
	d.show()
	return true
}

// takeAway deletes the lease, finalizer and all, or the write address.
func (d *Database) takeAway(kind sim.FaultKind) {
	var object client.Object = &discoveryv1.EndpointSlice{}
	of := database.WriteName(name.Name)
	if kind == sim.FaultLeaseLost {
		object, of = &coordinationv1.Lease{}, database.LeaseName(name.Name)
	}
	record := d.Stored()
	if record == nil || !record.Initialised || !d.Serves() || d.get(of, object) != nil {
		return // Before there is data nobody mends it: the user makes the database anew.
	}
	object.SetFinalizers(nil)
	d.must(d.cluster.Update(d.ctx, object))
	d.must(client.IgnoreNotFound(d.cluster.Delete(d.ctx, object)))
}

// takeVolume is a user who deletes the claim of an instance and its pod, as the runbook says where a volume is broken.
func (d *Database) takeVolume(who int) {
	var claim corev1.PersistentVolumeClaim
	var object corev1.Pod
	if !d.Serves() || !d.Spares(who) || d.get(instanceName(who), &claim) != nil || d.get(podName(who), &object) != nil {
		return
	}
	d.Note(who, "FAULT somebody deletes the claim and the pod")
	d.must(d.cluster.Delete(d.ctx, &claim))
	d.must(d.cluster.Delete(d.ctx, &object))
}

// Serves implements sim.Cluster.
func (d *Database) Serves() bool {
	object := d.object()
	return object != nil && object.DeletionTimestamp == nil && !object.Spec.Hibernated
}

// Unsettled implements sim.Cluster.
func (d *Database) Unsettled() string {
	object := d.object()
	switch {
	case d.operator.ended || d.Now() < d.operator.stalls:
		return "the operator is not well"
	case object == nil:
		return d.left()
	case object.DeletionTimestamp != nil:
		return "the database is being deleted"
	case object.Status.ObservedGeneration != object.Generation:
		return "the operator has not seen the last change"
	case object.Annotations[database.AnnotationSwitchover] != "":
		return "a switchover is asked for"
	case object.Spec.Hibernated:
		return d.unslept()
	}
	if reason := d.UnsettledDatabase(); reason != "" {
		return reason
	}
	ready := condition.Find(object.Status.Conditions, condition.Ready)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return fmt.Sprintf("the status is %+v", object.Status.Conditions)
	}
	return d.unrolled(object)
}

// unrolled says which pod is not as wished.
func (d *Database) unrolled(object *v1alpha1.GeoDatabase) string {
	var list corev1.PodList
	d.must(d.cluster.List(d.ctx, &list, client.InNamespace(kube.Space)))
	if len(list.Items) != int(object.Spec.Instances) {
		return fmt.Sprintf("there are %d pods", len(list.Items))
	}
	for _, pod := range list.Items {
		who, _ := d.whose(pod.Name)
		report, _ := d.Report(who)
		image := object.Spec.Image
		differs := func(container corev1.Container) bool { return container.Image != image }
		switch {
		case !kube.Ready(&pod) || pod.DeletionTimestamp != nil:
			return pod.Name + " is not ready"
		case image != "" && slices.ContainsFunc(pod.Spec.Containers, differs):
			return pod.Name + " has another image"
		case len(report.PendingRestart) > 0:
			return fmt.Sprintf("%s waits for a start: %v", pod.Name, report.PendingRestart)
		}
	}
	return ""
}

// unslept says what still runs of a database that hibernates.
func (d *Database) unslept() string {
	var list corev1.PodList
	d.must(d.cluster.List(d.ctx, &list, client.InNamespace(kube.Space)))
	if len(list.Items) > 0 {
		return fmt.Sprintf("%d pods run", len(list.Items))
	}
	return ""
}

// left says what is left of a database that is gone.
func (d *Database) left() string {
	kept := wished(d.Case).Spec.Storage.Reclaim == v1alpha1.ReclaimRetain
	for _, kind := range d.server.Kinds() {
		if kept && kind.Kind == "PersistentVolumeClaim" {
			continue
		}
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		err := d.cluster.List(d.ctx, &list, client.InNamespace(kube.Space))
		if meta.IsNoMatchError(err) {
			continue
		}
		for _, item := range list.Items {
			if item.GetNamespace() == kube.Space && item.GetLabels()[database.LabelDatabase] != "" && !lives.Foreign(&item) {
				return fmt.Sprintf("%s %s is left", item.GetKind(), item.GetName())
			}
		}
	}
	return ""
}

const watchEvery = 250 * time.Millisecond
