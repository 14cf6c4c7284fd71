//go:build cluster

package backup_test

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/ship"
	"meridian.dev/meridian/internal/backup/store"
)

// The repository was away, and the instance is lost when a part of what has waited was shipped. A time that what was
// shipped does not lead to is not restored to with rows missing.
func TestATimeThatShippingHadNotComeToIsRefused(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	for _, word := range []string{"first", "second", "third"} {
		a.sql("insert into words (word) values ('" + word + "')")
		a.sql("select pg_switch_wal()")
	}
	time.Sleep(1100 * time.Millisecond)
	at := time.Now().UTC()
	time.Sleep(1100 * time.Millisecond)
	_, err := (&ship.Shipper{
		Most: 1, Repository: r.repository(), Log: ship.Folder{Path: filepath.Join(a.data, "pg_wal"), Owner: r.owner},
	}).Pass(t.Context(), r.facts(a))
	must(t, err)
	a.kill()
	restored, result, err := r.restore(plan.Target{Time: at}, nil)
	if err == nil {
		t.Errorf("to %s it came back to %s with %q", at, result.Reached, restored.rows())
	}
	t.Logf("it ended in %v", err)
	// What was shipped does come back.
	restored, _, err = r.restore(plan.Target{}, nil)
	must(t, err)
	if got := restored.rows(); got != "first" {
		t.Errorf("it has %q", got)
	}
}

// slowly is a store that takes its time to write whole segments, and tells when it has begun with one.
type slowly struct {
	store.Store
	once  sync.Once
	begun chan struct{}
}

func (s *slowly) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	if strings.Contains(name, "/wal/") && !strings.Contains(name, ".tail.") {
		s.once.Do(func() { close(s.begun) })
		time.Sleep(4 * time.Second)
	}
	return s.Store.PutIfAbsent(ctx, name, content)
}

// A pass of shipping takes long, and the instance is lost after it: what was committed meanwhile is not in what was
// shipped, although the store has got that later.
func TestATimeWithinAPassOfShippingIsRefused(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	a.sql("insert into words (word) values ('first')")
	a.sql("select pg_switch_wal()")
	a.sql("select txid_current()")
	under := &slowly{Store: r.store, begun: make(chan struct{})}
	r.under = under
	at := make(chan time.Time, 1)
	go func() {
		<-under.begun
		a.sql("insert into words (word) values ('second')")
		at <- time.Now().UTC()
	}()
	_, err := (&ship.Shipper{
		Repository: r.repository(), Log: ship.Folder{Path: filepath.Join(a.data, "pg_wal"), Owner: r.owner},
	}).Pass(t.Context(), r.facts(a))
	must(t, err)
	a.kill()
	asked := <-at
	restored, result, err := r.restore(plan.Target{Time: asked}, nil)
	if err == nil {
		t.Errorf("to %s it came back to %s with %q", asked, result.Reached, restored.rows())
	}
	t.Logf("it ended in %v", err)
}
