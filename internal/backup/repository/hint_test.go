package repository_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/store/model"
)

// A backup that is listed and not found is no draft, whose parts may be deleted: the store said two things (K6).
func TestABackupThatIsListedIsNotTakenForADraft(t *testing.T) {
	ctx := context.Background()
	r, under := newRepository(t)
	must(t, r.Claim(ctx, owner))
	must(t, r.PutBackup(ctx, backup.Backup{ID: "b1"}))
	if _, err := r.PutPart(ctx, backup.PartName("b1", 1, r.Keys.Suffix()), strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	under.Fault = func(call, name string) model.Fault {
		if call == "get" && strings.HasSuffix(name, "/backup.json") {
			return model.Missed
		}
		return model.None
	}
	if catalogue, err := r.Catalogue(ctx); err == nil {
		t.Errorf("%d backups and the drafts %+v", len(catalogue.Backups), catalogue.Drafts)
	}
}

// The record of a backup of ten tebibytes is read as a whole: a part of it would count as damage of the repository.
func TestALargeBackupIsRead(t *testing.T) {
	ctx := context.Background()
	r, _ := newRepository(t)
	must(t, r.Claim(ctx, owner))
	large := backup.Backup{ID: "b1"}
	for number := range 10 << 10 {
		large.Parts = append(large.Parts, backup.Part{
			Name: backup.PartName("b1", number, ".zst.age"), Size: 1 << 30, SHA256: fmt.Sprintf("%064d", number),
		})
	}
	must(t, r.PutBackup(ctx, large))
	catalogue, err := r.Catalogue(ctx)
	must(t, err)
	if got := len(catalogue.Backups[0].Parts); got != len(large.Parts) {
		t.Errorf("it has %d parts", got)
	}
}
