package backup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

const (
	// roomPatience is how long a restore on trial may find no node or no volume before there counts as being no room.
	roomPatience = 10 * time.Minute
	// startPatience is how long its container may take to begin once it has a node.
	startPatience = 20 * time.Minute
	// endPatience is how long after its deadline the kubelet may take to end it.
	endPatience = 15 * time.Minute

	reasonVerifyFailed, reasonNotMade = "VerifyFailed", "VerifyNotMade"
	reasonNoRoom, reasonOverdue       = "NoRoomToVerify", "VerifyOverdue"
)

// EndDeleted removes the pod of a database that is being deleted. The garbage collector does the same to most of them,
// and not to those whose children are to stay.
func EndDeleted(d *draft.Draft) {
	if d.Deleting {
		endTrial(d, d.Do, "the database is deleted")
	}
}

// Try makes restores on trial, one at a time. There is at most one pod, by its name. How it has ended is written down
// before it goes, so that an operator that ends in the middle neither forgets one nor makes it twice.
func Try(d *draft.Draft) {
	trials := d.Backup.Trials
	d.Plan.Need = needOf(d)
	switch {
	case trials.Pod != nil:
		attend(d, *trials.Pod)
	case d.Spec.Backup != nil:
		begin(d)
	}
}

// attend looks after a pod that is there.
func attend(d *draft.Draft, pod database.TrialPod) {
	switch backup := d.Spec.Backup; {
	case pod.Deleting:
		d.Hold(database.Background, draft.Later, "VerifyRunning", "the pod of the last restore on trial is being deleted")
		return
	case backup == nil, d.Spec.Hibernated:
		endTrial(d, d.Change, "the database has no backups any more, or sleeps")
		return
	case noneWanted(*backup) && (backup.VerifyNow == "" || backup.VerifyNow != pod.Wish.Now):
		endTrial(d, d.Change, "no restores on trial are wanted any more")
		return
	}
	ended, note := outcomeOf(d, pod)
	if needs := goesFirst(d); !ended && needs != "" {
		endTrial(d, d.Change, needs+", and may need the room that it has")
		return
	}
	if !ended {
		d.Hold(database.Background, draft.Later, "VerifyRunning", pod.State(d.Name))
		return
	}
	if d.Backup.Trials.Last.Pod == pod.UID {
		endTrial(d, d.Change, "it has ended, and how is written down")
		return
	}
	name := database.SettingsName(d.Name)
	if d.Settings.UID == "" || d.Settings.Deleting || d.Backup.Settings == nil || d.Writes(database.KindSettings, name) {
		d.Hold(database.Background, draft.Soon, "VerifyRunning", "a restore on trial has ended, which is to be written down")
		return
	}
	d.Change(database.Action{
		Do: database.NoteTrial{TrialNote: note}, Kind: database.KindSettings, Name: name, UID: d.Settings.UID,
		ResourceVersion: d.Settings.ResourceVersion, Why: inWords(note),
	})
}

func noneWanted(backup v1alpha1.Backup) bool {
	return backup.Verify == v1alpha1.VerifyNever
}

func endTrial(d *draft.Draft, add func(database.Action), why string) {
	pod := d.Backup.Trials.Pod
	if pod == nil || pod.Deleting {
		return
	}
	add(database.Action{
		Do: database.EndTrial{}, Kind: database.KindPod, Name: database.TrialName(d.Name), UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, Why: why,
	})
}

// outcomeOf says how a pod has ended, if it has, or has to.
func outcomeOf(d *draft.Draft, pod database.TrialPod) (bool, database.TrialNote) {
	note := database.TrialNote{TrialWish: pod.Wish, Pod: pod.UID, At: d.Now.UTC().Truncate(time.Second)}
	patience := render.TrialPatience(d.Plan.Design)
	switch {
	case !pod.Ended.IsZero():
		note.At = pod.Ended.UTC()
		note.Outcome, note.Problem = database.TrialFailed, pod.Problem
		if pod.Result != nil {
			judge(&note, *pod.Result)
		}
	case !pod.UnplacedSince.IsZero() && d.Now.Sub(pod.UnplacedSince) > roomPatience:
		note.Outcome, note.Problem = database.TrialNoRoom, cmp.Or(pod.Unplaced, "no node takes its pod")
	case pod.UnplacedSince.IsZero() && pod.Started.IsZero() && d.Now.Sub(pod.Created) > startPatience:
		note.Outcome = database.TrialFailed
		note.Problem = "its container has not begun: " + cmp.Or(pod.Stuck, "nobody says why")
	case !pod.Started.IsZero() && d.Now.Sub(pod.Started) > patience+endPatience:
		note.Outcome = database.TrialFailed
		note.Problem = "it has not ended within " + patience.String()
	default:
		return false, database.TrialNote{}
	}
	return true, note
}

func judge(note *database.TrialNote, result wire.TrialResult) {
	note.Backup, note.RestoreMilliseconds = result.Backup, result.RestoreMilliseconds
	switch {
	case result.Failure != "":
		note.Outcome, note.Problem = database.TrialFailed, result.Failure
	case result.Problem != "":
		note.Outcome, note.Problem = database.TrialBad, result.Problem
	default:
		note.Outcome, note.Problem = database.TrialGood, ""
	}
}

func inWords(note database.TrialNote) string {
	switch note.Outcome {
	case database.TrialGood:
		took := (time.Duration(note.RestoreMilliseconds) * time.Millisecond).Round(100 * time.Millisecond)
		return fmt.Sprintf("the backup %s is good, and was restored within %s", note.Backup, took)
	case database.TrialBad:
		return "the restore on trial has found: " + note.Problem
	case database.TrialNoRoom:
		return "there is no room for a restore on trial: " + note.Problem
	case database.TrialFailed:
	}
	return "the restore on trial could not be made: " + note.Problem
}

// begin makes the pod of one that is due.
func begin(d *draft.Draft) {
	wish := design.WishedTrial(d.Snapshot)
	if wish == nil || d.Invalid || d.Now.Before(wish.NotBefore) {
		return // Who waits after a failure is told by the condition Recoverable.
	}
	if obstacle := obstacleTo(d); obstacle != "" {
		d.Hold(database.Background, draft.Later, "VerifyWaiting", "no restore on trial is begun: "+obstacle)
		return
	}
	if d.Backup.Trials.Refusal != "" {
		return // Told as well.
	}
	d.Change(database.Action{
		Do: database.BeginTrial{TrialWish: wish.TrialWish}, Kind: database.KindPod, Name: database.TrialName(d.Name),
		Why: "the latest backup is restored on trial: " + wish.Why,
	})
}

// obstacleTo says what a restore on trial waits for that is not its own fault.
func obstacleTo(d *draft.Draft) string {
	catalogue, trials := d.Catalogue(), d.Backup.Trials
	switch {
	case trials.Foreign != "":
		return "there is a pod of its name that is not ours: " + trials.Foreign
	case catalogue.Reason != "" && !slices.Contains(unhindered, catalogue.Reason):
		return "the repository cannot be used: " + string(catalogue.Reason)
	case d.Backup.Access.Missing != "":
		return d.Backup.Access.Missing
	case d.Backup.Access.Stale || !usesSameRepository(d) || d.Settings.UID == "" || d.Settings.Deleting ||
		d.Writes(database.KindSettings, database.SettingsName(d.Name)):
		return "the settings of backups are being written"
	case d.Rolls():
		return "instances are being restarted"
	case d.Plan.Need.Why != "":
		return d.Plan.Need.Why
	case trials.Crowd.Need != "" || trials.Crowd.Held != "":
		return cmp.Or(trials.Crowd.Need, trials.Crowd.Held)
	case trials.Unknown != "":
		return "the API server does not say whether it would take its pod: " + trials.Unknown
	}
	return ""
}

// needOf finds what an instance lacks that a restore on trial may have: it goes before one, which takes as much CPU,
// memory and storage, and counts in the same quotas.
func needOf(d *draft.Draft) (need database.Need) {
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		switch {
		case wanted.Stopped || instance.Set == nil || instance.Set.Stopped:
		case instance.Pod == nil:
			need = database.Need{Why: wanted.Name + " has no pod", Within: true}
		case !instance.Pod.UnplacedSince.IsZero():
			return database.Need{Why: wanted.Name + " finds no node"}
		}
		for _, claim := range d.Claims(instance) {
			if need.Why == "" && claim.Claim != nil && claim.Bound && !claim.Deleting && lacksStorage(d, claim) {
				need = database.Need{Why: "the volume of " + claim.Name + " cannot grow yet", Within: true}
			}
		}
	}
	return need
}

// lacksStorage says that a claim is to grow and was not written, as when a quota is used up, or that its storage has no
// room for that.
func lacksStorage(d *draft.Draft, claim database.ClaimOf) bool {
	size, wanted := d.Plan.Design.ClaimSize(claim.Name)
	return claim.Message != "" || wanted && size.Cmp(claim.Requested) > 0 && claim.Expansion != database.Fixed
}

// goesFirst says which instance goes before a restore on trial that runs. A pod is missing for a moment whenever
// another one takes its place, and a claim grows in a moment: that alone ends none.
func goesFirst(d *draft.Draft) string {
	need, crowd := d.Plan.Need, d.Backup.Trials.Crowd
	lasts := !crowd.Since.IsZero() && d.Now.Sub(crowd.Since) >= database.NeedPatience
	if need.Why != "" && (!need.Within || lasts) {
		return need.Why
	}
	return crowd.Need
}

// failedTrial is what is to be said of the last restore on trial, and of one that cannot be made.
func failedTrial(d *draft.Draft, told *wire.BackupReport) (reason, message string) {
	last, trials := d.Backup.Trials.Last, d.Backup.Trials
	wish := design.WishedTrial(d.Snapshot)
	next := ""
	if wish != nil && d.Now.Before(wish.NotBefore) {
		next = "; the next one is made at " + wish.NotBefore.UTC().Format(time.RFC3339)
	}
	counts := !told.LastVerified.After(last.At)
	// What was found bad is so until another one is found good, whatever is in the way of that.
	switch {
	case counts && last.Outcome == database.TrialBad:
		return reasonVerifyFailed, inWords(last) + next
	case told.VerifyProblem != "" && !(counts && last.Outcome == database.TrialGood):
		return reasonVerifyFailed, "the restore on trial has found: " + told.VerifyProblem
	}
	if wish != nil && trials.Pod == nil && trials.Refusal != "" {
		if trials.Full {
			return reasonNoRoom, "there is no room for a restore on trial: " + trials.Refusal
		}
		return reasonNotMade, "the restore on trial could not be made: " + trials.Refusal
	}
	token := d.Spec.Backup.VerifyNow
	matters := wish != nil || token != "" && token == last.Now // Nobody has to know of what nobody wants any more.
	return untried(last, counts && matters, next)
}

// untried is what is to be said of one that was not made.
func untried(last database.TrialNote, matters bool, next string) (reason, message string) {
	switch {
	case matters && last.Outcome == database.TrialNoRoom:
		return reasonNoRoom, inWords(last) + next
	case matters && last.Outcome == database.TrialFailed:
		return reasonNotMade, inWords(last) + next
	}
	return "", ""
}

// lastTrial is when a backup was looked at last.
func lastTrial(d *draft.Draft, told *wire.BackupReport) time.Time {
	if last := d.Backup.Trials.Last; last.Outcome.Judged() && last.At.After(told.LastVerified) {
		return last.At
	}
	return told.LastVerified
}
