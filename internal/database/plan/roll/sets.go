package roll

import (
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/database/render"
)

// WriteSets writes the StatefulSets whose template may reach their instances.
func WriteSets(d *draft.Draft) {
	for _, child := range d.Children {
		if child.Kind == database.KindSet && (child.State != database.Changed || !withheld(d, child.Name)) {
			d.WriteChild(child, d.Change)
		}
	}
}

// ReplaceStuckPods deletes a pod whose containers never started when its StatefulSet has another template for it by
// now. A StatefulSet with a pod that is not ready waits for ever; a corrected spec must not. A claim that is deleted,
// or that nobody sees, may live by this pod alone.
func ReplaceStuckPods(d *draft.Draft) {
	for _, instance := range d.Instances {
		pod := instance.Pod
		if pod == nil || pod.Stuck == "" || pod.Deleting || !outdated(instance) || !d.ClaimStays(instance) ||
			d.Writes(database.KindPod, database.PodName(instance.Name)) {
			continue
		}
		d.Change(database.Action{
			Do: database.DeletePod{}, Kind: database.KindPod, Name: database.PodName(instance.Name),
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Why: "it could not start (" + pod.Stuck + ") and its template has changed since",
		})
	}
}

// outdated says that the pod was made from another template than its StatefulSet has now. The revision counts only when
// the StatefulSet controller has seen the latest template.
func outdated(instance database.Instance) bool {
	return instance.Set != nil && instance.Set.Observed && instance.Pod != nil &&
		instance.Set.Revision != "" && instance.Pod.Revision != instance.Set.Revision
}

// ReplaceBroken has pods made anew in which an agent runs and PostgreSQL cannot, once there is another template for
// them. They wait for nobody: there may be no one who is well.
func ReplaceBroken(d *draft.Draft) {
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		if cause := instance.Broken(); cause != "" && instance.Pod.Stuck == "" && !instance.Pod.Deleting {
			replace(d, instance, "it cannot start ("+cause+") and its template has changed since")
		}
	}
}

// withheld says that a StatefulSet keeps the template that it has. A template reaches an instance only when its turn
// has come, or when its pod starts anyway: one that does harm must not be what another instance starts from.
func withheld(d *draft.Draft, name string) bool {
	instance, _ := d.Instance(name)
	set, pod := instance.Set, instance.Pod
	untried := d.Trial != nil && (d.Trial.Refusal != "" || d.Trial.Unknown != "")
	switch {
	case set == nil || set.Stopped || d.Spec.Hibernated:
		return false
	case resizes(d, instance) && (untried || pod != nil && refusesSize(pod) && infeasible(d, instance) == ""):
		return true // A pod of that size would not be plan.Taken, and the instance could not start again.
	case set.Template == render.Template(d.Plan.Design, name):
		return false
	case untried:
		return true
	case instance.Broken() != "" || d.Turn == name:
		return false
	case pod == nil || pod.Deleting:
		return harm(d) != ""
	}
	return true
}
