package plan_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan"
)

// TestWhoGivesNoReportIsAskedAgain is about nodes that could not reach the API server: their pods are not ready for a
// while, and an agent that did not answer in time must not be all that the status rests on until they are.
func TestWhoGivesNoReportIsAskedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*database.Snapshot)
		within time.Duration
	}{
		"the primary":                    {func(s *database.Snapshot) { silence(&s.Instances[0]) }, 5 * time.Second},
		"a replica that writes count on": {func(s *database.Snapshot) { silence(&s.Instances[2]) }, 5 * time.Second},
		"a replica that joins": {
			func(s *database.Snapshot) { silence(&s.Instances[2]); s.Lease.Members = s.Lease.Members[:2] }, time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := three()
			test.change(&snapshot)
			found := false
			for _, hold := range plan.Decide(snapshot).Holds {
				if hold.Name == "InstanceStarting" {
					found = true
					if hold.Recheck == 0 || hold.Recheck > test.within {
						t.Errorf("asked again after %s, want %s at most", hold.Recheck, test.within)
					}
				}
			}
			if !found {
				t.Error("nothing is waited for")
			}
		})
	}
}

func silence(instance *database.Instance) {
	instance.Pod.Ready, instance.Report = false, database.Report{Problem: "no answer"}
}
