package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/quorum"
)

// changeRoster brings the instances that shall have a copy to the number that the spec asks for, and takes a new one in
// for one that is lost. Only the list in the settings changes here: children follow it, and members too.
func changeRoster(d *draft) {
	settings := d.Settings
	if settings.UID == "" || settings.Deleting || settings.Problem != "" || len(settings.Instances) == 0 ||
		d.LeaseLost() || d.Lease.Problem != "" || d.Spec.Hibernated ||
		d.writes(database.KindSettings, database.SettingsName(d.Name)) {
		return
	}
	roster, wanted := settings.Instances, int(max(d.Spec.Instances, 1))
	gone := d.lostOf(roster)
	switch {
	case len(roster) < wanted:
		d.setInstances(d.with(roster, wanted-len(roster)), fmt.Sprintf("spec.instances is %d", wanted))
	case len(roster)-len(gone) < wanted:
		replaceLost(d, roster, gone, wanted-len(roster)+len(gone))
	case len(roster) > wanted:
		shrink(d, roster, gone, wanted)
	}
}

func (d *draft) setInstances(names []string, why string) {
	d.change(database.Action{
		Do: database.SetInstances{Instances: names}, Kind: database.KindSettings, Name: database.SettingsName(d.Name),
		UID: d.Settings.UID, ResourceVersion: d.Settings.ResourceVersion, Why: why,
	})
}

// with adds new instances. Their numbers were never used: a claim that was kept is never taken for a new one.
func (d *draft) with(roster []string, count int) []string {
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
func (d *draft) lostOf(roster []string) []string {
	var names []string
	for _, name := range roster {
		if instance, _ := d.Instance(name); d.lost(instance, name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// lost says why an instance will not come back by itself, empty if it may.
func (d *draft) lost(instance database.Instance, name string) string {
	node, absence := instance.Node, instance.Absence(d.LostAfter)
	switch {
	case !d.Lease.Copy.Initialised:
		return ""
	case d.claimGone(instance) && d.Lease.HasMember(name):
		return "its claim is gone"
	case d.claimGone(instance):
		return "" // It is about to be made.
	case d.claimDeleting(instance):
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

// claimGone says that an instance lacks a claim, claimDeleting that it is about to. Data and log are one copy: without
// either, the other is worth nothing.
func (d *draft) claimGone(instance database.Instance) bool {
	return slices.ContainsFunc(d.Claims(instance), func(claim database.ClaimOf) bool { return claim.Claim == nil })
}

func (d *draft) claimDeleting(instance database.Instance) bool {
	return slices.ContainsFunc(d.Claims(instance), func(claim database.ClaimOf) bool {
		return claim.Claim != nil && claim.Deleting
	})
}

// replaceLost takes new instances in. They are cloned while the lost ones are still there, and those leave when the new
// ones have a copy.
func replaceLost(d *draft, roster, gone []string, count int) {
	wanted := int(max(d.Spec.Instances, 1))
	var reasons []string
	for _, name := range gone {
		instance, _ := d.Instance(name)
		reasons = append(reasons, name+": "+d.lost(instance, name))
	}
	why := strings.Join(reasons, "; ")
	if len(gone) > wanted {
		d.hold(database.Stalled, later, "ReplacementsLost", "as many instances are lost as are wanted, so no more are made: "+
			why)
		return
	}
	holder, _ := d.Instance(d.Lease.Holder)
	if !d.Serves(holder) {
		d.hold(database.Progressing, later, "NoCopyToCloneFrom", "no primary serves from which a new instance could be "+
			"cloned in place of "+why)
		return
	}
	d.setInstances(d.with(roster, count), "in place of "+why)
}

// shrink takes one instance out of the list, the one that is furthest behind, and only when the others are enough.
func shrink(d *draft, roster, gone []string, wanted int) {
	for _, member := range d.Lease.Members {
		if !slices.Contains(roster, member.Name) {
			return // removeLeaving speaks of it: one at a time.
		}
	}
	if len(d.plan.Design.Leaving) > 0 {
		return
	}
	if !d.Lease.Copy.Initialised {
		d.setInstances(roster[:len(roster)-1], fmt.Sprintf("spec.instances is %d", wanted))
		return
	}
	holder, _ := d.Instance(d.Lease.Holder)
	if !d.Serves(holder) {
		d.hold(database.Progressing, soon, "PrimaryUnclear", "no primary serves, so no instance is taken away")
		return
	}
	leaver, found := d.leaver(roster, gone)
	switch rest := without(roster, leaver); {
	case !found:
	case (len(gone) > 0 || !d.Lease.HasMember(leaver) && d.memberIsUnhealthy(rest)) && d.healthy(rest) < wanted:
		d.hold(database.Progressing, soon, "ReplacementJoining", fmt.Sprintf(
			"%s stays until %d other instances have a copy and are well", leaver, wanted))
	case leaver == d.Lease.Holder:
		d.askToYield(holder, "it is lost: "+d.lost(holder, leaver))
	case d.healthy(rest) < d.needed(len(rest)):
		d.hold(database.Progressing, soon, "TooFewCopies", fmt.Sprintf(
			"%s is not taken away: %d copies of each write are needed, and only %d other instances are well",
			leaver, d.needed(len(rest)), d.healthy(rest)))
	case len(gone) > 0:
		instance, _ := d.Instance(leaver)
		d.setInstances(rest, leaver+" is lost: "+d.lost(instance, leaver))
	default:
		d.setInstances(rest, fmt.Sprintf("spec.instances is %d, and %s is furthest behind", wanted, leaver))
	}
}

// needed is how many of those that stay must be well: as many as each write is kept on, or as will be, if that is
// fewer. The primary is one of them, and has everything.
func (d *draft) needed(stay int) int { return min(d.Lease.W, quorum.Majority(stay)) }

// leaver chooses who leaves: a lost one, then one without a copy, then one that is not well, then the one that lacks
// most; among equals the newest. The holder only leaves if it is lost.
func (d *draft) leaver(roster, gone []string) (string, bool) {
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
			weigh(slices.Contains(gone, name)), weigh(!d.Lease.HasMember(name)), weigh(!d.Streams(instance)),
			int(instance.Report.LagBytes>>24)*1000 + serial,
		}
	}
	slices.SortStableFunc(candidates, func(a, b string) int {
		first, second := rank(a), rank(b)
		return slices.Compare(second[:], first[:])
	})
	return candidates[0], true
}

func weigh(so bool) int {
	if so {
		return 1
	}
	return 0
}

func without(roster []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(roster), func(each string) bool { return each == name })
}

// healthy counts those that are.
func (d *draft) healthy(names []string) int {
	count := 0
	for _, name := range names {
		if instance, found := d.Instance(name); found && d.Healthy(instance) {
			count++
		}
	}
	return count
}

// memberIsUnhealthy says that a member among them does not do its part: one that is being cloned may have to take its
// place, also where nobody can tell any more that the member is lost, because its pod is gone with its node.
func (d *draft) memberIsUnhealthy(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		instance, _ := d.Instance(name)
		return d.Lease.HasMember(name) && !d.Healthy(instance)
	})
}

// removeLeaving takes away what is left of instances that are no longer wanted: when nothing counts on their copy, the
// claim if the spec says so, and then the StatefulSet with its pod.
func removeLeaving(d *draft) {
	for _, name := range d.plan.Design.Leaving {
		instance, _ := d.Instance(name)
		switch {
		case d.LeaseLost() || d.Lease.Problem != "" || d.Lease.UID == "":
			return
		case d.Lease.Holder == name:
			d.askToYield(instance, "it is no longer wanted")
		case d.Lease.HasMember(name):
			d.hold(database.Progressing, later, "MemberLeaving",
				name+" is no longer wanted, and still in the write quorum")
		case instance.Set.Deleting:
			d.hold(database.Progressing, 0, "InstanceLeaving", name+" is being deleted")
		default:
			d.removeInstance(instance)
		}
	}
}

func (d *draft) removeInstance(instance database.Instance) {
	claims := d.unwantedClaims(instance)
	if len(claims) == 0 {
		d.change(database.Action{
			Do: database.DeleteSet{}, Kind: database.KindSet, Name: instance.Name,
			UID: instance.Set.UID, ResourceVersion: instance.Set.ResourceVersion,
			Why: "it is no longer wanted, and nothing counts on its copy",
		})
		return
	}
	holder, _ := d.Instance(d.Lease.Holder)
	if d.Lease.Copy.Initialised && !d.Serves(holder) {
		d.hold(database.Progressing, soon, "PrimaryUnclear", "no primary serves, so no copy is deleted")
		return
	}
	for _, claim := range claims {
		d.change(database.Action{
			Do: database.DeleteClaim{}, Kind: database.KindClaim, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Why: instance.Name + " is no longer wanted and spec.storage.reclaim is Delete",
		})
	}
}

// removeLostPods ends the wait for nodes that will never say that a pod has ended.
func removeLostPods(d *draft) {
	for _, instance := range d.Instances {
		pod := instance.Pod
		unwanted := !d.plan.Design.Wants(instance.Name)
		if pod == nil || !pod.Deleting || !instance.Node.Gone && !instance.Node.OutOfService ||
			!unwanted && !d.claimStays(instance) {
			continue
		}
		d.change(database.Action{
			Do: database.RemovePod{}, Kind: database.KindPod, Name: database.PodName(instance.Name),
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Why: "it is being deleted, and its node " + pod.Node + " is gone or out of service",
		})
	}
}

// tellLostNodes says what a lost node is waited for.
func tellLostNodes(d *draft) {
	for _, instance := range d.Instances {
		absence := instance.Absence(d.LostAfter)
		rest := absence.Since.Add(absence.Wait).Sub(d.Now)
		if absence.What != "" && rest > 0 && d.Lease.HasMember(instance.Name) && d.plan.Design.Wants(instance.Name) {
			d.hold(database.Degraded, max(rest, time.Second), "NodeAway", fmt.Sprintf(
				"%s; a new instance takes its place %s after that began", absence.What, absence.Wait))
		}
	}
}
