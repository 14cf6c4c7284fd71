package plan

import (
	"fmt"
	"strings"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// leaveToOthers does nothing at all for a database that another installation of Meridian works for: two that write the
// same children would undo each other's work for ever.
func leaveToOthers(d *draft.Draft) {
	if d.Elsewhere() {
		d.Ended = true
	}
}

// refuseInvalid asks the same rules that the webhook asks, because an object may have been stored while it was away.
// What comes from the spec stays as it is; what keeps a running database alive goes on.
func refuseInvalid(d *draft.Draft) {
	problems := design.Problems(d.Snapshot)
	if len(problems) == 0 {
		return
	}
	recheck := time.Duration(0)
	if d.Classes != nil {
		recheck = draft.Later // A class that appears is no event.
	}
	d.Hold(database.Stalled, recheck, "InvalidSpec", strings.Join(problems, "; "))
	d.Invalid = true
}

func stopWhilePaused(d *draft.Draft) { d.StopWhilePaused(d.Spec.Paused) }

// stopAtForeign stops changes altogether: a database that is half there under names of others would look alive.
func stopAtForeign(d *draft.Draft) {
	for _, problem := range foreign(d.Snapshot) {
		d.Hold(database.Stalled, 0, "ForeignChild", problem+
			"; delete or rename that object, or make the database under another name")
		d.Stopped = true
	}
	for _, child := range d.Children {
		if child.Kind == database.KindClaim && child.Taken() {
			d.Hold(database.Stalled, 0, "ForeignClaim", child.Problem+"; "+wayOut(d, child.Name))
			d.Stopped = true
		}
	}
}

// wayOut is what a human can do about a claim that belongs to somebody else.
func wayOut(d *draft.Draft, name string) string {
	for _, claim := range d.Kept {
		if claim.Name == name && claim.Parting != nil {
			return fmt.Sprintf("an earlier database of this name has left it: to go on with its data, set "+
				"spec.storage.adopt to %s; to begin anew, make the database under another name", claim.Owner)
		}
	}
	return fmt.Sprintf("if it is a copy of a volume of this database, hand it over: %s; the volume of an earlier "+
		"database that has left no note is not taken over, so keep it, and make the database under another name",
		d.HandOver(name))
}

// foreign lists the names that are taken by somebody else, and what cannot be read. Claims are not among them: they may
// hold the only copy of somebody's data, and nobody is told to delete one.
func foreign(snapshot database.Snapshot) []string {
	var problems []string
	for _, child := range snapshot.Children {
		if child.Kind != database.KindClaim && child.Taken() {
			problems = append(problems, child.Problem)
		}
	}
	secrets := []database.Secret{
		snapshot.Binding, snapshot.Certificates.Authority, snapshot.Backup.Access.Secret, snapshot.Backup.Source.Secret,
	}
	for _, own := range snapshot.Certificates.Own {
		if !own.Unwanted {
			secrets = append(secrets, own.Secret)
		}
	}
	if snapshot.Mounts(database.LeafName(snapshot.Name)) {
		secrets = append(secrets, snapshot.Certificates.Leaf)
	}
	for _, secret := range secrets {
		if secret.Foreign != "" {
			problems = append(problems, secret.Foreign)
		}
	}
	if snapshot.Lease.Foreign != "" {
		problems = append(problems, snapshot.Lease.Foreign)
	}
	return problems
}

// keepIdentity compares what an agent reports with what was recorded. The agent refuses such a volume by itself; this
// is the second lock on the door.
func keepIdentity(d *draft.Draft) {
	for _, instance := range d.Instances {
		reported := instance.Report.SystemIdentifier
		if d.Record.SystemIdentifier == "" || reported == "" || reported == d.Record.SystemIdentifier {
			continue
		}
		d.Stopped = true
		d.Hold(database.Stalled, 0, "IdentityMismatch", fmt.Sprintf(
			"%s has data of system %s, but this database is system %s; bring its own volume back",
			instance.Name, reported, d.Record.SystemIdentifier))
	}
}
