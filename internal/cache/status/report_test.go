package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/status"
	"meridian.dev/meridian/internal/wire"
)

// used is a cache whose primary reports this.
func used(report cache.Report) cache.Snapshot {
	report.Reachable, report.Role, report.Serving, report.State = true, string(wire.RolePrimary), true, "running"
	return cache.Snapshot{
		Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Identity: cache.Identity{Namespace: "maps", Name: "tiles"},
		Lease: cache.Lease{UID: "l1", Holder: "tiles-1", Term: 3},
		Instances: []cache.Instance{
			{Serial: 1, Name: "tiles-1", Report: report},
			{Serial: 2, Name: "tiles-2", Report: cache.Report{Reachable: true, Allowed: 100, Used: 100, Clients: 77}},
		},
	}
}

// What is shown of the use is that of the primary, in so few steps that a cache which is used as before has the same
// status as before.
func TestUse(t *testing.T) {
	const mebi = 1 << 20
	for name, test := range map[string]struct {
		report cache.Report
		change func(*cache.Snapshot)
		want   *v1alpha1.CacheUse
	}{
		"nothing was read yet": {
			report: cache.Report{Allowed: 64 * mebi, Used: mebi}, want: &v1alpha1.CacheUse{Memory: "0%"},
		},
		"half full": {
			report: cache.Report{Allowed: 64 * mebi, Used: 32 * mebi, Hits: 94, Misses: 6, Clients: 12, Evicted: 7},
			want:   &v1alpha1.CacheUse{Memory: "50%", HitRatio: "95%", Clients: 12, Evicted: 7},
		},
		"a little more is the same": {
			report: cache.Report{Allowed: 64 * mebi, Used: 33 * mebi, Hits: 9449, Misses: 601, Clients: 12, Evicted: 7},
			want:   &v1alpha1.CacheUse{Memory: "50%", HitRatio: "95%", Clients: 12, Evicted: 7},
		},
		"many are told in two digits": {
			report: cache.Report{Allowed: 64 * mebi, Used: 64 * mebi, Hits: 1, Clients: 1994, Evicted: 123_456},
			want:   &v1alpha1.CacheUse{Memory: "100%", HitRatio: "100%", Clients: 1900, Evicted: 120_000},
		},
		"more is kept than is allowed, for a moment": {
			report: cache.Report{Allowed: 64 * mebi, Used: 128 * mebi, Misses: 3},
			want:   &v1alpha1.CacheUse{Memory: "200%", HitRatio: "0%"},
		},
		"no memory is in force yet": {report: cache.Report{Used: mebi}},
		"nobody holds the lease": {
			report: cache.Report{Allowed: mebi}, change: func(s *cache.Snapshot) { s.Lease.Holder = "" },
		},
		"the holder does not say that it is the primary": {
			report: cache.Report{Allowed: mebi},
			change: func(s *cache.Snapshot) { s.Instances[0].Report.Role = string(wire.RoleReplica) },
		},
		"the primary does not answer": {
			report: cache.Report{Allowed: mebi}, change: func(s *cache.Snapshot) { s.Instances[0].Report.Reachable = false },
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := used(test.report)
			if test.change != nil {
				test.change(&snapshot)
			}
			got, _ := status.Report(v1alpha1.GeoCacheStatus{}, status.Pass{Snapshot: snapshot})
			if diff := cmp.Diff(test.want, got.Use); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What was flushed is what the primary says, and stays when there is none for a while.
func TestFlushedStays(t *testing.T) {
	snapshot := used(cache.Report{Flushed: "f2"})
	got, _ := status.Report(v1alpha1.GeoCacheStatus{Flushed: "f1"}, status.Pass{Snapshot: snapshot})
	if got.Flushed != "f2" {
		t.Errorf("%q", got.Flushed)
	}
	snapshot.Lease.Holder = ""
	if got, _ = status.Report(got, status.Pass{Snapshot: snapshot}); got.Flushed != "f2" {
		t.Errorf("%q without a primary", got.Flushed)
	}
}
