package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/wire"
)

// growClaims raises the size of claims. It stands before everything else: a full volume is often why everything else is
// broken.
func growClaims(d *draft) {
	for _, log := range []bool{false, true} {
		if !design.SizeCounts(d.Snapshot, log) {
			continue
		}
		for _, wanted := range d.plan.Design.Instances {
			instance, _ := d.Instance(wanted.Name)
			for _, claim := range d.Claims(instance) {
				if size, found := d.plan.Design.ClaimSize(claim.Name); found && claim.Log == log && claim.Claim != nil {
					d.growClaim(claim, size)
				}
			}
		}
	}
}

func (d *draft) growClaim(claim database.ClaimOf, size resource.Quantity) {
	switch {
	case claim.Deleting || size.Cmp(claim.Requested) <= 0:
	case claim.Expansion == database.Fixed:
		d.hold(database.Stalled, 0, "ClassCannotExpand", fmt.Sprintf(
			"%s asks for %s, but the storage class %s of the claim %s cannot expand volumes; "+
				"allow expansion in the class, or set the size back to %s",
			d.whoAsks(claim), size.String(), claim.Class, claim.Name, claim.Requested.String()))
	case !claim.Bound:
		d.hold(database.Progressing, 0, "ClaimPending", fmt.Sprintf(
			"the claim %s grows to %s as soon as it has a volume", claim.Name, size.String()))
	default:
		d.upkeep(database.Action{
			Do: database.Grow{}, Kind: database.KindClaim, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Why: fmt.Sprintf("from %s to %s", claim.Requested.String(), size.String()) + d.whyGrown(claim),
		})
	}
}

// tellDeletedClaims asks for help while there is still something to help: a deleted claim lives as long as a pod uses
// it, and the data goes when that pod does.
func tellDeletedClaims(d *draft) {
	for _, instance := range d.Instances {
		for _, claim := range d.Claims(instance) {
			if d.Record.Initialised && claim.Claim != nil && claim.Deleting && d.lastCopy(instance.Name) {
				d.hold(database.Stalled, 0, "VolumeDeleting", fmt.Sprintf(
					"the claim %s was deleted, and its data goes as soon as the pod %s ends: do not stop this pod; copy the "+
						"data elsewhere, or set the reclaim policy of its volume to Retain, before anything else",
					claim.Name, database.PodName(instance.Name)))
			}
		}
	}
}

// lastCopy says that no other instance is known to be well and to have the data.
func (d *draft) lastCopy(instance string) bool {
	return d.healthy(without(d.plan.Design.Names(), instance)) == 0
}

// writeClaims makes claims for new data and keeps labels right. Sizes are not its business.
func writeClaims(d *draft) {
	for _, wanted := range d.plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		instance.Name = wanted.Name
		for _, claim := range d.Claims(instance) {
			if child, found := d.Child(database.KindClaim, claim.Name); found {
				d.writeClaim(wanted.Name, claim, child)
			}
		}
	}
}

func (d *draft) writeClaim(instance string, claim database.ClaimOf, child database.Child) {
	size, _ := d.plan.Design.ClaimSize(claim.Name)
	switch {
	case child.State == database.Absent && !d.Guarded:
		// Nobody collects a claim. It is made for a database that cannot go without our hand, and for no other.
	case child.State == database.Absent && d.Record.Initialised && !fresh(d.Snapshot, instance):
		// An empty volume in its place would look like a database that has lost everything.
		if d.lastCopy(instance) {
			d.hold(database.Stalled, 0, "VolumeLost", fmt.Sprintf(
				"the claim %s is gone and the database had data on it; restore it under this name and hand it over: %s",
				claim.Name, d.handOver(claim.Name)))
		} else {
			d.hold(database.Degraded, 0, "VolumeLost",
				"the claim "+claim.Name+" is gone, and another instance takes its place")
		}
	case claim.Claim != nil && claim.Deleting && d.Record.Initialised:
		// tellDeletedClaims has spoken: it will not be made again.
	case claim.Claim != nil && size.Cmp(claim.Requested) > 0:
		// growClaims has spoken, and the rest of the claim is written together with its size.
	default:
		writeChild(d, child, d.change)
	}
}

// unlabelClaims takes the label app.kubernetes.io/instance away from claims of ours that earlier versions have made,
// also from those that no instance has any more, and while changes are stopped: the data on them is at stake.
func unlabelClaims(d *draft) {
	for _, instance := range d.Instances {
		for _, claim := range d.Claims(instance) {
			if claim.Claim == nil || !claim.Prunable || claim.Deleting || d.writes(database.KindClaim, claim.Name) {
				continue
			}
			d.do(database.Action{
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

// waitForVolumes says how far a growth has come.
func waitForVolumes(d *draft) {
	for _, instance := range d.Instances {
		for _, claim := range d.Claims(instance) {
			if claim.Claim != nil && claim.Bound {
				d.waitForVolume(claim)
			}
		}
	}
}

func (d *draft) waitForVolume(claim database.ClaimOf) {
	if claim.Message != "" && (claim.Resize == database.ResizeRunning || claim.Resize == database.ResizeFileSystem) {
		d.hold(database.Degraded, later, "VolumeResizeFailed", fmt.Sprintf(
			"the volume of %s has not grown to %s, and that is tried again: %s", claim.Name, claim.Requested.String(),
			claim.Message))
		return
	}
	switch claim.Resize {
	case database.ResizeFailed:
		d.hold(database.Stalled, 0, "VolumeResizeFailed", fmt.Sprintf(
			"the volume of %s cannot grow to %s: %s", claim.Name, claim.Requested.String(), claim.Message))
	case database.ResizeFileSystem:
		d.hold(database.Progressing, 0, "VolumeGrowing", fmt.Sprintf(
			"the file system of %s grows to %s while its pod runs", claim.Name, claim.Requested.String()))
	case database.ResizeRunning:
		d.hold(database.Progressing, 0, "VolumeGrowing", fmt.Sprintf(
			"the volume of %s grows to %s", claim.Name, claim.Requested.String()))
	}
}

// guard puts the finalizer on before anything is made that must be undone: the lease, and claims that go with the
// database. Whoever guards a database puts the name of the installation onto it.
func guard(d *draft) {
	stamped := d.Installation == "" || d.StampedBy == d.Installation
	if d.Guarded && stamped {
		return
	}
	d.change(database.Action{
		Do: database.Guard{}, Name: d.Name, Why: "finalizer added, so that lease and claims are cleaned up",
	})
}

// finishDeletion deletes what the spec does not keep, lets the lease go, and leaves everything else to the garbage
// collector. The word that counts is the one that the spec has now: it may be changed until the last moment. A database
// that leaves its children behind keeps all of its claims.
func finishDeletion(d *draft) {
	if !d.Deleting {
		return
	}
	d.ended = true
	if !d.Guarded {
		return
	}
	waiting := false
	for _, claim := range d.unwantedClaims(d.Instances...) {
		waiting = true
		d.do(database.Action{
			Do: database.DeleteClaim{}, Kind: database.KindClaim, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Why: "the database is deleted and spec.storage.reclaim is Delete",
		})
	}
	noting := noteParting(d)
	leased := d.Lease.Guarded && d.Lease.Foreign == ""
	if leased && !noting && !waiting { // A claim may be kept after all, and needs its note then.
		d.do(database.Action{
			Do: database.FreeLease{}, Kind: database.KindLease, Name: database.LeaseName(d.Name),
			UID: d.Lease.UID, ResourceVersion: d.Lease.ResourceVersion, Why: "the database is deleted",
		})
	}
	switch {
	case noting:
		d.hold(database.Progressing, time.Second, "NotingParting",
			"the claims that are kept learn what it takes to come back")
	case waiting:
		d.hold(database.Progressing, time.Second, "DeletingClaims", "the claims of the database are deleted")
	case leased:
		d.hold(database.Progressing, time.Second, "FreeingLease", "the lease of the database is let go")
	default:
		d.do(database.Action{Do: database.Release{}, Name: d.Name, Why: "nothing is left to be undone"})
	}
}

// unwantedClaims are those of these instances that the spec does not keep, and that are not being deleted yet.
func (d *draft) unwantedClaims(instances ...database.Instance) []database.ClaimOf {
	if d.Orphaning || d.Spec.Storage.Reclaim != v1alpha1.ReclaimDelete {
		return nil
	}
	var claims []database.ClaimOf
	for _, instance := range instances {
		for _, claim := range d.Claims(instance) {
			if claim.Claim != nil && !claim.Deleting {
				claims = append(claims, claim)
			}
		}
	}
	return claims
}

// warnFrom is how full a volume is, in percent, when a user is warned, if no spec.storage.autoGrow says it.
const warnFrom = 80

// warnOfFilling tells, before writes are refused, which volumes fill, and whether something is done about it. It is no
// hold: nothing waits for it.
func warnOfFilling(d *draft) {
	from, auto := warnFrom, d.Spec.Storage.AutoGrow
	if auto != nil && auto.AtPercent > 0 {
		from = int(auto.AtPercent)
	}
	growth := d.plan.Design.Growth
	for _, wanted := range d.plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		use, log := design.Use(instance), design.LogUse(instance)
		if log >= warnFrom {
			d.plan.Warnings = append(d.plan.Warnings, database.Warning{Name: "VolumeFilling", Message: fmt.Sprintf(
				"the volume of the log of %s is %d%% full; raise spec.storage.walSize", wanted.Name, log)})
		}
		if use < from {
			continue
		}
		warning := database.Warning{Name: "VolumeFilling"}
		switch {
		case auto == nil:
			warning.Message = fmt.Sprintf("the volume of %s is %d%% full; raise spec.storage.size, or let it grow by itself "+
				"with spec.storage.autoGrow", wanted.Name, use)
		case growth.Why != "" || growth.Moving:
			warning.Message = fmt.Sprintf("the volume of %s is %d%% full and grows to %s by itself", wanted.Name, use,
				growth.Size.String())
		case growth.Limited || growth.Size.Cmp(auto.Limit) >= 0:
			warning.Name = "GrowthLimitReached"
			warning.Message = fmt.Sprintf("the volume of %s is %d%% full and has grown to spec.storage.autoGrow.limit, %s; "+
				"raise the limit, or remove data", wanted.Name, use, auto.Limit.String())
		default:
			warning.Message = fmt.Sprintf("the volume of %s is %d%% full", wanted.Name, use)
		}
		d.plan.Warnings = append(d.plan.Warnings, warning)
	}
}

// whoAsks names the field that the size of a claim comes from.
func (d *draft) whoAsks(claim database.ClaimOf) string {
	if claim.Log {
		return "spec.storage.walSize"
	}
	if d.plan.Design.Growth.Size.Cmp(d.Spec.Storage.Size) > 0 {
		return "spec.storage.autoGrow"
	}
	return "spec.storage.size"
}

// whyGrown is what a step is for, in words that follow those of its size.
func (d *draft) whyGrown(claim database.ClaimOf) string {
	if why := d.plan.Design.Growth.Why; why != "" && !claim.Log {
		return ": " + why
	}
	return ""
}

// adoptKept takes over the volumes of an earlier database of the same name, by the word of the spec. Each claim is
// given to this database, with the UID by which the data knows it; then it is a database whose settings and lease are
// lost, and it comes back as one: the settings from what was noted when it was deleted, the lease by the agents, all of
// whom have to answer (docs/adr/0020-volumes-that-were-kept.md).
func adoptKept(d *draft) {
	wanted := d.Spec.Storage.Adopt
	if wanted == "" || d.invalid {
		return
	}
	found, begun := claimsToAdopt(d.Snapshot), d.Settings.UID != "" || d.Lease.UID != "" && d.Lease.Foreign == ""
	switch {
	case len(found) == 0 && (d.Origin != "" || d.UID == wanted):
		// It was done.
	case begun && (len(found) == 0 || found[0].Origin != d.Origin):
		d.hold(database.Degraded, 0, "AdoptTooLate", fmt.Sprintf(
			"spec.storage.adopt names %s, but this database has begun with other volumes; remove the field, or delete the "+
				"database and make it again with the field from the start", wanted))
	case len(found) == 0:
		d.ended = true
		d.hold(database.Stalled, later, "NothingToAdopt", fmt.Sprintf(
			"spec.storage.adopt names %s, and there is no claim with the label %s=%s that such a database has left with a note "+
				"when it was deleted; correct the field, or remove it", wanted, database.LabelDatabase, d.Name))
	case misfit(d.Snapshot, found) != "":
		d.ended = !begun
		d.hold(database.Stalled, 0, "InvalidSpec", misfit(d.Snapshot, found))
	default:
		d.takeOver(found)
		d.ended = !begun // One that was not seen before is no reason to stop.
	}
}

// misfit says which field of the spec does not fit the volumes that are to be taken over, empty if all do.
func misfit(s database.Snapshot, claims []database.Kept) string {
	logs := slices.ContainsFunc(claims, func(claim database.Kept) bool {
		_, log := database.ClaimOwner(claim.Name)
		return log
	}) || slices.ContainsFunc(s.Instances, func(instance database.Instance) bool { return instance.LogClaim != nil })
	switch wanted := s.Spec.Storage; {
	case logs && wanted.WALSize == nil:
		return "spec.storage.walSize: the volumes to take over have logs on volumes of their own; make the database again " +
			"with the size of these"
	case !logs && wanted.WALSize != nil:
		return "spec.storage.walSize: the volumes to take over have their logs beside the data; make the database again " +
			"without the field"
	}
	for _, claim := range claims {
		if wanted := s.Spec.Storage.Class; wanted != "" && claim.Class != wanted {
			return fmt.Sprintf("spec.storage.class: the volumes to take over are in the class %s; make the database again "+
				"without the field", claim.Class)
		}
	}
	return ""
}

// takeOver gives the claims to this database, which is guarded first: nobody else collects them.
func (d *draft) takeOver(claims []database.Kept) {
	message := "the volumes of the database " + claims[0].Origin + " are taken over"
	gone := slices.IndexFunc(claims, func(claim database.Kept) bool { return claim.Deleting })
	if gone >= 0 {
		message += "; the claim " + claims[gone].Name + " is being deleted, and is waited for: see which pod uses it"
	}
	d.hold(database.Progressing, soon, "AdoptingVolumes", message)
	if !d.Guarded {
		guard(d)
		return
	}
	for _, claim := range claims {
		if claim.Deleting {
			continue
		}
		d.change(database.Action{
			Do: database.AdoptClaim{Owner: claim.Owner, Origin: claim.Origin}, Kind: database.KindClaim, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Why: "spec.storage.adopt names the database that has left it",
		})
	}
}

// claimsToAdopt are the claims that the spec has this database take over: all that have the data of the one that it
// names, also those that an interrupted return has given to yet another one. One of them must bear the note of the
// parting.
func claimsToAdopt(s database.Snapshot) []database.Kept {
	origin := s.Origin
	for _, claim := range s.Kept {
		named := claim.Owner == s.Spec.Storage.Adopt || claim.Origin == s.Spec.Storage.Adopt
		if origin == "" && named && claim.Parting != nil {
			origin = claim.Origin
		}
	}
	var found []database.Kept
	for _, claim := range s.Kept {
		if origin != "" && claim.Origin == origin {
			found = append(found, claim)
		}
	}
	return found
}

// noteParting writes onto the claims that a deleted database keeps what it takes to come back. It reports whether there
// is anything left to write: the lease stays until then.
func noteParting(d *draft) bool {
	design := d.plan.Design
	lease, before := d.agreedBy()
	if !d.Record.Initialised || lease == "" || d.Lease.Problem != "" {
		return false // What the agents agree by is not known.
	}
	parting := &database.Parting{
		DatabaseUID: d.DataUID(), LeaseUID: lease, LostBefore: before, Instances: design.Names(),
	}
	for _, member := range d.Lease.Members {
		if !slices.Contains(parting.Instances, member.Name) {
			parting.Instances = append(parting.Instances, member.Name)
		}
	}
	unwanted := d.unwantedClaims(d.Instances...)
	left := false
	for _, name := range parting.Instances {
		instance, _ := d.Instance(name)
		for _, claim := range d.Claims(instance) {
			going := slices.ContainsFunc(unwanted, func(one database.ClaimOf) bool { return one.Name == claim.Name })
			if claim.Claim == nil || claim.Deleting || going || claim.Parting.Equal(parting) {
				continue
			}
			left = true
			d.do(database.Action{
				Do: database.NoteParting{Parting: parting}, Kind: database.KindClaim, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
				Why: "the database is deleted, and another one may take it over",
			})
		}
	}
	return left
}

// agreedBy is the lease by which the agents agree, or did before it was lost, and those that were lost before it.
func (d *draft) agreedBy() (lease string, before []string) {
	settings := d.Settings
	switch {
	case settings.LeaseUID == "" && d.Lease.Empty(): // The garbage collector may have taken the settings first.
		return d.Lease.Succeeds, d.Lease.LostBefore
	case d.LeaseReplaced():
		return d.Lease.UID, wire.LostBefore(d.Lease.UID, settings.LostBefore, d.Lease.Before)
	}
	return d.plan.Design.LeaseUID, d.plan.Design.LostBefore
}
