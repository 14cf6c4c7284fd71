package plan_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan"
)

// TestWakesWhenTheWindowOpens: that a maintenance window opens is no event, so a pass is planned for that moment; and
// only if something waits for it.
func TestWakesWhenTheWindowOpens(t *testing.T) {
	for name, test := range map[string]struct {
		agent string
		want  time.Duration
	}{
		"something waits": {"meridian:2", 90 * time.Second},
		"nothing waits":   {"meridian:1", 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, before := base(), base()
			snapshot.Spec.Maintenance = &v1alpha1.Maintenance{Window: "Sun 12:01-14:00", TimeZone: "UTC"}
			snapshot.Window = database.Window{Begins: snapshot.Now.Add(90 * time.Second)}
			snapshot.Images.Agent = test.agent
			run(&snapshot, before)
			label(&snapshot, before)
			if err := compare(&snapshot, &before); err != nil {
				t.Fatal(err)
			}
			decided := plan.Decide(snapshot)
			if len(decided.Actions) > 0 || decided.Again != test.want {
				t.Errorf("looks again after %s, want %s; actions %v", decided.Again, test.want, decided.Actions)
			}
		})
	}
}
