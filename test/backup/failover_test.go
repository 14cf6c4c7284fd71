//go:build cluster

package backup_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/base"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/postgres/wal"
)

// follow has a standby follow another primary from now on.
func (s *server) follow(primary *server) {
	s.t.Helper()
	s.sql("alter system set primary_conninfo = 'host=" + primary.folder + " port=5432 user=postgres'")
	s.sql("select pg_reload_conf()")
}

// slow is a base backup that has begun, and of which no more is read until it is let go on: the buffers between are
// much smaller than what is left of it.
type slow struct {
	rig   *rig
	of    *server
	goOn  chan struct{}
	taken backup.Backup
	err   error
	ended chan struct{}
}

func (r *rig) backupSlowly(id string, of *server) *slow {
	r.t.Helper()
	made := &slow{rig: r, of: of, goOn: make(chan struct{}), ended: make(chan struct{})}
	underWay := make(chan struct{})
	go func() {
		defer close(made.ended)
		made.taken, made.err = base.Run(context.Background(), r.repository(), base.Request{
			ID: id, PartSize: 8 << 20, Conninfo: "host=" + of.folder + " port=5432 user=postgres",
			Execute: func(ctx context.Context, arguments []string, output *os.File) error {
				return executeSlowly(ctx, arguments, output, func() { close(underWay); <-made.goOn })
			},
		})
	}()
	select {
	case <-underWay:
	case <-made.ended:
		r.t.Fatalf("the base backup has ended before it began: %v", made.err)
	}
	return made
}

// executeSlowly runs pg_basebackup, and pauses when a little of it has passed.
func executeSlowly(ctx context.Context, arguments []string, output *os.File, pause func()) error {
	passes, into, err := os.Pipe()
	if err != nil {
		return err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.CopyN(output, passes, 1<<20)
		if err == nil {
			pause()
			_, err = io.Copy(output, passes)
		}
		copied <- err
	}()
	err = execute(ctx, arguments, into)
	err = errors.Join(err, into.Close())
	return errors.Join(err, <-copied, passes.Close())
}

// filled is a primary with some 40 MiB in it.
func filled(t *testing.T) (*rig, *server) {
	t.Helper()
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	a.sql("create table bulk as select repeat(md5(n::text), 16) as content from generate_series(1, 80000) n")
	a.sql("insert into words (word) values ('base')")
	r.ship(a)
	return r, a
}

// The primary is lost while a replica makes a base backup, which has begun on one timeline and ends on the next. It is
// whole, and with the log of both it leads to every row.
func TestAFailoverDuringTheBaseBackupOfAReplica(t *testing.T) {
	r, a := filled(t)
	maker, next := a.clone(), a.clone()
	a.caughtUp(maker)
	made := r.backupSlowly("b1", maker)
	a.sql("insert into words (word) values ('unshipped'); select pg_switch_wal()")
	a.caughtUp(maker)
	a.caughtUp(next)
	a.kill()
	next.promote(2)
	maker.follow(next)
	next.sql("insert into words (word) values ('second')")
	next.sql("checkpoint")
	next.caughtUp(maker)
	maker.sql("checkpoint") // What it calls consistent lies behind the failover now.
	close(made.goOn)
	<-made.ended
	must(t, made.err)
	if made.taken.Timeline != 2 {
		t.Errorf("it ends on timeline %d: nothing happened during it", made.taken.Timeline)
	}
	ctx := context.Background()
	history, err := wal.ReadHistory(filepath.Join(maker.data, "pg_wal"), made.taken.Timeline)
	must(t, err)
	if err := base.Complete(ctx, r.repository(), history, made.taken); !errors.Is(err, base.ErrLogMissing) {
		t.Errorf("without its log it is complete: %v", err)
	}
	r.ship(next)
	must(t, base.Complete(ctx, r.repository(), history, made.taken))
	next.sql("insert into words (word) values ('after')")
	r.ship(next)
	maker.kill()
	next.kill()
	restored, _, err := r.restore(plan.Target{}, nil)
	must(t, err)
	if got, want := restored.rows(), "base unshipped second after"; got != want {
		t.Errorf("the restored server has %q, want %q", got, want)
	}
}

// The replica that makes a base backup becomes the primary meanwhile: PostgreSQL gives that base backup up, nothing
// counts as one, and the next one is made by the new primary.
func TestTheMakerOfABaseBackupIsPromoted(t *testing.T) {
	r, a := filled(t)
	maker := a.clone()
	a.caughtUp(maker)
	made := r.backupSlowly("b1", maker)
	a.sql("insert into words (word) values ('unshipped'); select pg_switch_wal()")
	a.caughtUp(maker)
	a.kill()
	maker.promote(2)
	close(made.goOn)
	<-made.ended
	if made.err == nil || !strings.Contains(made.err.Error(), "promoted") {
		t.Errorf("it ended in %v", made.err)
	}
	catalogue, err := r.repository().Catalogue(context.Background())
	must(t, err)
	if len(catalogue.Backups) != 0 {
		t.Errorf("%d backups count that were given up", len(catalogue.Backups))
	}
	r.ship(maker)
	r.backup("b2", maker, maker)
	maker.sql("insert into words (word) values ('after')")
	r.ship(maker)
	maker.kill()
	restored, _, err := r.restore(plan.Target{}, nil)
	must(t, err)
	if got, want := restored.rows(), "base unshipped after"; got != want {
		t.Errorf("the restored server has %q, want %q", got, want)
	}
}

// The key is replaced while rows are written, with a base backup before and one after it: with both keys every moment
// comes back, and with either alone nothing that it does not open.
func TestTheKeyIsReplacedUnderWrites(t *testing.T) {
	r, a := filled(t)
	r.backup("b1", a, a)
	old := r.keys
	a.sql("insert into words (word) values ('old')")
	r.ship(a)
	a.sql("insert into words (word) values ('between')")
	before := a.sql("select pg_current_wal_flush_lsn()")
	key, err := seal.NewKey()
	must(t, err)
	both, err := seal.ParseKeys(key + "\n" + r.key)
	must(t, err)
	alone, err := seal.ParseKeys(key)
	must(t, err)
	r.keys = both
	a.shipper.Repository = r.repository() // As in an agent, which opens it for each pass.
	r.ship(a)
	a.sql("insert into words (word) values ('new')")
	r.ship(a)
	r.backup("b2", a, a)
	a.sql("insert into words (word) values ('newer')")
	r.ship(a)
	a.kill()

	latest, _, err := r.restore(plan.Target{}, nil)
	must(t, err)
	if got, want := latest.rows(), "base old between new newer"; got != want {
		t.Errorf("the latest has %q, want %q", got, want)
	}
	target := plan.Target{}
	must(t, target.LSN.UnmarshalText([]byte(before)))
	earlier, _, err := r.restore(target, nil)
	must(t, err)
	if got := earlier.rows(); !strings.HasPrefix(got, "base old") || strings.Contains(got, "newer") {
		t.Errorf("at %s it has %q", before, got)
	}
	r.keys = old
	if _, _, err := r.restore(plan.Target{}, nil); !errors.Is(err, seal.ErrKeyWrong) {
		t.Errorf("with the old key alone the latest ended in %v", err)
	}
	r.keys = alone
	if _, _, err := r.restore(target, nil); !errors.Is(err, seal.ErrKeyWrong) {
		t.Errorf("with the new key alone the old backup ended in %v", err)
	}
}

// faketime shifts the clock of a program. It is the package libfaketime of Debian.
const faketime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"

// Two failovers between servers whose clocks are an hour apart, in both directions. What a restore brings back is
// always a beginning of the history. A place is exact; a time stops at the first commit that bears a later one, whoever
// wrote it, and is asked for by the clock of the store.
func TestATimeAcrossClocksThatAreApart(t *testing.T) {
	if _, err := os.Stat(faketime); err != nil {
		t.Skip("there is no libfaketime, which shifts the clock of a server")
	}
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	ahead, behind := a.cloneAt("+1h"), a.cloneAt("-1h")
	a.sql("insert into words (word) values ('true')")
	r.ship(a)
	first := a.now()
	a.caughtUp(ahead)
	a.caughtUp(behind)
	a.kill()
	ahead.promote(2)
	behind.follow(ahead)
	ahead.sql("insert into words (word) values ('ahead')")
	r.ship(ahead)
	place := ahead.sql("select pg_current_wal_flush_lsn()")
	if apart := ahead.now().Sub(first); apart < 50*time.Minute {
		t.Fatalf("the clocks are %s apart: this shows nothing", apart)
	}
	ahead.caughtUp(behind)
	ahead.kill()
	behind.promote(3)
	behind.sql("insert into words (word) values ('behind')")
	last := time.Now().UTC()
	time.Sleep(20 * time.Millisecond) // The store has to have seen a later moment.
	behind.sql("insert into words (word) values ('end')")
	r.ship(behind)
	behind.kill()

	check := func(what string, target plan.Target, want string) {
		t.Helper()
		restored, _, err := r.restore(target, nil)
		must(t, err)
		if got := restored.rows(); got != want {
			t.Errorf("%s it has %q, want %q", what, got, want)
		}
	}
	check("at the latest", plan.Target{}, "true ahead behind end")
	target := plan.Target{}
	must(t, target.LSN.UnmarshalText([]byte(place)))
	check("at the place after the first failover", target, "true ahead")
	check("at a time before both", plan.Target{Time: first}, "true")
	check("at a time after both, which the commit that is ahead is later than", plan.Target{Time: last}, "true")
	_, _, err := r.restore(plan.Target{Time: last.Add(time.Hour)}, nil)
	var outside *plan.OutsideError
	if !errors.As(err, &outside) {
		t.Errorf("a time of the clock that is ahead ended in %v", err)
	}
}

// now is the time of a server.
func (s *server) now() time.Time {
	s.t.Helper()
	now, err := time.Parse(time.RFC3339Nano, s.sql(`select to_char(clock_timestamp() at time zone 'UTC',
		'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`))
	must(s.t, err)
	return now
}
