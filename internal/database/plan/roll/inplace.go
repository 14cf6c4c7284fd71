package roll

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/database/render"
)

// ResizePods gives running containers the CPU and memory that is wanted, in place and all at once: nothing restarts for
// it. Memory shrinks only after the server has started with the smaller buffers, or the kernel would end it.
func ResizePods(d *draft.Draft) {
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		pod := instance.Pod
		if pod == nil || pod.Deleting || pod.Stuck != "" || d.Invalid || pod.Memory.IsZero() {
			continue
		}
		size := render.SizeOf(d.Plan.Design, wanted.Name)
		switch {
		case infeasible(d, instance) != "":
			// Instances has it made anew, where there is room.
		case size.Equal(pod.Size()):
			waitForResize(d, instance)
		case refusesSize(pod) && madeFor(instance, size):
			// Admission has given it another size, and another pod would get that too: it is told, and tolerated.
			d.Plan.Pending = append(d.Plan.Pending, fmt.Sprintf(
				"%s has %s CPU and %s where %s and %s are wanted, and the API server refuses these: %s", wanted.Name,
				pod.CPU.String(), pod.Memory.String(), size.CPU.String(), size.Memory.String(), pod.SizeTrial.Refusal))
		case refusesSize(pod):
			d.Hold(database.Stalled, draft.Later, "ResizeRefused", fmt.Sprintf(
				"%s stays at %s CPU and %s, because the API server refuses %s and %s: %s", wanted.Name, pod.CPU.String(),
				pod.Memory.String(), size.CPU.String(), size.Memory.String(), pod.SizeTrial.Refusal))
		case size.Memory.Cmp(pod.Memory) < 0 && buffered(d, instance):
			d.Hold(database.Progressing, draft.Soon, "MemoryShrinking", fmt.Sprintf(
				"the container of %s shrinks when its server has started with smaller buffers", wanted.Name))
		case !d.Writes(database.KindPod, database.PodName(wanted.Name)):
			d.Change(database.Action{
				Do: database.ResizePod{Size: size}, Kind: database.KindPod, Name: database.PodName(wanted.Name),
				UID: pod.UID, ResourceVersion: pod.ResourceVersion,
				Why: fmt.Sprintf("from %s CPU and %s to %s and %s", pod.CPU.String(), pod.Memory.String(),
					size.CPU.String(), size.Memory.String()),
			})
		}
	}
}

// buffered says that the server of an instance may still have the buffers of before.
func buffered(d *draft.Draft, instance database.Instance) bool {
	report := instance.Report
	return !report.Reachable || len(report.PendingRestart) > 0 || !slices.Contains(d.InForce, report.SettingsHash)
}

// waitForResize says how far the kubelet has come.
func waitForResize(d *draft.Draft, instance database.Instance) {
	pod := instance.Pod
	switch pod.Resize {
	case database.PodResizeDeferred:
		d.Hold(database.Degraded, draft.Later, "ResizeDeferred", fmt.Sprintf(
			"the node of %s has no room for %s CPU and %s now: %s", instance.Name, pod.CPU.String(), pod.Memory.String(),
			pod.ResizeMessage))
	case database.PodResizeRunning:
		d.Hold(database.Progressing, draft.Later, "ContainerResizing", fmt.Sprintf(
			"the container of %s gets %s CPU and %s", instance.Name, pod.CPU.String(), pod.Memory.String()))
	case database.PodResizeInfeasible: // It is so although it was made for this size: another one would be no better off.
		d.Hold(database.Stalled, draft.Later, "ResizeRefused", fmt.Sprintf(
			"the node of %s cannot give it %s CPU and %s: %s", instance.Name, pod.CPU.String(), pod.Memory.String(),
			pod.ResizeMessage))
	}
}

// infeasible says why the node of an instance can never give it what is wanted, empty if it may: the kubelet says so,
// or the API server, which knows how large the node is. No other refusal is a reason to make a pod anew: a quota or a
// LimitRange would refuse the next one as well. A pod that was made for this size already is not made anew for it.
func infeasible(d *draft.Draft, instance database.Instance) string {
	pod := instance.Pod
	if pod == nil {
		return ""
	}
	size := render.SizeOf(d.Plan.Design, instance.Name)
	switch {
	case madeFor(instance, size):
		return ""
	case pod.Resize == database.PodResizeInfeasible && size.Equal(pod.Size()):
		return pod.ResizeMessage
	case pod.SizeTrial != nil && pod.SizeTrial.NodeTooSmall:
		return pod.SizeTrial.Refusal
	}
	return ""
}

// refusesSize says that the API server does not take the wanted size of a pod.
func refusesSize(pod *database.Pod) bool { return pod.SizeTrial != nil && pod.SizeTrial.Refusal != "" }

// madeFor says that the pod of an instance was made from a template of that size.
func madeFor(instance database.Instance, size database.Size) bool {
	return instance.Set != nil && instance.Set.Observed && !outdated(instance) && instance.Set.Revision != "" &&
		size.Equal(instance.Set.Size())
}

// cramped says that the container of an instance has less memory than it shall have.
func cramped(d *draft.Draft, instance database.Instance) bool {
	pod, memory := instance.Pod, render.SizeOf(d.Plan.Design, instance.Name).Memory
	return !pod.Memory.IsZero() && pod.Memory.Cmp(memory) < 0 ||
		!pod.Granted.IsZero() && pod.Granted.Cmp(memory) < 0
}

// LabelPods gives running pods the labels and annotations that the user wants them to have.
func LabelPods(d *draft.Draft) {
	wanted := render.Metadata(d.Spec)
	for _, instance := range d.Instances {
		pod, name := instance.Pod, database.PodName(instance.Name)
		if pod == nil || pod.Deleting || pod.Metadata == wanted || d.Writes(database.KindPod, name) ||
			!d.Plan.Design.Wants(instance.Name) {
			continue
		}
		d.Change(database.Action{
			Do: database.LabelPod{}, Kind: database.KindPod, Name: name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Why: "spec.podTemplate.metadata has changed",
		})
	}
}

// resizes says that the template of an instance has another size than is wanted.
func resizes(d *draft.Draft, instance database.Instance) bool {
	size := instance.Set.Size()
	return !size.Memory.IsZero() && !render.SizeOf(d.Plan.Design, instance.Name).Equal(size)
}
