//go:build cluster

package controller_test

import (
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// unacknowledged has a primary write all the time, and returns how that ends.
func (i *instance) unacknowledged() (end func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			default:
			}
			_ = i.execute(5*time.Second, `do $$ begin for n in 1..100 loop
				perform pg_logical_emit_message(false, 'flood', repeat('x', 4096)); end loop; end $$`)
		}
	}()
	return func() { close(ended); <-done }
}

// A copy was rewound while its primary wrote, and was away before it had the rest. That is not kept for it any more.
// The third member is lost, so that the quorum needs this instance: its copy never lets anybody in, and is replaced.
func TestARewoundCopyThatLacksTheRest(t *testing.T) {
	r, one, two := pair(t)
	before := one.member()
	members := []wire.Member{before, two.member(), {Name: "cities-3", Incarnation: "x"}}
	_, err := two.fence()
	must(t, err)
	one.writeTail()
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 2, 2, setting(0), members...)
	follow := tenure.Standing{
		Role: tenure.RoleFollow, Term: 2, Timeline: 2, Initialised: true, SystemIdentifier: r.system,
		Upstream: two.member(), UpstreamAddress: two.address, Members: members, W: 2,
	}
	end := two.unacknowledged()
	one.obey(follow)
	one.await("a rewind", func(tenure.Engine) bool { return one.logged("RecordRewound") })
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	one.await("a copy that lacks the rest", func(e tenure.Engine) bool { return !e.Processes && e.CannotLead != "" })
	end()

	r.settings.Parameters = []wire.Parameter{
		{Name: "max_slot_wal_keep_size", Value: "32MB"}, {Name: "wal_keep_size", Value: "0"},
		{Name: "max_wal_size", Value: "32MB"}, {Name: "min_wal_size", Value: "32MB"},
	}
	two.configure()
	for range 3 {
		two.flood(96)
		two.super("checkpoint")
	}
	one.obey(follow)
	one.await("another copy", func(e tenure.Engine) bool { return e.Streams && e.Incarnation != before.Incarnation })
}

// A rewound copy joins while it lacks the rest, and counts as soon as it is whole: a transaction waits for it, with so
// many subtransactions that a snapshot does not name them.
func TestARewoundCopyJoinsUntilItIsWhole(t *testing.T) {
	r, one, two := pair(t)
	members := []wire.Member{one.member(), two.member(), {Name: "cities-3", Incarnation: "x"}}
	_, err := two.fence()
	must(t, err)
	one.writeTail()
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 2, 2, setting(1, members[0], members[2]), members...)
	waits := make(chan error, 1)
	go func() {
		statements := "begin;" + strings.Repeat("savepoint a; insert into t values (7); release a;", 100) + "commit"
		waits <- two.execute(time.Minute, statements)
	}()
	two.await("a commit that waits", func(tenure.Engine) bool {
		return two.super("select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query like 'begin;%'") == "1"
	})
	end := two.unacknowledged()
	one.obey(tenure.Standing{
		Role: tenure.RoleFollow, Term: 2, Timeline: 2, Initialised: true, SystemIdentifier: r.system,
		Upstream: two.member(), UpstreamAddress: two.address, Members: members, W: 2,
	})
	one.await("a rewind", func(tenure.Engine) bool { return one.logged("RecordRewound") })
	if err := <-waits; err != nil {
		t.Errorf("the commit that waited: %v", err)
	}
	end()
	if !one.logged("application_name=" + members[0].String() + "@2") {
		t.Error("the copy did not join before it was whole")
	}
	one.streams()
}
