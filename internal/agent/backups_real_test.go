//go:build cluster

package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// repositoryFolder is where the instances of a rig have their repository, if they have one.
const repositoryFolder = "repository"

// keep turns backups on, with a base backup that an instance shall make.
func (r *rig) keep(id, instance, key string) {
	r.t.Helper()
	document, err := wire.BackupSettings{
		DatabaseUID: r.settings.DatabaseUID, Namespace: r.namespace, Database: "cities", WindowSeconds: 3600, AtLeast: 1,
		Repository: wire.Repository{Claim: &wire.ClaimFolder{Prefix: "geo"}, Encrypted: true},
		Base:       &wire.BaseWanted{ID: id, Instance: instance},
	}.Encode()
	must(r.t, err)
	for _, p := range r.pods {
		p.write("app", wire.KeyBackupIdentities, key)
		p.write("settings", wire.KeyBackup, string(document))
	}
}

// catalogue reads the repository.
func (r *rig) catalogue(key string) backup.Catalogue {
	r.t.Helper()
	keys, err := seal.ParseKeys(key)
	must(r.t, err)
	opened := repository.Repository{
		Store: store.Folder{Path: filepath.Join(r.folder, repositoryFolder)}, Keys: keys,
		Root: backup.Root("geo", r.namespace, "cities", r.settings.DatabaseUID),
	}
	catalogue, err := opened.Catalogue(context.Background())
	must(r.t, err)
	return catalogue
}

// awaitShipped waits until the repository leads without a hole to where the primary is now.
func (r *rig) awaitShipped(key string) {
	r.t.Helper()
	primary := r.primary()
	text, err := primary.query("select pg_current_wal_flush_lsn()")
	must(r.t, err)
	var flushed backup.LSN
	must(r.t, flushed.UnmarshalText([]byte(text)))
	var reached backup.LSN
	took := r.await("the log in the repository", func() bool {
		catalogue := r.catalogue(key)
		recovery, err := plan.Recover(&catalogue, plan.Target{})
		reached = recovery.Until
		return err == nil && reached >= flushed
	})
	r.t.Logf("%s of %s is in the repository after %s", flushed, primary.name, took)
}

// K1 to K4, K7: the log arrives, also that which only a dead primary had shipped in part, and a base backup of a
// replica is complete with the log of the primary.
func TestBackups(t *testing.T) {
	r := newRig(t, 2)
	place := filepath.Join(r.folder, repositoryFolder)
	must(t, os.Mkdir(place, 0o755))
	must(t, os.Chown(place, r.pods[0].uid, r.pods[0].gid))
	key, err := seal.NewKey()
	must(t, err)
	r.start()
	r.awaitAll()
	r.makeTable()
	rows := r.begin()
	r.await("traffic", func() bool { return rows.count() > 20 })
	replica := r.others(r.primary())[0]
	began := time.Now()
	r.keep("first", replica.name, key)
	took := r.awaitReport(r.primary(), "a point in time to restore to", func(report wire.Report) bool {
		return report.Backup != nil && !report.Backup.RecoverableUntil.IsZero() && report.Backup.Reason == ""
	})
	t.Logf("turned on to the first recoverable point: %s (%s)", time.Since(began).Round(time.Millisecond), took)
	catalogue := r.catalogue(key)
	if len(catalogue.Backups) != 1 || catalogue.Backups[0].For != "first" ||
		catalogue.Backups[0].Instance != replica.name || catalogue.Backups[0].Settings["max_connections"] == "" {
		t.Errorf("%+v", catalogue.Backups)
	}
	r.awaitShipped(key)
	for range 3 {
		old := r.primary()
		old.crash()
		r.await("another holder than "+old.name, func() bool { holder, _ := r.record(); return holder.Name != old.name })
		old.start() // Two copies are needed for a write.
		r.awaitOther(old, rows)
		r.awaitAll()
	}
	r.awaitShipped(key)
	catalogue = r.catalogue(key)
	for _, log := range catalogue.Logs {
		if len(log.Gaps) > 0 {
			t.Errorf("gaps after failovers: timeline %d: %+v", log.Timeline, log.Gaps)
		}
	}
	if history := plan.Newest(&catalogue); len(history) < 4 {
		t.Errorf("the history of the repository is %+v", history)
	}
	for _, p := range r.pods {
		report, err := p.report()
		must(t, err)
		all, own := resident(p.command.Process.Pid)
		t.Logf("%s: agent %d KiB, of its own %d KiB: %+v", p.name, all, own, report.Backup)
	}
	rows.check()
}
