package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/wire"
)

func backupSettings() wire.BackupSettings {
	return wire.BackupSettings{
		Version: 1, DatabaseUID: "0c9d", Namespace: "prod", Database: "cities",
		Repository: wire.Repository{
			S3:        &wire.S3Bucket{Bucket: "b", Prefix: "geo", Endpoint: "https://s3.example", Region: "eu", PathStyle: true},
			Encrypted: true,
		},
		WindowSeconds: 14 * 24 * 3600, AtLeast: 2, MaxRate: 64 << 20,
		Base: &wire.BaseWanted{ID: "20261118T020000Z", Instance: "cities-2"},
	}
}

func TestBackupSettingsGolden(t *testing.T) {
	document, err := backupSettings().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "backup-settings-v1.json", document)
	back, err := wire.DecodeBackupSettings(document)
	if diff := cmp.Diff(backupSettings(), back); diff != "" || err != nil {
		t.Errorf("%v; settings do not come back (-want +got):\n%s", err, diff)
	}
}

func TestDecodeBackupSettingsRefuses(t *testing.T) {
	document, err := backupSettings().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, new, want string }{
		"a newer version":   {`"version":1`, `"version":2,"more":true`, "version: is 2"},
		"an unknown field":  {`"atLeast":2`, `"atLeast":2,"most":9`, `unknown field "most"`},
		"no namespace":      {`"namespace":"prod"`, `"namespace":""`, "namespace"},
		"the folder above":  {`"namespace":"prod"`, `"namespace":".."`, "namespace"},
		"a path for a name": {`"database":"cities"`, `"database":"../x"`, "database"},
		"no bucket":         {`"bucket":"b"`, `"bucket":""`, "repository.s3.bucket"},
		"two kinds":         {`"encrypted":true`, `"claim":{},"encrypted":true`, "exactly one of"},
		"a way out":         {`"prefix":"geo"`, `"prefix":"a/../b"`, "prefix"},
		"no backups at all": {`"atLeast":2`, `"atLeast":0`, "atLeast"},
		"a time before":     {`"windowSeconds":1209600`, `"windowSeconds":-1`, "windowSeconds"},
		"a path for an id":  {`20261118T020000Z`, `a/b`, "base.id"},
		"nobody to do it":   {`cities-2`, ``, "base.instance"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(document), test.old, test.new, 1)
			if changed == string(document) {
				t.Fatal("nothing was changed")
			}
			if _, err := wire.DecodeBackupSettings([]byte(changed)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want a refusal with %q", err, test.want)
			}
		})
	}
}

func TestSettingsOfARestore(t *testing.T) {
	at := time.Date(2026, 11, 18, 10, 15, 0, 0, time.UTC)
	good := wire.Restore{
		Repository: wire.Repository{Claim: &wire.ClaimFolder{}}, Namespace: "prod", Name: "cities", Time: &at,
	}
	for name, test := range map[string]struct {
		change func(*wire.Restore)
		want   string
	}{
		"a time":           {func(*wire.Restore) {}, ""},
		"the latest":       {func(r *wire.Restore) { r.Time = nil }, ""},
		"a place":          {func(r *wire.Restore) { r.Time, r.LSN = nil, "3/4A00FF" }, ""},
		"both":             {func(r *wire.Restore) { r.LSN = "3/4A00FF" }, "and not both"},
		"words":            {func(r *wire.Restore) { r.Time, r.LSN = nil, "yesterday" }, "restore.lsn"},
		"more than an LSN": {func(r *wire.Restore) { r.Time, r.LSN = nil, "3/4A00FF'" }, "restore.lsn"},
		"no source":        {func(r *wire.Restore) { r.Name = "" }, "is no database"},
		"a way out":        {func(r *wire.Restore) { r.Name = ".." }, "is no database"},
		"another way out":  {func(r *wire.Restore) { r.UID = ".." }, "restore.uid"},
		"no repository":    {func(r *wire.Restore) { r.Repository = wire.Repository{} }, "restore.repository"},
	} {
		t.Run(name, func(t *testing.T) {
			settings, restore := settings(), good
			test.change(&restore)
			settings.Restore = &restore
			document, err := settings.Encode()
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want a refusal with %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			back, err := wire.DecodeSettings(document)
			if diff := cmp.Diff(settings, back); diff != "" || err != nil {
				t.Errorf("%v; settings do not come back (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestPublicReportOfBackupsHasNoSentence(t *testing.T) {
	told := report()
	told.Backup = &wire.BackupReport{
		Ships: true, Reason: wire.BackupRepositoryAway, Message: "secret.example does not answer", VerifyProblem: "secret",
		Base: &wire.BaseProgress{For: "a", Phase: wire.BaseWaiting, Problem: "secret.example"},
	}
	told.RestoreProblem = "secret.example"
	document, err := told.Public().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(document), "secret") || !strings.Contains(string(document), "RepositoryAway") {
		t.Errorf("anybody may read %s", document)
	}
	if told.Backup.Base.Problem == "" {
		t.Error("the report itself has lost it")
	}
}
