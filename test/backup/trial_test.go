//go:build cluster

package backup_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"

	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/trial"
	"meridian.dev/meridian/internal/wire"
)

// trialOptions are those of the process that the operator starts, over what is mounted there.
func (r *rig) trialOptions(key string) trial.Options {
	r.t.Helper()
	folder, err := os.MkdirTemp("", "t-")
	must(r.t, err)
	r.t.Cleanup(func() { _ = os.RemoveAll(folder) })
	document, err := wire.BackupSettings{
		DatabaseUID: r.owner.DatabaseUID, Namespace: r.owner.Namespace, Database: r.owner.Name, AtLeast: 1,
		Repository: wire.Repository{Claim: &wire.ClaimFolder{Prefix: "geo"}, Encrypted: true},
	}.Encode()
	must(r.t, err)
	must(r.t, os.WriteFile(filepath.Join(folder, wire.KeyBackup), document, 0o600))
	must(r.t, os.WriteFile(filepath.Join(folder, wire.KeyBackupIdentities), []byte(key), 0o600))
	own, err := os.Executable()
	must(r.t, err)
	return trial.Options{
		Namespace: r.owner.Namespace, Database: r.owner.Name, Settings: folder, Credentials: folder, Claim: r.store.Path,
		Volume: folder, Runtime: folder, Path: programs() + ":/usr/bin:/bin", FetchCommand: own + " fetch",
		Result: filepath.Join(folder, "result"), Now: time.Now, Log: testr.New(r.t),
	}
}

func (r *rig) try(options trial.Options) (wire.TrialResult, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	failed := trial.Run(ctx, options)
	document, err := os.ReadFile(options.Result)
	must(r.t, err)
	result, err := wire.DecodeTrialResult(document)
	must(r.t, err)
	return result, failed
}

func (r *rig) objects() []string {
	r.t.Helper()
	var names []string
	must(r.t, store.ListAll(r.t.Context(), r.under, "", func(object store.Object) error {
		names = append(names, object.Name)
		return nil
	}))
	return names
}

// The process restores what was written last, finds it good, and leaves nothing in the repository but the record of it:
// it ships nothing, although the copy became a primary for a moment.
func TestTrialLeavesItsRecordAlone(t *testing.T) {
	r, a := newRig(t)
	a.sql(places)
	r.ship(a)
	r.backup("b1", a, a)
	a.sql("insert into places (area) values (box(point(0, 0), point(1, 1)))")
	r.ship(a)
	before, options := r.objects(), r.trialOptions(r.key)
	written := time.Now()
	result, err := r.try(options)
	must(t, err)
	if result.Backup != "b1" || result.Problem != "" || result.Failure != "" || result.Indexes != 1 ||
		result.RestoreMilliseconds == 0 {
		t.Errorf("it left %+v", result)
	}
	if age := written.Sub(result.LastCommit); age < 0 || age > time.Minute {
		t.Errorf("the last commit is of %s, and it was a moment before %s", result.LastCommit, written)
	}
	added := slices.DeleteFunc(r.objects(), func(name string) bool { return slices.Contains(before, name) })
	if len(added) != 1 || !strings.Contains(added[0], "/verified/b1.") {
		t.Errorf("it has written %v", added)
	}
	// A second one writes a second record, and never over the first.
	second := r.trialOptions(r.key)
	second.Now = func() time.Time { return time.Now().Add(time.Minute) }
	if _, err := r.try(second); err != nil {
		t.Error(err)
	}
	catalogue, err := r.repository().Catalogue(t.Context())
	must(t, err)
	if len(catalogue.Verified) != 2 {
		t.Errorf("there are %d records", len(catalogue.Verified))
	}
}

// A part of a backup that is not what was written is something wrong with the backup, and is written down as that.
func TestTrialsFindDamage(t *testing.T) {
	r, a := newRig(t)
	r.ship(a)
	r.backup("b1", a, a)
	part := filepath.Join(r.store.Path, r.repository().Root, r.part())
	content, err := os.ReadFile(part)
	must(t, err)
	content[len(content)/2] ^= 1
	must(t, os.Remove(part))
	must(t, os.WriteFile(part, content, 0o600))
	result, err := r.try(r.trialOptions(r.key))
	must(t, err)
	if result.Backup != "b1" || result.Problem == "" || result.Failure != "" {
		t.Errorf("it left %+v", result)
	}
	catalogue, err := r.repository().Catalogue(t.Context())
	must(t, err)
	if len(catalogue.Verified) != 1 || catalogue.Verified[0].Problem != result.Problem {
		t.Errorf("it wrote down %+v", catalogue.Verified)
	}
}

// part is the name of the first part of the newest base backup.
func (r *rig) part() string {
	r.t.Helper()
	catalogue, err := r.repository().Catalogue(r.t.Context())
	must(r.t, err)
	return catalogue.Backups[len(catalogue.Backups)-1].Parts[0].Name
}

// What keeps a backup from being tried says nothing about it: nothing is written into the repository.
func TestTrialsThatCannotBeMade(t *testing.T) {
	r, a := newRig(t)
	r.ship(a)
	another, err := seal.NewKey()
	must(t, err)
	if result, err := r.try(r.trialOptions(r.key)); err == nil || !strings.Contains(result.Failure, "restore on trial") {
		t.Errorf("without a backup it ended in %v and left %+v", err, result)
	}
	r.backup("b1", a, a)
	for name, c := range map[string]struct {
		harm func(*trial.Options)
		key  string
		says string
	}{
		"another key":    {key: another, says: "restore on trial"},
		"no key":         {says: "key"},
		"no settings":    {key: r.key, harm: func(o *trial.Options) { o.Settings = "/nowhere" }, says: "no repository"},
		"another's":      {key: r.key, harm: func(o *trial.Options) { o.Database = "towns" }, says: "those of the database"},
		"no programs":    {key: r.key, harm: func(o *trial.Options) { o.Path = "/nowhere" }, says: "PostgreSQL's programs"},
		"no repository":  {key: r.key, harm: func(o *trial.Options) { o.Claim = "/nowhere" }, says: "nowhere"},
		"nowhere to put": {key: r.key, harm: func(o *trial.Options) { o.Runtime = "/proc/none" }, says: "/proc/none"},
	} {
		t.Run(name, func(t *testing.T) {
			options := r.trialOptions(c.key)
			if c.harm != nil {
				c.harm(&options)
			}
			before := r.objects()
			result, err := r.try(options)
			if err == nil || result.Backup != "" || !strings.Contains(result.Failure, c.says) {
				t.Errorf("it ended in %v and left %+v", err, result)
			}
			if after := r.objects(); !slices.Equal(before, after) {
				t.Errorf("it has written: %v", after)
			}
		})
	}
}
