package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/kit/quorum"
)

// changeRoster brings the instances that shall have a copy to the number that the spec asks for, and takes a new one in
// for one that is lost. Only the list in the settings changes here: children follow it, and members too.
func changeRoster(d *draft.Draft) {
	settings := d.Settings
	if settings.UID == "" || settings.Deleting || settings.Problem != "" || len(settings.Instances) == 0 ||
		d.LeaseLost() || d.Lease.Problem != "" || d.Spec.Hibernated ||
		d.Writes(database.KindSettings, database.SettingsName(d.Name)) {
		return
	}
	roster, wanted := settings.Instances, int(max(d.Spec.Instances, 1))
	gone := lostOf(d, roster)
	switch {
	case len(roster) < wanted:
		setInstances(d, with(d, roster, wanted-len(roster)), fmt.Sprintf("spec.instances is %d", wanted))
	case len(roster)-len(gone) < wanted:
		replaceLost(d, roster, gone, wanted-len(roster)+len(gone))
	case len(roster) > wanted:
		shrink(d, roster, gone, wanted)
	}
}

func setInstances(d *draft.Draft, names []string, why string) {
	d.Change(database.Action{
		Do: database.SetInstances{Instances: names}, Kind: database.KindSettings, Name: database.SettingsName(d.Name),
		UID: d.Settings.UID, ResourceVersion: d.Settings.ResourceVersion, Why: why,
	})
}

// with adds new instances. Their numbers were never used: a claim that was kept is never taken for a new one.
func with(d *draft.Draft, roster []string, count int) []string {
	highest := 0
	note := func(name string) {
		if serial, known := database.SerialOf(d.Name, name); known {
			highest = max(highest, serial)
		}
	}
	for _, name := range roster {
		note(name)
	}
	for _, instance := range d.Instances {
		note(instance.Name)
	}
	for _, member := range d.Lease.Members {
		note(member.Name)
	}
	names := slices.Clone(roster)
	for serial := highest + 1; serial <= highest+count; serial++ {
		names = append(names, database.InstanceName(d.Name, serial))
	}
	return names
}

// lostOf are the instances that will not come back by themselves.
func lostOf(d *draft.Draft, roster []string) []string {
	var names []string
	for _, name := range roster {
		if instance, _ := d.Instance(name); lost(d, instance, name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// lost says why an instance will not come back by itself, empty if it may.
func lost(d *draft.Draft, instance database.Instance, name string) string {
	node, absence := instance.Node, instance.Absence(d.LostAfter)
	switch {
	case !d.Lease.Copy.Initialised:
		return ""
	case d.ClaimGone(instance) && d.Lease.HasMember(name):
		return "its claim is gone"
	case d.ClaimGone(instance):
		return "" // It is about to be made.
	case d.ClaimDeleting(instance):
		return "its claim is being deleted"
	case node.Gone && absence.What == "":
		return "its node is gone"
	case node.OutOfService:
		return "its node is out of service"
	case name != d.Lease.Holder && instance.Wiped():
		return "its volume has lost its data"
	case absence.Over(d.Now) && (instance.Pod.UnplacedSince.IsZero() || instance.Claim.Bound && d.Lease.HasMember(name)):
		return absence.Lost
	default:
		return ""
	}
}

// replaceLost takes new instances in. They are cloned while the lost ones are still there, and those leave when the new
// ones have a copy.
func replaceLost(d *draft.Draft, roster, gone []string, count int) {
	wanted := int(max(d.Spec.Instances, 1))
	var reasons []string
	for _, name := range gone {
		instance, _ := d.Instance(name)
		reasons = append(reasons, name+": "+lost(d, instance, name))
	}
	why := strings.Join(reasons, "; ")
	if len(gone) > wanted {
		d.Hold(database.Stalled, draft.Later, "ReplacementsLost",
			"as many instances are lost as are wanted, so no more are made: "+why)
		return
	}
	holder, _ := d.Instance(d.Lease.Holder)
	if !d.Serves(holder) {
		d.Hold(database.Progressing, draft.Later, "NoCopyToCloneFrom",
			"no primary serves from which a new instance could be cloned in place of "+why)
		return
	}
	setInstances(d, with(d, roster, count), "in place of "+why)
}

// shrink takes one instance out of the list, the one that is furthest behind, and only when the others are enough.
func shrink(d *draft.Draft, roster, gone []string, wanted int) {
	for _, member := range d.Lease.Members {
		if !slices.Contains(roster, member.Name) {
			return // removeLeaving speaks of it: one at a time.
		}
	}
	if len(d.Plan.Design.Leaving) > 0 {
		return
	}
	if !d.Lease.Copy.Initialised {
		setInstances(d, roster[:len(roster)-1], fmt.Sprintf("spec.instances is %d", wanted))
		return
	}
	holder, _ := d.Instance(d.Lease.Holder)
	if !d.Serves(holder) {
		d.Hold(database.Progressing, draft.Soon, "PrimaryUnclear", "no primary serves, so no instance is taken away")
		return
	}
	leaver, found := leaver(d, roster, gone)
	switch rest := draft.Without(roster, leaver); {
	case !found:
	case (len(gone) > 0 || !d.Lease.HasMember(leaver) && memberIsUnhealthy(d, rest)) && d.CountHealthy(rest) < wanted:
		d.Hold(database.Progressing, draft.Soon, "ReplacementJoining", fmt.Sprintf(
			"%s stays until %d other instances have a copy and are healthy", leaver, wanted))
	case leaver == d.Lease.Holder:
		d.AskToYield(holder, "it is lost: "+lost(d, holder, leaver))
	case d.CountHealthy(rest) < needed(d, len(rest)):
		d.Hold(database.Progressing, draft.Soon, "TooFewCopies", fmt.Sprintf(
			"%s is not taken away: %d copies of each write are needed, and only %d other instances are healthy",
			leaver, needed(d, len(rest)), d.CountHealthy(rest)))
	case len(gone) > 0:
		instance, _ := d.Instance(leaver)
		setInstances(d, rest, leaver+" is lost: "+lost(d, instance, leaver))
	default:
		setInstances(d, rest, fmt.Sprintf("spec.instances is %d, and %s is furthest behind", wanted, leaver))
	}
}

// needed is how many of those that stay must be well: as many as each write is kept on, or as will be, if that is
// fewer. The primary is one of them, and has everything.
func needed(d *draft.Draft, stay int) int { return min(d.Lease.W, quorum.Majority(stay)) }

// leaver chooses who leaves: a lost one, then one without a copy, then one that is not well, then the one that lacks
// most; among equals the newest. The holder only leaves if it is lost.
func leaver(d *draft.Draft, roster, gone []string) (string, bool) {
	candidates := slices.DeleteFunc(slices.Clone(roster), func(name string) bool {
		return name == d.Lease.Holder && !slices.Contains(gone, name)
	})
	if len(candidates) == 0 {
		return "", false
	}
	rank := func(name string) [4]int {
		instance, _ := d.Instance(name)
		serial, _ := database.SerialOf(d.Name, name)
		// Lags are compared in coarse steps: between two that are well, a few bytes decide nothing.
		return [4]int{
			draft.Weigh(slices.Contains(gone, name)), draft.Weigh(!d.Lease.HasMember(name)), draft.Weigh(!d.Streams(instance)),
			int(instance.Report.LagBytes>>24)*1000 + serial,
		}
	}
	slices.SortStableFunc(candidates, func(a, b string) int {
		first, second := rank(a), rank(b)
		return slices.Compare(second[:], first[:])
	})
	return candidates[0], true
}

// memberIsUnhealthy says that a member among them does not do its part: one that is being cloned may have to take its
// place, also where nobody can tell any more that the member is lost, because its pod is gone with its node.
func memberIsUnhealthy(d *draft.Draft, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		instance, _ := d.Instance(name)
		return d.Lease.HasMember(name) && !d.Healthy(instance)
	})
}

// removeLeaving takes away what is left of instances that are no longer wanted: when nothing counts on their copy, the
// claim if the spec says so, and then the StatefulSet with its pod.
func removeLeaving(d *draft.Draft) {
	for _, name := range d.Plan.Design.Leaving {
		instance, _ := d.Instance(name)
		switch {
		case d.LeaseLost() || d.Lease.Problem != "" || d.Lease.UID == "":
			return
		case d.Lease.Holder == name:
			d.AskToYield(instance, "it is no longer wanted")
		case d.Lease.HasMember(name):
			d.Hold(database.Progressing, draft.Later, "MemberLeaving",
				name+" is no longer wanted, and still in the write quorum")
		case instance.Set.Deleting:
			d.Hold(database.Progressing, 0, "InstanceLeaving", name+" is being deleted")
		case unheard(d) != "":
			d.Hold(database.Progressing, draft.Soon, "SettingsNotInForce", fmt.Sprintf(
				"%s may have settings of before, by which it would take %s into the write quorum", unheard(d), name))
		default:
			removeInstance(d, instance)
		}
	}
}

// unheard is a member that has not heard yet who shall have a copy, empty if all have that answer. The primary takes in
// whomever its own settings list, also when those are late; another member may lead next. The holder of a lease that is
// renewed leads, or will in a moment, by what is mounted there: it has to answer.
func unheard(d *draft.Draft) string {
	for _, member := range d.Lease.Members {
		instance, _ := d.Instance(member.Name)
		has := instance.Report.SettingsHash
		silent := !instance.Report.Reachable || has == ""
		leads := d.Lease.Copy.Initialised && member.Name == d.Lease.Holder && !d.Lease.Expired
		if silent && leads || !silent && has != d.Settings.Hash && !slices.Contains(d.InForce, has) {
			return member.Name
		}
	}
	return ""
}

func removeInstance(d *draft.Draft, instance database.Instance) {
	claims := d.UnwantedClaims(instance)
	if len(claims) == 0 {
		d.Change(database.Action{
			Do: database.DeleteSet{}, Kind: database.KindSet, Name: instance.Name,
			UID: instance.Set.UID, ResourceVersion: instance.Set.ResourceVersion,
			Why: "it is no longer wanted, and nothing counts on its copy",
		})
		return
	}
	holder, _ := d.Instance(d.Lease.Holder)
	if d.Lease.Copy.Initialised && !d.Serves(holder) {
		d.Hold(database.Progressing, draft.Soon, "PrimaryUnclear", "no primary serves, so no copy is deleted")
		return
	}
	for _, claim := range claims {
		d.Change(database.Action{
			Do: database.DeleteClaim{}, Kind: database.KindClaim, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Why: instance.Name + " is no longer wanted and spec.storage.reclaim is Delete",
		})
	}
}

// removeLostPods ends the wait for nodes that will never say that a pod has ended.
func removeLostPods(d *draft.Draft) {
	for _, instance := range d.Instances {
		pod := instance.Pod
		unwanted := !d.Plan.Design.Wants(instance.Name)
		if pod == nil || !pod.Deleting || !instance.Node.Gone && !instance.Node.OutOfService ||
			!unwanted && !d.ClaimStays(instance) {
			continue
		}
		d.Change(database.Action{
			Do: database.RemovePod{}, Kind: database.KindPod, Name: database.PodName(instance.Name),
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Why: "it is being deleted, and its node " + pod.Node + " is gone or out of service",
		})
	}
}

// tellLostNodes says what a lost node is waited for.
func tellLostNodes(d *draft.Draft) {
	for _, instance := range d.Instances {
		absence := instance.Absence(d.LostAfter)
		rest := absence.Since.Add(absence.Wait).Sub(d.Now)
		if absence.What != "" && rest > 0 && d.Lease.HasMember(instance.Name) && d.Plan.Design.Wants(instance.Name) {
			d.Hold(database.Degraded, max(rest, time.Second), "NodeAway", fmt.Sprintf(
				"%s; a new instance takes its place %s after that began", absence.What, absence.Wait))
		}
	}
}
