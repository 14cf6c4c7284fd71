package plan

import (
	"fmt"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// keepRecord stores the record where it is missing. That is safety: until it is stored, an empty volume would be taken
// for a new database. Copies that contradict each other are left as they are, for a human to judge.
func keepRecord(d *draft.Draft) {
	if problems := recordProblems(d.Snapshot); len(problems) > 0 {
		d.Stopped = true
		for _, problem := range problems {
			d.Hold(database.Stalled, 0, "RecordUnclear", problem)
		}
		return
	}
	if !d.Record.Initialised {
		return
	}
	if settings := d.Settings; settings.UID != "" && !settings.Deleting && !settings.Copy.Initialised {
		d.Do(database.Action{
			Do: database.StoreRecord{}, Kind: database.KindSettings, Name: database.SettingsName(d.Name),
			UID: settings.UID, ResourceVersion: settings.ResourceVersion, Why: recordText(d),
		})
	}
	for _, instance := range d.Instances {
		for _, claim := range d.Claims(instance) {
			if claim.Claim == nil || claim.Deleting || claim.Copy.Initialised || d.Writes(database.KindClaim, claim.Name) {
				continue
			}
			d.Do(database.Action{
				Do: database.StoreRecord{}, Kind: database.KindClaim, Name: claim.Name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion, Why: recordText(d),
			})
		}
	}
}

func recordText(d *draft.Draft) string {
	return "the data is that of system " + d.Record.SystemIdentifier
}

// recordProblems says why the copies of the record cannot be relied upon.
func recordProblems(snapshot database.Snapshot) []string {
	settings := "the ConfigMap " + database.SettingsName(snapshot.Name)
	if snapshot.Settings.Problem != "" {
		return []string{fmt.Sprintf("%s cannot be read: %s; bring its content back", settings, snapshot.Settings.Problem)}
	}
	type copied struct {
		place  string
		record database.Record
	}
	copies := []copied{
		{"the Lease " + database.LeaseName(snapshot.Name), snapshot.Lease.Copy}, {settings, snapshot.Settings.Copy},
	}
	for _, instance := range snapshot.Instances {
		for _, claim := range snapshot.Claims(instance) {
			if claim.Claim != nil {
				copies = append(copies, copied{"the claim " + claim.Name, claim.Copy})
			}
		}
	}
	problems := originProblems(snapshot)
	var first *copied
	for i, one := range copies {
		switch {
		case !one.record.Initialised:
		case one.record.SystemIdentifier == "":
			problems = append(problems, one.place+" says that there is data and not of which system; "+
				"write down the system identifier that pg_controldata shows")
		case first == nil:
			first = &copies[i]
		case one.record.SystemIdentifier != first.record.SystemIdentifier:
			problems = append(problems, fmt.Sprintf(
				"%s says that the data is of system %s, but %s says %s; correct the one that pg_controldata contradicts",
				first.place, first.record.SystemIdentifier, one.place, one.record.SystemIdentifier))
		}
	}
	return problems
}

// originProblems says which claims are of data that knows another database than the settings do.
func originProblems(snapshot database.Snapshot) []string {
	var problems []string
	for _, instance := range snapshot.Instances {
		for _, claim := range snapshot.Claims(instance) {
			if claim.Claim != nil && claim.Origin != "" && claim.Origin != snapshot.DataUID() {
				problems = append(problems, fmt.Sprintf(
					"the claim %s says that its data is of the database %s, but it is %s; correct the annotation %s, or take the "+
						"claim away", claim.Name, claim.Origin, snapshot.DataUID(), database.AnnotationOrigin))
			}
		}
	}
	return problems
}
