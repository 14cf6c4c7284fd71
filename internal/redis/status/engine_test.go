package status_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/status"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Whoever is near may be given the place of a primary, which ends with its data: that must not be one that is cut off.
func TestWhoIsNear(t *testing.T) {
	for name, test := range map[string]struct {
		sent redis.Sent
		want bool
	}{
		"one that has all":                   {redis.Sent{Online: true, Offset: 5 << 20}, true},
		"one that lacks a little":            {redis.Sent{Online: true, Offset: 5<<20 - 1000, Quiet: time.Second}, true},
		"one that lacks much":                {redis.Sent{Online: true, Offset: 3 << 20}, false},
		"one that has said nothing for long": {redis.Sent{Online: true, Offset: 5 << 20, Quiet: 4 * time.Second}, false},
	} {
		test.sent.Member = wire.Member{Name: "tiles-2", Incarnation: "i2"}
		engine := status.Engine(redis.Snapshot{
			Standing: tenure.Standing{Role: tenure.RoleLead, Term: 3},
			Process:  redis.Process{Running: true, Incarnation: "i1"},
			Copy:     redis.Copy{Incarnation: "i1", Whole: true, Term: 3, Timeline: 3, Offset: 5 << 20},
			Server:   redis.Server{Reachable: true, Replication: redis.Replication{Sent: []redis.Sent{test.sent}}},
		}, 0)
		if engine.Leading == nil || len(engine.Leading.Replicas) != 1 {
			t.Fatalf("%s: the replica is not there: %+v", name, engine.Leading)
		}
		if got := engine.Leading.Replicas[0].Near; got != test.want {
			t.Errorf("%s: near %t, want %t", name, got, test.want)
		}
	}
}
