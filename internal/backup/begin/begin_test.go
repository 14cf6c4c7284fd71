package begin_test

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/begin"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/store/model"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

// What does not fit is refused with the way out before anything is made, and a source without a UID is found.
func TestSource(t *testing.T) {
	for name, c := range map[string]struct {
		// owners are in the repository, by the UID of their folder.
		owners map[string]backup.Owner
		change func(*begin.Request)
		says   []string
		// passes says that it comes as far as the backups, of which there are none.
		passes bool
	}{
		"the only one": {owners: map[string]backup.Owner{"u1": {}}, passes: true},
		"one of several, by its UID": {
			owners: map[string]backup.Owner{"u1": {}, "u2": {}}, passes: true,
			change: func(r *begin.Request) { r.Wanted.UID = "u2" },
		},
		"several": {
			owners: map[string]backup.Owner{"u1": {}, "u2": {}},
			says:   []string{"u1, u2", "spec.bootstrap.restore.source.uid"},
		},
		"the new database has the name of the old one": {
			owners: map[string]backup.Owner{"u1": {}, "new": {}}, passes: true,
		},
		"none":        {says: []string{"no backups of prod/cities"}},
		"an odd UID":  {change: func(r *begin.Request) { r.Wanted.UID = "u9" }, says: []string{"with the UID u9"}},
		"a namesake":  {owners: map[string]backup.Owner{"u1": {Namespace: "test"}}, says: []string{"those of test/cities"}},
		"a moved one": {owners: map[string]backup.Owner{"u1": {DatabaseUID: "u7"}}, says: []string{"with the UID u7"}},
		"another version": {
			owners: map[string]backup.Owner{"u1": {Major: 15}}, says: []string{"PostgreSQL 15", "the image has 17"},
		},
		"another database": {
			owners: map[string]backup.Owner{"u1": {Application: "maps"}}, says: []string{`"maps"`, "names of the source"},
		},
		"another role": {
			owners: map[string]backup.Owner{"u1": {ApplicationOwner: "gis"}}, says: []string{`"gis"`, "names of the source"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			under := &model.Store{Now: func() time.Time { return time.Unix(1, 0) }}
			open := func(_ wire.Repository, root string) (*repository.Repository, error) {
				return &repository.Repository{Store: under, Root: root}, nil
			}
			for uid, owner := range c.owners {
				claim(t, under, uid, owner)
			}
			request := begin.Request{
				Wanted: wire.Restore{
					Repository: wire.Repository{Claim: &wire.ClaimFolder{Prefix: "geo"}}, Namespace: "prod", Name: "cities",
				},
				DatabaseUID: "new", Major: 17, Application: wire.Application{Database: "app", Owner: "app"}, Open: open,
				Work: t.TempDir(), Data: path.Join(t.TempDir(), "data"),
			}
			if c.change != nil {
				c.change(&request)
			}
			_, err := begin.Run(t.Context(), request)
			_, none := errors.AsType[*plan.OutsideError](err)
			if none != c.passes || !c.passes && !errors.Is(err, begin.ErrNotFitting) {
				t.Errorf("it ended in %v", err)
			}
			for _, says := range c.says {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("it does not say %q: %v", says, err)
				}
			}
		})
	}
}

func claim(t *testing.T, under *model.Store, uid string, owner backup.Owner) {
	t.Helper()
	full := backup.Owner{
		DatabaseUID: uid, Namespace: "prod", Name: "cities", SystemIdentifier: "7", SegmentSize: 16 << 20, Major: 17,
		Application: "app", ApplicationOwner: "app",
	}
	for field, value := range map[*string]string{
		&full.DatabaseUID: owner.DatabaseUID, &full.Namespace: owner.Namespace, &full.Application: owner.Application,
		&full.ApplicationOwner: owner.ApplicationOwner,
	} {
		if value != "" {
			*field = value
		}
	}
	if owner.Major != 0 {
		full.Major = owner.Major
	}
	r := repository.Repository{Store: under, Root: backup.Root("geo", "prod", "cities", uid)}
	if err := r.Claim(context.Background(), full); err != nil {
		t.Fatal(err)
	}
}

// What a user has to mend is told apart from what passes, and begins with its name.
func TestMeaningOfErrors(t *testing.T) {
	for name, c := range map[string]struct {
		fault            model.Fault
		says             string
		refused, outside bool
	}{
		"away":        {model.Refused, string(wire.BackupRepositoryAway), false, false},
		"credentials": {model.Denied, string(wire.BackupCredentialsRefused), true, false},
		"no backups":  {model.None, "no complete base backup", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			under := &model.Store{Now: func() time.Time { return time.Unix(1, 0) }}
			claim(t, under, "u1", backup.Owner{})
			under.Fault = func(string, string) model.Fault { return c.fault }
			folder := t.TempDir()
			restores := begin.Restores{
				Work: t.TempDir(),
				Assemble: func(ctx context.Context, build func(context.Context, string, string) error) error {
					return build(ctx, path.Join(folder, "data"), "")
				},
				Open: func(_ wire.Repository, root string) (*repository.Repository, error) {
					return &repository.Repository{Store: under, Root: root}, nil
				},
			}
			err := restores.Restore(t.Context(), postgres.Restore{
				From: wire.Restore{
					Repository: wire.Repository{Claim: &wire.ClaimFolder{Prefix: "geo"}}, Namespace: "prod", Name: "cities",
				},
				DatabaseUID: "new", Major: 17, Application: wire.Application{Database: "app", Owner: "app"},
			}, func(postgres.RestoreProgress) {})
			found, refused := errors.AsType[*postgres.RestoreError](err)
			if refused != c.refused || refused && found.Outside != c.outside || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it ended in %v", err)
			}
		})
	}
}
