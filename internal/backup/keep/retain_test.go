package keep_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// withBackups is a rig whose repository has some base backups, and whose keeper wants no more.
func withBackups(t *testing.T, ids ...string) *rig {
	t.Helper()
	r := newRig(t)
	r.archive = archive(segment+40, segment+500)
	r.turns(2)
	for _, id := range ids {
		r.change(func() { r.settings.Base = &wire.BaseWanted{ID: id, Instance: "cities-1"} })
		r.turns(4)
	}
	if report := r.keeper.Report(); report.BackupCount != len(ids) {
		t.Fatalf("%+v", report)
	}
	r.change(func() { r.settings.Base = nil })
	return r
}

// retainNothing asks for a retention of no time from now on.
func (r *rig) retainNothing() {
	r.change(func() {
		settings := *r.settings
		settings.WindowSeconds = 0
		r.settings, r.now = &settings, r.now.Add(time.Hour)
	})
}

// Backups of another system are what is left of it: who does not own them deletes none.
func TestKeeperDeletesNothingOfAForeignRepository(t *testing.T) {
	r := withBackups(t, "w1", "w2")
	before := r.objects()
	r.keeper = r.newKeeper("cities-1")
	r.change(func() { r.copy.SystemIdentifier = "78" })
	r.retainNothing()
	r.turns(5)
	if got := r.objects(); !slices.Equal(got, before) {
		t.Errorf("%q, want %q", got, before)
	}
}

// What says that a backup exists may be locked for longer than its parts, which were written before.
func TestKeeperLeavesABackupWholeThatIsLocked(t *testing.T) {
	r := withBackups(t, "w1", "w2")
	before := r.objects()
	r.change(func() {
		r.fails = func(call, name string) error {
			if call == "delete" && strings.HasSuffix(name, "/backup.json") {
				return &store.Error{Class: store.Locked, Err: errors.New("retention")}
			}
			return nil
		}
	})
	r.retainNothing()
	r.turns(5)
	if got := r.objects(); !slices.Equal(got, before) {
		t.Errorf("%q, want %q", got, before)
	}
	if report := r.keeper.Report(); !report.Locked || report.BackupCount != 2 {
		t.Errorf("%+v", report)
	}
}

// One object from a node whose clock was ahead does not make every backup old.
func TestKeeperBelievesNoObjectOfTheFuture(t *testing.T) {
	r := withBackups(t, "w1", "w2")
	before := r.objects()
	ahead := time.Now().AddDate(1, 0, 0)
	if err := os.Chtimes(filepath.Join(r.folder, "prod/cities/u/terms/0000000001.json"), ahead, ahead); err != nil {
		t.Fatal(err)
	}
	r.turns(10)
	if got := r.objects(); !slices.Equal(got, before) {
		t.Errorf("%q, want %q", got, before)
	}
}

// Nobody waits for log that is never shipped: the next try begins at a later restartpoint.
func TestKeeperGivesUpABackupThatStartsTooEarly(t *testing.T) {
	r := newRig(t)
	if err := os.Remove(filepath.Join(r.log, backup.SegmentName(1, 0, segment))); err != nil {
		t.Fatal(err)
	}
	r.archive = archive(40, segment+500)
	r.turns(2)
	r.change(func() { r.settings.Base = &wire.BaseWanted{ID: "w1", Instance: "cities-1"} })
	r.turns(2)
	if report := r.keeper.Report(); report.Base == nil || !strings.Contains(report.Base.Problem, "starts before the log") {
		t.Fatalf("%+v", report.Base)
	}
	r.archive = archive(segment+40, segment+500)
	r.turns(4)
	if report := r.keeper.Report(); report.BackupCount != 1 {
		t.Errorf("%+v", report.Base)
	}
}
