package plan_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/plan"
)

// TestWhoGivesNoReportIsAskedAgain: an instance that was there and gives no report is asked again soon, one that never
// was, when its pod is ready.
func TestWhoGivesNoReportIsAskedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cache.Snapshot)
		within time.Duration
	}{
		"a member":  {func(*cache.Snapshot) {}, 5 * time.Second},
		"a new one": {func(s *cache.Snapshot) { s.Lease.Members = nil }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := base()
			before := snapshot
			run(&snapshot, &before)
			snapshot.Instances[0].Pod.Ready, snapshot.Instances[0].Report = false, cache.Report{Problem: "no answer"}
			test.change(&snapshot)
			found := false
			for _, hold := range plan.Decide(snapshot).Holds {
				if hold.Name != "InstanceStarting" {
					continue
				}
				found = true
				if hold.Recheck == 0 || hold.Recheck > test.within || test.within == time.Minute && hold.Recheck < 5*time.Second {
					t.Errorf("asked again after %s", hold.Recheck)
				}
			}
			if !found {
				t.Error("nothing is waited for")
			}
		})
	}
}
