package backup

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// failuresToMove is how often a base backup fails on an instance before another one is asked.
const failuresToMove = 3

// KeepAccess copies credentials and keys of repositories into the Secrets that are mounted. The one that a database
// begins with is emptied when it has begun.
func KeepAccess(d *draft.Draft) {
	for _, one := range []struct {
		name   string
		access database.Access
		do     database.StoreAccess
	}{
		{database.AccessName(d.Name), d.Backup.Access, database.StoreAccess{}},
		{database.SourceName(d.Name), d.Backup.Source, database.StoreAccess{Begin: true}},
	} {
		access := one.access
		if !access.Stale || access.Missing != "" || access.Foreign != "" || access.Deleting {
			continue
		}
		add := d.Change
		if !one.do.Begin && access.Exists && usesSameRepository(d) && !d.Invalid {
			add = d.Do // Credentials are replaced because the old ones end, also while changes are stopped.
		}
		add(database.Action{
			Do: one.do, Kind: database.KindSecret, Name: one.name, UID: access.UID, ResourceVersion: access.ResourceVersion,
			Why: "credentials and keys of the repository have changed",
		})
	}
}

// usesSameRepository says that the agents are told of the repository that the spec names.
func usesSameRepository(d *draft.Draft) bool {
	return d.Spec.Backup != nil && d.Backup.Settings != nil &&
		reflect.DeepEqual(d.Backup.Settings.Repository, render.Repository(d.Spec.Backup.Repository))
}

// Begin holds a database back that shall begin with a repository, while it is not known with which: the
// agents begin an empty one without a word.
func Begin(d *draft.Draft) {
	if d.Record.Initialised || !render.Begins(d.Spec) {
		return
	}
	switch {
	case d.Backup.Begin == nil:
		d.Hold(database.Stalled, draft.Later, "CloneSourceMissing",
			cmp.Or(d.Backup.BeginProblem, "the source is not known"))
		d.Stopped = true
	case d.Backup.Source.Missing != "":
		d.Hold(database.Stalled, draft.Later, "SourceSecretMissing", d.Backup.Source.Missing)
	}
}

// MakeBase asks for the next base backup, one at a time: the first one at once, then by the schedule, by request, and
// after a gap in the log. What is asked for stays asked for until it is there; whoever was asked starts over by itself.
func MakeBase(d *draft.Draft) {
	backup, settings := d.Backup.Settings, d.Settings
	if d.Spec.Backup == nil || d.Invalid || d.Spec.Hibernated || backup == nil || settings.UID == "" ||
		settings.Deleting ||
		d.Writes(database.KindSettings, database.SettingsName(d.Name)) {
		return
	}
	wish, now, why := wishedBase(d)
	if wish == "" {
		return
	}
	present := wire.BaseWanted{}
	if backup.Base != nil {
		present = *backup.Base
	}
	asked := ""
	if present.ID == wish {
		asked = present.Instance
	} else if d.Rolls() {
		return // Whoever makes it would be restarted in the middle of it.
	}
	maker := baseMaker(d, wish, asked)
	if maker == "" || present == (wire.BaseWanted{ID: wish, Instance: maker}) && (now == "" || now == d.Backup.Now) {
		return
	}
	d.Change(database.Action{
		Do:   database.WantBase{ID: wish, Instance: maker, Now: now},
		Kind: database.KindSettings, Name: database.SettingsName(d.Name),
		UID: settings.UID, ResourceVersion: settings.ResourceVersion,
		Why: maker + " makes a base backup: " + why,
	})
}

// wishedBase is the base backup that is to be made now, empty if none is, or if nobody knows what there is.
func wishedBase(d *draft.Draft) (wish, now, why string) {
	catalogue, backup := d.Catalogue(), d.Spec.Backup
	if catalogue == nil || catalogue.Reason != "" && !slices.Contains(unhindered, catalogue.Reason) {
		return "", "", ""
	}
	token := backup.Now
	if makesBase(d) {
		return d.Backup.Settings.Base.ID, "", "the one that was asked for is not there yet"
	}
	stamp := d.Now.UTC().Format("20060102T150405Z")
	newest := newestBackup(catalogue)
	schedule, problem := admit.Schedule(*backup)
	due := schedule.Last(d.Now)
	switch {
	case token != "" && token != d.Backup.Now:
		return "now-" + design.Shortened(token), token, fmt.Sprintf("spec.backup.now is %s", token)
	case catalogue.BackupCount == 0:
		return "first-" + stamp, "", "there is none yet"
	case catalogue.Reason == wire.BackupLogGap && newest.Before(catalogue.Since):
		return "gap-" + stamp, "", "the log has a gap since the last one"
	case problem == nil && !due.IsZero() && newest.Before(due):
		return "due-" + due.UTC().Format("20060102T150405Z"), "", "it is due since " + due.UTC().Format(time.RFC3339)
	}
	return "", "", ""
}

// makesBase says that an instance was asked for a base backup that is not there yet.
func makesBase(d *draft.Draft) bool {
	settings := d.Backup.Settings
	return settings != nil && settings.Base != nil && !d.BaseDone(settings.Base.ID)
}

// unhindered are the reasons with which a base backup is still of use.
var unhindered = []wire.BackupReason{
	wire.BackupLogGap, wire.BackupFirstPending, wire.BackupShippingBehind, wire.BackupFailed,
}

func newestBackup(catalogue *wire.BackupReport) time.Time {
	var newest time.Time
	for _, one := range catalogue.Backups {
		if one.At.After(newest) {
			newest = one.At
		}
	}
	return newest
}

// baseMaker chooses who makes a base backup: whoever was asked, as long as it can; then the replica that lacks least;
// then the primary. Empty: nobody can now.
func baseMaker(d *draft.Draft, wish, asked string) string {
	fits := func(instance database.Instance) bool {
		pod := instance.Pod
		return d.Plan.Design.Wants(instance.Name) && pod != nil && !pod.Deleting && instance.Report.Reachable &&
			(d.Streams(instance) || d.Serves(instance))
	}
	tries := func(instance database.Instance) int {
		if told := instance.Report.Backup; told != nil && told.Base != nil && told.Base.For == wish {
			return told.Base.Failures
		}
		return 0
	}
	if instance, found := d.Instance(asked); found && d.Plan.Design.Wants(asked) && instance.Pod != nil {
		away := !instance.Report.Reachable && (instance.Pod.UnreadySince.IsZero() ||
			d.Now.Sub(instance.Pod.UnreadySince) < awayForBase)
		if away || fits(instance) && tries(instance) < failuresToMove {
			return asked
		}
	}
	candidates := slices.DeleteFunc(slices.Clone(d.Instances), func(instance database.Instance) bool {
		return !fits(instance) || instance.Name == d.Turn
	})
	if len(candidates) == 0 {
		return ""
	}
	slices.SortStableFunc(candidates, func(a, b database.Instance) int {
		leads := func(one database.Instance) int {
			if one.Name == d.Lease.Holder {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(tries(a)/failuresToMove, tries(b)/failuresToMove), cmp.Compare(leads(a), leads(b)),
			cmp.Compare(a.Report.LagBytes>>24, b.Report.LagBytes>>24), cmp.Compare(a.Serial, b.Serial))
	})
	return candidates[0].Name
}

// awayForBase is how long an instance may be away that was asked for a base backup.
const awayForBase = time.Minute
