package invariant

import (
	"meridian.dev/meridian/internal/database"
)

// triesBeside looks at what a restore on trial writes: one pod, of a name that no instance has, only for a database
// that has backups and runs; and what it takes away is that pod alone.
func triesBeside(s database.Snapshot, _ database.Plan, action database.Action) bool {
	pod := s.Backup.Trials.Pod
	switch do := action.Do.(type) {
	case database.BeginTrial:
		return action.Kind == database.KindPod && action.Name == database.TrialName(s.Name) && pod == nil &&
			s.Backup.Trials.Foreign == "" && do.For != "" && do.Try > 0 && s.Spec.Backup != nil && !s.Spec.Hibernated &&
			s.Record.Initialised
	case database.EndTrial:
		return action.Kind == database.KindPod && action.Name == database.TrialName(s.Name) && pod != nil &&
			pod.UID == action.UID
	case database.NoteTrial:
		return action.Kind == database.KindSettings && action.Name == database.SettingsName(s.Name) && pod != nil &&
			pod.UID == do.Pod && s.Backup.Settings != nil
	default:
		return true
	}
}

// forgetsNoTrial holds that the pod of a restore on trial goes only when nobody needs to know how it has ended.
func forgetsNoTrial(s database.Snapshot, _ database.Plan, action database.Action) bool {
	pod := s.Backup.Trials.Pod
	if !database.Does[database.EndTrial](action) || pod == nil || pod.Ended.IsZero() {
		return true
	}
	backup := s.Spec.Backup
	return s.Deleting || backup == nil || s.Spec.Hibernated || s.Backup.Trials.Last.Pod == pod.UID ||
		backup.VerifyNow != pod.Wish.Now || backup.VerifyNow == ""
}
