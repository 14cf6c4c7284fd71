//go:build cluster

package controller_test

import (
	"testing"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// A former primary comes back when the next one has removed WAL from before the branch. pg_rewind changes the files,
// and what it leaves never lets anybody in: it lacks WAL between the last common checkpoint and what the next primary
// has. The third member is lost, so that the quorum needs this instance.
func TestARewindThatLacksWAL(t *testing.T) {
	r, one, two := pair(t)
	before := one.member()
	members := []wire.Member{before, two.member(), {Name: "cities-3", Incarnation: "x"}}
	_, err := two.fence()
	must(t, err)
	one.writeTail()
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})

	r.settings.Parameters = []wire.Parameter{
		{Name: "max_slot_wal_keep_size", Value: "32MB"}, {Name: "wal_keep_size", Value: "0"},
		{Name: "max_wal_size", Value: "32MB"}, {Name: "min_wal_size", Value: "32MB"},
	}
	two.configure()
	r.lead(two, 2, 2, setting(0), members...)
	for range 2 {
		two.flood(96)
		two.super("checkpoint")
	}
	one.obey(tenure.Standing{
		Role: tenure.RoleFollow, Term: 2, Timeline: 2, Initialised: true, SystemIdentifier: r.system,
		Upstream: two.member(), UpstreamAddress: two.address, Members: members, W: 2,
	})
	one.await("another copy", func(e tenure.Engine) bool { return e.Streams && e.Incarnation != before.Incarnation })
	if !one.logged("BeginRewind") {
		t.Error("no rewind was tried")
	}
}
