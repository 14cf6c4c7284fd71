package plan_test

import (
	"fmt"
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/plan"
	"meridian.dev/meridian/internal/redis/status"
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
		Process:     redis.Process{Running: true},
		Server: redis.Server{
			Reachable: true, Version: "8.0.2", Incarnation: "i1", MaxMemory: memory, Policy: "allkeys-lru",
			Used: 8 << 20, Resident: 20 << 20, Loaded: "c1", Presented: "l1", Open: true, Matches: true,
			Parameters: []redis.Parameter{
				{Name: "activedefrag", Tried: "yes", Refused: "not compiled in"},
				{Name: "maxmemory-clients", Set: "25%", InForce: true},
			},
		},
	}
}

// TestStories plays the stories. Each starts from base, and snapshot.yaml is laid over it. A story with absent.yaml
// begins in a pod that has just started: no server runs, and nothing was copied yet.
func TestStories(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		snapshot := base()
		if in.Has("absent.yaml") {
			snapshot.Process, snapshot.Server = redis.Process{}, redis.Server{}
			in.YAML("absent.yaml", &snapshot)
		}
		in.YAML("snapshot.yaml", &snapshot)
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
		out.SetText("report.txt", fmt.Sprintf("%s %s, ready %t, settings %s, pending %v\n%s: %s\n", report.State,
			report.Role, status.Ready(snapshot), settings, report.PendingRestart, report.Reason, report.Message))
		return out
	})
}
