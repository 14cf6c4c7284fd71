package storage

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/wire"
)

// Guard puts the finalizer on before anything is made that must be undone: the lease, and claims that go with the
// database. Whoever guards a database puts the name of the installation onto it.
func Guard(d *draft.Draft) {
	stamped := d.Installation == "" || d.StampedBy == d.Installation
	if d.Guarded && stamped {
		return
	}
	d.Change(database.Action{
		Do: database.Guard{}, Name: d.Name, Why: "finalizer added, so that lease and claims are cleaned up",
	})
}

// FinishDeletion deletes what the spec does not keep, lets the lease go, and leaves everything else to the garbage
// collector. The word that counts is the one that the spec has now: it may be changed until the last moment. A database
// that leaves its children behind keeps all of its claims.
func FinishDeletion(d *draft.Draft) {
	if !d.Deleting {
		return
	}
	d.Ended = true
	if !d.Guarded {
		return
	}
	waiting := false
	for _, claim := range d.UnwantedClaims(d.Instances...) {
		waiting = true
		d.Do(database.Action{
			Do: database.DeleteClaim{}, Kind: database.KindClaim, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Why: "the database is deleted and spec.storage.reclaim is Delete",
		})
	}
	noting := noteParting(d)
	leased := d.Lease.Guarded && d.Lease.Foreign == ""
	if leased && !noting && !waiting { // A claim may be kept after all, and needs its note then.
		d.Do(database.Action{
			Do: database.FreeLease{}, Kind: database.KindLease, Name: database.LeaseName(d.Name),
			UID: d.Lease.UID, ResourceVersion: d.Lease.ResourceVersion, Why: "the database is deleted",
		})
	}
	switch {
	case noting:
		d.Hold(database.Progressing, time.Second, "NotingParting",
			"the claims that stay get a note of what a database needs to adopt them")
	case waiting:
		d.Hold(database.Progressing, time.Second, "DeletingClaims", "the claims of the database are deleted")
	case leased:
		d.Hold(database.Progressing, time.Second, "FreeingLease", "the finalizer of the lease is removed")
	default:
		d.Do(database.Action{Do: database.Release{}, Name: d.Name, Why: "nothing is left to clean up"})
	}
}

// noteParting writes onto the claims that a deleted database keeps what it takes to come back. It reports whether there
// is anything left to write: the lease stays until then.
func noteParting(d *draft.Draft) bool {
	design := d.Plan.Design
	lease, before := agreedBy(d)
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
	unwanted := d.UnwantedClaims(d.Instances...)
	left := false
	for _, name := range parting.Instances {
		instance, _ := d.Instance(name)
		for _, claim := range d.Claims(instance) {
			going := slices.ContainsFunc(unwanted, func(one database.ClaimOf) bool { return one.Name == claim.Name })
			if claim.Claim == nil || claim.Deleting || going || claim.Parting.Equal(parting) {
				continue
			}
			left = true
			d.Do(database.Action{
				Do: database.NoteParting{Parting: parting}, Kind: database.KindClaim, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion,
				Why: "the database is deleted, and another one may take it over",
			})
		}
	}
	return left
}

// agreedBy is the lease by which the agents agree, or did before it was lost, and those that were lost before it.
func agreedBy(d *draft.Draft) (lease string, before []string) {
	settings := d.Settings
	switch {
	case settings.LeaseUID == "" && d.Lease.Empty(): // The garbage collector may have taken the settings first.
		return d.Lease.Succeeds, d.Lease.LostBefore
	case d.LeaseReplaced():
		return d.Lease.UID, wire.LostBefore(d.Lease.UID, settings.LostBefore, d.Lease.Before)
	}
	return d.Plan.Design.LeaseUID, d.Plan.Design.LostBefore
}
