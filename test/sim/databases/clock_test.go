package databases_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/test/sim/databases"
)

// A wall clock that is set shows only where the steady one was dropped, as with what time.Now returns.
func TestReading(t *testing.T) {
	wall := time.Unix(1_800_000_000, 123_456_789)
	first := databases.Reading(wall, 5*time.Second)
	second := databases.Reading(wall.Add(-time.Hour), 7*time.Second)
	if gone := second.Sub(first); gone != 2*time.Second || !second.After(first) || first.IsZero() {
		t.Errorf("%s after it, and it was two seconds", gone)
	}
	if gone := second.Add(time.Second).Sub(first); gone != 3*time.Second {
		t.Errorf("%s after it, and it was three seconds", gone)
	}
	if gone := second.Round(0).Sub(first.Round(0)); gone != -time.Hour {
		t.Errorf("%s on the wall clock, and it was put back by an hour", gone)
	}
	if !first.Round(0).Equal(wall) {
		t.Errorf("the wall clock shows %s, and it was %s", first, wall)
	}
}
