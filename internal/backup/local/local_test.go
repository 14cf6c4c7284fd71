package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/backup/local"
	"meridian.dev/meridian/internal/wire"
)

func TestFloors(t *testing.T) {
	const control = `pg_control version number:            1700
max_connections setting:              100
max_worker_processes setting:         8
max_wal_senders setting:              10
max_prepared_xacts setting:           0
max_locks_per_xact setting:           64
track_commit_timestamp setting:       off
`
	want := map[string]string{
		"max_connections": "100", "max_worker_processes": "8", "max_wal_senders": "10", "max_prepared_transactions": "0",
		"max_locks_per_transaction": "64",
	}
	if diff := cmp.Diff(want, local.Floors(control)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSettingsOfAnotherDatabaseAreRefused(t *testing.T) {
	folder := t.TempDir()
	if settings, err := local.Settings(folder, "prod", "cities"); settings != nil || err != nil {
		t.Fatalf("without a file: %v, %v", settings, err)
	}
	document, err := wire.BackupSettings{
		DatabaseUID: "u", Namespace: "prod", Database: "cities", AtLeast: 1,
		Repository: wire.Repository{Claim: &wire.ClaimFolder{}},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, wire.KeyBackup), document, 0o600); err != nil {
		t.Fatal(err)
	}
	if settings, err := local.Settings(folder, "prod", "cities"); err != nil || settings.AtLeast != 1 {
		t.Errorf("%v, %v", settings, err)
	}
	if _, err := local.Settings(folder, "test", "cities"); err == nil || !strings.Contains(err.Error(), "prod/cities") {
		t.Errorf("got %v", err)
	}
}
