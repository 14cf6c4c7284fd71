package status

import (
	"fmt"
	"slices"
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
	all := []condition.Claim{
		readyClaim(pass, serving, stalled, progressing, degraded), serving, progressing, degraded, stalled,
	}
	if warnings := pass.Plan.Warnings; len(warnings) > 0 {
		// It warns of what is not wrong yet, so Ready does not repeat it.
		all = append(all, condition.True(v1alpha1.ConditionFilling, condition.Reason(warnings[0].Name), warnings[0].Message))
	}
	if recoverable, told := recoverableClaim(pass.Plan); told {
		all = append(all, recoverable)
	}
	return all
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
	if hold, found := pass.Plan.First(database.Paused); found && len(pass.Plan.Pending) > 0 {
		return condition.False(v1alpha1.ConditionReady, condition.Reason(hold.Name), hold.Message)
	}
	if serving.Status == "False" && serving.Reason == reasonHibernated {
		return condition.True(v1alpha1.ConditionReady, reasonHibernated, "the database sleeps, as the spec asks for")
	}
	if serving.Status != "True" {
		return condition.False(v1alpha1.ConditionReady, serving.Reason, serving.Message)
	}
	return condition.True(v1alpha1.ConditionReady, reasonAsWished, "everything that the spec asks for is there and well")
}

// servingClaim rests on witnesses that must agree: the lease names the holder, the write address leads to it at the
// same term, it says itself that it lets applications in, and enough members follow it for a write to be acknowledged.
// No answer means that nobody knows.
func servingClaim(snapshot database.Snapshot) condition.Claim {
	const typ = v1alpha1.ConditionServing
	lease, route := snapshot.Lease, snapshot.Route
	holder, found := snapshot.Instance(lease.Holder)
	switch {
	case snapshot.Spec.Hibernated && !anyPod(snapshot):
		return condition.False(typ, reasonHibernated, "the database sleeps; set spec.hibernated to false to wake it")
	case snapshot.LeaseLost():
		return servingWithoutLease(snapshot)
	case lease.Holder == "":
		return condition.False(typ, reasonNoPrimary, "no instance holds the lease")
	case !found || holder.Pod == nil || holder.Pod.Stuck != "":
		return condition.False(typ, reasonNoPrimary, lease.Holder+" holds the lease, and no PostgreSQL runs there")
	case !holder.Report.Reachable:
		return servingUnheard(snapshot)
	case holder.Report.Full && !lease.Expired && holder.Report.Role == string(wire.RolePrimary):
		// Its own word that it does not serve has this reason.
		return condition.False(typ, "VolumeFull", "the volume of "+holder.Name+" is full, and writes are refused; "+
			"raise spec.storage.size")
	case !serves(snapshot, holder) && lease.Expired:
		return condition.False(typ, reasonLeaseExpired, "the lease of "+lease.Holder+" has ended, and nobody has it yet")
	case !serves(snapshot, holder):
		return condition.False(typ, reasonNotOpen, holder.Name+" holds the lease and does not accept writes yet")
	case route.Target != holder.Name || route.Term != lease.Term:
		return condition.False(typ, reasonNotRouted, "the write address does not lead to "+holder.Name+" yet")
	}
	return servingQuorum(snapshot)
}

// servingQuorum says whether a write that reaches the primary is acknowledged: that takes W members.
func servingQuorum(snapshot database.Snapshot) condition.Claim {
	const typ = v1alpha1.ConditionServing
	lease := snapshot.Lease
	following, unheard := 1, 0
	for _, instance := range snapshot.Instances {
		switch {
		case instance.Name == lease.Holder || !lease.HasMember(instance.Name) || instance.Pod == nil:
		case !instance.Report.Reachable:
			unheard++
		case instance.Report.Streams:
			following++
		}
	}
	switch {
	case following >= lease.W:
		return condition.True(typ, reasonAccepting, lease.Holder+" accepts writes")
	case following+unheard >= lease.W:
		return condition.Unknown(typ, reasonWritesWait, fmt.Sprintf(
			"%s accepts writes, and each needs %d copies; the agents that could tell give no report", lease.Holder, lease.W))
	}
	return condition.False(typ, reasonWritesWait, fmt.Sprintf(
		"writes wait: each needs %d copies, and only %d members are there", lease.W, following))
}

// servingUnheard judges by others when the holder's own agent gives no report. A lease that is renewed, or a replica
// that still gets its log, shows that the holder is there, and not what it does.
func servingUnheard(snapshot database.Snapshot) condition.Claim {
	const typ = v1alpha1.ConditionServing
	lease := snapshot.Lease
	followed := slices.ContainsFunc(snapshot.Instances, func(instance database.Instance) bool {
		return instance.Report.Reachable && instance.Report.Streams && instance.Report.Term == lease.Term
	})
	if lease.Expired && !followed {
		return condition.False(typ, reasonLeaseExpired, "the lease of "+lease.Holder+" has ended, and nobody has it yet")
	}
	return condition.Unknown(typ, "AgentUnreachable", "the agent of "+lease.Holder+" gives no report")
}

// servingWithoutLease believes the agents alone: a holder goes on by the promises of the others.
func servingWithoutLease(snapshot database.Snapshot) condition.Claim {
	const typ = v1alpha1.ConditionServing
	if name := soleServer(snapshot); name != "" && snapshot.Route.Target == name {
		return condition.True(typ, reasonAccepting, name+" accepts writes, by the promises of the others")
	}
	return condition.Unknown(typ, "LeaseLost", "the lease is not the one that the agents agree by")
}

// soleServer is the one instance that says that it takes writes, empty if there is none or more than one.
func soleServer(snapshot database.Snapshot) string {
	var found []string
	for _, instance := range snapshot.Instances {
		report := instance.Report
		if report.Reachable && report.State == string(wire.StateRunning) && report.Role == string(wire.RolePrimary) &&
			report.Serving {
			found = append(found, instance.Name)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

func anyPod(snapshot database.Snapshot) bool {
	return slices.ContainsFunc(snapshot.Instances, func(instance database.Instance) bool { return instance.Pod != nil })
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
	if hold, found := pass.Plan.First(database.Stalled); found {
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
	if hold, found := pass.Plan.First(database.Progressing); found {
		return condition.True(typ, condition.Reason(hold.Name), hold.Message)
	}
	for _, action := range pass.Plan.Actions {
		if visible(action, pass.Snapshot) {
			return condition.True(typ, reasonChanging, action.Verb()+" "+action.Name+": "+action.Why)
		}
	}
	return condition.False(typ, reasonNothingToDo, "no change is under way")
}

// visible tells changes from upkeep: a certificate that is replaced in time does not make a database less ready, nor
// does a template that only a new version of Meridian has changed.
func visible(action database.Action, snapshot database.Snapshot) bool {
	switch action.Do.(type) {
	case database.Guard, database.Release, database.TellPod, database.StoreRecord, database.NoteParting,
		database.UnlabelClaim, database.EndRequest, database.AdoptLease, database.BindCaches, database.PublishBundle,
		database.StoreAccess, database.WantBase, database.RemoveCertificate, database.BeginTrial,
		database.NoteTrial, database.EndTrial:
		return false
	case database.Update:
		instance, _ := snapshot.Instance(action.Name)
		return action.Kind != database.KindSet || instance.Set == nil || !render.SameWish(snapshot.Spec, instance.Set.Wish)
	case database.StoreCertificates:
		return !snapshot.Certificates.Issued()
	default:
		return true
	}
}

func degradedClaim(pass Pass) condition.Claim {
	const typ = v1alpha1.ConditionDegraded
	if hold, found := pass.Plan.First(database.Degraded); found {
		return condition.True(typ, condition.Reason(hold.Name), hold.Message)
	}
	return condition.False(typ, reasonNothingMissing, "nothing that was promised is missing")
}
