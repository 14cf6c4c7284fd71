//go:build cluster

package backup_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
)

// A backup of a replica, two failovers, each with segments that the dead primary had not shipped, and the loss of every
// server: all rows come back, and to a second between the failovers exactly those that were there.
func TestRestoreAcrossTwoFailovers(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	b := a.clone()
	a.sql("insert into words (word) values ('base')")
	a.caughtUp(b)
	taken := r.backup("b1", b, a)
	if len(taken.Parts) < 2 {
		t.Errorf("the backup has %d parts: nothing was cut", len(taken.Parts))
	}
	a.sql("insert into words (word) values ('shipped')")
	r.ship(a)
	// Segments that the primary completes and never ships: the one that succeeds it has to.
	for range 3 {
		a.sql("insert into words (word) values ('unshipped'); select pg_switch_wal()")
	}
	a.caughtUp(b)
	a.kill()
	b.promote(2)
	c := b.clone()
	b.sql("insert into words (word) values ('second')")
	r.ship(b)
	between := time.Now().UTC()
	time.Sleep(20 * time.Millisecond)
	b.sql("insert into words (word) values ('later')")
	r.ship(b)
	place := b.sql("select pg_current_wal_flush_lsn()")
	b.sql("select pg_switch_wal(); insert into words (word) values ('unshipped too')")
	b.caughtUp(c)
	b.kill()
	c.promote(3)
	c.sql("insert into words (word) values ('third')")
	// Its agent is lost with it a moment after this pass: what comes now is lost, and nothing before.
	r.ship(c)
	c.sql("insert into words (word) values ('lost')")
	c.kill()

	latest, result, err := r.restore(plan.Target{}, nil)
	must(t, err)
	if result.Timeline != 4 {
		t.Errorf("the restored server is on timeline %d, which is not above the source's", result.Timeline)
	}
	want := "base shipped unshipped unshipped unshipped second later unshipped too third"
	if got := latest.rows(); got != want {
		t.Errorf("the latest has %q, want %q", got, want)
	}
	second, _, err := r.restore(plan.Target{Time: between}, nil)
	must(t, err)
	if got, want := second.rows(), "base shipped unshipped unshipped unshipped second"; got != want {
		t.Errorf("at %s it has %q, want %q", between, got, want)
	}
	target := plan.Target{}
	must(t, target.LSN.UnmarshalText([]byte(place)))
	third, _, err := r.restore(target, nil)
	must(t, err)
	want = "base shipped unshipped unshipped unshipped second later"
	if got := third.rows(); !strings.HasPrefix(got, want) || strings.Contains(got, "third") {
		t.Errorf("at %s it has %q, want %q", place, got, want)
	}
	_, _, err = r.restore(plan.Target{Time: time.Now().Add(time.Hour)}, nil)
	var outside *plan.OutsideError
	if !errors.As(err, &outside) || !strings.Contains(err.Error(), "choose a target from") {
		t.Errorf("a target outside ended in %v", err)
	}
}

// The repository goes away while the log is replayed. Recovery waits for it, and ends with every row.
func TestRecoveryWaitsForTheRepository(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	for range 3 {
		a.sql("insert into words (word) values ('x'); select pg_switch_wal()")
		r.ship(a)
	}
	a.sql("insert into words (word) values ('last')")
	r.ship(a)
	a.kill()

	// From the second file on: an end at the first would be an error to PostgreSQL, and an end here a shorter log.
	away := &outage{Store: r.store, before: 1, left: 5}
	r.under = away
	waited := 0
	restored, _, err := r.restore(plan.Target{}, func(err error) {
		if waited++; !store.Is(err, store.Away) {
			t.Errorf("it waits for %v", err)
		}
	})
	must(t, err)
	if got := restored.rows(); got != "x x x last" || waited < 5 {
		t.Errorf("it waited %d times, and has %q", waited, got)
	}
}

// outage is a store that does not answer for a while once the log is asked for. At first it does not find an object,
// as a store does behind a name server or proxy that is half up; the listing that would prove it does not answer.
type outage struct {
	store.Store
	mutex sync.Mutex
	// before is how many files it still answers for, left how many questions it leaves unanswered after that.
	before, left int
	began        bool
}

func (o *outage) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	isLog := strings.Contains(name, "/wal/") && !strings.HasSuffix(name, ".history")
	if isLog && o.before > 0 {
		o.before--
		return o.Store.Get(ctx, name)
	}
	if isLog && o.left > 0 {
		o.left--
		o.began = true
		return nil, &store.Error{Class: store.NotFound, Doing: "read " + name}
	}
	return o.Store.Get(ctx, name)
}

func (o *outage) List(ctx context.Context, prefix, token string) (store.Page, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.began && o.left > 0 {
		return store.Page{}, &store.Error{Class: store.Away, Doing: "list " + prefix}
	}
	return o.Store.List(ctx, prefix, token)
}

// What is damaged, lost or sealed by another key is refused by its name, before anybody could use the result.
func TestDamageIsRefusedByName(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	taken := r.backup("b1", a, a)
	for range 3 {
		a.sql("insert into words (word) values ('x'); select pg_switch_wal()")
		r.ship(a)
	}
	a.kill()
	catalogue, err := r.repository().Catalogue(t.Context())
	must(t, err)
	segments := catalogue.Log(1).Segments
	segment := segments[len(segments)-2]
	object := func(name string) string { return filepath.Join(r.store.Path, r.repository().Root, name) }
	flip := func(name string) func() {
		content, err := os.ReadFile(object(name))
		must(t, err)
		content[len(content)/2] ^= 1
		must(t, os.WriteFile(object(name), content, 0o600))
		return func() {
			content[len(content)/2] ^= 1
			must(t, os.WriteFile(object(name), content, 0o600))
		}
	}
	lose := func(name string) func() {
		must(t, os.Rename(object(name), object(name)+".lost"))
		return func() { must(t, os.Rename(object(name)+".lost", object(name))) }
	}
	own, first, second, manifest := r.keys, taken.Parts[0].Name, taken.Parts[1].Name, taken.Manifest.Name
	for name, c := range map[string]struct {
		harm func() func()
		says error
		name string
	}{
		"a flipped bit in a segment": {func() func() { return flip(segment.Name) }, seal.ErrDamaged, segment.Name},
		"a flipped bit in a part":    {func() func() { return flip(first) }, seal.ErrDamaged, first},
		"a lost part":                {func() func() { return lose(second) }, repository.ErrLost, second},
		"a lost manifest":            {func() func() { return lose(manifest) }, repository.ErrLost, manifest},
		"a wrong key": {func() func() {
			text, err := seal.NewKey()
			must(t, err)
			r.keys, err = seal.ParseKeys(text)
			must(t, err)
			return func() { r.keys = own }
		}, seal.ErrKeyWrong, "base/b1/"},
	} {
		t.Run(name, func(t *testing.T) {
			heal := c.harm()
			defer heal()
			_, _, err := r.restore(plan.Target{}, nil)
			if !errors.Is(err, c.says) || !strings.Contains(err.Error(), c.name) {
				t.Errorf("it ended in %v", err)
			}
		})
	}
	// A segment that is lost before the restore begins is a hole: what lies behind it is refused with the window.
	heal := lose(segment.Name)
	defer heal()
	_, _, err = r.restore(plan.Target{LSN: backup.LSN((segment.Number + 2) * r.owner.SegmentSize)}, nil)
	var outside *plan.OutsideError
	if !errors.As(err, &outside) {
		t.Errorf("a target behind a lost segment ended in %v", err)
	}
}
