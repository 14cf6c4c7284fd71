package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
)

// readInstances finds instances by label and then reads each part of them by name: a part that has lost its label is
// still seen, and repaired. The first instance is always looked for.
func (p *pass) readInstances(ctx context.Context) error {
	var sets appsv1.StatefulSetList
	err := p.reader.List(ctx, &sets, client.InNamespace(p.object.Namespace),
		client.MatchingLabels{cache.LabelCache: p.object.Name})
	if err != nil {
		return fmt.Errorf("list stateful sets: %w", err)
	}
	serials := map[int]bool{1: true}
	for i := range sets.Items {
		if serial, ok := cache.SerialOf(p.object.Name, sets.Items[i].Name); ok {
			serials[serial] = true
		}
	}
	for _, serial := range slices.Sorted(maps.Keys(serials)) {
		instance, err := p.readInstance(ctx, serial)
		if err != nil {
			return err
		}
		if instance.Set != nil {
			p.facts.Instances = append(p.facts.Instances, instance)
		}
	}
	return nil
}

func (p *pass) readInstance(ctx context.Context, serial int) (cache.Instance, error) {
	instance := cache.Instance{Serial: serial, Name: cache.InstanceName(p.object.Name, serial)}
	var set appsv1.StatefulSet
	found, err := p.findSurely(ctx, instance.Name, &set)
	if err != nil || !found || !p.ours(&set) {
		return instance, err
	}
	instance.Set = &cache.Set{
		UID: string(set.UID), ResourceVersion: set.ResourceVersion, Deleting: set.DeletionTimestamp != nil,
		Observed: set.Status.ObservedGeneration == set.Generation,
		Wish:     set.Spec.Template.Annotations[cache.AnnotationWish],
		Template: set.Spec.Template.Annotations[cache.AnnotationTemplate],
	}
	var pod corev1.Pod
	if found, err = p.findSurely(ctx, cache.PodName(instance.Name), &pod); err != nil {
		return instance, err
	}
	if controller := metav1.GetControllerOfNoCopy(&pod); found && controller != nil && controller.UID == set.UID {
		instance.Pod = podFacts(&pod, p.facts.Now)
		instance.Pod.Stuck = cmp.Or(instance.Pod.Stuck, service.NotSetUp(ctx, p.Live, &pod, p.facts.Now))
	}
	return instance, nil
}

func podFacts(pod *corev1.Pod, now time.Time) *cache.Pod {
	facts := &cache.Pod{
		UID: string(pod.UID), ResourceVersion: pod.ResourceVersion,
		Wish: pod.Annotations[cache.AnnotationWish], Template: pod.Annotations[cache.AnnotationTemplate],
		Address: pod.Status.PodIP, Settings: pod.Annotations[cache.AnnotationSettings],
		Deleting: pod.DeletionTimestamp != nil, Node: pod.Spec.NodeName, Stuck: stuckOf(pod, now),
		UnplacedSince: service.UnplacedSince(pod),
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == cache.ContainerCache {
			facts.Limit = container.Resources.Limits.Memory().Value()
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == cache.ContainerCache && status.Resources != nil {
			facts.Actual = status.Resources.Limits.Memory().Value()
		}
	}
	for _, condition := range pod.Status.Conditions {
		isTrue := condition.Status == corev1.ConditionTrue
		switch condition.Type {
		case corev1.PodReady:
			if facts.Ready = isTrue; isTrue {
				facts.ReadySince = condition.LastTransitionTime.UTC()
			} else {
				facts.AwaySince = condition.LastTransitionTime.Time
			}
		case corev1.PodResizePending:
			if facts.Message = condition.Message; isTrue && condition.Reason == corev1.PodReasonInfeasible {
				facts.Resize = cache.ResizeInfeasible
			} else if isTrue {
				facts.Resize = cache.ResizeDeferred
			}
		case corev1.PodResizeInProgress:
			if isTrue && facts.Resize == "" {
				facts.Resize, facts.Message = cache.ResizeRunning, condition.Message
			}
		default:
		}
	}
	if facts.Deleting {
		facts.EndsBy = pod.DeletionTimestamp.Time
	}
	return facts
}

// hopeless are reasons of a waiting container that do not go away by waiting alone.
var hopeless = []string{
	"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
	"ImagePullBackOff", "InvalidImageName", "RunContainerError",
}

// stuckOf says why no server runs in a pod, empty if one does or is about to. Only our own containers count: a
// container that a user has added may fail while the cache beside it works.
func stuckOf(pod *corev1.Pod, now time.Time) string {
	var reason string
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		own := status.Name == cache.ContainerInstall || status.Name == cache.ContainerCache
		waiting := status.State.Waiting
		switch {
		case status.Name == cache.ContainerCache && status.State.Running != nil:
			return ""
		case own && reason == "" && waiting != nil && slices.Contains(hopeless, waiting.Reason):
			reason = fmt.Sprintf("%s: %s: %s", status.Name, waiting.Reason, waiting.Message)
		}
	}
	return cmp.Or(service.Unschedulable(pod, now), reason)
}
