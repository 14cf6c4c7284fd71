package service

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// schedulerPatience is how long the scheduler may find no node for a pod before that counts as a failure: it looks at a
// new pod before it knows of its claims, or while a volume is being bound, and looks again at once.
const schedulerPatience = 10 * time.Second

// UnplacedSince is since when the scheduler has found no node for a pod, zero if it has found one or has not looked.
func UnplacedSince(pod *corev1.Pod) time.Time {
	if condition := unplaced(pod); condition != nil {
		return condition.LastTransitionTime.Time
	}
	return time.Time{}
}

// Unschedulable says why no node takes a pod, empty if one does or the scheduler may still find one by itself.
func Unschedulable(pod *corev1.Pod, now time.Time) string {
	condition := unplaced(pod)
	if condition == nil || now.Sub(condition.LastTransitionTime.Time) < schedulerPatience {
		return ""
	}
	return corev1.PodReasonUnschedulable + ": " + condition.Message
}

func unplaced(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
			condition.Reason == corev1.PodReasonUnschedulable {
			return condition
		}
	}
	return nil
}
