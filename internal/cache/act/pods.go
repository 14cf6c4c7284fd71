package act

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/cache"
)

// resizePod changes the memory of the server's container, requests and limits alike, through the subresource that is
// made for it. No other field of the pod is touched.
func (p *pass) resizePod(ctx context.Context, action cache.Action, bytes int64) (cache.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return cache.Result{}, err
	}
	before, memory, found := pod.DeepCopy(), *resource.NewQuantity(bytes, resource.BinarySI), false
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		have := container.Resources
		if container.Name != cache.ContainerCache || have.Limits == nil || have.Requests == nil {
			continue
		}
		found = true
		container.Resources.Limits[corev1.ResourceMemory] = memory
		container.Resources.Requests[corev1.ResourceMemory] = memory
	}
	if !found {
		return cache.Result{}, errors.New("the pod has no container of the cache with a limit of memory")
	}
	patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
	err := p.Client.SubResource("resize").Patch(ctx, &pod, patch, client.FieldOwner(cache.FieldManager))
	if err != nil {
		p.Doubt(action, err)
		return cache.Result{}, err
	}
	p.ledger.Wrote(&pod)
	return cache.Result{Done: true, Wrote: true}, nil
}

// deletePod deletes a pod that is still as the plan has seen it, and in which no server runs, unless it is to be
// restarted: then its agent hands over first.
func (p *pass) deletePod(ctx context.Context, action cache.Action) (cache.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return cache.Result{}, err
	}
	for _, status := range pod.Status.ContainerStatuses {
		if cache.Does[cache.DeletePod](action) && status.Name == cache.ContainerCache && status.State.Running != nil {
			return cache.Result{}, moved(action, "its server runs")
		}
	}
	return p.Delete(ctx, action, &pod)
}
