package storage

import (
	"fmt"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// TellDeletedClaims asks for help while there is still something to help: a deleted claim lives as long as a pod uses
// it, and the data goes when that pod does.
func TellDeletedClaims(d *draft.Draft) {
	for _, instance := range d.Instances {
		for _, claim := range d.Claims(instance) {
			if d.Record.Initialised && claim.Claim != nil && claim.Deleting && lastCopy(d, instance.Name) {
				d.Hold(database.Stalled, 0, "VolumeDeleting", fmt.Sprintf(
					"the claim %s was deleted, and its data goes as soon as the pod %s ends: do not stop this pod; copy the "+
						"data elsewhere, or set the reclaim policy of its volume to Retain, before anything else",
					claim.Name, database.PodName(instance.Name)))
			}
		}
	}
}

// lastCopy says that no other instance is known to be well and to have the data.
func lastCopy(d *draft.Draft, instance string) bool {
	return d.CountHealthy(draft.Without(d.Plan.Design.Names(), instance)) == 0
}

// WriteClaims makes claims for new data and keeps labels right. Sizes are not its business.
func WriteClaims(d *draft.Draft) {
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		instance.Name = wanted.Name
		for _, claim := range d.Claims(instance) {
			if child, found := d.Child(database.KindClaim, claim.Name); found {
				writeClaim(d, wanted.Name, claim, child)
			}
		}
	}
}

func writeClaim(d *draft.Draft, instance string, claim database.ClaimOf, child database.Child) {
	size, _ := d.Plan.Design.ClaimSize(claim.Name)
	switch {
	case child.State == database.Absent && !d.Guarded:
		// Nobody collects a claim. It is made for a database that cannot go without our hand, and for no other.
	case child.State == database.Absent && d.Record.Initialised && !fresh(d.Snapshot, instance):
		// An empty volume in its place would look like a database that has lost everything.
		if lastCopy(d, instance) {
			d.Hold(database.Stalled, 0, "VolumeLost", fmt.Sprintf(
				"the claim %s is gone and the database had data on it; restore it under this name and hand it over: %s",
				claim.Name, d.HandOver(claim.Name)))
		} else {
			d.Hold(database.Degraded, 0, "VolumeLost",
				"the claim "+claim.Name+" is gone, and another instance takes its place")
		}
	case claim.Claim != nil && claim.Deleting && d.Record.Initialised:
		// TellDeletedClaims has spoken: it will not be made again.
	case claim.Claim != nil && size.Cmp(claim.Requested) > 0:
		// GrowClaims has spoken, and the rest of the claim is written together with its size.
	default:
		d.WriteChild(child, d.Change)
	}
}

// UnlabelClaims takes the label app.kubernetes.io/instance away from claims of ours that earlier versions have made,
// also from those that no instance has any more, and while changes are stopped: the data on them is at stake.
func UnlabelClaims(d *draft.Draft) {
	for _, instance := range d.Instances {
		for _, claim := range d.Claims(instance) {
			if claim.Claim == nil || !claim.Prunable || claim.Deleting || d.Writes(database.KindClaim, claim.Name) {
				continue
			}
			d.Do(database.Action{
				Do: database.UnlabelClaim{}, Kind: database.KindClaim, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
				Why: "with the label " + database.LabelAppOf + " and without an owner, Argo CD may prune it",
			})
		}
	}
}

// fresh says that an instance has never had a copy that anything counts on, while others have: its volume may be made,
// empty, and is filled from them.
func fresh(s database.Snapshot, instance string) bool {
	return !s.LeaseLost() && s.Lease.Problem == "" && s.Lease.Copy.Initialised && s.Lease.Holder != instance &&
		!s.Lease.HasMember(instance)
}
