//go:build cluster

package agent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// A primary goes on when somebody takes its lease away or puts it back to what it was, and when somebody changes where
// the write address leads.
func TestLostLease(t *testing.T) {
	r := newRig(t, 3)
	r.start()
	r.awaitAll()
	r.makeTable()
	rows := r.begin()
	r.await("traffic", func() bool { return rows.count() > 20 })
	t.Run("deleted", func(t *testing.T) { testLeaseDeleted(t, r, rows) })
	t.Run("put back", func(t *testing.T) { testLeasePutBack(t, r, rows) })
	t.Run("deleted without a primary", func(t *testing.T) { testLeaseDeletedAlone(t, r) })
	t.Run("write address emptied", func(t *testing.T) {
		r.kubectl("patch", "endpointslice", "cities-rw", "--type=merge", `-p={"endpoints":[]}`)
		took := r.await("the write address", func() bool {
			target, ok := r.api.Kubectl(context.Background(), "", "--namespace="+r.namespace, "get", "endpointslice",
				"cities-rw", "-o=jsonpath={.endpoints[*].addresses[*]}")
			return ok && target == r.primary().address
		})
		t.Logf("mended after %s", took)
	})
	before := rows.count()
	r.await("traffic again", func() bool { return rows.count() > before+5 })
	rows.check()
}

func (r *rig) kubectl(args ...string) {
	r.t.Helper()
	args = append([]string{"--namespace=" + r.namespace}, args...)
	if output, ok := r.api.Kubectl(context.Background(), "", args...); !ok {
		r.t.Fatalf("kubectl %v: %s", args, output)
	}
}

// succeed is the operator's part: an empty lease in the place of the one that is gone.
func (r *rig) succeed() {
	r.apply(fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease,
  metadata: {name: cities-primary, annotations: {%s: %s}}}`, wire.AnnotationSucceeds, r.settings.LeaseUID))
}

func testLeaseDeleted(t *testing.T, r *rig, rows *traffic) {
	holder, before := r.record()
	since := time.Now()
	r.kubectl("delete", "lease", "cities-primary")
	time.Sleep(6 * time.Second) // Longer than the lease lasts.
	if r.primary() != nil {
		t.Error("a lease that is gone was read")
	}
	r.succeed()
	took := r.await("a record in the new lease", func() bool { _, record := r.record(); return record.Term > 0 })
	next, after := r.record()
	if next != holder || after.Term != before.Term+1 || after.Timeline != before.Timeline ||
		!slices.Contains(after.Succeeds, r.settings.LeaseUID) || !slices.Equal(after.Members, before.Members) {
		t.Errorf("%s %+v, then %s %+v", holder, before, next, after)
	}
	made, err := r.leases.Get(context.Background())
	must(t, err)
	r.settings.LeaseUID = made.UID
	r.writeSettings()
	r.awaitAll()
	gap := rows.gap(since)
	t.Logf("written anew after %s, write gap %s", took, gap)
	if gap > 4*time.Second {
		t.Errorf("writes were unavailable for %s", gap)
	}
}

func testLeasePutBack(t *testing.T, r *rig, rows *traffic) {
	old, err := r.leases.Get(context.Background())
	must(t, err)
	first := r.primary()
	status, reply := first.switchover("away", "")
	if !reply.Accepted {
		t.Fatalf("%d %+v", status, reply)
	}
	r.awaitOther(first, rows)
	r.awaitAll()
	holder, before := r.record()
	since := time.Now()
	r.kubectl("patch", "lease", "cities-primary", "--type=merge", fmt.Sprintf(
		`-p={"metadata":{"annotations":{%q:%q}},"spec":{"holderIdentity":%q,"leaseTransitions":%d}}`, wire.AnnotationRecord,
		old.Document, old.Holder, old.Transitions))
	r.await("a later term", func() bool { _, record := r.record(); return record.Term > before.Term })
	if next, after := r.record(); next != holder || after.Timeline != before.Timeline {
		t.Errorf("%s %+v, then %s %+v", holder, before, next, after)
	}
	r.awaitAll()
	gap := rows.gap(since)
	t.Logf("write gap %s", gap)
	if gap > 4*time.Second {
		t.Errorf("writes were unavailable for %s", gap)
	}
}

// testLeaseDeletedAlone takes the primary and the lease away at once. Nobody is elected before the old primary is back,
// and then at once.
func testLeaseDeletedAlone(t *testing.T, r *rig) {
	_, before := r.record()
	gone := r.primary()
	gone.kill()
	r.kubectl("delete", "lease", "cities-primary")
	r.succeed()
	time.Sleep(10 * time.Second)
	if _, record := r.record(); record.Term > 0 {
		t.Errorf("somebody was elected without %s: %+v", gone.name, record)
	}
	gone.start()
	took := r.await("a primary", func() bool { return r.primary() != nil })
	r.awaitAll()
	_, after := r.record()
	t.Logf("primary %s after it came back; term %d, then %d", took, before.Term, after.Term)
	made, err := r.leases.Get(context.Background())
	must(t, err)
	r.settings.LeaseUID = made.UID
	r.writeSettings()
}
