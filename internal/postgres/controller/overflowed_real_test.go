//go:build cluster

package controller_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// overflow begins a transaction with so many subtransactions that a snapshot does not name them, has both servers begin
// their next recovery after such a snapshot, and returns how the transaction is committed.
func (i *instance) overflow(replica *instance) (commit func() error) {
	i.t.Helper()
	connection, err := i.dial()
	must(i.t, err)
	_, err = connection.Exec(context.Background(), "begin;"+
		strings.Repeat("savepoint a; insert into t values (7); release a;", 100))
	must(i.t, err)
	i.super("checkpoint")
	end := i.super("select pg_current_wal_flush_lsn()")
	replica.await("the replay of it", func(tenure.Engine) bool {
		return replica.super("select pg_last_wal_replay_lsn() >= '"+end+"'") == "true"
	})
	replica.super("checkpoint")
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		defer func() { _ = connection.Close(context.Background()) }()
		_, err := connection.Exec(ctx, "commit")
		return err
	}
}

// The pod of a replica is replaced while a transaction holds up its first session: it follows, and the commit of that
// transaction does not wait for ever.
func TestAReplicaThatLetsNobodyInFollows(t *testing.T) {
	r, one, two := pair(t)
	members := []wire.Member{one.member(), two.member()}
	commit := one.overflow(two)
	two.stop()
	two.start()
	two.obey(tenure.Standing{Role: tenure.RoleIdle})
	two.await("a server", func(e tenure.Engine) bool { return e.Processes })
	r.follow(two, one, 1, 1, members...)
	if err := commit(); err != nil {
		t.Errorf("the commit: %v", err)
	}
	two.streams()
}

// The primary is lost in that moment: nothing lets anybody in on the replica any more, and it is promoted all the same.
func TestAReplicaThatLetsNobodyInIsPromoted(t *testing.T) {
	r, one, two := pair(t)
	members := []wire.Member{one.member(), two.member()}
	_ = one.overflow(two)
	two.stop()
	two.start()
	r.follow(two, one, 1, 1, members...)
	two.await("a server", func(e tenure.Engine) bool { return e.Processes })
	two.await("a copy", func(tenure.Engine) bool { return two.logged("consistent recovery state reached") })
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	_, err := two.fence()
	must(t, err)
	r.lead(two, 2, 2, setting(0), members...)
	if got := two.rows(); got != "1,2" {
		t.Errorf("the new primary has %q", got)
	}
}
