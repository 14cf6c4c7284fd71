package agent_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/kit/watchdog"
)

// TestAgeClock: differences of its times are those of the clock that goes on while the machine sleeps, and not of the
// one that Go keeps with its own times.
func TestAgeClock(t *testing.T) {
	now, boot := agent.NewAgeClock(), watchdog.Now()
	before := now()
	time.Sleep(10 * time.Millisecond)
	after, passed := now(), watchdog.Now()-boot
	if before != before.Round(0) || after != after.Round(0) {
		t.Errorf("%s and %s have a clock of their own", before, after)
	}
	if age := after.Sub(before); age < 10*time.Millisecond || age > passed {
		t.Errorf("%s have passed, want at most %s", age, passed)
	}
}
