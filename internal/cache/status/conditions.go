package status

import (
	"strings"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/kit/condition"
)

// claims states everything that is claimed about a cache, anew in each pass.
func claims(pass Pass) []condition.Claim {
	stalled := stalledClaim(pass)
	progressing := progressingClaim(pass, stalled)
	degraded := condition.False(v1alpha1.ConditionDegraded, reasonNothingMissing, "nothing that was promised is missing")
	if hold, found := pass.Plan.First(cache.Degraded); found {
		degraded = condition.True(v1alpha1.ConditionDegraded, condition.Reason(hold.Name), hold.Message)
	}
	serving := servingClaim(pass.Snapshot)
	return []condition.Claim{
		readyClaim(pass, serving, stalled, progressing, degraded), serving, progressing, degraded, stalled,
	}
}

// readyClaim is True only when nothing else has anything to say: whatever is wrong, Ready repeats its reason.
func readyClaim(pass Pass, serving condition.Claim, others ...condition.Claim) condition.Claim {
	const typ = v1alpha1.ConditionReady
	for _, other := range others {
		if other.Status == "True" {
			return condition.False(typ, other.Reason, other.Message)
		}
	}
	hold, paused := pass.Plan.First(cache.Paused)
	switch {
	case pass.Snapshot.Deleting:
		return condition.False(typ, reasonDeleting, "the cache is being deleted")
	case pass.Snapshot.Asleep():
		return condition.False(typ, reasonAsleep, "the database hibernates, and the cache with it")
	case paused && len(pass.Plan.Pending) > 0:
		return condition.False(typ, condition.Reason(hold.Name), hold.Message)
	case serving.Status != "True":
		return condition.False(typ, serving.Reason, serving.Message)
	}
	return condition.True(typ, reasonAsWished, "everything that the spec asks for is there and well")
}

// servingClaim rests on what the primary itself says now. No answer means that nobody knows.
func servingClaim(snapshot cache.Snapshot) condition.Claim {
	const typ = v1alpha1.ConditionServing
	holder, found := snapshot.Instance(snapshot.Lease.Holder)
	switch {
	case snapshot.Serves(holder) && holder.Runs() && snapshot.Route.Target == holder.Name:
		return condition.True(typ, reasonAccepting, holder.Name+" accepts writes")
	case snapshot.Lease.Expired && !snapshot.Serves(holder):
		return condition.False(typ, reasonNoPrimary, holder.Name+" has not renewed the lease for its whole duration")
	case found && holder.Pod != nil && holder.Pod.Ready && !holder.Report.Reachable:
		return condition.Unknown(typ, "AgentUnreachable", "the agent of "+holder.Name+" gives no report")
	}
	return condition.False(typ, reasonNoPrimary, "no instance accepts writes")
}

func stalledClaim(pass Pass) condition.Claim {
	const typ = v1alpha1.ConditionStalled
	hold, found := pass.Plan.First(cache.Stalled)
	switch {
	case len(pass.Violations) > 0:
		return condition.True(typ, reasonPlanRefused, strings.Join(pass.Violations, "; "))
	case found:
		return condition.True(typ, condition.Reason(hold.Name), hold.Message)
	case pass.Refused != "":
		return condition.True(typ, reasonWriteRefused, pass.Refused)
	}
	return condition.False(typ, reasonNotStalled, "no human is needed")
}

// progressingClaim is False while stalled: tools could not tell which of the two to believe.
func progressingClaim(pass Pass, stalled condition.Claim) condition.Claim {
	const typ = v1alpha1.ConditionProgressing
	hold, found := pass.Plan.First(cache.Progressing)
	switch {
	case stalled.Status == "True":
		return condition.False(typ, stalled.Reason, stalled.Message)
	case pass.Problem != "":
		return condition.True(typ, reasonWriteFailed, "a write failed and is tried again: "+pass.Problem)
	case found:
		return condition.True(typ, condition.Reason(hold.Name), hold.Message)
	}
	for _, action := range pass.Plan.Actions {
		if visible(action, pass.Snapshot) {
			return condition.True(typ, reasonChanging, action.Verb()+" "+action.Name+": "+action.Why)
		}
	}
	return condition.False(typ, reasonNothingToDo, "no change is under way")
}

// visible tells changes from upkeep: a certificate that is replaced in time does not make a cache less ready, nor does
// a template that only a new version of Meridian has changed.
func visible(action cache.Action, snapshot cache.Snapshot) bool {
	switch action.Do.(type) {
	case cache.StoreCertificates:
		return !snapshot.Certificates.Leaf.Exists
	case cache.TellPod, cache.EndFlush, cache.FollowDatabase, cache.PublishBundle:
		return false
	case cache.Create, cache.ResizePod, cache.CreateBinding, cache.BeginPassword, cache.MovePassword, cache.CreateLease,
		cache.AskFlush, cache.DeletePod, cache.RestartPod, cache.DeleteSet, cache.DeleteCache:
		return true
	case cache.Update:
		instance, _ := snapshot.Instance(action.Name)
		return action.Kind != cache.KindSet || instance.Set == nil || instance.Set.Wish != render.Wish(snapshot.Spec)
	}
	return true
}
