package plan

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

func stopWhenTold(s postgres.Snapshot, plan *draft) bool {
	if !s.Stopping {
		return false
	}
	switch {
	case s.JobOf(postgres.JobStop).Running:
		plan.wait(postgres.Hold{Reason: wire.ReasonServerRecovering, Detail: "PostgreSQL is being stopped"})
	case s.Process.Running:
		plan.do(postgres.StopServer{Why: "the pod was told to end"})
	case s.Process.Leftover > 0:
		plan.do(postgres.KillLeftover{Why: "the pod was told to end"})
	}
	return true
}

func waitForAReadableVolume(s postgres.Snapshot, plan *draft) bool {
	if s.Volume.Problem == "" {
		return false
	}
	if s.Programs.Problem != "" && !s.Process.Running {
		// It is PostgreSQL's own programs that read a copy: the volume is not to blame, and nothing comes by waiting.
		plan.wait(postgres.Hold{Reason: wire.ReasonProgramsMissing, Stalled: true, Detail: s.Programs.Problem})
		return true
	}
	plan.wait(postgres.Hold{Reason: wire.ReasonVolumeUnreadable, Detail: s.Volume.Problem})
	return true
}

func shareNoVolume(s postgres.Snapshot, plan *draft) bool {
	switch s.Volume.Lock {
	case postgres.LockOurs:
		return false
	case postgres.LockOthers:
		plan.hold(wire.ReasonVolumeInUse, "another agent, or a server that it started, still uses the volume")
	default:
		plan.do(postgres.LockVolume{Why: "nobody else may use the volume from now on"})
	}
	return true
}

func refuseAnotherDatabase(s postgres.Snapshot, plan *draft) bool {
	record, mounted := s.Volume.Record, s.Settings.Mounted
	if record == nil || mounted == nil || record.DatabaseUID == mounted.DatabaseUID {
		return false
	}
	plan.wait(postgres.Hold{
		Reason: wire.ReasonVolumeForeign, Stalled: true,
		Detail: fmt.Sprintf("the volume belongs to the database with UID %s, and this instance to %s: "+
			"give the instance a volume of its own, or restore the database that the volume belongs to",
			record.DatabaseUID, mounted.DatabaseUID),
	})
	return true
}

// refuseAnotherLog leaves a log alone that nobody has made for this database. That a copy finds its own log is seen
// where the data is looked at: without it the copy is damaged.
func refuseAnotherLog(s postgres.Snapshot, plan *draft) bool {
	log, mounted := s.Volume.Log, s.Settings.Mounted
	hold := postgres.Hold{Stalled: true}
	switch {
	case log == nil:
		return false
	case log.Stray && !recordedCopy(s.Volume.Record):
		hold.Reason = wire.ReasonVolumeUnknown
		hold.Detail = "there is WAL on the WAL volume, and nothing says whose it is: remove it, or use another volume"
	case mounted != nil && log.DatabaseUID != "" && log.DatabaseUID != mounted.DatabaseUID:
		hold.Reason = wire.ReasonVolumeForeign
		hold.Detail = fmt.Sprintf("the WAL volume belongs to the database with UID %s, and this instance to %s: "+
			"give the instance a volume of its own, or restore the database that the volume belongs to",
			log.DatabaseUID, mounted.DatabaseUID)
	default:
		return false
	}
	plan.wait(hold)
	return true
}

// waitForSettings goes on when the record has settings that were in force before: an instance comes back although its
// settings were spoilt in the meantime.
func waitForSettings(s postgres.Snapshot, plan *draft) bool {
	if s.Settings.Mounted != nil {
		return false
	}
	_, known := wanted(s)
	known = known && !unfinished(s.Volume.Record)
	detail := "the settings cannot be used: " + s.Settings.Problem
	if known {
		detail += "; those of before stay in force"
	}
	plan.wait(postgres.Hold{Reason: wire.ReasonSettingsUnreadable, Detail: detail})
	return !known
}

// wanted are the settings to be in force: the mounted ones, or else those that were in force before.
func wanted(s postgres.Snapshot) (settings wire.Settings, known bool) {
	switch {
	case s.Settings.Mounted != nil:
		return *s.Settings.Mounted, true
	case s.Volume.Record != nil && s.Volume.Record.Settings != nil:
		return *s.Volume.Record.Settings, true
	}
	return wire.Settings{}, false
}

// unfinished tells a volume whose data directory was begun and never completed.
func unfinished(record *postgres.Record) bool {
	return record != nil && record.InProgress == postgres.StepInitialise
}

func refuseALostVolume(s postgres.Snapshot, plan *draft) bool {
	if s.Data.Presence != postgres.DataAbsent {
		return false
	}
	record := s.Volume.Record
	settings, _ := wanted(s)
	had := settings.Initialised || s.Standing.Initialised
	switch {
	case s.Process.Running: // It has lost its files, whatever the record says.
	case record != nil && (record.Whole() || record.InProgress == postgres.StepRewind):
	case had && s.Standing.Role == tenure.RoleLead:
	case had && s.Standing.Role == tenure.RoleBegin:
	default:
		return false
	}
	plan.wait(postgres.Hold{
		Reason: wire.ReasonVolumeEmpty, Stalled: true,
		Detail: "this database has had data once, and there is none on the volume: a new empty database in its place would " +
			"hide the loss; bring the volume back, or replace the instance",
	})
	return true
}

func refuseUnknownData(s postgres.Snapshot, plan *draft) bool {
	var detail string
	switch {
	case s.Data.Presence == postgres.DataOtherwise:
		detail = "in the place of the data directory is something else: " + s.Data.Problem
	case s.Volume.Record == nil && (s.Data.Presence != postgres.DataAbsent || s.Data.Draft):
		detail = "there is data on the volume, and no record of whose it is: remove it, or use another volume"
	case s.Data.Presence == postgres.DataDamaged:
		plan.wait(postgres.Hold{
			Reason: wire.ReasonDataDamaged, Stalled: true,
			Detail: "the data directory lacks what PostgreSQL needs: " + s.Data.Problem,
		})
		return true
	default:
		return false
	}
	plan.wait(postgres.Hold{Reason: wire.ReasonVolumeUnknown, Stalled: true, Detail: detail})
	return true
}

func refuseAnotherVersion(s postgres.Snapshot, plan *draft) bool {
	settings, _ := wanted(s)
	programs := s.Programs.Major
	switch {
	case s.Programs.Problem != "":
		plan.wait(postgres.Hold{Reason: wire.ReasonProgramsMissing, Stalled: !s.Process.Running, Detail: s.Programs.Problem})
	case programs != settings.Major:
		plan.wait(postgres.Hold{
			Reason: wire.ReasonVersionMismatch, Stalled: true,
			Detail: fmt.Sprintf("the image has PostgreSQL %d, and the database wants %d: use an image of that version",
				programs, settings.Major),
		})
	case s.Data.Presence == postgres.DataPresent && s.Data.Major != programs:
		plan.wait(postgres.Hold{
			Reason: wire.ReasonVersionMismatch, Stalled: true,
			Detail: fmt.Sprintf("the data was made by PostgreSQL %d, and the image has %d: "+
				"use an image of the version of the data", s.Data.Major, programs),
		})
	default:
		return false
	}
	return true
}

func refuseAnotherIdentity(s postgres.Snapshot, plan *draft) bool {
	if s.Data.Presence != postgres.DataPresent {
		return false
	}
	settings, _ := wanted(s)
	identities := []string{settings.SystemIdentifier, recordedIdentity(s.Volume.Record), s.Standing.SystemIdentifier}
	if !recordedCopy(s.Volume.Record) {
		// What was begun here and never served is replaced, whatever it is.
		return false
	}
	for _, known := range identities {
		if known == "" || known == s.Data.SystemIdentifier {
			continue
		}
		plan.wait(postgres.Hold{
			Reason: wire.ReasonVolumeForeign, Stalled: true,
			Detail: fmt.Sprintf("the data has the system identifier %s, and this database has %s: "+
				"the data is not a copy of this database", s.Data.SystemIdentifier, known),
		})
		return true
	}
	return false
}

// recordedCopy says that there is a copy that may have served somebody.
func recordedCopy(record *postgres.Record) bool {
	return record.Whole() || record != nil && record.InProgress == postgres.StepRewind
}

func recordedIdentity(record *postgres.Record) string {
	if record == nil {
		return ""
	}
	return record.SystemIdentifier
}

func killWhatTheServerLeft(s postgres.Snapshot, plan *draft) bool {
	if s.Process.Running || s.Process.Leftover == 0 {
		return false
	}
	plan.do(postgres.KillLeftover{
		Why: "processes of a server that has ended still live, and one of them may be about to acknowledge a write",
	})
	return true
}

func claimAnEmptyVolume(s postgres.Snapshot, plan *draft) bool {
	if s.Volume.Record != nil || s.Standing.Role != tenure.RoleBegin {
		return false
	}
	settings, _ := wanted(s)
	plan.do(postgres.ClaimVolume{
		Why: "the volume is empty, and this instance is to begin the database", DatabaseUID: settings.DatabaseUID,
		Incarnation: s.Standing.Incarnation, ClaimUID: s.Volume.Claim.UID,
	})
	return true
}

func initialiseAClaimedVolume(s postgres.Snapshot, plan *draft) bool {
	if !unfinished(s.Volume.Record) || s.Standing.Role != tenure.RoleBegin {
		return false
	}
	if s.Data.Presence != postgres.DataAbsent {
		plan.hold(wire.ReasonWaitingForRecord, "the first data is made, and the lease does not tell of it yet")
		return true
	}
	if settings, _ := wanted(s); settings.Restore != nil {
		restoreTheFirstCopy(s, plan)
		return true
	}
	why := postgres.Why("the volume is claimed and has no data yet")
	if s.Data.Draft {
		why = "an initialisation was begun and never completed, so nobody has written to it: it is done again"
	}
	plan.do(postgres.Initialise{Why: why, Major: s.Programs.Major, User: s.Programs.User})
	return true
}

// noteACompleteVolume counts data as complete only when the lease tells of it: from then on an empty volume is a loss.
func noteACompleteVolume(s postgres.Snapshot, plan *draft) bool {
	record := s.Volume.Record
	if record == nil || record.InProgress != postgres.StepInitialise && record.InProgress != postgres.StepClone {
		return false
	}
	ours := s.Standing.Initialised && s.Data.SystemIdentifier == s.Standing.SystemIdentifier
	// Another that was restored from the same backups has the same identifier, and other data on the same timeline.
	mine := record.InProgress != postgres.StepInitialise || s.Standing.Role == tenure.RoleLead ||
		slices.Contains(s.Standing.Members, self(s))
	if s.Data.Presence != postgres.DataPresent || !ours || !mine || s.JobOf(postgres.JobClone).Running ||
		s.JobOf(postgres.JobRestore).Running {
		return false
	}
	plan.do(postgres.RecordInitialised{
		Why:              "the data directory is complete: from now on an empty place means a loss",
		SystemIdentifier: s.Data.SystemIdentifier,
	})
	return true
}
