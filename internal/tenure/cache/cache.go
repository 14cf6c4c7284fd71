// Package cache has the rules of data that may be lost (Policy.Volatile). A server that keeps its data in memory has
// another copy, an empty one, with each start. That copy must never take the place of a full one; and when no full one
// is left, waiting for it would be waiting for ever. Start reading at BeginAnew.
package cache

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// SurrenderALostCopy is for a holder whose server has ended and has taken the data with it. Nobody has to wait for the
// end of the lease: this instance knows that nothing acknowledges in its name any more.
func SurrenderALostCopy(d *draft.Draft) bool {
	lost := wire.Member{Name: d.Name, Incarnation: d.Engine.Lost}
	if !d.Policy.Volatile || lost.Incarnation == "" {
		return false
	}
	if d.Stored.Incarnation == lost.Incarnation {
		d.Store("tenure.count-only-the-own-copy: "+
			"the id of a copy that is gone is never used again", func(stored *tenure.Stored) {
			stored.Incarnation = ""
		})
	}
	// A lease that has changed is read first: otherwise the same write would be in conflict again and again.
	if !d.Lease.Exists || d.Lease.Record == nil || d.Lease.Holder != lost || d.Write != nil || d.Engine.Processes ||
		d.Lease.Stale > 0 || d.Lease.Failing != nil && d.Recently(d.Tried, d.Policy.Renew/4) {
		return false
	}
	d.WriteLease(tenure.WriteRelease, "tenure.release-without-a-copy: "+
		"the copy that led is gone", wire.Member{}, *d.Lease.Record)
	d.Wait(wire.ReasonElection, "the copy that led is gone, and the lease is given back for another one")
	return false
}

// StartOver is for an instance that has begun to write the first record of a lease and has never seen it, when the
// settings name another lease, which a consistent read has shown. They do so only where no instance has obeyed the one
// before: what was begun is over.
func StartOver(d *draft.Draft) bool {
	known, named := d.Stored.LeaseUID, d.Policy.LeaseUID
	if !d.Policy.Volatile || named == "" || known == "" || known == named || named != d.Lease.UID || d.Lease.Read == 0 ||
		d.Stored.MaxTerm > 0 || d.Engine.Data != tenure.DataNone || d.Write != nil {
		return false
	}
	d.Store("the settings name another lease, and the one before was never obeyed here", func(stored *tenure.Stored) {
		stored.LeaseUID, stored.Incarnation = "", ""
		stored.LastRecord, stored.NextRecord, stored.NextVersion = nil, nil, ""
	})
	return false
}

// BeginAnew takes a lease that has ended and begins an empty copy. Members that have a copy and can lead stand by
// themselves, within moments; they are asked all the same, and given a whole duration in which nobody of them answers.
// Who has just lost its own copy in the middle of an election, or was bound by a promise until now, has not asked
// anybody yet.
func BeginAnew(d *draft.Draft) bool {
	record, turn := d.Lease.Record, slices.Index(d.Policy.Instances, d.Name)
	if !mayBeginAnew(d) || turn < 0 || !d.Expired() {
		return false
	}
	ended, patience := d.Ended(), time.Duration(turn)*draft.FirstTurn
	members, others := d.AskForCopies(*record)
	switch {
	case members:
		patience += d.Duration() // A member that has promised something stands only when that has ended.
	case others:
		patience += draft.HearPatience
	}
	if d.HearsOfALaterTerm() {
		return d.Lost() != "" // The next pass mends it.
	}
	if someoneHasCopy(d) || d.Recently(ended, patience) || !d.HeardOut(*record) {
		d.Wait(wire.ReasonElection, "the primary is gone, and an instance that has a copy is given the time to take over")
		return false
	}
	if d.Unread(ended) || LooksForTerms(d) {
		return false
	}
	d.Wait(wire.ReasonBeginning, "no instance has a copy, and this one begins an empty one")
	d.Store("tenure.count-only-the-own-copy: the new copy has its id before it is made", func(stored *tenure.Stored) {
		stored.Incarnation, stored.LeaseUID = d.Fresh, d.Lease.UID
	})
	self := wire.Member{Name: d.Name, Incarnation: d.Stored.Incarnation}
	d.WriteLease(tenure.WriteBegin, "tenure.begin-only-without-a-copy: "+
		"no member has a copy, and an empty one is better than none", self,
		d.FirstRecord(self))
	return false
}

// JoinInTime takes a lease that has ended for a copy that has everything and had no time to become a member. Members
// that have a copy come first, for as long as an empty one would wait for them; and of those that are no members the
// one that has most.
func JoinInTime(d *draft.Draft) bool {
	record, turn := d.Lease.Record, slices.Index(d.Policy.Instances, d.Name)
	if turn < 0 || !Newcomer(d) || !d.Expired() || d.Bound() || d.Stored.Fence != nil || d.Write != nil {
		return false
	}
	ended, patience, heard := d.Ended(), time.Duration(turn)*draft.FirstTurn, true
	if d.Lease.Holder != (wire.Member{}) || len(record.Members) > 1 {
		// Otherwise the only member has given the lease back: there is none to wait for.
		patience, heard = patience+d.Duration(), d.HeardOut(*record)
	}
	d.AskForCopies(*record)
	if d.HearsOfALaterTerm() {
		return d.Lost() != "" // The next pass mends it.
	}
	d.Wait(wire.ReasonElection, "the primary is gone, and maybe no member has a copy; this one has, and is no member yet")
	if hasCopy(d, *record) || anotherHasMore(d) || d.Recently(ended, patience) || !heard || d.Unread(ended) {
		return false
	}
	next := *record
	next.Term, next.Timeline, next.Switchover = d.Lease.Term+1, record.Timeline+1, nil
	next.Members, next.W = []wire.Member{d.Self()}, 1
	d.WriteLease(tenure.WriteJoin, "tenure.nonmember-leads-only-as-last-copy: "+
		"no member has a copy, and this one has everything", d.Self(), next)
	return false
}

// Newcomer says that the copy here belongs to the dataset, could lead, and is no member.
func Newcomer(d *draft.Draft) bool {
	record := d.Lease.Record
	return d.Policy.Volatile && d.Lease.Exists && d.Lost() == "" && record != nil && record.Initialised &&
		!record.Has(d.Self()) && d.Self().Incarnation != "" && d.Engine.Data == tenure.DataWhole && d.Engine.Flushed != nil &&
		d.Engine.Flushed.Timeline == record.Timeline && d.Engine.SystemIdentifier == record.SystemIdentifier &&
		d.Engine.Leading == nil && d.CannotLead() == "" && !d.Predates()
}

// anotherHasMore says that an instance that is no member either has said a moment ago that it has come further.
func anotherHasMore(d *draft.Draft) bool {
	return slices.ContainsFunc(d.Places, func(place tenure.Place) bool {
		return !place.CannotLead && d.Now.Since(place.At) < draft.PlaceLasts && place.Position.Compare(*d.Engine.Flushed) > 0
	})
}

// mayBeginAnew says that this instance has nothing to lose, and nothing that keeps it from taking the lease.
func mayBeginAnew(d *draft.Draft) bool {
	record := d.Lease.Record
	if !d.Policy.Volatile || !d.Lease.Exists || record == nil || !record.Initialised || d.Stopping || d.Write != nil {
		return false
	}
	return d.Engine.Data == tenure.DataNone && !d.Holder() && !d.Leads() && !d.Bound() && d.Stored.Fence == nil
}

// someoneHasCopy says that an instance has said a moment ago that it has a copy and can lead.
func someoneHasCopy(d *draft.Draft) bool {
	return slices.ContainsFunc(d.Places, func(place tenure.Place) bool {
		return !place.CannotLead && d.Now.Since(place.At) < draft.PlaceLasts
	})
}

// hasCopy says that a member has said a moment ago that it has a copy and can lead.
func hasCopy(d *draft.Draft, record wire.LeaseRecord) bool {
	return slices.ContainsFunc(d.Places, func(place tenure.Place) bool {
		return record.Has(place.Member) && !place.CannotLead && d.Now.Since(place.At) < draft.PlaceLasts
	})
}

// LooksForTerms looks at the write address before a cache is begun. It reports whether that is waited for.
func LooksForTerms(d *draft.Draft) bool {
	if !d.Policy.Volatile || d.Route.Known {
		return false
	}
	d.Wait(wire.ReasonRouteMissing, "the write address was not read yet, and with it which terms there have been")
	if !d.Route.Writing && !d.Recently(d.Route.Tried, d.Policy.Renew/4) {
		d.Do(tenure.ReadRoute{Why: "which terms there have been nobody knows but the write address"})
	}
	return true
}

// AsksWhoKnowsOfThem is for a cache that was there before, as the write address says, and whose lease knows of nothing.
// If that was put back, the others know, and one of them may lead; until its own lease has ended also one that cannot
// be asked. It reports whether that is waited for.
func AsksWhoKnowsOfThem(d *draft.Draft) bool {
	if !d.Policy.Volatile || d.Route.Term == 0 {
		return false
	}
	d.AskForCopies(wire.LeaseRecord{})
	if d.HearsOfALaterTerm() {
		return true
	}
	if d.HeardOut(wire.LeaseRecord{}) && !d.Recently(d.Lease.Changed, d.Duration()) {
		return false
	}
	d.Wait(wire.ReasonBeginning, "the write address tells of a term, and the others are asked whether they know of it")
	return true
}
