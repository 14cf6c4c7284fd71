package succession

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/cache"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// BeginADatabase takes the lease of a database that has never had data, makes the data, and records it. Until then
// nobody was served, so that whoever takes the lease after it may begin anew.
func BeginADatabase(d *draft.Draft) bool {
	record := d.Lease.Record
	if !d.Lease.Exists || record != nil && record.Initialised || d.Engine.Data != tenure.DataNone || d.Stopping {
		return false
	}
	if d.Policy.Initialised {
		d.Stall(wire.ReasonLeaseLost, "the database has had data, and its lease knows of none")
		return true
	}
	turn := slices.Index(d.Policy.Instances, d.Name)
	if why := beginsLater(d, turn); why != "" {
		d.Wait(wire.ReasonBeginning, why)
		return true
	}
	if d.Lease.Holder == d.Self() && d.Self().Incarnation != "" && record != nil {
		makeTheFirstCopy(d, *record)
		return true
	}
	if !d.Expired() || d.Recently(d.Lease.Changed, time.Duration(turn)*draft.FirstTurn) {
		d.Obey("another instance begins", d.Idle())
		d.Wait(wire.ReasonBeginning, "another instance holds the lease, or goes first, and makes the first copy")
		d.Again(d.Lease.Changed.Add(d.Lasts()).Since(d.Now))
		return true
	}
	if d.Lease.Read == 0 || d.Lease.Holder != (wire.Member{}) && d.Lease.Read.Since(d.Lease.Changed) < d.Lasts() {
		if d.Reading == nil {
			d.ReadLease("tenure.elect-only-after-the-end: a consistent read must return the same version")
		}
		d.Wait(wire.ReasonBeginning, "the lease is read once more before this instance makes the first copy")
		return true
	}
	if cache.LooksForTerms(d) || cache.AsksWhoKnowsOfThem(d) {
		return true
	}
	if d.Stored.Incarnation == "" {
		d.Store("tenure.count-only-the-own-copy: "+
			"the first copy has its id before it is made", func(stored *tenure.Stored) {
			stored.Incarnation = d.Fresh
			stored.LeaseUID = d.Lease.UID
		})
	}
	d.WriteLease(tenure.WriteBegin, "the database has no data yet", d.Self(), d.FirstRecord(d.Self()))
	d.Wait(wire.ReasonBeginning, "this instance takes the lease, and makes the first copy then")
	return true
}

// beginsLater says why this instance does nothing for the first copy now, empty if it may.
func beginsLater(d *draft.Draft, turn int) string {
	switch {
	case turn < 0:
		return "another instance begins: this one is not among those that are wanted"
	case d.Write != nil:
		return "the lease is being written for the first copy"
	case d.Lease.Stale > 0:
		return "the lease has changed, and is read before anything else is done"
	}
	return ""
}

func makeTheFirstCopy(d *draft.Draft, record wire.LeaseRecord) {
	if term, may := d.MayLead(); !may || term != d.Lease.Term {
		d.Wait(wire.ReasonBeginning, "the lease is renewed before the first copy is made")
		return
	}
	if d.Engine.SystemIdentifier == "" || d.Engine.Incarnation != d.Stored.Incarnation {
		d.Obey("the first holder makes the first copy", tenure.Standing{
			Role: tenure.RoleBegin, Term: d.Lease.Term, Timeline: record.Timeline, Incarnation: d.Stored.Incarnation,
		})
		d.Wait(wire.ReasonBeginning, "this instance makes the first copy")
		return
	}
	record.Initialised, record.SystemIdentifier = true, d.Engine.SystemIdentifier
	// One that was restored goes on above the timelines of what it comes from.
	record.Timeline = max(record.Timeline, d.Engine.First)
	d.WriteLease(tenure.WriteRecord, "the first copy is complete", d.Self(), record)
	d.Wait(wire.ReasonBeginning, "the first copy is complete, and is being recorded")
}
