package status

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// coarse is how seldom the end of the window is written: the status would change each second otherwise.
const coarse = 5 * time.Minute

// backup is what the primary's agent says of the repository. While it says nothing, what was said before stands.
func backup(before *v1alpha1.BackupStatus, snapshot database.Snapshot) *v1alpha1.BackupStatus {
	if snapshot.Spec.Backup == nil {
		return nil
	}
	told := snapshot.Catalogue()
	after := v1alpha1.BackupStatus{Age: "none"}
	if before != nil {
		after = *before.DeepCopy()
	}
	after.Running = running(snapshot)
	if carriedOut(snapshot) {
		after.Now = snapshot.Backup.Now
	}
	after.Repository, after.Verifying = place(snapshot), verifying(snapshot)
	if last := snapshot.Backup.Trials.Last; last.Now != "" {
		after.VerifyNow = last.Now
	}
	if told == nil {
		after.Age = ageOf(after, snapshot.Now)
		return &after
	}
	after.RecoverableFrom, after.Backups = moment(told.RecoverableFrom), int32(min(told.BackupCount, 1<<30))
	after.RecoverableUntil = until(after.RecoverableUntil, told.RecoverableUntil)
	after.LastBackup = nil
	for _, one := range told.Backups {
		after.LastBackup = moment(one.At)
	}
	verified(&after, told, snapshot.Backup.Trials.Last)
	after.Size = sizeOf(told.Size)
	after.Gaps = nil
	for _, gap := range told.Gaps {
		after.Gaps = append(after.Gaps, v1alpha1.BackupGap{
			From:  metav1.NewTime(gap.From.UTC().Truncate(time.Second)),
			Until: metav1.NewTime(gap.Until.UTC().Truncate(time.Second)),
		})
	}
	after.Age = ageOf(v1alpha1.BackupStatus{RecoverableUntil: moment(newest(told, snapshot.Now))}, snapshot.Now)
	return &after
}

// verified tells of the last restore on trial: by what is written down about it, or by the repository, whichever is
// later. One that has found something, or could not be made, leaves standing when a backup was last found good.
func verified(after *v1alpha1.BackupStatus, told *wire.BackupReport, last database.TrialNote) {
	good, at, took := told.VerifyProblem == "", told.LastVerified, told.RestoreMilliseconds
	after.VerifyProblem = told.VerifyProblem
	if last.Pod != "" && last.At.After(at) {
		good, at, took = last.Outcome == database.TrialGood, last.At, last.RestoreMilliseconds
		after.VerifyProblem = last.Problem
	}
	switch {
	case at.IsZero():
		after.LastVerified, after.RestoreDuration = nil, nil
	case good:
		after.LastVerified = moment(at)
		after.RestoreDuration = &metav1.Duration{
			Duration: max((time.Duration(took) * time.Millisecond).Round(time.Second), time.Second),
		}
	}
}

// verifying is the restore on trial that is being made.
func verifying(snapshot database.Snapshot) string {
	pod := snapshot.Backup.Trials.Pod
	if pod == nil || pod.Deleting || !pod.Ended.IsZero() {
		return ""
	}
	return pod.State(snapshot.Name)
}

// carriedOut says that no base backup is on its way that the last request may have asked for.
func carriedOut(snapshot database.Snapshot) bool {
	settings := snapshot.Backup.Settings
	return settings == nil || settings.Base == nil || snapshot.BaseDone(settings.Base.ID)
}

// newest is the newest moment that can be restored to, for its age alone: by our clock, as far as the shipper ships,
// because an age between two clocks would be that of neither.
func newest(told *wire.BackupReport, now time.Time) time.Time {
	if told.RecoverableUntil.IsZero() || !told.Ships || told.Reason != "" {
		return told.RecoverableUntil
	}
	return now.Add(-time.Duration(told.BehindMilliseconds) * time.Millisecond)
}

// until leaves what was written before as long as it is nearly right. It is by the clock of the store.
func until(before *metav1.Time, point time.Time) *metav1.Time {
	if before != nil && !point.Before(before.Time) && point.Sub(before.Time) < coarse {
		return before
	}
	return moment(point)
}

func moment(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	written := metav1.NewTime(at.UTC().Truncate(time.Second))
	return &written
}

// sizeOf rounds to three digits or so: the size grows with each second.
func sizeOf(bytes int64) *resource.Quantity {
	if bytes <= 0 {
		return nil
	}
	step := int64(1 << 20)
	for step*100 < bytes {
		step <<= 1
	}
	return resource.NewQuantity((bytes+step-1)/step*step, resource.BinarySI)
}

// ageOf is how old the newest recoverable point is, in steps.
func ageOf(told v1alpha1.BackupStatus, now time.Time) string {
	if told.RecoverableUntil == nil {
		return "none"
	}
	age := now.Sub(told.RecoverableUntil.Time)
	for _, step := range []struct {
		least time.Duration
		text  string
	}{
		{10 * time.Second, "<10s"}, {time.Minute, "<1m"}, {10 * time.Minute, "<10m"}, {time.Hour, "<1h"},
		{24 * time.Hour, "<1d"},
	} {
		if age < step.least {
			return step.text
		}
	}
	return ">=1d"
}

// running is the base backup that is being made.
func running(snapshot database.Snapshot) string {
	maker, progress := snapshot.BaseMaker()
	switch {
	case maker == "":
		return ""
	case progress.Phase == wire.BaseCompleting:
		return maker + ": waits for the log"
	case progress.Total <= 0:
		return maker + ": begins"
	}
	return fmt.Sprintf("%s: %d%%", maker, min(progress.Done*10/progress.Total*10, 100))
}

// place is the folder of the database in the repository, as tools of stores write it.
func place(snapshot database.Snapshot) string {
	stored := snapshot.Backup.Settings
	if stored == nil {
		return ""
	}
	repository, top := stored.Repository, ""
	switch {
	case repository.S3 != nil:
		top = "s3://" + repository.S3.Bucket
	case repository.GCS != nil:
		top = "gs://" + repository.GCS.Bucket
	case repository.Azure != nil:
		top = "azure://" + repository.Azure.Account + "/" + repository.Azure.Container
	case repository.Claim != nil && snapshot.Spec.Backup.Repository.Claim != nil:
		top = "claim://" + snapshot.Spec.Backup.Repository.Claim.Name
	}
	if prefix := repository.Prefix(); prefix != "" {
		top += "/" + prefix
	}
	return fmt.Sprintf("%s/%s/%s/%s/", top, stored.Namespace, stored.Database, stored.DatabaseUID)
}

// recoverableClaim is what the plan says about backups.
func recoverableClaim(plan database.Plan) (condition.Claim, bool) {
	told := plan.Recoverable
	if told == nil {
		return condition.Claim{}, false
	}
	const typ = v1alpha1.ConditionRecoverable
	reason := condition.Reason(told.Reason)
	switch told.Status {
	case "True":
		return condition.True(typ, reason, told.Message), true
	case "False":
		return condition.False(typ, reason, told.Message), true
	}
	return condition.Unknown(typ, reason, told.Message), true
}

// backupEvents tell of backups that were made, and of those that were restored on trial.
func backupEvents(before, after *v1alpha1.BackupStatus) []Event {
	if before == nil || after == nil {
		return nil
	}
	var told []Event
	later := func(was, is *metav1.Time) bool { return is != nil && (was == nil || is.After(was.Time)) }
	if later(before.LastBackup, after.LastBackup) {
		told = append(told, Event{Reason: "BackupMade", Action: "BackUp",
			Note: "a base backup is complete since " + after.LastBackup.UTC().Format(time.RFC3339)})
	}
	if later(before.LastVerified, after.LastVerified) {
		note := "the latest backup was restored on trial"
		if after.RestoreDuration != nil {
			note += ", in " + after.RestoreDuration.Duration.String()
		}
		told = append(told, Event{Reason: "BackupVerified", Action: "Verify", Note: note})
	}
	return told
}
