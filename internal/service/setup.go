package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// setupPatience is how long a node may take to set up the volumes and the network of a pod before that counts as a
// failure. A volume that another node lets go takes a minute or two.
const setupPatience = 3 * time.Minute

// ofScheduling is the reason of events about what came before a node took the pod.
const ofScheduling = "FailedScheduling"

// NotSetUp says why the containers of a pod are not even begun: its node has not set up its volumes or its network for
// long, as when a volume of the template is not there. It is empty if all is well, or may still be. Those who fail say
// why in events alone; where these cannot be read, their words are left out.
func NotSetUp(ctx context.Context, live client.Reader, pod *corev1.Pod, now time.Time) string {
	since := notSetUpSince(pod)
	if since.IsZero() || now.Sub(since) < setupPatience {
		return ""
	}
	return fmt.Sprintf("the node %s has not set up its volumes and its network since %s%s; mend that, or undo the change "+
		"of the spec that asks for it", pod.Spec.NodeName, since.UTC().Format(time.RFC3339), lastWords(ctx, live, pod))
}

// notSetUpSince is since when the node of a pod has not set it up, zero if it has, or if no node has taken it.
func notSetUpSince(pod *corev1.Pod) time.Time {
	if pod.Status.Phase != corev1.PodPending || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		return time.Time{}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReadyToStartContainers && condition.Status == corev1.ConditionFalse {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// lastWords are those of the first warning that is still told about a pod: others alternate.
func lastWords(ctx context.Context, live client.Reader, pod *corev1.Pod) string {
	var events corev1.EventList
	err := live.List(ctx, &events, client.InNamespace(pod.Namespace), client.MatchingFields{
		"involvedObject.kind": "Pod", "involvedObject.name": pod.Name, "involvedObject.uid": string(pod.UID),
	})
	warnings := slices.DeleteFunc(events.Items, func(event corev1.Event) bool {
		return event.Type != corev1.EventTypeWarning || event.Reason == ofScheduling
	})
	if err != nil || len(warnings) == 0 {
		return ""
	}
	first := slices.MinFunc(warnings, func(a, b corev1.Event) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return fmt.Sprintf(": %s: %s", first.Reason, first.Message)
}
