package status

import (
	"cmp"
	"slices"
	"strings"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/condition"
)

// events tells what was done in this pass and what has changed in the conditions. A state that lasts is told once.
func events(before, after v1alpha1.GeoDatabaseStatus, pass Pass) []Event {
	var told []Event
	for _, result := range pass.Outcome.Results {
		if result.Wrote {
			told = service.Tell(told, doneEvent(result.Action))
		}
		ask, asks := result.Action.Do.(database.SwitchOver)
		if result.Refused != "" && asks && !asked(pass.Snapshot, ask) {
			told = service.Tell(told, Event{Warning: true, Reason: "SwitchoverRefused", Action: result.Action.Verb(),
				Note: result.Action.Name + ": " + result.Refused})
		}
		if len(result.Unheld) > 0 {
			told = append(told, Event{Warning: true, Reason: "NotTakenOver", Action: "Write",
				Note: "the API server accepted but did not take over: " + strings.Join(result.Unheld, ", ")})
		}
	}
	if pass.CacheBehind != "" {
		told = append(told, Event{Warning: true, Reason: "CacheBehind", Action: "Read", Note: pass.CacheBehind})
	}
	for _, restart := range pass.Plan.Restarts {
		if !slices.Contains(before.PendingChanges, restart) {
			told = service.Tell(told, Event{Reason: "RestartPending", Action: "Wait", Note: restart})
		}
	}
	told = append(told, backupEvents(before.Backup, after.Backup)...)
	told = append(told, turns(before, after)...)
	return service.Cut(told)
}

// asked says that a switchover is that of a user's request: how that ends is told when it does.
func asked(snapshot database.Snapshot, ask database.SwitchOver) bool {
	return snapshot.Request != nil && snapshot.Request.ID == ask.Request
}

func doneEvent(action database.Action) Event {
	event := Event{
		Reason: doneReason(action), Action: action.Verb(),
		Note: strings.TrimSpace(action.Kind+" "+action.Name) + ": " + action.Why,
	}
	if update, updates := action.Do.(database.Update); updates && update.Repair {
		event.Warning, event.Reason = true, "DriftRepaired"
	}
	return event
}

// doneReason is the reason of the event that tells of an action.
//
//nolint:gocyclo // One case for each verb, and nothing else.
func doneReason(action database.Action) string {
	switch do := action.Do.(type) {
	case database.Create:
		return "Created"
	case database.Remove, database.RemoveCertificate:
		return "Removed"
	case database.Update:
		return "Updated"
	case database.Grow:
		return "Grown"
	case database.AdoptClaim:
		return "VolumeAdopted"
	case database.NoteParting:
		return "PartingNoted"
	case database.UnlabelClaim:
		return "ClaimUnlabelled"
	case database.StoreRecord:
		return "RecordStored"
	case database.BindCaches:
		return "AddressesWritten"
	case database.CreateBinding:
		return "CredentialsCreated"
	case database.StoreCertificates:
		return "CertificatesStored"
	case database.BeginLogin:
		return "PasswordRotating"
	case database.MoveLogin:
		return "PasswordRotated"
	case database.PublishBundle:
		return "AuthoritiesPublished"
	case database.StoreAccess:
		return "RepositoryAccessStored"
	case database.WantBase, database.BeginTrial, database.NoteTrial, database.EndTrial:
		return backupReason(action)
	case database.Guard:
		return "Guarded"
	case database.Release:
		return "Released"
	case database.CreateLease:
		return "LeaseCreated"
	case database.FreeLease:
		return "LeaseFreed"
	case database.ResizePod:
		return "PodResized"
	case database.LabelPod:
		return "PodLabelled"
	case database.BeginRoll, database.EndRoll, database.RestartServer, database.ReplacePod, database.DeletePod:
		return restartReason(action)
	case database.AdoptLease:
		return "LeaseAdopted"
	case database.SetInstances:
		return "InstancesChanged"
	case database.TellPod:
		return "SettingsTold"
	case database.NoteRequest:
		return "SwitchoverRequested"
	case database.EndRequest:
		return cmp.Or(do.Event, "SwitchoverDone")
	case database.SwitchOver:
		return "SwitchoverAsked"
	case database.RemovePod:
		return "PodRemoved"
	case database.DeleteSet:
		return "InstanceRemoved"
	case database.DeleteClaim:
	}
	return "ClaimDeleted" // The one that is left.
}

// restartReason is the same for what restarts instances.
func restartReason(action database.Action) string {
	switch {
	case database.Does[database.BeginRoll](action):
		return "RollBegun"
	case database.Does[database.EndRoll](action):
		return "RollEnded"
	case database.Does[database.RestartServer](action):
		return "ServerRestarted"
	}
	return "PodReplaced"
}

// backupReason is the same for what is done for backups.
func backupReason(action database.Action) string {
	switch {
	case database.Does[database.BeginTrial](action):
		return "TrialBegun"
	case database.Does[database.NoteTrial](action):
		return "TrialNoted"
	case database.Does[database.EndTrial](action):
		return "TrialEnded"
	}
	return "BackupAsked"
}

// turns are the conditions worth an event when they change.
func turns(before, after v1alpha1.GeoDatabaseStatus) []Event {
	var told []Event
	for _, watched := range []struct {
		typ     string
		warning bool
	}{
		{v1alpha1.ConditionStalled, true}, {v1alpha1.ConditionDegraded, true},
		{v1alpha1.ConditionFilling, true}, {v1alpha1.ConditionReady, false},
	} {
		now := condition.Find(after.Conditions, watched.typ)
		was := condition.Find(before.Conditions, watched.typ)
		if now == nil || now.Status != "True" ||
			was != nil && was.Status == "True" && was.Reason == now.Reason {
			continue
		}
		// Copies that are still being made are no reason to warn. Should they become missing ones, that is told anew.
		warning := watched.warning && now.Reason != database.ReasonBeingMade
		told = append(told, Event{Warning: warning, Reason: now.Reason, Action: watched.typ, Note: now.Message})
	}
	return told
}
