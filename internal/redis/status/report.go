// Package status makes the report of the agent out of what a pass has seen, decided and done. It is pure, and the only
// place where a state or a reason is chosen. Start reading at Report.
package status

import (
	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
)

// Report makes the report. It is asked before the plan is carried out, with an empty outcome, and again after.
func Report(snapshot redis.Snapshot, plan redis.Plan, outcome redis.Outcome) wire.CacheReport {
	server, wanted := snapshot.Server, snapshot.Settings.Wanted
	report := wire.CacheReport{
		Instance: snapshot.Instance, State: state(snapshot), Role: role(snapshot), Flushed: snapshot.Standing.Emptied,
		Memory: wire.CacheMemory{Limit: snapshot.Container.Limit}, ReplicationPassword: snapshot.Replication,
	}
	if wanted != nil {
		report.CacheUID = wanted.CacheUID
	}
	if answers(snapshot) {
		report.Incarnation, report.Offset, report.ServerVersion = snapshot.Copy.Incarnation, server.Offset, server.Version
		report.Serving, report.Streams = Ready(snapshot), server.Up && snapshot.Copy.Whole && snapshot.Follows()
		report.Memory.Allowed, report.Memory.Used, report.Memory.Resident = server.MaxMemory, server.Used, server.Resident
		report.Use = wire.CacheUse{
			Clients: server.Clients, Hits: server.Hits, Misses: server.Misses, Evicted: server.Evicted,
		}
		if server.Matches {
			report.Rotation = snapshot.Rotation
		}
		if server.Loaded == snapshot.Certificate.Installed && server.Presented == snapshot.Certificate.Leaf {
			report.Certificate = server.Loaded
		}
		if wanted != nil {
			report.PendingRestart = snapshot.Pending()
		}
		// With less memory than is wanted the settings are not in force, however much of them is.
		if wanted != nil && snapshot.Carried() && server.MaxMemory == wanted.Memory {
			report.SettingsHash = snapshot.Settings.Hash
		}
	}
	report.Reason, report.Message = reason(plan, outcome)
	return report.Canonical()
}

// Ready tells whether applications can use the instance. A replica without a link refuses to answer them.
func Ready(snapshot redis.Snapshot) bool {
	return !snapshot.Stopping && answers(snapshot) && snapshot.Server.Open && (snapshot.Leads() || snapshot.Server.Up)
}

func answers(snapshot redis.Snapshot) bool {
	return snapshot.Process.Running && snapshot.Server.Reachable
}

func state(snapshot redis.Snapshot) wire.State {
	switch {
	case snapshot.Stopping:
		return wire.StateStopping
	case answers(snapshot) && snapshot.Server.Open:
		return wire.StateRunning
	}
	return wire.StateStarting
}

func role(snapshot redis.Snapshot) wire.Role {
	switch {
	case !answers(snapshot) || !snapshot.Server.Open:
		return wire.RoleNone
	case snapshot.Server.Replica:
		return wire.RoleReplica
	case snapshot.Leads():
		return wire.RolePrimary
	}
	return wire.RoleNone
}

// reason chooses what a user should know first: a refused plan, then what failed, then what is waited for.
func reason(plan redis.Plan, outcome redis.Outcome) (wire.Reason, string) {
	switch {
	case len(outcome.Violations) > 0:
		first := outcome.Violations[0]
		return wire.ReasonPlanRefused, "invariant " + first.Rule + ": " + first.Detail
	case outcome.Failed != "":
		return wire.ReasonActionFailed, outcome.Failed + ": " + outcome.Problem
	case len(plan.Holds) > 0:
		return plan.Holds[0].Reason, plan.Holds[0].Detail
	}
	return "", ""
}
