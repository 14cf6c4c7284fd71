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
			world: func(s *redis.Snapshot) { stopped(s); s.Stopping = true }, action: start, want: "R1",
		},
		"a server is started beside another": {action: start, want: "R2"},
		"a server is started beside a child of the last one": {
			world: func(s *redis.Snapshot) { stopped(s); s.Process.Leftover = 1 }, action: start, want: "R2",
		},
		"a server is started without a bound":                {world: stopped, action: unbounded, want: "R3"},
		"a server is started without a certificate":          {world: stopped, action: bare, want: "R3"},
		"another server is started than was asked for":       {world: stopped, action: other, want: "R3"},
		"more memory than is wanted":                         {action: redis.SetMemory{Bytes: 65 << 20}, want: "R4"},
		"no bound at all":                                    {action: redis.SetMemory{}, want: "R4"},
		"more may wait for a replica than there is room for": {action: redis.SetWaiting{Bytes: 200 << 20}, want: "R4"},
		"a server that is in use is stopped for a parameter": {action: redis.StopServer{}, want: "R5"},
		"a server that nobody has looked into is stopped": {
			world: func(s *redis.Snapshot) { s.Server = redis.Server{} }, action: redis.StopServer{}, want: "R5",
		},
		"more memory than the container has": {
			world:  func(s *redis.Snapshot) { s.Container.Limit = wire.CacheLimit(32 << 20) },
			action: redis.SetMemory{Bytes: 64 << 20}, want: "R4",
		},
		"a server is started with more memory than the container has": {
			world: func(s *redis.Snapshot) { stopped(s); s.Container.Limit = wire.CacheLimit(32 << 20) }, action: start,
			want: "R4",
		},
		"the door is opened before the memory is bounded": {
			world: func(s *redis.Snapshot) { closed(s); s.Server.MaxMemory = 0 }, action: redis.OpenDoor{}, want: "R6",
		},
		"the door is opened under another policy": {
			world: func(s *redis.Snapshot) { closed(s); s.Server.Policy = "noeviction" }, action: redis.OpenDoor{},
			want: "R6",
		},
		"the door is opened without a password": {
			world: func(s *redis.Snapshot) { closed(s); s.NoPassword = "empty" }, action: redis.OpenDoor{}, want: "R6",
		},
		"the door is opened of a start that was not named": {
			world: func(s *redis.Snapshot) { closed(s); s.Standing.OpenStart = "i0-2" }, action: redis.OpenDoor{}, want: "R6",
		},
		"the door is opened of a replica without a copy": {
			world: func(s *redis.Snapshot) { follow(s); closed(s); s.Copy.Whole = false }, action: redis.OpenDoor{}, want: "R6",
		},
		"a replica that has a copy is stopped":                {world: follow, action: redis.StopServer{}, want: "R5"},
		"a primary gives its place away that was not told to": {action: redis.YieldServer{}, want: "R8"},
		"a primary ends that was not told to":                 {action: redis.EndServer{}, want: "R8"},
		"a primary ends that has not kept anybody out": {
			world: func(s *redis.Snapshot) { s.Standing.Role = tenure.RoleYield }, action: redis.EndServer{}, want: "R8",
		},
		"a primary ends before another has what it has": {
			world: func(s *redis.Snapshot) {
				s.Standing.Role, s.Standing.Members = tenure.RoleYield, []wire.Member{{Name: "tiles-2", Incarnation: "i2"}}
				s.Copy.Yielded, s.Copy.Final = s.Now.Add(-time.Second), 1001
				s.Server.Sent = []redis.Sent{{Member: s.Standing.Members[0], Online: true, Offset: 1000}}
			},
			action: redis.EndServer{}, want: "R8",
		},
		"an empty server is started in the place of a primary": {
			world:  func(s *redis.Snapshot) { stopped(s); s.Standing = tenure.Standing{Role: tenure.RoleLead, Term: 3} },
			action: blank, want: "R10",
		},
		"the first copy gets another id than it was told": {world: stopped, action: blank, want: "R10"},
		"another one is followed than the holder": {
			world: follow, want: "R11",
			action: redis.Follow{Upstream: wire.Member{Name: "tiles-9", Incarnation: "i9"}, Whole: true},
		},
		"the holder is followed behind a fence": {
			world: func(s *redis.Snapshot) { follow(s); s.Fenced = 5 }, action: redis.Follow{Upstream: upstream, Whole: true},
			want: "R11",
		},
		"a copy is given up without a look": {world: follow, action: redis.Follow{Upstream: upstream}, want: "R11"},
		"an empty server becomes the primary": {
			world: func(s *redis.Snapshot) { promoted(s); s.Copy.Whole = false }, action: led, want: "R12",
		},
		"a replica becomes the primary that was not told to": {world: follow, action: led, want: "R12"},
		"a replica is emptied": {
			world: func(s *redis.Snapshot) { follow(s); s.Flush = "f1" }, action: redis.Flush{ID: "f1"}, want: "R13",
		},
		"a cache is emptied twice": {
			world: func(s *redis.Snapshot) { s.Flush, s.Emptied.ID = "f1", "f1" }, action: redis.Flush{ID: "f1"}, want: "R13",
		},
		"a cache is emptied again by the next primary": {
			world: func(s *redis.Snapshot) { s.Flush, s.Standing.Emptied = "f1", "f1" }, action: redis.Flush{ID: "f1"},
			want: "R13",
		},
		"a word to a server that does not answer": {
			world: func(s *redis.Snapshot) { s.Server.Reachable = false }, action: redis.SetPolicy{}, want: "R7",
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
