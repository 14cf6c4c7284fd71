package keep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// An agent is killed at each of its writes to the repository in turn, before the object is there and after: another one
// makes the base backup that was asked for, exactly one exists at the end, and it is whole.
func TestAnAgentIsKilledAtEachWriteOfABaseBackup(t *testing.T) {
	kills := 0
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			r := newRig(t)
			r.archive = archive(segment+40, segment+500)
			r.turns(2)
			r.change(func() { r.settings.Base = &wire.BaseWanted{ID: "w1", Instance: "cities-1"} })
			reached := r.killAtWrite(at, after)
			r.keeper = r.newKeeper("cities-1")
			r.change(func() { r.fails, r.now = nil, r.now.Add(time.Minute) })
			r.turns(6)
			report := r.keeper.Report()
			if report.BackupCount != 1 || report.Backups[0].For != "w1" || report.Reason != "" {
				t.Fatalf("killed at write %d (after it: %t): %+v", at, after, report)
			}
			whole := "base/" + report.Backups[0].ID
			for _, name := range []string{"/backup.json", "/manifest.zst", "/part-00001.tar.zst"} {
				if !slices.Contains(r.objects(), whole+name) {
					t.Errorf("killed at write %d (after it: %t): there is no %s in %q", at, after, name, r.objects())
				}
			}
			if !reached {
				break
			}
			kills++
		}
	}
	if kills < 6 {
		t.Errorf("it was killed %d times: a base backup has three objects at least", kills)
	}
}

// killAtWrite lets the keeper make its base backup and die at one of the writes for it, before the object is there or
// after. It says whether there were so many writes.
func (r *rig) killAtWrite(at int, after bool) bool {
	r.Helper()
	ctx, kill := context.WithCancel(r.Context())
	defer kill()
	puts := 0
	r.change(func() {
		r.fails = func(call, name string) error {
			r.mutex.Lock()
			defer r.mutex.Unlock()
			if ctx.Err() == nil && call == "put" && strings.Contains(name, "/base/") {
				puts++
			}
			if puts == at && !after || puts > at {
				kill()
			}
			return ctx.Err()
		}
	})
	for range 6 {
		if ctx.Err() != nil {
			break
		}
		r.keeper.Turn(ctx)
		r.wait(r.keeper.Idle)
		r.change(func() { r.now = r.now.Add(20 * time.Second) })
	}
	return puts >= at
}

// kept makes a rig with two base backups, of which the retention does not need the first.
func kept(t *testing.T) *rig {
	r := newRig(t)
	r.archive = archive(segment+40, segment+500)
	r.turns(2)
	for _, wish := range []string{"w1", "w2"} {
		r.change(func() { r.settings.Base = &wire.BaseWanted{ID: wish, Instance: "cities-1"} })
		r.turns(4)
	}
	if report := r.keeper.Report(); report.BackupCount != 2 {
		t.Fatalf("%+v", report)
	}
	return r
}

// age makes what is there older by the clock of the store, but for the latest of the log.
func (r *rig) age(by time.Duration) {
	r.Helper()
	for _, name := range r.objects() {
		path := filepath.Join(r.folder, "prod/cities/u", name)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chtimes(path, time.Time{}, info.ModTime().Add(-by))
		}
		if err != nil {
			r.Fatal(err)
		}
	}
	r.change(func() { r.copy.Flushed += 1000 })
}

// readAgain lets the keeper read the repository: it does so each half hour.
func (r *rig) readAgain() *wire.BackupReport {
	r.Helper()
	for range 2 { // What was shipped in the first turn is seen in the second.
		r.change(func() { r.now = r.now.Add(time.Hour) })
		r.turns(1)
	}
	return r.keeper.Report()
}

// K5: ages go by the clock of the store. That of the agent may be years ahead.
func TestAClockAheadDeletesNothing(t *testing.T) {
	r := kept(t)
	before := r.objects()
	r.change(func() { r.now = r.now.Add(10 * 365 * 24 * time.Hour) })
	report := r.readAgain()
	if after := r.objects(); report.BackupCount != 2 || len(after) < len(before) {
		t.Errorf("with a clock that is ahead it deleted: %q of %q", after, before)
	}
	r.age(2 * time.Hour)
	if report := r.readAgain(); report.BackupCount != 1 || report.Backups[0].For != "w2" {
		t.Errorf("two hours later by the clock of the store: %+v", report)
	}
}

// What is said to be recoverable is by the clock of the store, because a restore asks for a moment by it, and goes on
// with what is shipped. That of the agent may be years ahead or behind.
func TestTheWindowEndsByTheClockOfTheStore(t *testing.T) {
	for name, apart := range map[string]time.Duration{
		"as it is": 0, "ahead": 10 * 365 * 24 * time.Hour, "behind": -10 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.change(func() { r.now = r.now.Add(apart) })
			r.archive = archive(segment+40, segment+500)
			r.turns(2)
			r.change(func() { r.settings.Base = &wire.BaseWanted{ID: "w1", Instance: "cities-1"} })
			r.turns(4)
			before := r.keeper.Report()
			r.change(func() { r.copy.Flushed += 1000 })
			r.turns(1)
			after := r.keeper.Report()
			now := time.Now()
			if until := after.RecoverableUntil; until.Before(now.Add(-time.Minute)) || until.After(now.Add(5*time.Minute)) {
				t.Errorf("the window ends at %s, and the store has %s", until, now)
			}
			if !after.RecoverableUntil.After(before.RecoverableUntil) {
				t.Errorf("it ended at %s, and after more was shipped at %s", before.RecoverableUntil, after.RecoverableUntil)
			}
		})
	}
}

// The store gets log that has waited for half an hour. What is said to be recoverable is as old as that.
func TestTheWindowEndsBeforeWhatWaits(t *testing.T) {
	r := newRig(t)
	r.archive = archive(segment+40, segment+500)
	r.turns(2)
	r.change(func() { r.settings.Base = &wire.BaseWanted{ID: "w1", Instance: "cities-1"} })
	r.turns(4)
	r.age(time.Hour)
	for number := uint64(4); number < 80; number++ {
		r.segment(1, number)
	}
	hangs := make(chan struct{})
	r.change(func() { r.hangs, r.copy.Flushed = hangs, 79*segment+50 })
	r.keeper.Turn(t.Context())
	r.change(func() { r.now, r.hangs = r.now.Add(30*time.Minute), nil })
	close(hangs)
	r.wait(r.keeper.Idle)
	for range 2 { // What was shipped in the first turn is seen in the second.
		r.change(func() { r.now = r.now.Add(3 * time.Minute) })
		r.turns(1)
	}
	report := r.keeper.Report()
	if report.BehindBytes == 0 {
		t.Fatalf("it is not behind: %+v", report)
	}
	if age := time.Since(report.RecoverableUntil); age < 29*time.Minute || age > 40*time.Minute {
		t.Errorf("it is behind by %d ms, and said to be recoverable until %s ago", report.BehindMilliseconds, age)
	}
}

// An object lock is of each object, and ends for the parts of a backup before it ends for its backup.json. What the
// store keeps stays whole, is told, and goes when the lock has ended.
func TestALockedBackupStaysWhole(t *testing.T) {
	r := kept(t)
	before := r.objects()
	r.age(2 * time.Hour)
	r.change(func() {
		r.fails = func(call, name string) error {
			if call == "delete" && strings.HasSuffix(name, "/backup.json") {
				return &store.Error{Class: store.Locked, Doing: "delete " + name, Err: errors.New("retained")}
			}
			return nil
		}
	})
	report := r.readAgain()
	if !report.Locked || report.BackupCount != 2 {
		t.Errorf("%+v", report)
	}
	for _, name := range before {
		if strings.HasPrefix(name, "base/") && !slices.Contains(r.objects(), name) {
			t.Errorf("%s is gone, and its backup counts as one that can be restored", name)
		}
	}
	r.change(func() { r.fails = nil })
	if report := r.readAgain(); report.Locked || report.BackupCount != 1 {
		t.Errorf("without a lock: %+v", report)
	}
}
