package backup

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/window"
)

const (
	// graveAfter is how long backups may not be as wished before the database counts as degraded.
	graveAfter = 5 * time.Minute
	// lateAfter is how long after its moment a base backup may begin and end before it counts as overdue.
	lateAfter = 2 * time.Hour
	// LookEvery is how often a database with backups is looked at although nothing has happened: agents tell how
	// shipping goes when they are asked, and no event comes of it.
	LookEvery = 30 * time.Second
)

// Tell claims whether the database can be restored, and names what is in the way. Nothing of the database waits
// for it.
func Tell(d *draft.Draft) {
	if d.Spec.Backup == nil || d.Deleting {
		return
	}
	claim := recoverable(d)
	d.Plan.Recoverable = &claim
	if !d.Spec.Hibernated {
		d.Plan.Again = min(d.Plan.Again, LookEvery)
	}
	// Known or not: who has turned backups on waits for the first point, and the progress of a base backup is looked at.
	if makesBase(d) || claim.Reason == reasonFirstPending {
		d.Plan.Again = min(d.Plan.Again, draft.Soon)
	}
	if claim.Status != "False" || d.Invalid {
		return
	}
	weight := database.Background
	if _, progress := d.BaseMaker(); !d.Backup.UnwellSince.IsZero() && d.Now.Sub(d.Backup.UnwellSince) > graveAfter &&
		(claim.Reason != reasonFirstPending || progress.For == "") && !onlyUntried(d, claim.Reason) {
		weight = database.Degraded
	}
	recheck := draft.Soon
	if slices.Contains([]string{reasonVerifyFailed, reasonNotMade, reasonNoRoom, reasonOverdue}, claim.Reason) {
		recheck = draft.Later // It lasts for days, and is told by nobody's report.
	}
	d.Hold(weight, recheck, claim.Reason, claim.Message)
}

// onlyUntried says that nothing is wrong but that a restore on trial could not be made lately: there is no room for it,
// or the cluster does not let it. Nobody has to have asked for one.
func onlyUntried(d *draft.Draft, reason string) bool {
	if reason != reasonNoRoom && reason != reasonNotMade {
		return false
	}
	told := d.Catalogue()
	return told == nil || untriedSince(d, told).IsZero()
}

const reasonFirstPending = string(wire.BackupFirstPending)

// recoverable is the gravest that is to be said.
func recoverable(d *draft.Draft) database.Recoverable {
	no := func(reason, message string) database.Recoverable {
		return database.Recoverable{Status: "False", Reason: reason, Message: message}
	}
	unknown := func(reason, message string) database.Recoverable {
		return database.Recoverable{Status: "Unknown", Reason: reason, Message: message}
	}
	holder, _ := d.Instance(d.Lease.Holder)
	told := holder.Report.Backup
	switch {
	case d.Backup.Access.Missing != "":
		return no("BackupSecretMissing", d.Backup.Access.Missing)
	case d.Spec.Hibernated:
		return unknown("Hibernated", "the database sleeps, and the repository is as it was")
	case !d.Leads(holder.Name) && holder.Pod != nil && !holder.Report.Reachable:
		return unknown("AgentUnreachable", "the agent of "+holder.Name+" gives no report")
	case !d.Leads(holder.Name):
		return unknown("NoPrimary", "no primary ships the log")
	case told == nil && (draft.StoredBackup(d) == "" || holder.Pod.Backup != draft.StoredBackup(d)):
		return no(reasonFirstPending, "the agents are being told of backups")
	case told == nil:
		return no(reasonFirstPending, "the agent of "+holder.Name+" does not tell of backups yet; if its pod was made "+
			"by an earlier version of Meridian, it takes a restart (spec.restart)")
	case told.Reason == wire.BackupFirstPending:
		return no(reasonFirstPending, firstBackup(d))
	case told.Reason != "":
		return no(string(told.Reason), told.Message)
	case told.Listed.IsZero():
		return unknown(reasonFirstPending, "the repository was not read yet")
	case told.BackupCount == 0 || told.RecoverableUntil.IsZero():
		return no(reasonFirstPending, firstBackup(d))
	}
	if failed := failedBackup(d); failed != "" {
		return no(string(wire.BackupFailed), failed)
	}
	if reason, message := lateBackup(d, told); reason != "" {
		return no(reason, message)
	}
	return database.Recoverable{Status: "True", Reason: "LogShipped",
		Message: "the repository has everything up to some seconds ago"}
}

// firstBackup says how far the first base backup has come, in coarse steps.
func firstBackup(d *draft.Draft) string {
	maker, progress := d.BaseMaker()
	if maker == "" {
		return "nothing can be restored yet: the first base backup has not begun"
	}
	return "nothing can be restored yet: " + maker + " makes the first base backup" + percent(progress)
}

func percent(progress wire.BaseProgress) string {
	if progress.Total <= 0 || progress.Phase != wire.BaseCopying {
		return ""
	}
	return fmt.Sprintf(", %d%%", min(progress.Done*10/progress.Total*10, 100))
}

// failedBackup says why base backups fail again and again, empty if they do not.
func failedBackup(d *draft.Draft) string {
	base := d.Backup.Settings
	if base == nil || base.Base == nil {
		return ""
	}
	instance, _ := d.Instance(base.Base.Instance)
	told := instance.Report.Backup
	if !instance.Report.Reachable || told == nil || told.Base == nil || told.Base.For != base.Base.ID ||
		told.Base.Failures < failuresToMove {
		return ""
	}
	return fmt.Sprintf("the base backup of %s has failed %d times: %s", instance.Name, told.Base.Failures,
		told.Base.Problem)
}

// lateBackup finds what should have been done by now, the gravest first: a backup that was found bad, one that is not
// there, and then what could not be tried.
func lateBackup(d *draft.Draft, told *wire.BackupReport) (reason, message string) {
	reason, message = failedTrial(d, told)
	if reason == reasonVerifyFailed {
		return reason, message
	}
	schedule, problem := admit.Schedule(*d.Spec.Backup)
	newest := newestBackup(told)
	if due := schedule.Last(d.Now.Add(-lateAfter)); problem == nil && !due.IsZero() && newest.Before(due) {
		if maker, _ := d.BaseMaker(); maker == "" || newest.Before(before(schedule, due)) {
			return "BackupOverdue", "the base backup of " + due.UTC().Format(time.RFC3339) + " is not there"
		}
	}
	if reason != "" {
		return reason, message
	}
	if due := untriedSince(d, told); !due.IsZero() {
		return reasonOverdue, "no backup was restored on trial since " + due.UTC().Format(time.RFC3339)
	}
	return "", ""
}

// untriedSince is the moment at which a backup should have been restored on trial, zero if that is not overdue: two
// moments of the schedule have passed, the last one a day ago, since the last one, and since they were asked for.
func untriedSince(d *draft.Draft, told *wire.BackupReport) time.Time {
	verify, problem := admit.Verify(*d.Spec.Backup, d.UID)
	due := verify.Last(d.Now.Add(-24 * time.Hour))
	if problem != nil || due.IsZero() || len(told.Backups) == 0 || !design.OldestBackup(told).Before(due) {
		return time.Time{}
	}
	for _, since := range []time.Time{lastTrial(d, told), design.TrialsAsked(d.Snapshot).Since} {
		if !since.Before(before(verify, due)) {
			return time.Time{}
		}
	}
	return due
}

// before is the moment of a schedule that precedes one of its moments.
func before(schedule window.Schedule, moment time.Time) time.Time {
	return schedule.Last(moment.Add(-time.Second))
}
