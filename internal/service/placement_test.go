package service_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/service"
)

// TestUnschedulable: that the scheduler finds no node at its first look, before it knows of a claim, is no failure.
func TestUnschedulable(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "persistentvolumeclaim \"cities-1\" not found", LastTransitionTime: metav1.NewTime(now),
	}}}}
	if since := service.UnplacedSince(pod); !since.Equal(now) {
		t.Errorf("unplaced since %v, want %v", since, now)
	}
	if why := service.Unschedulable(pod, now.Add(9*time.Second)); why != "" {
		t.Errorf("a failure after nine seconds: %s", why)
	}
	const want = `Unschedulable: persistentvolumeclaim "cities-1" not found`
	if why := service.Unschedulable(pod, now.Add(10*time.Second)); why != want {
		t.Errorf("after ten seconds: %q, want %q", why, want)
	}
	pod.Status.Conditions[0].Status = corev1.ConditionTrue
	if why := service.Unschedulable(pod, now.Add(time.Hour)); why != "" || !service.UnplacedSince(pod).IsZero() {
		t.Errorf("a pod that has a node: %q", why)
	}
}
