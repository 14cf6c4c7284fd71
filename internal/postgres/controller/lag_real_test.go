//go:build cluster

package controller_test

import (
	"fmt"
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// trio is a primary and two replicas, all members, one acknowledgement needed.
func trio(t *testing.T) (r *rig, one, two, three *instance, members []wire.Member) {
	t.Helper()
	r, one, two = pair(t)
	three = r.add(3)
	r.follow(three, one, 1, 1, one.member(), two.member())
	three.streams()
	members = []wire.Member{one.member(), two.member(), three.member()}
	one.settle(setting(1, members[1:]...), members...)
	for _, replica := range []*instance{two, three} {
		r.follow(replica, one, 1, 1, members...)
		replica.streams()
	}
	return r, one, two, three, members
}

// flood writes so many megabytes of WAL.
func (i *instance) flood(megabytes int) {
	i.t.Helper()
	must(i.t, i.execute(5*time.Minute, fmt.Sprintf(`do $$ begin for n in 1..%d loop
		perform pg_logical_emit_message(false, 'flood', repeat('x', 1 << 20)); end loop; end $$`, megabytes)))
}

// TestALaggingReplicaKeepsItsCopyAfterAFailover lets a replica fall 500 MB behind. The next primary has the WAL that it
// needs.
func TestALaggingReplicaKeepsItsCopyAfterAFailover(t *testing.T) {
	r, one, two, three, members := trio(t)
	one.flood(48)
	two.await("a slot for the other replica that moves with it", func(tenure.Engine) bool {
		return two.super(`select count(*) from pg_replication_slots
			where pg_last_wal_replay_lsn() - restart_lsn < 20 << 20 and restart_lsn > '0/5000000'`) == "1"
	})
	three.stop()
	one.flood(500)
	one.super("checkpoint")
	end := one.super("select pg_current_wal_lsn()")
	two.await("the replay of all that", func(tenure.Engine) bool {
		return two.super("select pg_last_wal_replay_lsn() >= '"+end+"'") == "true"
	})
	two.super("checkpoint")
	t.Logf("the next primary keeps %s MB of WAL for it", two.super(`select
		((pg_last_wal_replay_lsn() - restart_lsn) / 1048576)::int from pg_replication_slots`))

	_, err := two.fence()
	must(t, err)
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 2, 2, setting(0), members...)
	three.start()
	r.follow(three, two, 2, 2, members...)
	three.streams()
	if three.logged("BeginDiscard") || three.member() != members[2] {
		t.Errorf("the replica has made another copy: %s, before %s", three.member(), members[2])
	}
	must(t, two.execute(5*time.Second, "insert into t values (3)"))
	three.await("the rows of the new primary", func(tenure.Engine) bool { return three.rows() == "1,2,3" })
}

// TestACopyThatTheQuorumNeedsIsKept takes the WAL away that a replica needs: its copy is replaced only when another
// replica has caught up.
func TestACopyThatTheQuorumNeedsIsKept(t *testing.T) {
	r, one, two := pair(t)
	r.settings.Parameters = []wire.Parameter{
		{Name: "max_slot_wal_keep_size", Value: "32MB"}, {Name: "wal_keep_size", Value: "0"},
		{Name: "max_wal_size", Value: "32MB"}, {Name: "min_wal_size", Value: "32MB"},
	}
	one.configure()
	before := two.member()
	absent := wire.Member{Name: "cities-3", Incarnation: "x"}
	one.settle(setting(0), one.member(), before, absent)
	two.stop()
	one.flood(128)
	one.super("checkpoint")
	two.start()
	follow := func(members ...wire.Member) {
		two.obey(tenure.Standing{
			Role: tenure.RoleFollow, Term: 1, Timeline: 1, Initialised: true, SystemIdentifier: r.system,
			Upstream: one.member(), UpstreamAddress: one.address, Members: members, W: 2,
		})
	}
	follow(one.member(), before, absent)
	two.await("a copy that is kept", func(tenure.Engine) bool {
		state, _ := two.loop.State()
		return state.Report.Reason == wire.ReasonCopyNeeded
	})
	time.Sleep(2 * time.Second)
	if two.logged("BeginDiscard") || two.member() != before {
		t.Fatalf("a copy was given up that the quorum needs: %s, before %s", two.member(), before)
	}

	three := r.add(3)
	r.follow(three, one, 1, 1, one.member(), before)
	three.streams()
	members := []wire.Member{one.member(), before, three.member()}
	one.settle(setting(0), members...)
	r.follow(three, one, 1, 1, members...)
	three.streams()
	follow(members...)
	two.await("another copy", func(e tenure.Engine) bool { return e.Streams && e.Incarnation != before.Incarnation })
}
