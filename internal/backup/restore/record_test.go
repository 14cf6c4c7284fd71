package restore_test

import (
	"testing"

	"meridian.dev/meridian/internal/backup/restore"
)

// Only a reader that ran to its end says that no record is left: otherwise a restore would pass for whole because a
// program is missing (K6).
func TestWhatTheReaderOfTheLogSays(t *testing.T) {
	env := []string{"PATH=/usr/bin:/bin"}
	for _, test := range []struct {
		name         string
		command      []string
		found, fails bool
	}{
		{name: "another record", command: []string{"true"}, found: true},
		{name: "no whole record", command: []string{"sh", "-c", "exit 1"}},
		{name: "no such program", command: []string{"/there/is/no/pg_waldump"}, fails: true},
		{name: "killed", command: []string{"sh", "-c", "kill -9 $$"}, fails: true},
		{name: "a library is missing", command: []string{"sh", "-c", "exit 127"}, fails: true},
	} {
		found, err := restore.RecordFound(restore.RunTool(t.Context(), restore.Tools{Env: env}, test.command...))
		if found != test.found || (err != nil) != test.fails {
			t.Errorf("%s: found %t, %v", test.name, found, err)
		}
	}
}
