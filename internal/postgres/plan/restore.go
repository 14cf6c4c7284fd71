package plan

import (
	"strings"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// restoreTheFirstCopy is for a claimed volume without data. What an earlier try has left is removed by the next one:
// only a data directory that is complete comes to its place. An empty one there would hide that nothing came back.
func restoreTheFirstCopy(s postgres.Snapshot, plan *draft) {
	action := restoreAction(s)
	job := s.JobOf(postgres.JobRestore)
	tried := job.Problem != "" && job.For == action.Purpose(s.Standing)
	left := job.Pause() - s.Now.Sub(job.Ended)
	switch {
	case job.Running && job.For != action.Purpose(s.Standing):
		plan.hold(wire.ReasonRestoring, "a restore that is not wanted any more is ending")
	case job.Running && job.Refused && job.Done == 0:
		// What was wrong is told until this try has come further.
		plan.wait(restoreHold(job))
	case job.Running:
		plan.hold(wire.ReasonRestoring, "%s", restoreStep(job))
	case tried && left > 0:
		plan.wait(restoreHold(job))
		plan.Holds[len(plan.Holds)-1].Recheck = left
	default:
		plan.do(action)
		if tried {
			// What was wrong is told until it is known to be over.
			plan.wait(restoreHold(job))
			return
		}
		plan.hold(wire.ReasonRestoring, "the first data is restored from the backups of %s/%s", action.From.Namespace,
			action.From.Name)
	}
}

func restoreStep(job postgres.Job) string {
	step := job.Step
	if step == "" {
		step = "the repository is read"
	}
	if job.Problem != "" {
		// It is tried again, and the last try may have failed for a reason that is still there.
		return step + "; the try before failed: " + job.Problem
	}
	return step
}

func restoreHold(job postgres.Job) postgres.Hold {
	hold := postgres.Hold{Reason: wire.ReasonRestoreFailed, Stalled: job.Refused, Detail: job.Problem}
	switch {
	case job.Outside:
		hold.Reason = wire.ReasonTargetOutside
	case strings.Contains(job.Problem, "no space left on device"):
		hold.Reason = wire.ReasonVolumeFull
	case !job.Refused:
		hold.Detail = "the restore failed and is tried again: " + job.Problem
	}
	return hold
}

func restoreAction(s postgres.Snapshot) postgres.Restore {
	settings, _ := wanted(s)
	return postgres.Restore{
		Why:  "the volume is claimed and has no data yet, and the database is to begin with backups",
		From: *settings.Restore, DatabaseUID: settings.DatabaseUID, Major: s.Programs.Major,
		Application: settings.Application,
	}
}

// restorePurpose is what a restore is for that is wanted now, empty if none is.
func restorePurpose(s postgres.Snapshot) string {
	settings, known := wanted(s)
	if !known || settings.Restore == nil || s.Standing.Role != tenure.RoleBegin || !unfinished(s.Volume.Record) {
		return ""
	}
	return restoreAction(s).Purpose(s.Standing)
}
