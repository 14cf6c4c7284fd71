package keep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// reason is why backups are not as wished, since when.
type reason struct {
	reason  wire.BackupReason
	message string
	since   time.Time
}

const (
	// stuck is how long a part of the work may get on with nothing before its store counts as away.
	stuck = 30 * time.Second
	// late is how old log may be that is not in the repository.
	late = time.Minute
	// again is how many failures in a row are more than a hiccup, and more that many are of base backups.
	again     = 2
	moreBases = 3
)

// Report tells about backups, nil if there are none.
func (k *Keeper) Report() *wire.BackupReport {
	now := k.Copy()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.settings == nil && k.problem == nil {
		return nil
	}
	report := &wire.BackupReport{
		Ships: now.Leads && len(k.shipping.holds) == 0, Reason: k.reason.reason, Message: k.reason.message,
		Since: k.reason.since, Base: k.tellBase(),
	}
	office := plan.Office(now.Leads, now.Term)
	if k.shipping.office == office && k.shipping.confirmed > 0 {
		report.Confirmed = k.shipping.confirmed.String()
	}
	if !now.Leads {
		return report
	}
	if now.Flushed > k.shipping.confirmed && k.shipping.confirmed > 0 {
		report.BehindBytes = uint64(now.Flushed - k.shipping.confirmed)
	}
	report.BehindMilliseconds = k.shipping.behind(k.Now()).Milliseconds()
	if k.reading.office == office && k.reading.stored != nil {
		k.tellRepository(report)
	}
	return report
}

func (k *Keeper) tellRepository(report *wire.BackupReport) {
	read := k.reading
	report.Listed, report.Size, report.Locked = read.at, read.summary.Size, read.locked
	report.Backups, report.BackupCount = read.backups, read.count
	report.LastVerified, report.VerifiedBackup = read.verified.at, read.verified.backup
	report.RestoreMilliseconds, report.VerifyProblem = read.verified.took.Milliseconds(), read.verified.problem
	if read.summary.Until.IsZero() {
		return
	}
	report.RecoverableFrom, report.RecoverableUntil = read.summary.From, read.summary.Until
	lsn := read.summary.UntilLSN
	if since := k.shipping.until.Sub(read.at); read.stored.Broken == "" && since > 0 {
		// By the clock of the store, as a restore sees it: this one only tells how much time has passed since the reading.
		report.RecoverableUntil, lsn = read.summary.Until.Add(since).UTC(), max(lsn, k.shipping.confirmed)
	}
	if behind := k.shipping.behind(k.Now()); behind > 0 {
		// What was written last may be log that has waited, and tells then nothing of how far it leads.
		sure := k.Now().Add(-behind).Sub(read.at)
		if until := read.summary.Until.Add(sure).UTC(); until.Before(report.RecoverableUntil) {
			report.RecoverableUntil = until
		}
		if report.RecoverableUntil.Before(report.RecoverableFrom) {
			report.RecoverableUntil = report.RecoverableFrom
		}
	}
	report.RecoverableLSN = lsn.String()
	for _, hole := range read.summary.Gaps {
		report.Gaps = append(report.Gaps, wire.BackupGap{From: hole.From, Until: hole.Until})
	}
	report.Gaps = report.Gaps[max(0, len(report.Gaps)-wire.MostGaps):]
}

func (k *Keeper) tellBase() *wire.BaseProgress {
	found := k.works[partBase]
	if found == nil {
		return nil
	}
	progress := &wire.BaseProgress{
		For: k.basing.wish, Phase: k.basing.phase, Done: k.basing.done, Total: k.basing.total, Started: k.basing.started,
		Failures: found.Failures,
	}
	if found.err != nil {
		progress.Problem = found.err.Error()
		if !found.Running {
			progress.Phase = wire.BaseWaiting
		}
	}
	return progress
}

// judge finds the gravest reason. The mutex is held.
func (k *Keeper) judge(now Copy) {
	found := reason{}
	found.reason, found.message = k.why(now)
	if found.since = k.reason.since; found.reason != k.reason.reason {
		found.since = k.Now().UTC()
		if found.reason != "" {
			k.Log.Info("backups are not as wished", "reason", found.reason, "message", found.message)
		}
	}
	if found.reason == "" {
		found.since = time.Time{}
	}
	k.reason = found
}

func (k *Keeper) why(now Copy) (wire.BackupReason, string) {
	if k.problem != nil {
		return wire.BackupSettingsUnreadable, k.problem.Error()
	}
	if k.settings == nil || !now.Leads && k.works[partBase] == nil {
		return "", ""
	}
	for _, of := range []part{partShip, partRead} {
		if found := k.works[of]; found != nil {
			if why, message := found.why(k.Now()); why != "" {
				return why, message
			}
		}
	}
	if at := slices.IndexFunc(k.shipping.holds, isForeign); at >= 0 {
		return wire.BackupRepositoryForeign, k.shipping.holds[at].Detail
	}
	if found := k.works[partBase]; found != nil && found.Failures >= moreBases && found.err != nil {
		return wire.BackupFailed, found.err.Error()
	}
	return k.whyBehind(now)
}

func isForeign(hold plan.Hold) bool { return hold.Reason == string(wire.BackupRepositoryForeign) }

// whyBehind is for a repository that can be used.
func (k *Keeper) whyBehind(now Copy) (wire.BackupReason, string) {
	stored := k.reading.stored
	switch {
	case !now.Leads || stored == nil || k.reading.office != plan.Office(true, now.Term):
		return "", ""
	case stored.Broken != "":
		return wire.BackupLogGap, "log was lost before it could be shipped, and no base backup leads to the present: a new " +
			"one begins by itself"
	case k.reading.summary.Until.IsZero():
		return wire.BackupFirstPending, "nothing can be restored before the first base backup is complete"
	case k.shipping.behind(k.Now()) > late:
		return wire.BackupShippingBehind, fmt.Sprintf("log of %s ago is not in the repository yet",
			k.shipping.behind(k.Now()).Round(time.Second))
	}
	return "", ""
}

// why tells what the state of a work means.
func (w *work) why(now time.Time) (wire.BackupReason, string) {
	if w.Running && now.Sub(w.moved) > stuck {
		return wire.BackupRepositoryAway, fmt.Sprintf("the repository has not answered for %s",
			now.Sub(w.moved).Round(time.Second))
	}
	if w.err == nil || errors.Is(w.err, context.Canceled) {
		return "", ""
	}
	why := Classify(w.err)
	if (why == wire.BackupRepositoryAway || why == wire.BackupShippingBehind) && w.Failures < again {
		return "", ""
	}
	return why, w.err.Error()
}

// Classify tells what an error means to a user.
func Classify(err error) wire.BackupReason {
	failed, ofStore := errors.AsType[*store.Error](err)
	switch {
	case errors.Is(err, seal.ErrKeyWrong):
		return wire.BackupKeyWrong
	case errors.Is(err, repository.ErrForeign):
		return wire.BackupRepositoryForeign
	case errors.Is(err, seal.ErrDamaged), errors.Is(err, repository.ErrLost), errors.Is(err, backup.ErrTooNew):
		return wire.BackupRepositoryDamaged
	case !ofStore:
		return wire.BackupShippingBehind // The log could not be read here.
	case failed.Class == store.ConditionIgnored:
		return wire.BackupConditionIgnored
	case failed.Class == store.CredentialsRefused:
		return wire.BackupCredentialsRefused
	}
	return wire.BackupRepositoryAway
}
