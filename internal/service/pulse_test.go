package service_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/service"
)

func lease(version, holder string) *coordinationv1.Lease {
	seconds := int32(10)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "gis", Name: "cities-primary", UID: "u", ResourceVersion: version,
			Labels: map[string]string{"of": "cities"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}
}

// TestPulse follows a lease that is renewed, falls silent, and is renewed again. Only what is seen here counts: one
// version twice is no renewal.
func TestPulse(t *testing.T) {
	pulse := service.Pulse{Label: "of"}
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	if pulse.Beat(lease("1", "cities-1/a"), at(0)) {
		t.Error("a lease that was never silent is revived")
	}
	if len(pulse.Silent(at(2))) != 0 {
		t.Error("it is late before its time")
	}
	if len(pulse.Silent(at(3))) != 1 || len(pulse.Silent(at(4))) != 0 {
		t.Error("that it is late is not told once")
	}
	if pulse.Expired(lease("1", "cities-1/a"), at(9)) || len(pulse.Silent(at(9))) != 0 {
		t.Error("it has ended before its time")
	}
	if !pulse.Beat(lease("2", "cities-1/a"), at(8)) {
		t.Error("a lease that was late is not told to be back")
	}
	pulse.Beat(lease("2", "cities-1/a"), at(15))
	if pulse.Expired(lease("2", "cities-1/a"), at(18)) {
		t.Error("a renewal did not count")
	}
	if !pulse.Expired(lease("2", "cities-1/a"), at(19)) {
		t.Error("it does not end, or the same version counts as a renewal")
	}
	if ended := pulse.Silent(at(19)); len(ended) != 1 || ended[0].String() != "gis/cities" {
		t.Errorf("silent: %v", ended)
	}
	if len(pulse.Silent(at(20))) != 0 {
		t.Error("the same silence is told twice")
	}
	if !pulse.Beat(lease("3", "cities-1/a"), at(21)) {
		t.Error("a lease that was silent is not told to be back")
	}
	pulse.Beat(lease("4", ""), at(22))
	if pulse.Expired(lease("4", ""), at(99)) || len(pulse.Silent(at(99))) != 0 {
		t.Error("a lease that nobody holds has ended")
	}
}
