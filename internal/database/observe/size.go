package observe

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/redact"
)

// TryPod asks through a client whether a pod would be taken, and makes none.
func TryPod(through client.Client) func(ctx context.Context, pod *corev1.Pod) error {
	return func(ctx context.Context, pod *corev1.Pod) error { return through.Create(ctx, pod, client.DryRunAll) }
}

// TryResize asks through a client whether a pod may have another size, and gives it none.
func TryResize(through client.Client) func(ctx context.Context, pod *corev1.Pod, patch client.Patch) error {
	return func(ctx context.Context, pod *corev1.Pod, patch client.Patch) error {
		return through.SubResource("resize").Patch(ctx, pod, patch, client.DryRunAll,
			client.FieldOwner(database.FieldManager))
	}
}

// trySizes asks the API server about the wanted size of each running pod that has another one. It is asked anew in each
// pass, so that a quota that was raised is noticed, and nothing has to be remembered.
func (p *pass) trySizes(ctx context.Context) error {
	if p.TryResize == nil || p.facts.Deleting || p.facts.Spec.Paused || p.facts.Problem != "" {
		return nil
	}
	design := design.Outline(p.facts)
	for i := range p.facts.Instances {
		instance := &p.facts.Instances[i]
		if !design.Wants(instance.Name) || instance.Pod == nil || instance.Pod.Deleting || instance.Pod.Stuck != "" ||
			instance.Pod.Memory.IsZero() {
			continue
		}
		size := render.SizeOf(design, instance.Name)
		if size.Equal(instance.Pod.Size()) {
			continue
		}
		var pod corev1.Pod
		found, err := p.find(ctx, database.PodName(instance.Name), &pod)
		if err != nil {
			return err
		}
		if found {
			patch := client.StrategicMergeFrom(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
			render.Resize(&pod, size)
			instance.Pod.SizeTrial = judgeSize(&pod, size, p.TryResize(ctx, &pod, patch))
		}
	}
	return nil
}

// nodeCapacity is the cause by which the API server says that a node has less than a pod asks for.
const nodeCapacity metav1.CauseType = "NodeCapacity"

// judgeSize tells a refusal from a yes, and from no answer, which is taken for a yes: the patch itself is refused if
// it has to be. Admission that has changed the size to something else has refused it.
func judgeSize(pod *corev1.Pod, size database.Size, err error) *database.SizeTrial {
	got := database.Size{
		CPU: requested(pod.Spec)[corev1.ResourceCPU], Memory: requested(pod.Spec)[corev1.ResourceMemory],
	}
	switch {
	case err == nil && !size.Equal(got):
		return &database.SizeTrial{Refusal: fmt.Sprintf("admission makes %s CPU and %s of it", got.CPU.String(),
			got.Memory.String())}
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		answer, _ := err.(apierrors.APIStatus)
		return &database.SizeTrial{Refusal: redact.Refusal(err), NodeTooSmall: answer != nil &&
			answer.Status().Details != nil && slices.ContainsFunc(answer.Status().Details.Causes,
			func(cause metav1.StatusCause) bool { return cause.Type == nodeCapacity })}
	}
	return &database.SizeTrial{}
}
