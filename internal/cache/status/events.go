package status

import (
	"slices"
	"strings"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/condition"
)

// events tells what was done in this pass and what has changed in the conditions. A state that lasts is told once.
func events(before, after v1alpha1.GeoCacheStatus, pass Pass) []Event {
	var told []Event
	for _, result := range pass.Outcome.Results {
		// That a kubelet was nudged is no news.
		if result.Wrote && !cache.Does[cache.TellPod](result.Action) {
			told = service.Tell(told, doneEvent(result.Action))
		}
		if len(result.Unheld) > 0 {
			told = service.Tell(told, Event{Warning: true, Reason: "NotTakenOver", Action: "Write",
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
	told = append(told, turns(before, after)...)
	return service.Cut(told)
}

// doneReason is the reason of the event that tells of what was done.
func doneReason(step cache.Step) string {
	switch step := step.(type) {
	case cache.Update:
		if step.Repair {
			return "DriftRepaired"
		}
		return "Updated"
	case cache.Create, cache.CreateLease:
		return "Created"
	case cache.ResizePod:
		return "Resized"
	case cache.CreateBinding:
		return "CredentialsCreated"
	case cache.StoreCertificates:
		return "CertificatesStored"
	case cache.PublishBundle:
		return "AuthoritiesPublished"
	case cache.BeginPassword:
		return "RotationBegun"
	case cache.MovePassword:
		return "PasswordRotated"
	case cache.DeletePod:
		return "PodReplaced"
	case cache.RestartPod:
		return "PodRestarted"
	case cache.DeleteSet:
		return "InstanceRemoved"
	case cache.TellPod:
		return "SettingsAnnounced"
	case cache.AskFlush:
		return "FlushAsked"
	case cache.EndFlush:
		return "Flushed"
	case cache.FollowDatabase:
		return "DatabaseFollowed"
	case cache.DeleteCache:
		return "DatabaseGone"
	}
	return ""
}

func doneEvent(action cache.Action) Event {
	update, _ := action.Do.(cache.Update)
	return Event{
		Warning: update.Repair, Reason: doneReason(action.Do), Action: action.Verb(),
		Note: strings.TrimSpace(action.Kind+" "+action.Name) + ": " + action.Why,
	}
}

// turns are the conditions worth an event when they change.
func turns(before, after v1alpha1.GeoCacheStatus) []Event {
	var told []Event
	for _, typ := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionDegraded, v1alpha1.ConditionReady} {
		now, was := condition.Find(after.Conditions, typ), condition.Find(before.Conditions, typ)
		lasts := was != nil && now != nil && was.Status == now.Status && was.Reason == now.Reason
		if now != nil && now.Status == "True" && !lasts {
			told = append(told, Event{
				Warning: typ != v1alpha1.ConditionReady, Reason: now.Reason, Action: typ, Note: now.Message,
			})
		}
	}
	return told
}
