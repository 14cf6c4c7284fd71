package restore_test

import (
	"os/exec"
	"testing"

	"meridian.dev/meridian/internal/backup/restore"
)

// Only a reader that ran to its end says that no record is left: otherwise a restore would pass for whole because a
// program is missing (K6).
func TestWhatTheReaderOfTheLogSays(t *testing.T) {
	for _, test := range []struct {
		name         string
		command      *exec.Cmd
		found, fails bool
	}{
		{name: "another record", command: exec.Command("true"), found: true},
		{name: "no whole record", command: exec.Command("sh", "-c", "exit 1")},
		{name: "no such program", command: exec.Command("/there/is/no/pg_waldump"), fails: true},
		{name: "killed", command: exec.Command("sh", "-c", "kill -9 $$"), fails: true},
		{name: "a library is missing", command: exec.Command("sh", "-c", "exit 127"), fails: true},
	} {
		found, err := restore.RecordFound(test.command.Run())
		if found != test.found || (err != nil) != test.fails {
			t.Errorf("%s: found %t, %v", test.name, found, err)
		}
	}
}
