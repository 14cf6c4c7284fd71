//go:build cluster

package controller_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// TestClockOfTheServer compares the operator's clock with that of a real API server, under the rights that there are.
func TestClockOfTheServer(t *testing.T) {
	w := newWorld(t)
	w.compares = true
	makeCities(w)
	var before, now corev1.Secret
	w.passUntil("it has an authority", func() bool {
		return w.get("cities-ca", &before) && w.get("cities-cert1", &now)
	})

	w.later = 11 * 365 * 24 * time.Hour
	var database v1alpha1.GeoDatabase
	stalled := func() bool {
		w.get("cities", &database)
		found := condition.Find(database.Status.Conditions, v1alpha1.ConditionStalled)
		return found != nil && found.Reason == "ClocksDisagree"
	}
	w.passUntil("it says that the clocks disagree", stalled)
	for range 5 {
		w.pass()
	}
	if w.get("cities-ca", &now); now.UID != before.UID || now.ResourceVersion != before.ResourceVersion {
		t.Error("a clock that is wrong has replaced the authority")
	}

	w.later = 0
	w.passUntil("it goes on", func() bool { return !stalled() })
	if w.get("cities-ca", &now); now.UID != before.UID {
		t.Error("the authority was replaced when the clock was right again")
	}
}
