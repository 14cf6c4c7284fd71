package storage

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// AdoptKept takes over the volumes of an earlier database of the same name, by the word of the spec. Each claim is
// given to this database, with the UID by which the data knows it; then it is a database whose settings and lease are
// lost, and it comes back as one: the settings from what was noted when it was deleted, the lease by the agents, all of
// whom have to answer (docs/adr/0020-volumes-that-were-kept.md).
func AdoptKept(d *draft.Draft) {
	wanted := d.Spec.Storage.Adopt
	if wanted == "" || d.Invalid {
		return
	}
	found, begun := claimsToAdopt(d.Snapshot), d.Settings.UID != "" || d.Lease.UID != "" && d.Lease.Foreign == ""
	switch {
	case len(found) == 0 && (d.Origin != "" || d.UID == wanted):
		// It was done.
	case begun && (len(found) == 0 || found[0].Origin != d.Origin):
		d.Hold(database.Degraded, 0, "AdoptTooLate", fmt.Sprintf(
			"spec.storage.adopt names %s, but this database has begun with other volumes; remove the field, or delete the "+
				"database and make it again with the field from the start", wanted))
	case len(found) == 0:
		d.Ended = true
		d.Hold(database.Stalled, draft.Later, "NothingToAdopt", fmt.Sprintf(
			"spec.storage.adopt names %s, and there is no claim with the label %s=%s that such a database has left with a note "+
				"when it was deleted; correct the field, or remove it", wanted, database.LabelDatabase, d.Name))
	case misfit(d.Snapshot, found) != "":
		d.Ended = !begun
		d.Hold(database.Stalled, 0, "InvalidSpec", misfit(d.Snapshot, found))
	default:
		takeOver(d, found)
		d.Ended = !begun // One that was not seen before is no reason to stop.
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
func takeOver(d *draft.Draft, claims []database.Kept) {
	message := "the volumes of the database " + claims[0].Origin + " are taken over"
	gone := slices.IndexFunc(claims, func(claim database.Kept) bool { return claim.Deleting })
	if gone >= 0 {
		message += "; the claim " + claims[gone].Name + " is being deleted, and is waited for: see which pod uses it"
	}
	d.Hold(database.Progressing, draft.Soon, "AdoptingVolumes", message)
	if !d.Guarded {
		Guard(d)
		return
	}
	for _, claim := range claims {
		if claim.Deleting {
			continue
		}
		d.Change(database.Action{
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
