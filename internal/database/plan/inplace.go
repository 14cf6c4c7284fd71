package plan

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// resizePods gives running containers the CPU and memory that is wanted, in place and all at once: nothing restarts for
// it. Memory shrinks only after the server has started with the smaller buffers, or the kernel would end it.
func resizePods(d *draft) {
	for _, wanted := range d.plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		pod := instance.Pod
		if pod == nil || pod.Deleting || pod.Stuck != "" || d.invalid || pod.Memory.IsZero() {
			continue
		}
		size := render.SizeOf(d.plan.Design, wanted.Name)
		switch {
		case d.infeasible(instance) != "":
			// rollInstances has it made anew, where there is room.
		case size.CPU.Cmp(pod.CPU) == 0 && size.Memory.Cmp(pod.Memory) == 0:
			waitForResize(d, instance)
		case size.Memory.Cmp(pod.Memory) < 0 && d.buffered(instance):
			d.hold(database.Progressing, soon, "MemoryShrinking", fmt.Sprintf(
				"the container of %s shrinks when its server has started with smaller buffers", wanted.Name))
		case !d.writes(database.KindPod, database.PodName(wanted.Name)):
			d.change(database.Action{
				Verb: database.ResizePod, Kind: database.KindPod, Name: database.PodName(wanted.Name),
				UID: pod.UID, ResourceVersion: pod.ResourceVersion, Size: &size,
				Why: fmt.Sprintf("from %s CPU and %s to %s and %s", pod.CPU.String(), pod.Memory.String(),
					size.CPU.String(), size.Memory.String()),
			})
		}
	}
}

// buffered says that the server of an instance may still have the buffers of before.
func (d *draft) buffered(instance database.Instance) bool {
	report := instance.Report
	return !report.Reachable || len(report.PendingRestart) > 0 || !slices.Contains(d.inForce, report.SettingsHash)
}

// waitForResize says how far the kubelet has come.
func waitForResize(d *draft, instance database.Instance) {
	pod := instance.Pod
	switch pod.Resize {
	case database.PodResizeDeferred:
		d.hold(database.Degraded, later, "ResizeDeferred", fmt.Sprintf(
			"the node of %s has no room for %s CPU and %s now: %s", instance.Name, pod.CPU.String(), pod.Memory.String(),
			pod.ResizeMessage))
	case database.PodResizeRunning:
		d.hold(database.Progressing, later, "ContainerResizing", fmt.Sprintf(
			"the container of %s gets %s CPU and %s", instance.Name, pod.CPU.String(), pod.Memory.String()))
	case database.PodResizeInfeasible:
	}
}

// infeasible says why the node of an instance can never give it what is wanted, empty if it may: the kubelet says so,
// or the API server, which knows how large the node is.
func (d *draft) infeasible(instance database.Instance) string {
	if instance.Pod == nil {
		return ""
	}
	if instance.Pod.Resize == database.PodResizeInfeasible {
		return instance.Pod.ResizeMessage
	}
	size := render.SizeOf(d.plan.Design, instance.Name)
	if refusal := d.Refusal(database.ResizeID(instance.Pod.UID, size)); refusal != nil {
		return refusal.Why
	}
	return ""
}

// labelPods gives running pods the labels and annotations that the user wants them to have.
func labelPods(d *draft) {
	wanted := render.Metadata(d.Spec)
	for _, instance := range d.Instances {
		pod, name := instance.Pod, database.PodName(instance.Name)
		if pod == nil || pod.Deleting || pod.Metadata == wanted || d.writes(database.KindPod, name) ||
			!d.plan.Design.Wants(instance.Name) {
			continue
		}
		d.change(database.Action{
			Verb: database.LabelPod, Kind: database.KindPod, Name: name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Why: "spec.podTemplate.metadata has changed",
		})
	}
}
