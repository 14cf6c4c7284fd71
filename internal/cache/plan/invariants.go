package plan

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
)

// judged is what an action is judged by: what was observed, the plan that it is a part of, and what comes before it.
type judged struct {
	cache.Snapshot
	plan   cache.Plan
	before []cache.Action
}

// invariants are written from what must never happen, not from the rules. They see a plan as a stranger would.
var invariants = []rule.Invariant[judged, cache.Action]{
	never("cache.build-nothing-for-a-deleted-cache", buildsNothingForTheDead,
		"nothing is written for a cache that is being deleted", "GC1"),
	never("cache.write-nothing-invalid", touchesNothingInvalid,
		"nothing that comes from an invalid spec is written", "GC2"),
	never("cache.respect-the-pause", respectsPause, "while the cache is paused nothing but safety is written", "GC3"),
	never("cache.touch-nothing-foreign", touchesNothingForeign, "an object of another owner is never touched", "GC4"),
	never("cache.replace-no-authority", replacesNoAuthority,
		"no new authority takes the place of one that is trusted", "GC5"),
	never("cache.create-credentials-once", makesCredentialsOnce,
		"credentials are made once, and replaced only when every instance accepts the next ones", "GC6"),
	never("cache.never-shrink-below-usage", neverShrinksBelowUsage,
		"no container gets smaller than what its server takes", "GC7"),
	never("cache.delete-only-stuck-pods", deletesOnlyStuckPods, "a pod in which a server may run is not deleted", "GC8"),
	never("cache.write-conditionally", isConditional,
		"a write names the version that it was decided on, a create names none", "GC9"),
	never("cache.create-the-lease-once", makesTheLeaseOnce,
		"a lease that an agent has obeyed is never made again, nor another one named to it", "GC10"),
	never("cache.remove-no-primary", removesNoPrimary,
		"neither the primary nor an instance that could become it is taken away", "GC11"),
	never("cache.restart-beside-a-copy", restartsBesideACopy,
		"a pod is restarted only while another instance leads or has everything", "GC13"),
	never("cache.end-after-the-database", endsAfterItsDatabase,
		"a cache is deleted only if its spec says so, when its database does not exist", "GC14"),
	never("cache.flush-only-when-asked", emptiesOnlyWhenAsked,
		"a cache is emptied only when somebody asks, and by its primary", "GC12"),
	rule.Never("cache.keep-to-the-lease", namesAnotherLease,
		"the settings name another lease only when no instance knows the one before", "GC10"),
	rule.Never("cache.write-once", repeats, "the second write of an object was decided on a state that the first one ends",
		"GC9"),
}

func never(
	id string, holds func(cache.Snapshot, cache.Action) bool, why string, was ...string,
) rule.Invariant[judged, cache.Action] {
	return rule.Never(id, func(by judged, action cache.Action) string {
		if holds(by.Snapshot, action) {
			return ""
		}
		return describeBroken(action, why)
	}, why, was...)
}

func describeBroken(action cache.Action, why string) string {
	return fmt.Sprintf("%s %s %s: %s", action.Verb(), action.Kind, action.Name, why)
}

// Check says which invariants the plan would break. It is asked before every write.
func Check(snapshot cache.Snapshot, plan cache.Plan) []rule.Violation {
	var violations []rule.Violation
	for index, action := range plan.Actions {
		violations = append(violations, rule.Check(invariants, judged{snapshot, plan, plan.Actions[:index]}, action)...)
	}
	return violations
}

func namesAnotherLease(by judged, action cache.Action) string {
	if action.Kind != cache.KindSettings || keepsToItsLease(by.Snapshot, by.plan.Design.LeaseUID) {
		return ""
	}
	return describeBroken(action, "the settings name another lease only when no instance knows the one before")
}

func repeats(by judged, action cache.Action) string {
	if !slices.ContainsFunc(by.before, func(earlier cache.Action) bool {
		return earlier.Kind == action.Kind && earlier.Name == action.Name
	}) {
		return ""
	}
	return describeBroken(action, "an object is written once in a plan")
}

func buildsNothingForTheDead(s cache.Snapshot, _ cache.Action) bool { return !s.Deleting }

// touchesNothingInvalid lists what does not come from the spec.
func touchesNothingInvalid(s cache.Snapshot, action cache.Action) bool {
	if len(Problems(s)) == 0 {
		return true
	}
	switch action.Do.(type) {
	case cache.StoreCertificates:
		return s.Certificates.Leaf.Exists
	case cache.Create, cache.Update:
		switch action.Kind {
		case cache.KindService, cache.KindSlice, cache.KindAccount, cache.KindRole, cache.KindRoleBinding, cache.KindBudget,
			cache.KindPolicy:
			return len(s.Instances) > 0
		}
		return false
	case cache.TellPod, cache.EndFlush:
		return true
	default:
		return false
	}
}

func respectsPause(s cache.Snapshot, action cache.Action) bool {
	return !s.Spec.Paused || cache.Does[cache.EndFlush](action) ||
		cache.Does[cache.StoreCertificates](action) && s.Certificates.Leaf.Exists
}

func touchesNothingForeign(s cache.Snapshot, action cache.Action) bool {
	child, found := s.Child(action.Kind, action.Name)
	if found && (child.State == cache.Foreign || child.State == cache.Unreadable) {
		return false
	}
	switch action.Do.(type) {
	case cache.CreateBinding, cache.MovePassword:
		return s.Binding.Foreign == ""
	case cache.BeginPassword:
		return s.Binding.Foreign == "" && s.Certificates.Leaf.Foreign == ""
	case cache.StoreCertificates:
		return s.Certificates.Authority.Foreign == "" && s.Certificates.Leaf.Foreign == "" && s.Certificates.Problem == ""
	default:
		return true
	}
}

func replacesNoAuthority(s cache.Snapshot, action cache.Action) bool {
	trusted := s.Certificates.Leaf.Exists || s.Binding.Exists
	return !cache.Does[cache.StoreCertificates](action) || s.Certificates.Authorities > 0 || !trusted
}

func makesCredentialsOnce(s cache.Snapshot, action cache.Action) bool {
	if action.Kind != cache.KindSecret || action.Name != cache.AppSecretName(s.Name) {
		return true
	}
	move, moves := action.Do.(cache.MovePassword)
	if !moves {
		return cache.Does[cache.CreateBinding](action) && !s.Binding.Exists
	}
	return s.Binding.Exists && s.Rotation.UnderWay() && move.Number == s.Rotation.Number &&
		!slices.ContainsFunc(s.Instances, func(instance cache.Instance) bool {
			return instance.Pod != nil && instance.Pod.Ready && !instance.Pod.Deleting &&
				instance.Report.Rotation != move.Number
		})
}

// neverShrinksBelowUsage looks for the pod by its UID. A container that gets smaller must carry what its server may
// keep, by the server's own word, and what it takes now.
func neverShrinksBelowUsage(s cache.Snapshot, action cache.Action) bool {
	resize, resizes := action.Do.(cache.ResizePod)
	if !resizes {
		return true
	}
	for _, instance := range s.Instances {
		if instance.Pod == nil || instance.Pod.UID != action.UID {
			continue
		}
		report := instance.Report
		grows := resize.Bytes >= instance.Pod.Limit
		return resize.Bytes > 0 && (grows || report.Reachable && report.Allowed > 0 &&
			wire.CacheLimit(report.Allowed) <= resize.Bytes && report.Resident < resize.Bytes)
	}
	return false
}

func deletesOnlyStuckPods(s cache.Snapshot, action cache.Action) bool {
	if !cache.Does[cache.DeletePod](action) {
		return true
	}
	return slices.ContainsFunc(s.Instances, func(instance cache.Instance) bool {
		pod := instance.Pod
		return pod != nil && pod.UID == action.UID && pod.Stuck != "" && !pod.Ready
	})
}

func isConditional(_ cache.Snapshot, action cache.Action) bool {
	switch do := action.Do.(type) {
	case cache.Update, cache.ResizePod, cache.DeletePod, cache.RestartPod, cache.DeleteSet, cache.TellPod,
		cache.BeginPassword, cache.MovePassword:
		return action.UID != "" && action.ResourceVersion != ""
	case cache.Create, cache.CreateBinding, cache.CreateLease:
		return action.UID == "" && action.ResourceVersion == ""
	case cache.AskFlush:
		return action.UID != "" && do.Request != ""
	case cache.DeleteCache:
		return action.UID != "" && do.Database != ""
	case cache.StoreCertificates, cache.EndFlush, cache.FollowDatabase:
		// The first takes both forms; the others are about the GeoCache itself, which act reads live.
		return true
	}
	return false
}

func makesTheLeaseOnce(s cache.Snapshot, action cache.Action) bool {
	return !cache.Does[cache.CreateLease](action) || s.Lease.UID == "" && (s.Stored.LeaseUID == "" || nobodyRemembers(s))
}

func keepsToItsLease(s cache.Snapshot, named string) bool {
	return s.Stored.LeaseUID == "" || named == s.Stored.LeaseUID ||
		named == s.Lease.UID && s.Lease.Foreign == "" && nobodyRemembers(s)
}

// nobodyRemembers says that every agent has said so itself: it sees that the lease is lost, and has never obeyed one.
func nobodyRemembers(s cache.Snapshot) bool {
	return len(s.Instances) > 0 && !slices.ContainsFunc(s.Instances, func(instance cache.Instance) bool {
		report := instance.Report
		return instance.Pod == nil || !report.Reachable || report.Reason != string(wire.ReasonLeaseLost) ||
			report.Term > 0 || report.Serving || report.Streams
	})
}

func endsAfterItsDatabase(s cache.Snapshot, action cache.Action) bool {
	end, ends := action.Do.(cache.DeleteCache)
	return !ends ||
		s.Spec.FollowDatabase && !s.Database.Exists && action.UID == s.UID && end.Database == s.Spec.DatabaseRef.Name
}

// removesNoPrimary goes by what the agents have agreed on. While the database sleeps nobody needs the cache.
func removesNoPrimary(s cache.Snapshot, action cache.Action) bool {
	if !cache.Does[cache.DeleteSet](action) {
		return true
	}
	if s.Spec.FollowDatabase && s.Database.Hibernated {
		return action.Name != s.Lease.Holder || len(s.Instances) == 1
	}
	return s.Lease.Holder != "" && action.Name != s.Lease.Holder && !slices.Contains(s.Lease.Members, action.Name)
}

func emptiesOnlyWhenAsked(s cache.Snapshot, action cache.Action) bool {
	ask, asks := action.Do.(cache.AskFlush)
	return !asks || s.Flush != "" && ask.Request == s.Flush && action.Name == s.Lease.Holder
}

func restartsBesideACopy(s cache.Snapshot, action cache.Action) bool {
	if !cache.Does[cache.RestartPod](action) {
		return true
	}
	return slices.ContainsFunc(s.Instances, func(other cache.Instance) bool {
		whole := other.Name == s.Lease.Holder || other.Report.Streams && slices.Contains(s.Lease.Members, other.Name)
		return other.Pod != nil && other.Pod.UID != action.UID && other.Pod.Ready && other.Report.Reachable && whole
	})
}
