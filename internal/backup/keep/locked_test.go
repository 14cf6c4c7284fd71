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

// A real bucket holds what says that the older backup exists, which was written last, so that its lock ends last.
// Retention meets the lock, tells it, leaves the backup whole, and deletes it when the lock is gone.
func TestARealObjectLock(t *testing.T) {
	server, bucket := lockedBucket(t)
	r := newRig(t)
	r.under = bucket
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
	at := slices.IndexFunc(before, func(name string) bool { return strings.HasSuffix(name, "/backup.json") })
	if at < 0 {
		t.Fatalf("there is no backup among %q", before)
	}
	held := before[at]
	hold := func(status string) {
		server.Admit("PUT", lockedPath+held, "legal-hold=", "<LegalHold><Status>"+status+"</Status></LegalHold>")
	}
	hold("ON")
	r.retainNothing()
	r.turns(5)
	if report := r.keeper.Report(); !report.Locked || report.BackupCount != 2 || report.Reason != "" {
		t.Errorf("with the lock: %+v", report)
	}
	for _, name := range before {
		if strings.HasPrefix(name, strings.TrimSuffix(held, "backup.json")) && !slices.Contains(r.listed(), name) {
			t.Errorf("%s is gone, and its backup counts as one that can be restored", name)
		}
	}
	hold("OFF")
	r.change(func() { r.now = r.now.Add(time.Hour) })
	r.turns(5)
	if report := r.keeper.Report(); report.Locked || report.BackupCount != 1 || slices.Contains(r.listed(), held) {
		t.Errorf("without the lock: %+v", report)
	}
}
