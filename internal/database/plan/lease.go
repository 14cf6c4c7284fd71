package plan

import (
	"fmt"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// makeLease makes the lease of a new database. In the place of one that is lost it makes an empty one that says which
// it succeeds: what the old one held is known to the agents alone, and only they decide what is written into the new
// one. A lease that is there, whichever it is, is never touched.
func makeLease(d *draft) {
	lease, name := d.Lease, database.LeaseName(d.Name)
	switch {
	case lease.Foreign != "":
		// stopAtForeign has spoken.
	case d.LeaseLost():
		replaceLease(d)
	case lease.UID == "":
		d.change(database.Action{
			Do: database.CreateLease{}, Kind: database.KindLease, Name: name, Why: "the agents agree on the primary by it",
		})
	case lease.Problem != "":
		d.hold(database.Stalled, 0, "RecordUnclear", fmt.Sprintf(
			"the record on the Lease %s cannot be read: %s", name, lease.Problem))
	case lease.Deleting:
		d.hold(database.Degraded, 0, "LeaseDeleting", fmt.Sprintf(
			"the Lease %s was deleted, and stays only because of its finalizer %s: leave that where it is",
			name, database.LeaseFinalizer))
	}
}

// replaceLease goes on while changes are stopped: without a lease nobody can become the primary.
func replaceLease(d *draft) {
	lease, lost, name := d.Lease, d.Settings.LeaseUID, database.LeaseName(d.Name)
	adopted := d.LeaseReplaced()
	switch {
	case lost == "" && d.plan.Design.Parting != nil:
		d.hold(database.Progressing, soon, "AdoptingVolumes", "the settings come back from what was noted on the claims")
	case lost == "":
		d.hold(database.Stalled, 0, "LeaseLost", fmt.Sprintf(
			"there is data, and neither the Lease %s nor the settings that name it are there; bring the ConfigMap %s back",
			name, database.SettingsName(d.Name)))
	case lease.UID == "":
		d.hold(database.Stalled, soon, "LeaseLost", "the Lease "+name+" is gone, and a new one is made for the agents")
		d.do(database.Action{
			Do: database.CreateLease{Succeeds: lost, Before: d.Settings.LostBefore}, Kind: database.KindLease, Name: name,
			Why: "the one by which the agents agree is gone, and they need a new one",
		})
	case adopted && d.Settings.UID != "" && !d.Settings.Deleting &&
		!d.writes(database.KindSettings, database.SettingsName(d.Name)):
		d.do(database.Action{
			Do: database.AdoptLease{Lease: lease.UID}, Kind: database.KindSettings, Name: database.SettingsName(d.Name),
			UID: d.Settings.UID, ResourceVersion: d.Settings.ResourceVersion,
			Why: "the agents have taken the new lease over",
		})
	case lease.Succeeds == lost || adopted:
		d.hold(database.Stalled, soon, "LeaseLost", fmt.Sprintf(
			"the agents have not agreed on the new Lease %s yet; without a primary every copy has to answer", name))
	default:
		d.hold(database.Stalled, soon, "LeaseLost", fmt.Sprintf(
			"the Lease %s is not the one that was made, and the agents do not trust it; delete it, with its finalizers, as the "+
				"runbook page LeaseLost says, to have a new one made for them", name))
	}
}

// waitForPrimary names what stands between the lease and an accepted write.
func waitForPrimary(d *draft) {
	lease := d.Lease
	holder, _ := d.Instance(lease.Holder)
	switch {
	case d.Spec.Hibernated:
	case !lease.Copy.Initialised || d.LeaseLost() || lease.Problem != "":
		// The instances, or a human, are waited for.
	case lease.Holder == "":
		d.hold(database.Progressing, atOnce, "NoPrimary", "nobody holds the lease, and the agents agree on a primary")
	case lease.Expired:
		d.hold(database.Progressing, atOnce, "LeaseExpired",
			lease.Holder+" has not renewed its lease, and the agents agree on another primary")
	case holder.Report.Reachable && holder.Report.Full && holder.Report.Role == string(wire.RolePrimary):
		// It takes no writes because its volume is full, as it says itself: waitForReport has told it.
	case !d.Serves(holder):
		d.hold(database.Progressing, atOnce, "NotOpenYet", lease.Holder+" holds the lease and does not accept writes yet")
	case d.Route.Target != lease.Holder || d.Route.Term != lease.Term:
		d.hold(database.Progressing, atOnce, "NotRoutedYet", "the write address does not lead to "+lease.Holder+" yet")
	}
}

// tellPods has the kubelets of agents that have older settings look for the new ones. An agent that has them already,
// or is not up yet, needs no word.
func tellPods(d *draft) {
	settings := d.Settings
	if settings.Hash == "" || d.writes(database.KindSettings, database.SettingsName(d.Name)) {
		return
	}
	for _, instance := range d.Instances {
		pod, report := instance.Pod, instance.Report
		if pod == nil || pod.Deleting || !report.Reachable ||
			d.writes(database.KindPod, database.PodName(instance.Name)) {
			continue
		}
		tell, why := database.TellPod{}, ""
		if d.hasOldSecrets(instance) {
			tell.Secrets, why = d.secretsTold(), "its agent has not got the latest certificates or credentials yet"
		}
		if report.SettingsHash != settings.Hash && pod.Settings != settings.Hash {
			tell.Hash, why = settings.Hash, "its agent has not got the latest settings yet"
		}
		if tell != (database.TellPod{}) {
			d.do(database.Action{
				Do: tell, Kind: database.KindPod, Name: database.PodName(instance.Name),
				UID: pod.UID, ResourceVersion: pod.ResourceVersion, Why: why,
			})
		}
	}
}

// tellShortage says what a database that has data lacks: copies, or the durability that was asked for.
func tellShortage(d *draft) {
	if !d.Lease.Copy.Initialised || d.Spec.Hibernated {
		return
	}
	missing, weaker, remark := "CopiesMissing", "DurabilityReduced", ""
	if d.grows() {
		missing, weaker, remark = database.ReasonBeingMade, database.ReasonBeingMade, "; the others are being made"
	}
	wanted := int(max(d.Spec.Instances, 1))
	if well := d.healthy(d.plan.Design.Names()); well < wanted {
		d.hold(database.Degraded, 0, missing, fmt.Sprintf(
			"%d of %d instances are in the write quorum and healthy", well, wanted)+remark)
	}
	if weakened(d.Snapshot) {
		d.hold(database.Degraded, 0, weaker,
			"an acknowledged write is on one instance only until a replica is back"+remark)
	}
}

// grows says that nothing is missing but what never was there: the database is new, every copy that is counted on is
// well, and the others are on their way. That is how each of them begins.
func (d *draft) grows() bool {
	if !d.Young {
		return false
	}
	var members []string
	for _, member := range d.Lease.Members {
		members = append(members, member.Name)
	}
	if len(members) == 0 || d.healthy(members) < len(members) {
		return false
	}
	for _, wanted := range d.plan.Design.Instances {
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
