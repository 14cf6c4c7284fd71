package invariant

import (
	"slices"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/design"
	"meridian.dev/meridian/internal/wire"
)

func buildsNothingForTheDead(s cache.Snapshot, _ cache.Action) bool { return !s.Deleting }

// touchesNothingInvalid lists what does not come from the spec.
func touchesNothingInvalid(s cache.Snapshot, action cache.Action) bool {
	if len(design.Problems(s)) == 0 {
		return true
	}
	switch do := action.Do.(type) {
	case cache.StoreCertificates:
		return s.Certificates.Leaf.Exists && !do.Issuer
	case cache.Create, cache.Update:
		return len(s.Instances) > 0 && slices.Contains(fixed, action.Kind)
	case cache.TellPod, cache.EndFlush, cache.PublishBundle:
		return true
	case cache.ResizePod, cache.CreateBinding, cache.BeginPassword, cache.MovePassword, cache.CreateLease,
		cache.AskFlush, cache.FollowDatabase, cache.DeletePod, cache.RestartPod, cache.DeleteSet, cache.DeleteCache:
	}
	return false
}

// fixed are the kinds of children that follow from the name of a cache and its instances, and from nothing else.
var fixed = []string{
	cache.KindService, cache.KindSlice, cache.KindAccount, cache.KindRole, cache.KindRoleBinding, cache.KindBudget,
	cache.KindPolicy,
}

func respectsPause(s cache.Snapshot, action cache.Action) bool {
	if !s.Spec.Paused {
		return true
	}
	switch do := action.Do.(type) {
	case cache.EndFlush, cache.PublishBundle:
		return true
	case cache.StoreCertificates:
		return s.Certificates.Leaf.Exists && !do.Issuer
	case cache.Create, cache.Update, cache.ResizePod, cache.CreateBinding, cache.BeginPassword, cache.MovePassword,
		cache.CreateLease, cache.TellPod, cache.AskFlush, cache.FollowDatabase, cache.DeletePod, cache.RestartPod,
		cache.DeleteSet, cache.DeleteCache:
	}
	return false
}

func touchesNothingForeign(s cache.Snapshot, action cache.Action) bool {
	if child, found := s.Child(action.Kind, action.Name); found && child.Taken() {
		return false
	}
	switch action.Do.(type) {
	case cache.CreateBinding, cache.MovePassword, cache.PublishBundle:
		return s.Binding.Foreign == ""
	case cache.BeginPassword:
		return s.Binding.Foreign == "" && s.Certificates.Leaf.Foreign == ""
	case cache.StoreCertificates:
		return s.Certificates.Authority.Foreign == "" && s.Certificates.Leaf.Foreign == "" && s.Certificates.Problem == ""
	case cache.CreateLease:
		return s.Lease.Foreign == ""
	case cache.Create, cache.Update, cache.ResizePod, cache.TellPod, cache.AskFlush, cache.EndFlush, cache.FollowDatabase,
		cache.DeletePod, cache.RestartPod, cache.DeleteSet, cache.DeleteCache:
		// Children are judged above; of instances only our own are known, and the rest is about the GeoCache itself.
	}
	return true
}

func replacesNoAuthority(s cache.Snapshot, action cache.Action) bool {
	trusted := s.Certificates.Leaf.Exists || s.Binding.Exists
	return !cache.Does[cache.StoreCertificates](action) || s.Certificates.Authorities > 0 || !trusted
}

func makesCredentialsOnce(s cache.Snapshot, action cache.Action) bool {
	if action.Kind != cache.KindSecret || action.Name != cache.AppSecretName(s.Name) {
		return true
	}
	if cache.Does[cache.PublishBundle](action) {
		return s.Binding.Exists // It leaves the credentials as they are.
	}
	move, moves := action.Do.(cache.MovePassword)
	if !moves {
		return cache.Does[cache.CreateBinding](action) && !s.Binding.Exists
	}
	return s.Binding.Exists && s.Rotation.UnderWay() && move.Number == s.Rotation.Number &&
		!slices.ContainsFunc(s.Instances, func(instance cache.Instance) bool {
			return instance.Up() && instance.Report.Rotation != move.Number
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
		cache.BeginPassword, cache.MovePassword, cache.PublishBundle:
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

func namesAnotherLease(by judged, action cache.Action) string {
	if action.Kind != cache.KindSettings || keepsToItsLease(by.Snapshot, by.plan.Design.LeaseUID) {
		return ""
	}
	return describeBroken(action, "the settings name another lease only when no instance knows the one before")
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

// changesIssuerStepByStep has those outside, and every server that they may reach, have what the step before has
// brought.
func changesIssuerStepByStep(s cache.Snapshot, action cache.Action) bool {
	store, stores := action.Do.(cache.StoreCertificates)
	if !stores || !store.Issuer {
		return true
	}
	issuing := s.Certificates.Issuing
	return issuing.Problem == "" && len(issuing.Change) > 0 && s.Certificates.Untold() == "" &&
		!slices.ContainsFunc(s.Instances, func(instance cache.Instance) bool {
			return instance.Up() && instance.Report.Certificate != s.Certificates.Identity
		})
}
