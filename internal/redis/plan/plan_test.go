package plan_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/plan"
	"meridian.dev/meridian/internal/redis/status"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/scenario"
)

// base is a cache of 64 MiB that runs, in a container that was made for it, with all as wished.
func base() redis.Snapshot {
	const memory = 64 << 20
	return redis.Snapshot{
		Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Instance: "tiles-1",
		Settings: redis.Settings{Wanted: &wire.CacheSettings{
			Version: 1, CacheUID: "u1", Cache: "tiles", Engine: "redis", Memory: memory, EvictionPolicy: "allkeys-lru",
			Parameters: []wire.Parameter{},
		}},
		Certificate: redis.Certificate{Mounted: "c1", Installed: "c1", Leaf: "l1"},
		Container:   redis.Container{Limit: wire.CacheLimit(memory)},
		Standing: tenure.Standing{
			Serial: 5, Role: tenure.RoleLead, Term: 3, Timeline: 3, Initialised: true, SystemIdentifier: "i1",
			OpenStart: "i1-3",
		},
		Copy: redis.Copy{
			Incarnation: "i1", Begun: true, Whole: true, Timeline: 3, Offset: 1000, Dataset: "i1", Term: 3,
			Fresh: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		},
		Process: redis.Process{Running: true, Incarnation: "i1"},
		Server: redis.Server{
			Replication: redis.Replication{Offset: 1000, Admits: true},
			Reachable:   true, Version: "8.0.2", MaxMemory: memory, Waiting: redis.Waiting(memory), Policy: "allkeys-lru",
			Used: 8 << 20, Resident: 20 << 20, Loaded: "c1", Presented: "l1", Open: true, Matches: true,
			Parameters: []redis.Parameter{
				{Name: "activedefrag", Tried: "yes", Refused: "not compiled in"},
				{Name: "maxmemory-clients", Set: "25%", InForce: true},
			},
		},
	}
}

// follow makes the instance a replica of tiles-1 that has everything.
func follow(s *redis.Snapshot) {
	upstream := wire.Member{Name: "tiles-1", Incarnation: "i1"}
	s.Instance, s.Process.Incarnation = "tiles-2", "i2"
	s.Standing = tenure.Standing{
		Serial: 5, Role: tenure.RoleFollow, Term: 3, Timeline: 3, Initialised: true, SystemIdentifier: "i1",
		Upstream: upstream, UpstreamAddress: "10.0.0.1", OpenReads: true,
	}
	s.Copy = redis.Copy{
		Incarnation: "i2", Whole: true, Timeline: 3, Offset: 1000, Dataset: "i1", Fresh: s.Now,
		Followed: redis.Followed{Upstream: upstream, Timeline: 3, Dataset: "i1"}, Attempts: 1,
	}
	s.Server.Replication = redis.Replication{Replica: true, Host: "10.0.0.1", Up: true, Offset: 1000, Knows: true}
}

// TestStories plays the stories. Each starts from base, and snapshot.yaml is laid over it. A story with absent.yaml
// begins in a pod that has just started and is to begin the cache: no server runs, and nothing was copied yet. One with
// replica.yaml begins at a replica. Such a story, and one with facts.txt, shows the facts for the lease too.
func TestStories(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		snapshot := base()
		if in.Has("absent.yaml") {
			snapshot.Process, snapshot.Server, snapshot.Copy = redis.Process{}, redis.Server{}, redis.Copy{}
			snapshot.Standing = tenure.Standing{Serial: 2, Role: tenure.RoleBegin, Term: 1, Timeline: 1, Incarnation: "i2"}
			in.YAML("absent.yaml", &snapshot)
		}
		if in.Has("replica.yaml") {
			follow(&snapshot)
			in.YAML("replica.yaml", &snapshot)
		}
		if in.Has("snapshot.yaml") {
			in.YAML("snapshot.yaml", &snapshot)
		}
		snapshot.Settings.Hash = snapshot.Settings.Wanted.Hash()
		decided := plan.Decide(snapshot)
		if violations := plan.Check(snapshot, decided); len(violations) > 0 {
			in.Fail(fmt.Errorf("the plan breaks %v", violations))
		}
		out.SetText("plan.txt", decided.String())
		report := status.Report(snapshot, decided, redis.Outcome{})
		settings := "not in force"
		if report.SettingsHash == snapshot.Settings.Wanted.Hash() {
			settings = "in force"
		}
		if in.Has("facts.txt") && in.Text("facts.txt") != "" || in.Has("replica.yaml") {
			engine, _ := json.Marshal(status.Engine(snapshot, 0))
			out.SetText("engine.json", string(engine)+"\n")
		}
		out.SetText("report.txt", fmt.Sprintf("%s %s, ready %t, settings %s, pending %v\n%s: %s\n", report.State,
			report.Role, status.Ready(snapshot), settings, report.PendingRestart, report.Reason, report.Message))
		return out
	})
}
