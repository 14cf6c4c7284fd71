// Package status makes the report of the agent out of what a pass has seen, decided and done. It is pure, and the only
// place where a state or a reason is chosen. Start reading at Report.
package status

import (
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Report makes the report. It is asked before the plan is carried out, with an empty outcome, and again after.
func Report(snapshot postgres.Snapshot, plan postgres.Plan, outcome postgres.Outcome) wire.Report {
	report := wire.Report{
		Instance: snapshot.Instance,
		State:    state(snapshot, plan),
		Role:     role(snapshot),
		Timeline: snapshot.Data.Timeline,
	}
	if record := snapshot.Volume.Record; record != nil {
		report.DatabaseUID, report.Incarnation = record.DatabaseUID, record.Incarnation
		// What is not recorded as complete has no identity yet: the operator freezes what it reads here.
		report.SystemIdentifier = record.SystemIdentifier
	} else if mounted := snapshot.Settings.Mounted; mounted != nil {
		report.DatabaseUID = mounted.DatabaseUID
	}
	if server := snapshot.Server; server.Reachable {
		report.Timeline, report.LSN = server.Timeline, server.LSN
		report.ServerVersion, report.SettingsHash = server.Version, server.Settings
		report.PendingRestart = server.PendingRestart
	}
	for _, extension := range snapshot.Application.Extensions {
		if extension.Installed != "" {
			report.Extensions = append(report.Extensions, wire.Extension{
				Name: extension.Name, Version: extension.Installed, Available: extension.Available,
			})
		}
	}
	addChanges(&report, snapshot)
	report.CancelledWaits = snapshot.Process.CancelledWaits
	engine := Engine(snapshot, "")
	report.Standing, report.Term = string(snapshot.Standing.Role), snapshot.Standing.Term
	// A primary that takes no writes because its volume is full does not serve, whoever is let in.
	report.Serving = snapshot.Server.Open && (snapshot.Server.Replica || !snapshot.Server.Full)
	report.Streams, report.LagBytes = engine.Streams, engine.Lag
	if snapshot.Server.Replica {
		report.LagMilliseconds = lag(snapshot).Milliseconds()
	}
	report.Reason, report.Message = reason(plan, outcome)
	return report.Canonical()
}

// Ready tells whether the instance takes sessions of applications and has what they need. When the latter cannot be
// seen, a database that has served before is taken to have it: a look that fails must not take a working server away.
func Ready(snapshot postgres.Snapshot) bool {
	record, server := snapshot.Volume.Record, snapshot.Server
	switch application := snapshot.Application; {
	case snapshot.Stopping || !snapshot.Process.Running || !server.Reachable || !server.Open:
		return false
	case !record.Whole():
		return false
	case server.Replica:
		return readable(snapshot)
	case snapshot.Standing.Role != tenure.RoleLead || snapshot.Standing.OpenStart != snapshot.LeadingStart():
		return false
	case application.Known && !(application.Role && application.Database):
		return false
	}
	return record.Application != nil
}

// readable says whether a replica is near enough to what its primary has.
func readable(snapshot postgres.Snapshot) bool {
	if !snapshot.Standing.OpenReads {
		return false
	}
	settings := snapshot.Settings.Mounted
	if settings == nil {
		settings = snapshot.Volume.Record.Settings
	}
	if settings == nil || settings.MaxReadLagMilliseconds <= 0 {
		return true
	}
	return lag(snapshot) <= time.Duration(settings.MaxReadLagMilliseconds)*time.Millisecond
}

// lag is how old the data of a replica is at most, by what it knows: nothing while it streams and has replayed all that
// it has, else the age of the last transaction that it replayed.
func lag(snapshot postgres.Snapshot) time.Duration {
	replication := snapshot.Server.Replication
	if replication.Receiving && replication.Replayed >= replication.Received && replication.Received >= replication.Ahead {
		return 0
	}
	return replication.Age
}

func state(snapshot postgres.Snapshot, plan postgres.Plan) wire.State {
	record := snapshot.Volume.Record
	switch {
	case snapshot.Stopping:
		return wire.StateStopping
	case snapshot.Process.Running && snapshot.Server.Reachable:
		return wire.StateRunning
	case stalled(plan):
		return wire.StateFailed
	case claims(plan) || record != nil && !record.Whole():
		return wire.StateInitialising
	}
	return wire.StateStarting
}

func claims(plan postgres.Plan) bool {
	for _, action := range plan.Actions {
		switch action.(type) {
		case postgres.ClaimVolume, postgres.BeginClone:
			return true
		}
	}
	return false
}

func stalled(plan postgres.Plan) bool {
	for _, hold := range plan.Holds {
		if hold.Stalled {
			return true
		}
	}
	return false
}

func role(snapshot postgres.Snapshot) wire.Role {
	switch {
	case !snapshot.Process.Running || !snapshot.Server.Reachable:
		return wire.RoleNone
	case snapshot.Server.Replica:
		return wire.RoleReplica
	}
	return wire.RolePrimary
}

// reason chooses what a user should know first: a refused plan, then what needs a human, then what failed, then what is
// waited for.
func reason(plan postgres.Plan, outcome postgres.Outcome) (wire.Reason, string) {
	if len(outcome.Violations) > 0 {
		first := outcome.Violations[0]
		return wire.ReasonPlanRefused, "invariant " + first.Rule + ": " + first.Detail
	}
	for _, hold := range plan.Holds {
		if hold.Stalled {
			return hold.Reason, hold.Detail
		}
	}
	if outcome.Kept {
		return wire.ReasonVolumeUnwritable, "new settings cannot be put in force, and those of before stay: " +
			outcome.Failed + ": " + outcome.Problem
	}
	if outcome.Failed != "" {
		return wire.ReasonActionFailed, outcome.Failed + ": " + outcome.Problem
	}
	if len(plan.Holds) > 0 {
		return plan.Holds[0].Reason, plan.Holds[0].Detail
	}
	return "", ""
}
