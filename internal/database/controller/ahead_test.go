package controller_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// TestClockOfYearsAhead lets the operator's clock jump beyond the end of the authority: nothing is made in its place,
// the status says why, and all goes on when the clock is right again.
func TestClockOfYearsAhead(t *testing.T) {
	w := readyTown(t)
	var before, now corev1.Secret
	w.get("towns-ca", &before)
	w.ahead = 11 * 365 * 24 * time.Hour
	stalled := func() string {
		if found := condition.Find(w.database().Status.Conditions, v1alpha1.ConditionStalled); found != nil {
			return found.Reason
		}
		return ""
	}
	w.until("it says that the clocks disagree", func() bool { return stalled() == "ClocksDisagree" })
	w.minutes(10)
	if w.get("towns-ca", &now); now.UID != before.UID || now.ResourceVersion != before.ResourceVersion {
		t.Error("a clock that is wrong has written the authority")
	}
	w.ahead = 0
	w.until("it goes on", w.ready)
	if w.get("towns-ca", &now); now.ResourceVersion != before.ResourceVersion {
		t.Error("the authority was written when the clock was right again")
	}
}
