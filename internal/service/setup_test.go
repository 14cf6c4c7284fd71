package service_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/service"
)

// told answers with events.
type told struct {
	client.Reader
	events []corev1.Event
	err    error
}

func (t told) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*corev1.EventList).Items = t.events
	return t.err
}

func TestNotSetUp(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	event := func(after time.Duration, typ, reason, message string) corev1.Event {
		return corev1.Event{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(began.Add(after))},
			Type:       typ, Reason: reason, Message: message,
		}
	}
	missing := event(time.Minute, "Warning", "FailedMount", `secret "tiles" not found`)
	const silent = "the node n1 has not set up its volumes and its network since 2026-03-01T12:00:00Z"
	const wayOut = "; mend that, or undo the change of the spec that asks for it"
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		after  time.Duration
		told   told
		want   string
	}{
		"soon":   {after: 2 * time.Minute, told: told{events: []corev1.Event{missing}}},
		"silent": {want: silent + wayOut},
		"told": {
			told: told{events: []corev1.Event{
				event(2*time.Minute, "Warning", "FailedMount", "timed out"), missing,
				event(0, "Normal", "Scheduled", "assigned to n1"), event(0, "Warning", "FailedScheduling", "no node"),
			}},
			want: silent + `: FailedMount: secret "tiles" not found` + wayOut,
		},
		"not allowed to read": {told: told{err: errors.New("forbidden")}, want: silent + wayOut},
		"no node":             {change: func(pod *corev1.Pod) { pod.Spec.NodeName = "" }},
		"runs":                {change: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning }},
		"set up":              {change: func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionTrue }},
		"deleted":             {change: func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(began)) }},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{NodeName: "n1"},
				Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse,
					LastTransitionTime: metav1.NewTime(began),
				}}},
			}
			if test.change != nil {
				test.change(pod)
			}
			after := test.after
			if after == 0 {
				after = 4 * time.Minute
			}
			if got := service.NotSetUp(t.Context(), test.told, pod, began.Add(after)); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
