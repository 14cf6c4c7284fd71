package plan

import (
	"fmt"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// makeLease makes the lease of a new database. In the place of one that is lost it makes an empty one that says which
// it succeeds: what the old one held is known to the agents alone, and only they decide what is written into the new
// one. A lease that is there, whichever it is, is never touched.
func makeLease(d *draft.Draft) {
	lease, name := d.Lease, database.LeaseName(d.Name)
	switch {
	case lease.Foreign != "":
		// stopAtForeign has spoken.
	case d.LeaseLost():
		replaceLease(d)
	case lease.UID == "":
		d.Change(database.Action{
			Do: database.CreateLease{}, Kind: database.KindLease, Name: name, Why: "the agents agree on the primary by it",
		})
	case lease.Problem != "":
		d.Hold(database.Stalled, 0, "RecordUnclear", fmt.Sprintf(
			"the record on the Lease %s cannot be read: %s", name, lease.Problem))
	case lease.Deleting:
		d.Hold(database.Degraded, 0, "LeaseDeleting", fmt.Sprintf(
			"the Lease %s was deleted, and stays only because of its finalizer %s: leave that where it is",
			name, database.LeaseFinalizer))
	}
}

// replaceLease goes on while changes are stopped: without a lease nobody can become the primary.
func replaceLease(d *draft.Draft) {
	lease, lost, name := d.Lease, d.Settings.LeaseUID, database.LeaseName(d.Name)
	adopted := d.LeaseReplaced()
	switch {
	case lost == "" && d.Plan.Design.Parting != nil:
		d.Hold(database.Progressing, draft.Soon, "AdoptingVolumes",
			"the settings come back from what was noted on the claims")
	case lost == "":
		d.Hold(database.Stalled, 0, "LeaseLost", fmt.Sprintf(
			"there is data, and neither the Lease %s nor the settings that name it are there; bring the ConfigMap %s back",
			name, database.SettingsName(d.Name)))
	case lease.UID == "":
		d.Hold(database.Stalled, draft.Soon, "LeaseLost", "the Lease "+name+" is gone, and a new one is made for the agents")
		d.Do(database.Action{
			Do: database.CreateLease{Succeeds: lost, Before: d.Settings.LostBefore}, Kind: database.KindLease, Name: name,
			Why: "the one by which the agents agree is gone, and they need a new one",
		})
	case adopted && d.Settings.UID != "" && !d.Settings.Deleting &&
		!d.Writes(database.KindSettings, database.SettingsName(d.Name)):
		d.Do(database.Action{
			Do: database.AdoptLease{Lease: lease.UID}, Kind: database.KindSettings, Name: database.SettingsName(d.Name),
			UID: d.Settings.UID, ResourceVersion: d.Settings.ResourceVersion,
			Why: "the agents have taken the new lease over",
		})
	case lease.Succeeds == lost || adopted:
		d.Hold(database.Stalled, draft.Soon, "LeaseLost", fmt.Sprintf(
			"the agents have not agreed on the new Lease %s yet; without a primary every copy has to answer", name))
	default:
		d.Hold(database.Stalled, draft.Soon, "LeaseLost", fmt.Sprintf(
			"the Lease %s is not the one that was made, and the agents do not trust it; delete it, with its finalizers, as the "+
				"runbook page LeaseLost says, to have a new one made for them", name))
	}
}

// waitForPrimary names what stands between the lease and an accepted write.
func waitForPrimary(d *draft.Draft) {
	lease := d.Lease
	holder, _ := d.Instance(lease.Holder)
	switch {
	case d.Spec.Hibernated:
	case !lease.Copy.Initialised || d.LeaseLost() || lease.Problem != "":
		// The instances, or a human, are waited for.
	case lease.Holder == "":
		d.Hold(database.Progressing, draft.AtOnce, "NoPrimary", "nobody holds the lease, and the agents agree on a primary")
	case lease.Expired:
		d.Hold(database.Progressing, draft.AtOnce, "LeaseExpired",
			lease.Holder+" has not renewed its lease, and the agents agree on another primary")
	case holder.Report.Reachable && holder.Report.Full && holder.Report.Role == string(wire.RolePrimary):
		// It takes no writes because its volume is full, as it says itself: waitForReport has told it.
	case !d.Serves(holder):
		d.Hold(database.Progressing, draft.AtOnce, "NotOpenYet",
			lease.Holder+" holds the lease and does not accept writes yet")
	case d.Route.Target != lease.Holder || d.Route.Term != lease.Term:
		d.Hold(database.Progressing, draft.AtOnce, "NotRoutedYet", "the write address does not lead to "+lease.Holder+" yet")
	}
}

// tellShortage says what a database that has data lacks: copies, or the durability that was asked for.
func tellShortage(d *draft.Draft) {
	if !d.Lease.Copy.Initialised || d.Spec.Hibernated {
		return
	}
	missing, weaker, remark := "CopiesMissing", "DurabilityReduced", ""
	if grows(d) {
		missing, weaker, remark = database.ReasonBeingMade, database.ReasonBeingMade, "; the others are being made"
	}
	wanted := int(max(d.Spec.Instances, 1))
	if well := d.CountHealthy(d.Plan.Design.Names()); well < wanted {
		d.Hold(database.Degraded, 0, missing, fmt.Sprintf(
			"%d of %d instances are in the write quorum and healthy", well, wanted)+remark)
	}
	if weakened(d.Snapshot) {
		d.Hold(database.Degraded, 0, weaker,
			"an acknowledged write is on one instance only until a replica is back"+remark)
	}
}

// grows says that nothing is missing but what never was there: the database is new, every copy that is counted on is
// well, and the others are on their way. That is how each of them begins.
func grows(d *draft.Draft) bool {
	if !d.Young {
		return false
	}
	var members []string
	for _, member := range d.Lease.Members {
		members = append(members, member.Name)
	}
	if len(members) == 0 || d.CountHealthy(members) < len(members) {
		return false
	}
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		if !d.Lease.HasMember(wanted.Name) && instance.Broken() != "" {
			return false
		}
	}
	return true
}

// weakened says that an acknowledged write is worth less than was asked for.
func weakened(s database.Snapshot) bool {
	return render.Durability(s.Spec) != v1alpha1.DurabilityAsync && s.Lease.W == 1
}
