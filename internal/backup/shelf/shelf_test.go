package shelf_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/shelf"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

const size = 1 << 20

// newShelf has a repository with a whole log of six segments, and a base backup at the begin of some of them, each
// made so many minutes ago. Two hours are promised.
func newShelf(t *testing.T, made map[uint64]int) (shelf.Shelf, string) {
	t.Helper()
	folder := t.TempDir()
	s := shelf.Shelf{
		Lock: filepath.Join(t.TempDir(), "lock"),
		Settings: wire.BackupSettings{
			DatabaseUID: "u", Namespace: "prod", Database: "cities", WindowSeconds: 7200, AtLeast: 1,
			Repository: wire.Repository{Claim: &wire.ClaimFolder{}},
		},
		Open: func(_ wire.Repository, root string) (*repository.Repository, error) {
			return &repository.Repository{Store: store.Folder{Path: folder}, Root: root}, nil
		},
	}
	opened, _ := s.Open(s.Settings.Repository, "prod/cities/u/")
	owner := backup.Owner{DatabaseUID: "u", Namespace: "prod", Name: "cities", SystemIdentifier: "7", SegmentSize: size}
	must(t, opened.Claim(t.Context(), owner))
	for number := range uint64(6) {
		must(t, opened.PutSegment(t.Context(), owner, 1, number+1, strings.NewReader("log")))
	}
	for number, minutes := range made {
		id := fmt.Sprintf("b%d", number)
		for _, part := range []string{backup.PartName(id, 1, ".zst"), backup.ManifestName(id, ".zst")} {
			_, err := opened.PutPart(t.Context(), part, strings.NewReader("files"))
			must(t, err)
		}
		must(t, opened.PutBackup(t.Context(), backup.Backup{
			ID: id, Timeline: 1, Start: backup.LSN(number*size + 40), Stop: backup.LSN(number*size + 400), Size: 5,
		}))
		at := time.Now().Add(-time.Duration(minutes) * time.Minute)
		must(t, os.Chtimes(filepath.Join(folder, "prod/cities/u", backup.BaseName(id)), at, at))
	}
	return s, filepath.Join(folder, "prod/cities/u")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is listed as not needed can be deleted, and nothing else can. Each case deletes one of three.
func TestDeletesWhatIsNotNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		made    map[uint64]int
		id      string
		refused string
	}{
		"one within the window, behind an older one": {made: map[uint64]int{1: 300, 2: 60, 3: 10}, id: "b2"},
		"the newest, behind an older one":            {made: map[uint64]int{1: 300, 2: 60, 3: 10}, id: "b3"},
		"the one that the begin of the window needs": {
			made: map[uint64]int{1: 300, 2: 60, 3: 10}, id: "b1", refused: "lies in the window",
		},
		"one that retention is about to delete": {made: map[uint64]int{1: 500, 2: 300, 3: 10}, id: "b1"},
		"one that only what retention deletes makes unneeded": {
			made: map[uint64]int{1: 500, 2: 300, 3: 10}, id: "b2", refused: "lies in the window",
		},
		"the only one":          {made: map[uint64]int{2: 10}, id: "b2", refused: "lies in the window"},
		"one that is not there": {made: map[uint64]int{1: 300, 2: 10}, id: "b9", refused: `"b9"; there are: b1, b2`},
		"a part of a name":      {made: map[uint64]int{1: 300, 2: 10}, id: "", refused: "no backup"},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := newShelf(t, test.made)
			before, err := s.List(t.Context())
			must(t, err)
			for _, one := range before.Backups {
				if one.ID == test.id && (one.Needed == "") != (test.refused == "") {
					t.Errorf("it is listed as needed by %q", one.Needed)
				}
			}
			err = s.Delete(t.Context(), test.id)
			after, listed := s.List(t.Context())
			must(t, listed)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) || len(after.Backups) != len(before.Backups) {
					t.Errorf("error %v, want one with %q; %d backups are left", err, test.refused, len(after.Backups))
				}
				return
			}
			must(t, err)
			if left, err := filepath.Glob(filepath.Join(folder, "base", test.id, "*")); err != nil || len(left) > 0 ||
				len(after.Backups) != len(before.Backups)-1 {
				t.Errorf("left are %v and %d backups", left, len(after.Backups))
			}
		})
	}
}

func TestOneDeletesAtATime(t *testing.T) {
	s, _ := newShelf(t, map[uint64]int{1: 300, 2: 60, 3: 10})
	open, tried := s.Open, false
	s.Open = func(settings wire.Repository, root string) (*repository.Repository, error) {
		if !tried {
			tried = true
			if err := s.Delete(t.Context(), "b3"); err == nil || !strings.Contains(err.Error(), "somebody else") {
				t.Errorf("a second one at the same time: %v", err)
			}
		}
		return open(settings, root)
	}
	must(t, s.Delete(t.Context(), "b2"))
	must(t, s.Delete(t.Context(), "b3"))
	if !tried {
		t.Error("nobody tried")
	}
}

func TestAnothersRepositoryIsNotTouched(t *testing.T) {
	s, _ := newShelf(t, map[uint64]int{1: 300, 2: 60})
	open := s.Open
	s.Open = func(settings wire.Repository, _ string) (*repository.Repository, error) {
		return open(settings, "prod/cities/u/")
	}
	s.Settings.DatabaseUID = "another"
	if err := s.Delete(t.Context(), "b2"); !errors.Is(err, repository.ErrForeign) {
		t.Errorf("it is deleted: %v", err)
	}
}

func TestListTells(t *testing.T) {
	s, _ := newShelf(t, map[uint64]int{1: 300, 2: 60})
	opened, _ := s.Open(s.Settings.Repository, "prod/cities/u/")
	must(t, opened.PutVerified(t.Context(), "1", backup.Verified{Backup: "b1", RestoreMilliseconds: 1500}))
	list, err := s.List(t.Context())
	must(t, err)
	if len(list.Backups) != 2 || list.Folder != "prod/cities/u/" || list.WindowSeconds != 7200 {
		t.Fatalf("%+v", list)
	}
	one := list.Backups[0]
	if one.ID != "b1" || one.Until != "0/700000" || one.From != "0/100190" || one.FromTime == nil || one.Stored == 0 ||
		len(one.Trials) != 1 || one.Trials[0].RestoreMilliseconds != 1500 || one.Needed == "" {
		t.Errorf("%+v", one)
	}
}

// One object from a node whose clock was ahead does not make what the window needs old.
func TestAnObjectOfTheFutureMakesNothingOld(t *testing.T) {
	s, folder := newShelf(t, map[uint64]int{1: 60, 2: 30, 3: 10})
	ahead := time.Now().AddDate(1, 0, 0)
	must(t, os.Chtimes(filepath.Join(folder, backup.OwnerName), ahead, ahead))
	if err := s.Delete(t.Context(), "b1"); !errors.Is(err, shelf.ErrNeeded) {
		t.Errorf("it is deleted: %v", err)
	}
	list, err := s.List(t.Context())
	must(t, err)
	if list.Now.After(time.Now()) || len(list.Backups) != 3 || list.Backups[0].Needed == "" {
		t.Errorf("%+v", list)
	}
}
