package store_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/store/conform"
	"meridian.dev/meridian/internal/backup/store/model"
)

func newModel() *model.Store {
	now := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	return &model.Store{PageSize: 2, Now: func() time.Time { now = now.Add(time.Second); return now }}
}

// The golden answers are what a store is, for every driver. Those of a real S3 server are compared in test/backup.
func TestFolderAndModelAnswerAlike(t *testing.T) {
	golden, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, under := range map[string]store.Store{
		"folder": store.Folder{Path: t.TempDir(), PageSize: 2},
		"model":  newModel(),
	} {
		t.Run(name, func(t *testing.T) {
			answers := strings.Join(conform.Answers(context.Background(), under, "prefix/"), "\n") + "\n"
			if diff := cmp.Diff(string(golden), answers); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContactRefusesAStoreThatIgnoresTheCondition(t *testing.T) {
	under := newModel()
	under.IgnoreCondition = true
	err := store.Contact(context.Background(), under, "contact/1")
	if !store.Is(err, store.ConditionIgnored) {
		t.Errorf("the contact ended with %v", err)
	}
}

// partsOnly honours the condition of plain writes alone, as some stores do.
type partsOnly struct{ *model.Store }

func (s partsOnly) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	s.IgnoreCondition = strings.HasSuffix(name, "-large")
	return s.Store.PutIfAbsent(ctx, name, content)
}

func TestContactTriesWritesInParts(t *testing.T) {
	err := store.Contact(context.Background(), partsOnly{newModel()}, "contact/1")
	if !store.Is(err, store.ConditionIgnored) {
		t.Errorf("the contact ended with %v", err)
	}
}

func TestFaultsOfTheModel(t *testing.T) {
	ctx := context.Background()
	put := func(under *model.Store) error { return under.PutIfAbsent(ctx, "x", strings.NewReader("1")) }
	there := func(under *model.Store) bool {
		absent, err := store.IsAbsent(ctx, under, "x")
		if err != nil {
			t.Fatal(err)
		}
		return !absent
	}
	for name, c := range map[string]struct {
		fault          model.Fault
		class          store.Class
		before, settle bool
	}{
		"a lost answer was done":            {fault: model.Lost, class: store.Away, before: true, settle: true},
		"a late write is done later":        {fault: model.Late, class: store.Away, settle: true},
		"a refused write is never done":     {fault: model.Refused, class: store.Away},
		"refused credentials write nothing": {fault: model.Denied, class: store.CredentialsRefused},
	} {
		t.Run(name, func(t *testing.T) {
			under := newModel()
			under.Fault = func(call, _ string) model.Fault {
				if call == "put" {
					return c.fault
				}
				return model.None
			}
			if err := put(under); !store.Is(err, c.class) {
				t.Errorf("the write ended with %v", err)
			}
			before := there(under)
			under.Settle()
			if before != c.before || there(under) != c.settle {
				t.Errorf("there: %t before and %t after the late writes", before, there(under))
			}
		})
	}
	under := newModel()
	under.Remember()
	if err := put(under); err != nil {
		t.Fatal(err)
	}
	under.Fault = func(string, string) model.Fault { return model.Old }
	if there(under) {
		t.Error("a listing of the past shows what is new")
	}
}

func TestAFolderThatIsNotThereIsNotEmpty(t *testing.T) {
	ctx := context.Background()
	under := store.Folder{Path: filepath.Join(t.TempDir(), "gone")}
	if absent, err := store.IsAbsent(ctx, under, "x"); err == nil {
		t.Errorf("absent: %t", absent)
	}
}

func TestACancelledWriteLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	folder := t.TempDir()
	err := store.Folder{Path: folder}.PutIfAbsent(ctx, "x/y", strings.NewReader("1"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the write ended with %v", err)
	}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			t.Errorf("%s was left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
