package status

import (
	"slices"
	"strings"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/condition"
)

// events tells what was done in this pass and what has changed in the conditions. A state that lasts is told once.
func events(before, after v1alpha1.GeoDatabaseStatus, pass Pass) []Event {
	var told []Event
	for _, result := range pass.Outcome.Results {
		if result.Wrote {
			told = tell(told, doneEvent(result.Action))
		}
		if result.Refused != "" && result.Action.Verb == database.SwitchOver && !asked(pass.Snapshot, result.Action) {
			told = tell(told, Event{Warning: true, Reason: "SwitchoverRefused", Action: string(result.Action.Verb),
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
			told = tell(told, Event{Reason: "RestartPending", Action: "Wait", Note: restart})
		}
	}
	told = append(told, turns(before, after)...)
	for i := range told {
		told[i].Note = cut(told[i].Note)
	}
	return told
}

// asked says that a switchover is that of a user's request: how that ends is told when it does.
func asked(snapshot database.Snapshot, action database.Action) bool {
	return snapshot.Request != nil && snapshot.Request.ID == action.Request
}

// cut keeps a note within what the API server accepts; a longer one would be lost as a whole.
func cut(note string) string {
	const most = 1000
	if len(note) <= most {
		return note
	}
	return strings.ToValidUTF8(note[:most], "") + "…"
}

// tell adds an event to those of the same kind in this pass. Several at once that differ in their note alone would be
// taken for a series: the notes of all but the first would be lost, and writing the series races with its first event.
func tell(told []Event, event Event) []Event {
	for i := range told {
		if told[i].Reason == event.Reason && told[i].Action == event.Action && told[i].Warning == event.Warning {
			told[i].Note += "; " + event.Note
			return told
		}
	}
	return append(told, event)
}

var doneReasons = map[database.Verb]string{
	database.Create: "Created", database.Remove: "Removed", database.Update: "Updated", database.Grow: "Grown",
	database.AdoptClaim: "VolumeAdopted", database.NoteParting: "PartingNoted",
	database.UnlabelClaim: "ClaimUnlabelled",
	database.StoreRecord:  "RecordStored", database.BindCaches: "AddressesWritten",
	database.CreateBinding: "CredentialsCreated", database.StoreCertificates: "CertificatesStored",
	database.BeginLogin: "PasswordRotating", database.MoveLogin: "PasswordRotated",
	database.PublishBundle: "AuthoritiesPublished",
	database.Guard:         "Guarded", database.Release: "Released",
	database.CreateLease: "LeaseCreated", database.FreeLease: "LeaseFreed",
	database.ResizePod: "PodResized", database.LabelPod: "PodLabelled",
	database.RestartServer: "ServerRestarted", database.ReplacePod: "PodReplaced", database.AdoptLease: "LeaseAdopted",
	database.SetInstances: "InstancesChanged", database.TellPod: "SettingsTold",
	database.NoteRequest: "SwitchoverRequested", database.EndRequest: "SwitchoverDone",
	database.SwitchOver: "SwitchoverAsked",
	database.RemovePod:  "PodRemoved", database.DeleteSet: "InstanceRemoved",
	database.DeleteClaim: "ClaimDeleted", database.DeletePod: "PodReplaced",
}

func doneEvent(action database.Action) Event {
	event := Event{
		Reason: doneReasons[action.Verb], Action: string(action.Verb),
		Note: strings.TrimSpace(action.Kind+" "+action.Name) + ": " + action.Why,
	}
	if action.Event != "" {
		event.Reason = action.Event
	}
	if action.Repair {
		event.Warning, event.Reason = true, "DriftRepaired"
	}
	return event
}

// calm says that a condition tells of what is not there yet. Should that become what is missing, it is told again, as a
// warning.
func calm(message string) bool { return strings.HasSuffix(message, database.BeingMade) }

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
			was != nil && was.Status == "True" && was.Reason == now.Reason && calm(was.Message) == calm(now.Message) {
			continue
		}
		told = append(told, Event{
			Warning: watched.warning && !calm(now.Message), Reason: now.Reason, Action: watched.typ, Note: now.Message,
		})
	}
	return told
}
