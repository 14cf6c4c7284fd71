package condition

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// View is the part of an object from which tools read its state.
type View struct {
	// Generation is metadata.generation.
	Generation int64
	// ObservedGeneration is status.observedGeneration. Zero means absent, as it
	// does in a field that is omitted when empty.
	ObservedGeneration int64
	// Deleting says that metadata.deletionTimestamp is set.
	Deleting bool
	// Conditions is status.conditions.
	Conditions []metav1.Condition
}

// Verdict is what a tool concludes about an object.
type Verdict string

const (
	// Current means that the object is as its spec wishes.
	Current Verdict = "Current"
	// InProgress means that it is on the way there.
	InProgress Verdict = "InProgress"
	// Failed means that it will not get there by itself.
	Failed Verdict = "Failed"
	// Terminating means that it is being deleted.
	Terminating Verdict = "Terminating"
)

// Read returns what a tool that follows the kstatus rules concludes about the
// object, and in a sentence why. The package comment lists the rules.
func Read(view View) (verdict Verdict, why string) {
	if view.Deleting {
		return Terminating, "the object is being deleted"
	}
	if view.ObservedGeneration != 0 && view.ObservedGeneration != view.Generation {
		return InProgress, fmt.Sprintf("generation %d is not observed yet, the latest observed is %d",
			view.Generation, view.ObservedGeneration)
	}
	for _, condition := range view.Conditions {
		if condition.Status != metav1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case Reconciling:
			return InProgress, describe(condition)
		case Stalled:
			return Failed, describe(condition)
		}
	}
	return readReady(view.Conditions)
}

func readReady(conditions []metav1.Condition) (Verdict, string) {
	ready := Find(conditions, Ready)
	if ready == nil {
		return Current, "there is no Ready condition, so the object counts as ready"
	}
	switch ready.Status {
	case metav1.ConditionTrue:
		return Current, describe(*ready)
	case metav1.ConditionFalse, metav1.ConditionUnknown:
		return InProgress, describe(*ready)
	}
	return Current, fmt.Sprintf("the status %q of Ready is none that counts, so the object counts as ready", ready.Status)
}

func describe(condition metav1.Condition) string {
	text := fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Reason)
	if condition.Message != "" {
		text += ": " + condition.Message
	}
	return text
}
