package status_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/status"
	"meridian.dev/meridian/internal/wire"
)

// A base backup on request counts as carried out when it is in the repository, and not when it was asked for.
func TestRequestIsCarriedOutWhenTheBackupIsThere(t *testing.T) {
	asked := &wire.BaseWanted{ID: "now-1", Instance: "cities-1"}
	older, newer := []wire.BaseBackup{{For: "now-0"}}, []wire.BaseBackup{{For: "now-1"}}
	for name, test := range map[string]struct {
		before string
		asked  *wire.BaseWanted
		there  []wire.BaseBackup
		silent bool
		want   string
	}{
		"it was asked for":              {asked: asked, want: ""},
		"another one was made before":   {before: "first", asked: asked, there: older, want: "first"},
		"it is there":                   {before: "first", asked: asked, there: newer, want: "second"},
		"nobody tells what there is":    {before: "first", asked: asked, silent: true, want: "first"},
		"a later one is on its way":     {before: "second", asked: &wire.BaseWanted{ID: "due-1"}, want: "second"},
		"nothing is asked for any more": {before: "first", want: "second"},
	} {
		t.Run(name, func(t *testing.T) {
			report := &wire.BackupReport{Listed: time.Unix(1, 0), Backups: test.there, BackupCount: len(test.there)}
			if test.silent {
				report = nil
			}
			snapshot := database.Snapshot{
				Identity: database.Identity{Name: "cities"},
				Spec:     v1alpha1.GeoDatabaseSpec{Backup: &v1alpha1.Backup{Now: "second"}},
				Backup:   database.Backup{Now: "second", Settings: &wire.BackupSettings{Base: test.asked}},
				Lease:    database.Lease{Holder: "cities-1"},
			}
			snapshot.Instances = []database.Instance{{Name: "cities-1", Pod: &database.Pod{}}}
			told := &snapshot.Instances[0].Report
			told.Reachable, told.Role, told.Backup = true, string(wire.RolePrimary), report
			before := v1alpha1.GeoDatabaseStatus{}
			if test.before != "" {
				before.Backup = &v1alpha1.BackupStatus{Now: test.before}
			}
			after, _ := status.Report(before, status.Pass{Snapshot: snapshot})
			if after.Backup == nil || after.Backup.Now != test.want {
				t.Errorf("carried out is %+v, want %q", after.Backup, test.want)
			}
		})
	}
}
