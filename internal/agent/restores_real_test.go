//go:build cluster

package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/wire"
)

// execute runs a statement as the application does.
func (p *pod) execute(statement string) {
	p.t.Helper()
	connection, err := p.dial()
	must(p.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = connection.Exec(ctx, statement)
	must(p.t, err)
}

// repository makes the folder of a repository that the instances may write to.
func (r *rig) repository() string {
	r.t.Helper()
	place := filepath.Join(r.folder, repositoryFolder)
	must(r.t, os.MkdirAll(place, 0o755))
	must(r.t, os.Chown(place, r.pods[0].uid, r.pods[0].gid))
	return place
}

// past is a database that is gone, with its repository.
type past struct {
	folder, key, namespace string
	// before is a second before the table was dropped, place one in the log before that; each has words that the other
	// lacks.
	before time.Time
	place  string
}

// newPast makes a database of two instances, writes, lets the primary fail, writes, drops the table, and ends it all.
func newPast(t *testing.T) past {
	r := newRig(t, 2)
	key, err := seal.NewKey()
	must(t, err)
	made := past{folder: r.repository(), key: key, namespace: r.namespace}
	for _, p := range r.pods {
		p.write("app", wire.KeyRotation, "7")
	}
	r.start()
	r.awaitAll()
	r.makeTable()
	r.primary().execute("create table words (word text); insert into words values ('first')")
	r.keep("first", r.primary().name, key)
	r.awaitReport(r.primary(), "a point in time to restore to", func(report wire.Report) bool {
		return report.Backup != nil && !report.Backup.RecoverableUntil.IsZero() && report.Backup.Reason == ""
	})
	old := r.primary()
	old.crash()
	r.await("another holder", func() bool { holder, _ := r.record(); return holder.Name != old.name })
	old.start()
	r.awaitAll()
	primary := r.primary()
	primary.execute("insert into words values ('second')")
	made.place, err = primary.query("select pg_current_wal_insert_lsn()::text")
	must(t, err)
	primary.execute("insert into words values ('third')")
	// The clocks of store and server are one here, and a target is a moment without a commit of ours.
	time.Sleep(100 * time.Millisecond)
	made.before = time.Now().UTC()
	time.Sleep(100 * time.Millisecond)
	primary.execute("drop table words; insert into rows values (1)")
	r.awaitShipped(key)
	for _, p := range r.pods {
		p.stop()
	}
	return made
}

// object is the path of an object in the repository.
func (p past) object(name string) string {
	return filepath.Join(p.folder, backup.Root("geo", p.namespace, "cities", "uid-1"), name)
}

// restored is a new database that begins with the backups. It has not started.
func (p past) restored(t *testing.T, instances int, change func(*rig, *wire.Restore)) *rig {
	r := newRig(t, instances)
	r.repository()
	wanted := &wire.Restore{
		Repository: wire.Repository{Claim: &wire.ClaimFolder{Prefix: "geo"}, Encrypted: true},
		Namespace:  p.namespace, Name: "cities",
	}
	r.settings.DatabaseUID, r.settings.Restore, r.source, r.password = "uid-2", wanted, p.folder, "second-secret"
	for _, pod := range r.pods {
		pod.write("app", wire.KeyBackupIdentities, p.key)
		pod.write("app", wire.KeyPassword, r.password)
	}
	if change != nil {
		change(r, wanted)
	}
	r.writeSettings()
	for _, pod := range r.pods {
		pod.own()
	}
	return r
}

// awaitWords waits until the primary serves and has these words, "" for no such table.
func (r *rig) awaitWords(want string) {
	r.t.Helper()
	took := r.await("a primary", func() bool { return r.primary() != nil })
	got, err := r.primary().query("select coalesce(string_agg(word, ' ' order by word), '') from words")
	if want == "" && err != nil && strings.Contains(err.Error(), "does not exist") {
		err = nil
	}
	if err != nil || got != want {
		r.t.Errorf("it has %q, want %q: %v", got, want, err)
	}
	r.t.Logf("served after %s", took)
}

// A database that is gone comes back, to the latest, to the second before a table was dropped, and to a place in the
// log, across a failover; as a database of its own, with its own logins, its own replicas and its own backups.
func TestRestores(t *testing.T) {
	gone := newPast(t)
	t.Run("the latest", func(t *testing.T) {
		r := gone.restored(t, 2, nil)
		r.start()
		r.awaitAll()
		r.awaitWords("")
		if count, err := r.primary().query("select count(*)::text from rows"); err != nil || count != "1" {
			t.Errorf("%s rows, %v", count, err)
		}
		_, record := r.record()
		if record.Timeline < 3 {
			t.Errorf("it leads on timeline %d, which is not above those of its source", record.Timeline)
		}
		// It ships to its own place, and its replica takes over on the next timeline.
		r.keep("own", r.primary().name, gone.key)
		r.awaitReport(r.primary(), "a point in time of its own", func(report wire.Report) bool {
			return report.Backup != nil && !report.Backup.RecoverableUntil.IsZero() && report.Backup.Reason == ""
		})
		old := r.primary()
		old.crash()
		r.await("another holder", func() bool { holder, _ := r.record(); return holder.Name != old.name })
		old.start()
		r.awaitAll()
		if _, after := r.record(); after.Timeline != record.Timeline+1 {
			t.Errorf("after a failover it leads on timeline %d, and before on %d", after.Timeline, record.Timeline)
		}
		r.awaitShipped(gone.key)
		entries, err := os.ReadDir(filepath.Join(gone.folder, "geo", gone.namespace, "cities"))
		if err != nil || len(entries) != 1 {
			t.Errorf("in the place of the source is %v: %v", entries, err)
		}
	})
	t.Run("a second before, with a volume for the log", func(t *testing.T) {
		r := gone.restored(t, 1, func(r *rig, wanted *wire.Restore) { r.split, wanted.Time = true, &gone.before })
		r.start()
		r.awaitWords("first second third")
		if target, err := os.Readlink(r.pods[0].at("volume", "pgdata", "pg_wal")); target != r.pods[0].at("log", "pg_wal") {
			t.Errorf("pg_wal leads to %q: %v", target, err)
		}
	})
	t.Run("the latest, with five instances", func(t *testing.T) {
		r := gone.restored(t, 5, nil)
		r.start()
		r.awaitAll()
		r.awaitWords("")
		r.await("the rows on all five", func() bool {
			return !slices.ContainsFunc(r.pods, func(p *pod) bool {
				count, err := p.query("select count(*)::text from rows")
				return err != nil || count != "1"
			})
		})
	})
	t.Run("a place in the log", func(t *testing.T) {
		r := gone.restored(t, 1, func(_ *rig, wanted *wire.Restore) { wanted.LSN, wanted.UID = gone.place, "uid-1" })
		r.start()
		r.awaitWords("first second")
	})
}

// What is in the way of a restore has a name, begins nothing, and goes when it is mended.
func TestRestoresThatCannotBe(t *testing.T) {
	gone := newPast(t)
	latest := func(r *rig) { r.awaitWords("") }
	segments, err := filepath.Glob(gone.object("wal/*/*"))
	must(t, err)
	slices.Sort(segments)
	backups, err := filepath.Glob(gone.object("base/*/part-*"))
	must(t, err)
	for name, c := range map[string]struct {
		change func(*rig, *wire.Restore)
		reason wire.Reason
		says   string
		mend   func(*rig)
		then   func(*rig)
	}{
		"a wrong key": {func(r *rig, _ *wire.Restore) {
			other, err := seal.NewKey()
			must(t, err)
			r.pods[0].write("app", wire.KeyBackupIdentities, other)
		}, wire.ReasonRestoreFailed, "KeyWrong", func(r *rig) {
			r.pods[0].write("app", wire.KeyBackupIdentities, gone.key)
		}, latest},
		"another bucket": {func(*rig, *wire.Restore) {
			must(t, os.Rename(gone.folder, gone.folder+".away"))
		}, wire.ReasonRestoreFailed, "", func(*rig) { must(t, os.Rename(gone.folder+".away", gone.folder)) }, latest},
		"another name": {func(_ *rig, wanted *wire.Restore) { wanted.Name = "towns" },
			wire.ReasonRestoreFailed, "no backups of " + gone.namespace + "/towns", func(r *rig) {
				r.settings.Restore.Name = "cities"
				r.writeSettings()
			}, latest},
		"another application": {func(r *rig, _ *wire.Restore) { r.settings.Application.Database = "maps" },
			wire.ReasonRestoreFailed, `"geo"`, func(r *rig) {
				r.settings.Application.Database = "geo"
				r.writeSettings()
			}, latest},
		"a target that is not reached": {func(_ *rig, wanted *wire.Restore) { wanted.LSN = "7F/0" },
			wire.ReasonTargetOutside, "choose a target from", func(r *rig) {
				r.settings.Restore.LSN = ""
				r.writeSettings()
			}, latest},
		"a log that is away during recovery": {func(*rig, *wire.Restore) {
			must(t, os.Chmod(segments[len(segments)-1], 0))
		}, wire.ReasonRestoring, "waits for the repository", func(*rig) {
			must(t, os.Chmod(segments[len(segments)-1], 0o600))
		}, latest},
		"an agent that is killed during recovery": {func(*rig, *wire.Restore) {
			must(t, os.Chmod(segments[len(segments)-1], 0))
		}, wire.ReasonRestoring, "waits for the repository", func(r *rig) {
			r.pods[0].crash()
			r.pods[0].start()
			r.awaitReport(r.pods[0], "another try", func(report wire.Report) bool {
				return strings.Contains(report.Message, "waits for the repository")
			})
			must(t, os.Chmod(segments[len(segments)-1], 0o600))
		}, latest},
		"a flipped byte": {func(*rig, *wire.Restore) { flip(t, backups[0]) }, wire.ReasonRestoreFailed,
			"RepositoryDamaged", func(*rig) { flip(t, backups[0]) }, latest},
	} {
		t.Run(name, func(t *testing.T) {
			r := gone.restored(t, 1, c.change)
			r.start()
			r.awaitReport(r.pods[0], c.says, func(report wire.Report) bool {
				return report.Reason == c.reason && strings.Contains(report.Message, c.says)
			})
			if _, err := os.Lstat(r.pods[0].at("volume", "pgdata")); err == nil {
				t.Error("there is a data directory")
			}
			if _, record := r.record(); record.Initialised {
				t.Error("the database counts as begun")
			}
			c.mend(r)
			c.then(r)
		})
	}
}

func flip(t *testing.T, path string) {
	content, err := os.ReadFile(path)
	must(t, err)
	content[len(content)/2] ^= 1
	must(t, os.WriteFile(path, content, 0o600))
}
