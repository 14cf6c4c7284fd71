package plan

import (
	"strings"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// notYetTries is how often a copy may find that its source lets nobody in before it is told why: a primary that begins
// lets others in within a second or so.
const notYetTries = 5

// another says that the record of the lease has a member that is not this instance: this is not the last copy (I2).
func another(s postgres.Snapshot) bool {
	if s.Standing.Upstream.Name == "" || s.Standing.Upstream.Name == s.Instance || !s.Standing.Initialised {
		return false
	}
	for _, member := range s.Standing.Members {
		if member == s.Standing.Upstream {
			return true
		}
	}
	return false
}

// unshippedPause is how soon is looked again whether all is shipped.
const unshippedPause = 500 * time.Millisecond

func killOnAnUnfinishedCopy(s postgres.Snapshot, plan *draft) bool {
	if !s.Process.Running || s.Volume.Record.Whole() {
		return false
	}
	plan.do(postgres.KillServer{Why: "the copy is not whole, and a server lives on it"})
	return true
}

// discardACopy goes on with what its marker says, and begins it for what never served anybody.
func discardACopy(s postgres.Snapshot, plan *draft) bool {
	record := s.Volume.Record
	switch {
	case record == nil:
		return false
	case record.InProgress == postgres.StepInitialise && s.Standing.Role == tenure.RoleFollow:
		if s.Data.Presence == postgres.DataAbsent {
			return false
		}
		if another(s) && follows(s) {
			plan.do(postgres.BeginDiscard{Why: "the data was begun here and never served anybody: another began the database"})
			return true
		}
		plan.hold(wire.ReasonWaitingForStanding, "the data was begun here, and it is not known yet who leads")
		return true
	case record.InProgress != postgres.StepDiscard || s.Data.Presence == postgres.DataAbsent:
		return false
	}
	job := s.JobOf(postgres.JobDiscard)
	if !job.Running {
		plan.do(postgres.Discard{Why: "the copy is to be replaced"})
	}
	plan.wait(postgres.Hold{Reason: wire.ReasonCopying, Detail: "the copy of before is being removed"})
	return true
}

// copyUnderWay says that something is at work in the place where the copy is to be.
func copyUnderWay(s postgres.Snapshot) bool {
	return s.JobOf(postgres.JobClone).Running || s.JobOf(postgres.JobDiscard).Running ||
		s.JobOf(postgres.JobRestore).Running
}

// cloneTheUpstream makes a copy where there is none.
func cloneTheUpstream(s postgres.Snapshot, plan *draft) bool {
	record := s.Volume.Record
	if recordedCopy(record) {
		return false
	}
	job := s.JobOf(postgres.JobClone)
	hold := postgres.Hold{Reason: wire.ReasonCopying, Detail: "the data of the primary is being copied"}
	left := job.Pause() - s.Now.Sub(job.Ended)
	switch {
	case copyUnderWay(s):
	case !follows(s) || s.Standing.Role != tenure.RoleFollow || !another(s):
		hold.Reason, hold.Detail = wire.ReasonWaitingForStanding, "there is no data here yet, and no primary to copy it from"
	case record == nil || record.InProgress == postgres.StepDiscard || record.InProgress == postgres.StepInitialise:
		settings, _ := wanted(s)
		plan.do(postgres.BeginClone{
			Why: "there is no copy here, and there is a primary", DatabaseUID: settings.DatabaseUID,
			ClaimUID: s.Volume.Claim.UID,
		})
	case s.Data.Presence != postgres.DataAbsent:
		hold.Detail = "the copy is complete, and the lease does not tell of its database"
	case job.NotYet && job.Failures <= notYetTries && job.For == postgres.Essence(s.Standing) && left > 0:
		hold.Detail, hold.Recheck = "the copy begins when "+s.Standing.Upstream.Name+" accepts connections", left
	case job.Problem != "" && job.For == postgres.Essence(s.Standing) && left > 0:
		hold.Detail, hold.Recheck = "the copy failed and is tried again: "+job.Problem, left
		if strings.Contains(job.Problem, "No space left on device") {
			hold.Reason = wire.ReasonVolumeFull
		}
	case s.Certificate.Installed == "":
		return installForCopy(s, plan)
	default:
		plan.do(postgres.Clone{Why: "there is no copy here", Source: source(s)})
	}
	plan.wait(hold)
	return true
}

// installForCopy comes before the other files, which go into the copy.
func installForCopy(s postgres.Snapshot, plan *draft) bool {
	installTheCertificate(s, plan)
	return true
}

// rewindTheCopy goes on with what its marker says; when it failed, the copy is no copy of anything and is replaced.
func rewindTheCopy(s postgres.Snapshot, plan *draft) bool {
	record := s.Volume.Record
	if record == nil || record.InProgress != postgres.StepRewind {
		return false
	}
	job := s.JobOf(postgres.JobRewind)
	tried := s.Rewound(job)
	hold := postgres.Hold{Reason: wire.ReasonCopying, Detail: "the copy is made to fit that of the primary"}
	switch {
	case job.Running:
	case tried && again(job):
		plan.do(postgres.RecordRewound{Why: "the rewind has changed nothing, and is tried again later", Vain: true})
	case tried && job.Problem == "":
		plan.do(postgres.RecordRewound{Why: "the copy fits that of the primary"})
	case !follows(s) || s.Standing.Role != tenure.RoleFollow || !another(s):
		hold.Detail = "the copy was being made to fit another, which does not lead any more"
	case tried && s.Told() && s.Upstream.At.After(job.Ended):
		plan.do(postgres.BeginDiscard{Why: postgres.Why("it could not be made to fit: " + job.Problem)})
	case tried:
		if !s.JobOf(postgres.JobAsk).Running {
			plan.do(postgres.AskUpstream{Why: "whether the primary answers decides what to do", Source: source(s)})
		}
	case s.Rewinding != postgres.Essence(s.Standing):
		plan.do(postgres.BeginDiscard{Why: "a rewind for another primary, or of an earlier agent, has left half a copy"})
	case misread(s.Data):
		plan.do(postgres.BeginDiscard{
			Why: "pg_rewind 15 takes a copy to be on the timeline of its last checkpoint, and this one has gone on to another",
		})
	case s.Certificate.Installed == "":
		return installForCopy(s, plan)
	default:
		plan.do(postgres.Rewind{Why: "the copy has what the primary does not have", Source: source(s)})
	}
	plan.wait(hold)
	return true
}

// vainRewinds is how many rewinds in a row may do nothing. One does if the copy has WAL that no server has replayed so
// far: pg_rewind goes by the control file, which tells of what was replayed.
const vainRewinds = 5

// again says that a rewind has done nothing, and may do something later.
func again(job postgres.Job) bool { return job.Early || job.Vain && job.Failures < vainRewinds }

// misread says that pg_rewind would take the copy to be on an earlier timeline than it is on. Before 16 it goes by the
// last checkpoint, and a replica has that of the primary before, until the next one has sent its first. It would look
// for the fork in the wrong history, find nothing to do for ever, or leave pages as they are that differ. The copy of a
// primary that was not shut down is recovered before, which ends with a checkpoint.
func misread(data postgres.Data) bool {
	return data.Major < 16 && data.Checkpointed > 0 && data.Checkpointed < data.Timeline &&
		data.State == "shut down in recovery"
}

// replaceable says that this copy is a replica's beside the one of another instance.
func replaceable(s postgres.Snapshot) bool {
	return follows(s) && s.Standing.Role == tenure.RoleFollow && another(s) && !s.Primary()
}

// replaceADivergedCopy begins a rewind, or a clone where the log that is needed is gone. The server is stopped before.
func replaceADivergedCopy(s postgres.Snapshot, plan *draft) bool {
	if !replaceable(s) {
		return false
	}
	if s.JobOf(postgres.JobStop).Running {
		plan.wait(postgres.Hold{Reason: wire.ReasonCopying, Detail: "PostgreSQL stops, so that its copy can be replaced"})
		return true
	}
	left := s.Diverged() && !s.Server.Replication.Receiving
	lost := s.LacksWAL()
	switch {
	case !left && !lost:
		return false
	case left && s.MayBeNeeded():
		plan.wait(postgres.Hold{
			Reason: wire.ReasonCopyNeeded, Recheck: askPause(s), Detail: "the primary has not let applications in yet: " +
				"what was acknowledged before may be on its copy and this one alone, which is rewound when others have it, or " +
				"after 15s",
		})
		return false
	case left && !lost && s.TooEarly() > 0:
		detail := "the copy cannot be rewound before the primary has written the first checkpoint of its timeline"
		if s.JobOf(postgres.JobRewind).Vain {
			detail = "the copy cannot be rewound before PostgreSQL has replayed more of it"
		}
		plan.wait(postgres.Hold{Reason: wire.ReasonCopying, Recheck: s.TooEarly(), Detail: detail})
		return false
	case !left && !s.Data.Short && !spare(s): // A short copy is nobody's: it can neither lead nor hand its WAL on.
		plan.wait(postgres.Hold{
			Reason: wire.ReasonCopyNeeded, Recheck: positionsSooner, Detail: "the primary does not have the WAL any more that " +
				"this copy needs, and the other members are too few without it: it is kept until enough others have what it has",
		})
		return false
	case s.Process.Running:
		plan.do(postgres.StopServer{Why: "the copy is no part of the primary's history, or lacks what that does not keep"})
	case s.Repository.Unshipped:
		plan.wait(postgres.Hold{
			Reason: wire.ReasonWALUnshipped, Recheck: unshippedPause,
			Detail: "this copy may have WAL that the repository of backups lacks, and ships it before it is rewound or replaced",
		})
		return true
	case left:
		plan.do(postgres.BeginRewind{Why: "the copy is no part of the primary's history"})
	default:
		plan.do(postgres.BeginDiscard{Why: "the primary does not have the WAL any more that this copy needs"})
	}
	return true
}
