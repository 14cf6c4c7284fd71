package status

import (
	"strings"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// claims states everything that is claimed about a database, anew in each pass.
func claims(pass Pass) []condition.Claim {
	stalled := stalledClaim(pass)
	progressing := progressingClaim(pass, stalled)
	degraded := degradedClaim(pass)
	serving := servingClaim(pass.Snapshot)
	return []condition.Claim{
		readyClaim(pass, serving, stalled, progressing, degraded), serving, progressing, degraded, stalled,
	}
}

// readyClaim is True only when nothing else has anything to say: whatever is wrong, Ready repeats its reason.
func readyClaim(pass Pass, serving condition.Claim, others ...condition.Claim) condition.Claim {
	for _, other := range others {
		if other.Status == "True" {
			return condition.False(v1alpha1.ConditionReady, other.Reason, other.Message)
		}
	}
	if pass.Snapshot.Deleting {
		return condition.False(v1alpha1.ConditionReady, reasonDeleting, "the database is being deleted")
	}
	if hold, found := first(pass.Plan, database.Paused); found && len(pass.Plan.Pending) > 0 {
		return condition.False(v1alpha1.ConditionReady, condition.Reason(hold.Name), hold.Message)
	}
	if serving.Status != "True" {
		return condition.False(v1alpha1.ConditionReady, serving.Reason, serving.Message)
	}
	return condition.True(v1alpha1.ConditionReady, reasonAsWished, "everything that the spec asks for is there and well")
}

// servingClaim rests on three witnesses that must agree: the lease names the holder, the write address leads to it at
// the same term, and it says itself that it lets applications in. No answer means that nobody knows.
func servingClaim(snapshot database.Snapshot) condition.Claim {
	const typ = v1alpha1.ConditionServing
	lease, route := snapshot.Lease, snapshot.Route
	holder, found := snapshot.Instance(lease.Holder)
	switch {
	case snapshot.LeaseLost():
		return condition.Unknown(typ, "LeaseLost", "the lease is not the one that the agents agree by")
	case lease.Holder == "":
		return condition.False(typ, reasonNoPrimary, "no instance holds the lease")
	case lease.Expired && found && serves(snapshot, holder):
		return condition.Unknown(typ, reasonLeaseExpired, holder.Name+" says that it accepts writes, but its lease has ended")
	case lease.Expired:
		return condition.False(typ, reasonLeaseExpired, "the lease of "+lease.Holder+" has ended, and nobody has it yet")
	case !found || holder.Pod == nil || holder.Pod.Stuck != "":
		return condition.False(typ, reasonNoPrimary, lease.Holder+" holds the lease, and no PostgreSQL runs there")
	case !holder.Report.Reachable:
		return condition.Unknown(typ, "AgentUnreachable", "the agent of "+lease.Holder+" gives no report")
	case !serves(snapshot, holder):
		return condition.False(typ, reasonNotOpen, holder.Name+" holds the lease and does not accept writes yet")
	case route.Target != holder.Name || route.Term != lease.Term:
		return condition.False(typ, reasonNotRouted, "the write address does not lead to "+holder.Name+" yet")
	}
	return condition.True(typ, reasonAccepting, holder.Name+" accepts writes")
}

// serves says that an instance is the primary at the term of the lease, by its own word.
func serves(snapshot database.Snapshot, instance database.Instance) bool {
	report := instance.Report
	return instance.Name == snapshot.Lease.Holder && !snapshot.LeaseLost() && report.Reachable &&
		report.State == string(wire.StateRunning) && report.Role == string(wire.RolePrimary) && report.Serving &&
		report.Term == snapshot.Lease.Term
}

func stalledClaim(pass Pass) condition.Claim {
	const typ = v1alpha1.ConditionStalled
	if len(pass.Violations) > 0 {
		return condition.True(typ, reasonPlanRefused, strings.Join(pass.Violations, "; "))
	}
	if hold, found := first(pass.Plan, database.Stalled); found {
		return condition.True(typ, condition.Reason(hold.Name), hold.Message)
	}
	if pass.Refused != "" {
		return condition.True(typ, reasonWriteRefused, pass.Refused)
	}
	return condition.False(typ, reasonNotStalled, "no human is needed")
}

// progressingClaim is False while stalled: tools could not tell which of the two to believe.
func progressingClaim(pass Pass, stalled condition.Claim) condition.Claim {
	const typ = v1alpha1.ConditionProgressing
	if stalled.Status == "True" {
		return condition.False(typ, stalled.Reason, stalled.Message)
	}
	if pass.Problem != "" {
		return condition.True(typ, reasonWriteFailed, "a write failed and is tried again: "+pass.Problem)
	}
	if hold, found := first(pass.Plan, database.Progressing); found {
		return condition.True(typ, condition.Reason(hold.Name), hold.Message)
	}
	for _, action := range pass.Plan.Actions {
		if visible(action, pass.Snapshot) {
			return condition.True(typ, reasonChanging, string(action.Verb)+" "+action.Name+": "+action.Why)
		}
	}
	return condition.False(typ, reasonNothingToDo, "no change is under way")
}

// visible tells changes from upkeep: a certificate that is replaced in time does not make a database less ready, nor
// does a template that only a new version of Meridian has changed.
func visible(action database.Action, snapshot database.Snapshot) bool {
	switch action.Verb {
	case database.Guard, database.Release, database.TellPod, database.StoreRecord, database.EndRequest:
		return false
	case database.Update:
		instance, _ := snapshot.Instance(action.Name)
		return action.Kind != database.KindSet || instance.Set == nil || instance.Set.Wish != render.Wish(snapshot.Spec)
	case database.StoreCertificates:
		return !snapshot.Certificates.Leaf.Exists
	default:
		return true
	}
}

func degradedClaim(pass Pass) condition.Claim {
	const typ = v1alpha1.ConditionDegraded
	if hold, found := first(pass.Plan, database.Degraded); found {
		return condition.True(typ, condition.Reason(hold.Name), hold.Message)
	}
	return condition.False(typ, reasonNothingMissing, "nothing that was promised is missing")
}

func first(plan database.Plan, weight database.Weight) (database.Hold, bool) {
	for _, hold := range plan.Holds {
		if hold.Weight == weight {
			return hold, true
		}
	}
	return database.Hold{}, false
}
