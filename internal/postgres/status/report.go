// Package status makes the report of the agent out of what a pass has seen, decided and done. It is pure, and the only
// place where a state or a reason is chosen. Start reading at Report.
package status

import (
	"meridian.dev/meridian/internal/postgres"
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
			report.Extensions = append(report.Extensions, wire.Extension{Name: extension.Name, Version: extension.Installed})
		}
	}
	report.Reason, report.Message = reason(plan, outcome)
	return report.Canonical()
}

// Ready tells whether the instance accepts connections and has what the application needs. When that cannot be seen, a
// database that has served before is taken to have it: a look that fails must not take a working server away.
//
// Nothing may be written before the operator has stored whose data this is: an instance that lost its volume before
// that would begin anew, and nobody would know of the loss.
func Ready(snapshot postgres.Snapshot) bool {
	record := snapshot.Volume.Record
	switch application := snapshot.Application; {
	case snapshot.Stopping || !snapshot.Process.Running || !snapshot.Server.Reachable:
		return false
	case record == nil || !recorded(snapshot.Settings.Mounted, *record):
		return false
	case snapshot.Server.Replica:
		return true
	case application.Known && !(application.Role && application.Database):
		return false
	}
	return record.Application != nil
}

// recorded goes by the settings of before when the mounted ones cannot be read: those were mounted as well.
func recorded(mounted *wire.Settings, record postgres.Record) bool {
	if mounted == nil {
		mounted = record.Settings
	}
	return mounted != nil && mounted.Records(record.SystemIdentifier)
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
	case claims(plan) || record != nil && record.InProgress == postgres.StepInitialise:
		return wire.StateInitialising
	}
	return wire.StateStarting
}

func claims(plan postgres.Plan) bool {
	for _, action := range plan.Actions {
		if _, ok := action.(postgres.ClaimVolume); ok {
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
