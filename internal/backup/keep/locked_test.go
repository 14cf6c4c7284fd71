//go:build cluster

package keep_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/store/cloud"
	"meridian.dev/meridian/internal/backup/store/conform"
	"meridian.dev/meridian/internal/wire"
)

const lockedPath = "/locked/"

// lockedBucket is a bucket with object locks at a real S3 server.
func lockedBucket(t *testing.T) (*conform.S3, store.Store) {
	t.Helper()
	server := conform.NewS3(t, "../../..")
	server.Start()
	server.Admit("PUT", strings.TrimSuffix(lockedPath, "/"), "", "", "X-Amz-Bucket-Object-Lock-Enabled: true")
	credentials := t.TempDir()
	for name, content := range map[string]string{
		cloud.AccessKeyIDFile: server.ID, cloud.SecretAccessKeyFile: server.Secret,
	} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opened, err := cloud.Open(cloud.Location{
		Repository:  wire.Repository{S3: &wire.S3Bucket{Bucket: strings.Trim(lockedPath, "/"), Endpoint: server.URL()}},
		Credentials: credentials,
	})
	if err != nil {
		t.Fatal(err)
	}
	return server, opened
}

// listed are the names of all objects, without those by which the store is tried first.
func (r *rig) listed() (names []string) {
	r.Helper()
	err := store.ListAll(r.Context(), r.under, "", func(object store.Object) error {
		if !strings.Contains(object.Name, "/contact/") {
			names = append(names, object.Name)
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return names
}

// A real bucket holds one object of the older backup: what says that it exists, or a part of it. Retention meets the lock,
// tells it, and deletes the backup when the lock is gone.
func TestARealObjectLock(t *testing.T) {
	server, bucket := lockedBucket(t)
	for name, end := range map[string]string{"of what says that it exists": "/backup.json", "of a part": "/part-00001.tar.zst"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.under = bucket
			r.settings.DatabaseUID = t.Name()[strings.LastIndex(t.Name(), "_")+1:] // A folder for each.
			r.archive = archive(segment+40, segment+500)
			r.turns(2)
			for _, wish := range []string{"w1", "w2"} {
				r.change(func() { r.settings.Base = &wire.BaseWanted{ID: wish, Instance: "cities-1"} })
				r.turns(4)
			}
			if report := r.keeper.Report(); report.BackupCount != 2 || report.Locked {
				t.Fatalf("%+v", report)
			}
			r.change(func() { r.settings.Base = nil })
			before := r.listed()
			at := slices.IndexFunc(before, func(name string) bool {
				return strings.Contains(name, r.settings.DatabaseUID) && strings.HasSuffix(name, end)
			})
			if at < 0 {
				t.Fatalf("none of %q ends in %s", before, end)
			}
			held := before[at]
			server.Admit("PUT", lockedPath+held, "legal-hold=", "<LegalHold><Status>ON</Status></LegalHold>")
			r.retainNothing()
			r.turns(5)
			report := r.keeper.Report()
			if !report.Locked || report.Reason != "" {
				t.Errorf("the lock is not told: %+v", report)
			}
			whole := report.BackupCount == 2
			for _, name := range before {
				of, _, _ := strings.Cut(held, end)
				if whole && strings.HasPrefix(name, of) && !slices.Contains(r.listed(), name) {
					t.Errorf("%s is gone, and its backup counts as one that can be restored", name)
				}
			}
			if !slices.Contains(r.listed(), held) || end == "/backup.json" && !whole {
				t.Errorf("what is locked did not stay: %+v", report)
			}
			server.Admit("PUT", lockedPath+held, "legal-hold=", "<LegalHold><Status>OFF</Status></LegalHold>")
			r.change(func() { r.now = r.now.Add(time.Hour) })
			r.turns(5)
			if report := r.keeper.Report(); report.Locked || report.BackupCount != 1 || slices.Contains(r.listed(), held) {
				t.Errorf("without the lock: %+v", report)
			}
		})
	}
}
