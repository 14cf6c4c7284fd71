package admit_test

import (
	"strings"
	"testing"

	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/wire"
)

// TestRefusedNamesAreManaged holds what the schema refuses against what Meridian manages, with the reason that a user
// reads: a name that only the schema refused would be refused without one.
func TestRefusedNamesAreManaged(t *testing.T) {
	for _, pattern := range admit.RefusedNames {
		name := strings.ReplaceAll(pattern, ".*", "x")
		if wire.ManagedParameter(name) == "" {
			t.Errorf("the schema refuses %s, and nobody says why", pattern)
		}
	}
	if len(admit.RefusedNames) < 40 {
		t.Errorf("only %d names are refused", len(admit.RefusedNames))
	}
}
