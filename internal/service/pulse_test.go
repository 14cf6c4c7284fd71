package service_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// api is the API server with one lease, or none. It counts how often it is asked.
type api struct {
	client.Reader
	lease *coordinationv1.Lease
	fails error
	asked int
	// during is done while it is asked.
	during func()
}

func (a *api) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	a.asked++
	if a.during != nil {
		a.during()
	}
	switch {
	case a.fails != nil:
		return a.fails
	case a.lease == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, key.Name)
	}
	a.lease.DeepCopyInto(into.(*coordinationv1.Lease))
	return nil
}

// TestRefresh has a cache that shows the same lease for a minute, while its holder renews it all along, and then ends.
func TestRefresh(t *testing.T) {
	pulse := &service.Pulse{Label: "of"}
	server := &api{lease: lease("1", "cities-1/a")}
	start := time.Unix(1000, 0)
	look := func(second int, shown string) (version string, expired bool) {
		t.Helper()
		now, seen := start.Add(time.Duration(second)*time.Second), lease(shown, "cities-1/a")
		if found, err := pulse.Refresh(t.Context(), server, seen, at(now)); err != nil || !found {
			t.Fatalf("after %d s: found %t, %v", second, found, err)
		}
		return seen.ResourceVersion, pulse.Expired(seen, now)
	}
	for second := range 61 {
		server.lease.ResourceVersion = strconv.Itoa(1 + second/2)
		if version, expired := look(second, "1"); expired || second > 10 && version != server.lease.ResourceVersion {
			t.Fatalf("after %d s: version %s of %s, expired: %t", second, version, server.lease.ResourceVersion, expired)
		}
	}
	asked := server.asked
	for second := 61; second < 70; second++ {
		if version, expired := look(second, "31"); version != "31" || expired {
			t.Fatalf("after %d s: version %s, expired: %t", second, version, expired)
		}
	}
	if server.asked != asked {
		t.Error("the API server is asked although the cache has caught up")
	}
	if _, expired := look(71, "31"); !expired {
		t.Error("a lease that nobody renews does not expire")
	}
	if _, expired := look(72, "30"); !expired {
		t.Error("an older version revives it")
	}
	server.lease.ResourceVersion = "7" // The store of the cluster was put back.
	if version, expired := look(73, "31"); version != "7" || expired {
		t.Errorf("a lease that was put back is not seen: version %s, expired: %t", version, expired)
	}
}

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

// TestRefreshOfASlowPass reads a lease 12 seconds after a pass has begun, right after it was renewed: it is as young as
// the answer, and not as old as the pass.
func TestRefreshOfASlowPass(t *testing.T) {
	pulse := &service.Pulse{Label: "of"}
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	pulse.Beat(lease("1", "cities-1/a"), now.Add(-time.Minute))
	server := &api{lease: lease("36", "cities-1/a"), during: func() { now = now.Add(12 * time.Second) }}
	if _, err := pulse.Refresh(t.Context(), server, lease("1", "cities-1/a"), clock); err != nil {
		t.Fatal(err)
	}
	server.during = nil
	if silent := pulse.Silent(now.Add(time.Second)); len(silent) != 0 {
		t.Errorf("%v is silent one second after its renewal", silent)
	}
	if pulse.Expired(lease("1", "cities-1/a"), now.Add(time.Second)) {
		t.Error("the lease has expired one second after its renewal")
	}
	// What a watch tells meanwhile is newer than the answer.
	now = now.Add(20 * time.Second)
	server.during = func() { pulse.Beat(lease("38", "cities-1/a"), now) }
	if _, err := pulse.Refresh(t.Context(), server, lease("36", "cities-1/a"), clock); err != nil {
		t.Fatal(err)
	}
	if pulse.Beat(lease("38", "cities-1/a"), now.Add(9*time.Second)) || len(pulse.Silent(now.Add(9*time.Second))) != 1 {
		t.Error("one renewal counts twice")
	}
}

// TestRefreshOfAStorePutBack has a cache show a version of a future that never was, for ever, and a dead holder.
func TestRefreshOfAStorePutBack(t *testing.T) {
	pulse := &service.Pulse{Label: "of"}
	server := &api{lease: lease("7", "cities-1/a")}
	start := time.Unix(1000, 0)
	pulse.Beat(lease("31", "cities-1/a"), start)
	expired := 0
	for second := range 60 {
		seen, now := lease("31", "cities-1/a"), start.Add(time.Duration(second)*time.Second)
		if _, err := pulse.Refresh(t.Context(), server, seen, at(now)); err != nil {
			t.Fatal(err)
		}
		if pulse.Expired(seen, now) {
			expired++
		}
	}
	if expired < 35 {
		t.Errorf("the lease has expired in %d of 60 looks", expired)
	}
}

// TestRefreshFails says what is believed without an answer: neither that the lease has expired nor that it has not.
func TestRefreshFails(t *testing.T) {
	pulse := &service.Pulse{Label: "of"}
	start, seen := time.Unix(1000, 0), lease("1", "cities-1/a")
	pulse.Beat(seen, start)
	later := start.Add(11 * time.Second)
	if _, err := pulse.Refresh(t.Context(), &api{fails: errors.New("refused")}, seen, at(later)); err == nil {
		t.Error("an answer that did not come counts for one")
	}
	if found, err := pulse.Refresh(t.Context(), &api{}, seen, at(later)); err != nil || found {
		t.Errorf("a lease that is gone: found %t, %v", found, err)
	}
}
