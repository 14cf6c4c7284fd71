package plan_test

import (
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/plan"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// TestInvariantsBite shows for each invariant a plan that it refuses.
func TestInvariantsBite(t *testing.T) {
	start := redis.StartServer{Engine: "redis", Memory: 64 << 20, Policy: "allkeys-lru", Certificate: "c1"}
	unbounded, bare, other := start, start, start
	unbounded.Memory, bare.Certificate, other.Engine = 0, "", "valkey"
	start.Incarnation = "i2"
	stopped := func(s *redis.Snapshot) {
		s.Process, s.Server, s.Copy = redis.Process{}, redis.Server{}, redis.Copy{}
		s.Standing = tenure.Standing{Serial: 2, Role: tenure.RoleBegin, Incarnation: "i2"}
	}
	promoted := func(s *redis.Snapshot) {
		follow(s)
		s.Standing = tenure.Standing{Serial: 6, Role: tenure.RoleLead, Term: 4, Timeline: 4, SystemIdentifier: "i1"}
	}
	led, blank := redis.Lead{Term: 4, Timeline: 4}, start
	blank.Incarnation = ""
	upstream := wire.Member{Name: "tiles-1", Incarnation: "i1"}
	closed := func(s *redis.Snapshot) { s.Server.Open, s.Server.Matches = false, false }
	tests := map[string]struct {
		world  func(*redis.Snapshot)
		action redis.Action
		want   string
	}{
		"a server is started in a pod that ends": {
			world: func(s *redis.Snapshot) { stopped(s); s.Stopping = true }, action: start,
			want: "redis.do-nothing-after-a-stop",
		},
		"a server is started beside another": {action: start, want: "redis.start-only-alone"},
		"a server is started beside a child of the last one": {
			world: func(s *redis.Snapshot) { stopped(s); s.Process.Leftover = 1 }, action: start, want: "redis.start-only-alone",
		},
		"a server is started without a bound": {world: stopped, action: unbounded,
			want: "redis.start-with-a-memory-limit"},
		"a server is started without a certificate": {world: stopped, action: bare,
			want: "redis.start-with-a-memory-limit"},
		"another server is started than was asked for": {world: stopped, action: other,
			want: "redis.start-with-a-memory-limit"},
		"more memory than is wanted": {action: redis.SetMemory{Bytes: 65 << 20},
			want: "redis.stay-within-the-container"},
		"no bound at all": {action: redis.SetMemory{},
			want: "redis.stay-within-the-container"},
		"more may wait for a replica than there is room for": {
			action: redis.SetWaiting{Bytes: 200 << 20}, want: "redis.stay-within-the-container",
		},
		"a server that is in use is stopped for a parameter": {action: redis.StopServer{}, want: "redis.stop-no-used-server"},
		"a server that nobody has looked into is stopped": {
			world: func(s *redis.Snapshot) { s.Server = redis.Server{} }, action: redis.StopServer{},
			want: "redis.stop-no-used-server",
		},
		"more memory than the container has": {
			world:  func(s *redis.Snapshot) { s.Container.Limit = wire.CacheLimit(32 << 20) },
			action: redis.SetMemory{Bytes: 64 << 20}, want: "redis.stay-within-the-container",
		},
		"a server is started with more memory than the container has": {
			world: func(s *redis.Snapshot) { stopped(s); s.Container.Limit = wire.CacheLimit(32 << 20) }, action: start,
			want: "redis.stay-within-the-container",
		},
		"the door is opened before the memory is bounded": {
			world: func(s *redis.Snapshot) { closed(s); s.Server.MaxMemory = 0 }, action: redis.OpenDoor{},
			want: "redis.let-in-only-when-ready",
		},
		"the door is opened under another policy": {
			world: func(s *redis.Snapshot) { closed(s); s.Server.Policy = "noeviction" }, action: redis.OpenDoor{},
			want: "redis.let-in-only-when-ready",
		},
		"the door is opened without a password": {
			world: func(s *redis.Snapshot) { closed(s); s.NoPassword = "empty" }, action: redis.OpenDoor{},
			want: "redis.let-in-only-when-ready",
		},
		"the door is opened of a start that was not named": {
			world: func(s *redis.Snapshot) { closed(s); s.Standing.OpenStart = "i0-2" }, action: redis.OpenDoor{},
			want: "redis.let-in-only-when-ready",
		},
		"the door is opened of a replica without a copy": {
			world: func(s *redis.Snapshot) { follow(s); closed(s); s.Copy.Whole = false }, action: redis.OpenDoor{},
			want: "redis.let-in-only-when-ready",
		},
		"a replica that has a copy is stopped": {world: follow, action: redis.StopServer{},
			want: "redis.stop-no-used-server"},
		"a primary gives its place away that was not told to": {
			action: redis.YieldServer{}, want: "redis.hand-over-only-when-told",
		},
		"a primary ends that was not told to": {action: redis.EndServer{},
			want: "redis.end-when-another-has-everything"},
		"a primary ends that has not kept anybody out": {
			world: func(s *redis.Snapshot) { s.Standing.Role = tenure.RoleYield }, action: redis.EndServer{},
			want: "redis.end-when-another-has-everything",
		},
		"a primary ends before another has what it has": {
			world: func(s *redis.Snapshot) {
				s.Standing.Role, s.Standing.Members = tenure.RoleYield, []wire.Member{{Name: "tiles-2", Incarnation: "i2"}}
				s.Copy.Yielded, s.Copy.Final = s.Now.Add(-time.Second), 1001
				s.Server.Sent = []redis.Sent{{Member: s.Standing.Members[0], Online: true, Offset: 1000}}
			},
			action: redis.EndServer{}, want: "redis.end-when-another-has-everything",
		},
		"an empty server is started in the place of a primary": {
			world:  func(s *redis.Snapshot) { stopped(s); s.Standing = tenure.Standing{Role: tenure.RoleLead, Term: 3} },
			action: blank, want: "redis.begin-only-what-is-told",
		},
		"the first copy gets another id than it was told": {
			world: stopped, action: blank, want: "redis.begin-only-what-is-told",
		},
		"another one is followed than the holder": {
			world: follow, want: "redis.follow-only-the-holder",
			action: redis.Follow{Upstream: wire.Member{Name: "tiles-9", Incarnation: "i9"}, Whole: true},
		},
		"the holder is followed behind a fence": {
			world: func(s *redis.Snapshot) { follow(s); s.Fenced = 5 }, action: redis.Follow{Upstream: upstream, Whole: true},
			want: "redis.follow-only-the-holder",
		},
		"a copy is given up without a look": {
			world: follow, action: redis.Follow{Upstream: upstream}, want: "redis.follow-only-the-holder",
		},
		"an empty server becomes the primary": {
			world: func(s *redis.Snapshot) { promoted(s); s.Copy.Whole = false }, action: led,
			want: "redis.lead-only-with-a-copy",
		},
		"a replica becomes the primary that was not told to": {
			world: follow, action: led, want: "redis.lead-only-with-a-copy",
		},
		"a replica is emptied": {
			world: func(s *redis.Snapshot) { follow(s); s.Flush = "f1" }, action: redis.Flush{ID: "f1"},
			want: "redis.flush-only-a-primary",
		},
		"a cache is emptied twice": {
			world: func(s *redis.Snapshot) { s.Flush, s.Emptied.ID = "f1", "f1" }, action: redis.Flush{ID: "f1"},
			want: "redis.flush-only-a-primary",
		},
		"a cache is emptied again by the next primary": {
			world: func(s *redis.Snapshot) { s.Flush, s.Standing.Emptied = "f1", "f1" }, action: redis.Flush{ID: "f1"},
			want: "redis.flush-only-a-primary",
		},
		"a word to a server that does not answer": {
			world: func(s *redis.Snapshot) { s.Server.Reachable = false }, action: redis.SetPolicy{},
			want: "redis.command-only-a-server-that-answers",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := base()
			if test.world != nil {
				test.world(&snapshot)
			}
			var broken []string
			for _, violation := range plan.Check(snapshot, redis.Plan{Actions: []redis.Action{test.action}}) {
				broken = append(broken, violation.Rule)
			}
			if !slices.Contains(broken, test.want) {
				t.Errorf("broken: %v, want %s among them", broken, test.want)
			}
		})
	}
}
