package server_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres/server"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A promotion gets exactly the reserved number because all below it are taken. Placeholders that lead to no real
// timeline go away before a replica starts; those below a real one stay.
func TestReserve(t *testing.T) {
	folder := t.TempDir()
	wal := filepath.Join(folder, "pgdata", "pg_wal")
	must(t, os.MkdirAll(wal, 0o700))
	disk := &server.Disk{Folder: folder}
	must(t, disk.Lock())
	defer disk.Unlock()
	there := func() []string {
		found, err := filepath.Glob(filepath.Join(wal, "*"))
		must(t, err)
		var names []string
		for _, name := range found {
			names = append(names, filepath.Base(name))
		}
		slices.Sort(names)
		return names
	}
	must(t, disk.Reserve(4))
	if diff := cmp.Diff([]string{"00000002.history", "00000003.history"}, there()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	must(t, os.WriteFile(filepath.Join(wal, "00000004.history"), []byte("1\t0/3000000\tx\n"), 0o600))
	if err := disk.Reserve(4); err == nil {
		t.Error("a timeline that exists was reserved")
	}
	must(t, disk.Reserve(7))
	must(t, disk.Standby(true))
	want := []string{"00000002.history", "00000003.history", "00000004.history"}
	if diff := cmp.Diff(want, there()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	history, err := disk.History(4)
	must(t, err)
	if !history.Has(1) || history.Has(2) {
		t.Errorf("history %v", history)
	}
	_, replica, err := disk.Marked()
	must(t, err)
	must(t, disk.Standby(false))
	_, primary, err := disk.Marked()
	must(t, err)
	if !replica || primary {
		t.Errorf("replica %t, then %t", replica, primary)
	}
}
