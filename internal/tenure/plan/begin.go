package plan

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// firstTurn is how long each instance lets those before it go first.
const firstTurn = 300 * time.Millisecond

// whole says that the copy here can lead or be counted under the record: it is one that served, or the first one,
// complete and recorded.
func (d *draft) whole(record wire.LeaseRecord) bool {
	if d.Engine.Data == tenure.DataNone {
		return record.Initialised && d.Engine.SystemIdentifier == record.SystemIdentifier && record.Has(d.Self())
	}
	return d.Engine.Data == tenure.DataWhole
}

// beginADatabase takes the lease of a database that has never had data, makes the data, and records it. Until then
// nobody was served, so that whoever takes the lease after it may begin anew.
func beginADatabase(d *draft) bool {
	record := d.Lease.Record
	if !d.Lease.Exists || record != nil && record.Initialised || d.Engine.Data != tenure.DataNone || d.Stopping {
		return false
	}
	if d.Policy.Initialised {
		d.stall(wire.ReasonLeaseLost, "the database has had data, and its lease knows of none")
		return true
	}
	turn := slices.Index(d.Policy.Instances, d.Name)
	if why := d.beginsLater(turn); why != "" {
		d.wait(wire.ReasonBeginning, why)
		return true
	}
	if d.Lease.Holder == d.Self() && d.Self().Incarnation != "" && record != nil {
		d.makeTheFirstCopy(*record)
		return true
	}
	if !d.expired() || d.recently(d.Lease.Changed, time.Duration(turn)*firstTurn) {
		d.obey("another instance begins", d.idle())
		d.wait(wire.ReasonBeginning, "another instance holds the lease, or goes first, and makes the first copy")
		d.again(d.Lease.Changed.Add(d.lasts()).Since(d.Now))
		return true
	}
	if d.Lease.Read == 0 || d.Lease.Holder != (wire.Member{}) && d.Lease.Read.Since(d.Lease.Changed) < d.lasts() {
		if d.Reading == nil {
			d.read("E2: a consistent read must return the same version")
		}
		d.wait(wire.ReasonBeginning, "the lease is read once more before this instance makes the first copy")
		return true
	}
	if d.looksForTerms() || d.asksWhoKnowsOfThem() {
		return true
	}
	if d.Stored.Incarnation == "" {
		d.store("I1: the first copy has its id before it is made", func(stored *tenure.Stored) {
			stored.Incarnation = d.Fresh
			stored.LeaseUID = d.Lease.UID
		})
	}
	d.write(tenure.WriteBegin, "the database has no data yet", d.Self(), d.first(d.Self()))
	d.wait(wire.ReasonBeginning, "this instance takes the lease, and makes the first copy then")
	return true
}

// beginsLater says why this instance does nothing for the first copy now, empty if it may.
func (d *draft) beginsLater(turn int) string {
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

// first is the record of a copy that is to be made. Where data may be lost there have been copies before, and a later
// one must not look older than they. Their lease may be lost as well, and another one in its place, or put back: what
// is left of their terms is the one that the write address has, which leads nowhere at a lower one.
func (d *draft) first(member wire.Member) wire.LeaseRecord {
	term, timeline := d.Lease.Term+1, 1
	if d.Policy.Volatile {
		term = max(term, d.Route.Term+1)
		if before := d.Lease.Record; before != nil {
			timeline = before.Timeline + 1
		}
	}
	return wire.LeaseRecord{
		DatabaseUID: d.DatabaseUID, Term: term, Timeline: timeline, Members: []wire.Member{member}, W: 1,
	}
}

// looksForTerms looks at the write address before a cache is begun. It reports whether that is waited for.
func (d *draft) looksForTerms() bool {
	if !d.Policy.Volatile || d.Route.Known {
		return false
	}
	d.wait(wire.ReasonRouteMissing, "the write address was not read yet, and with it which terms there have been")
	if !d.Route.Writing && !d.recently(d.Route.Tried, d.Policy.Renew/4) {
		d.do(tenure.ReadRoute{Why: "which terms there have been nobody knows but the write address"})
	}
	return true
}

// asksWhoKnowsOfThem is for a cache that was there before, as the write address says, and whose lease knows of nothing.
// If that was put back, the others know, and one of them may lead; until its own lease has ended also one that cannot
// be asked. It reports whether that is waited for.
func (d *draft) asksWhoKnowsOfThem() bool {
	if !d.Policy.Volatile || d.Route.Term == 0 {
		return false
	}
	d.askForCopies(wire.LeaseRecord{})
	if d.hearsOfALaterTerm() {
		return true
	}
	if d.heardOut(wire.LeaseRecord{}) && !d.recently(d.Lease.Changed, d.duration()) {
		return false
	}
	d.wait(wire.ReasonBeginning, "the write address tells of a term, and the others are asked whether they know of it")
	return true
}

func (d *draft) makeTheFirstCopy(record wire.LeaseRecord) {
	if term, may := d.MayLead(); !may || term != d.Lease.Term {
		d.wait(wire.ReasonBeginning, "the lease is renewed before the first copy is made")
		return
	}
	if d.Engine.SystemIdentifier == "" || d.Engine.Incarnation != d.Stored.Incarnation {
		d.obey("the first holder makes the first copy", tenure.Standing{
			Role: tenure.RoleBegin, Term: d.Lease.Term, Timeline: record.Timeline, Incarnation: d.Stored.Incarnation,
		})
		d.wait(wire.ReasonBeginning, "this instance makes the first copy")
		return
	}
	record.Initialised, record.SystemIdentifier = true, d.Engine.SystemIdentifier
	d.write(tenure.WriteRecord, "the first copy is complete", d.Self(), record)
	d.wait(wire.ReasonBeginning, "the first copy is complete, and is being recorded")
}
