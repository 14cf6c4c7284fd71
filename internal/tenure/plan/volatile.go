package plan

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// The rules of data that may be lost (Policy.Volatile). A server that keeps its data in memory has another copy, an
// empty one, with each start. That copy must never take the place of a full one; and when no full one is left, waiting
// for it would be waiting for ever.

// placeLasts is how long the word of a member counts that it has a copy.
const placeLasts = 2 * time.Second

// surrenderALostCopy is for a holder whose server has ended and has taken the data with it. Nobody has to wait for the
// end of the lease: this instance knows that nothing acknowledges in its name any more.
func surrenderALostCopy(d *draft) bool {
	lost := wire.Member{Name: d.Name, Incarnation: d.Engine.Lost}
	if !d.Policy.Volatile || lost.Incarnation == "" {
		return false
	}
	if d.Stored.Incarnation == lost.Incarnation {
		d.store("I1: the id of a copy that is gone is never used again", func(stored *tenure.Stored) {
			stored.Incarnation = ""
		})
	}
	// A lease that has changed is read first: otherwise the same write would be in conflict again and again.
	if !d.Lease.Exists || d.Lease.Record == nil || d.Lease.Holder != lost || d.Write != nil || d.Engine.Processes ||
		d.Lease.Stale > 0 || d.Lease.Failing != nil && d.recently(d.Tried, d.Policy.Renew/4) {
		return false
	}
	d.write(tenure.WriteRelease, "V1: the copy that led is gone", wire.Member{}, *d.Lease.Record)
	d.wait(wire.ReasonElection, "the copy that led is gone, and the lease is given back for another one")
	return false
}

// startOver is for an instance that has begun to write the first record of a lease and has never seen it, when the
// settings name another lease, which a consistent read has shown. They do so only where no instance has obeyed the one
// before: what was begun is over.
func startOver(d *draft) bool {
	known, named := d.Stored.LeaseUID, d.Policy.LeaseUID
	if !d.Policy.Volatile || named == "" || known == "" || known == named || named != d.Lease.UID || d.Lease.Read == 0 ||
		d.Stored.MaxTerm > 0 || d.Engine.Data != tenure.DataNone || d.Write != nil {
		return false
	}
	d.store("the settings name another lease, and the one before was never obeyed here", func(stored *tenure.Stored) {
		stored.LeaseUID, stored.Incarnation = "", ""
		stored.LastRecord, stored.NextRecord, stored.NextVersion = nil, nil, ""
	})
	return false
}

// beginAnew takes a lease that has ended and begins an empty copy. Members that have a copy and can lead stand by
// themselves, within moments; they are asked all the same, and given a whole duration in which nobody of them answers.
// Who has just lost its own copy in the middle of an election, or was bound by a promise until now, has not asked
// anybody yet.
func beginAnew(d *draft) bool {
	record, turn := d.Lease.Record, slices.Index(d.Policy.Instances, d.Name)
	if !d.mayBeginAnew() || turn < 0 || !d.expired() {
		return false
	}
	ended, patience := d.ended(), time.Duration(turn)*firstTurn
	members, others := d.askForCopies(*record)
	switch {
	case members:
		patience += d.duration() // A member that has promised something stands only when that has ended.
	case others:
		patience += hearPatience
	}
	if d.hearsOfALaterTerm() {
		return d.Lost() != "" // The next pass mends it.
	}
	if d.someoneHasCopy() || d.recently(ended, patience) || !d.heardOut(*record) {
		d.wait(wire.ReasonElection, "the primary is gone, and an instance that has a copy is given the time to take over")
		return false
	}
	if d.unread(ended) || d.looksForTerms() {
		return false
	}
	d.wait(wire.ReasonBeginning, "no instance has a copy, and this one begins an empty one")
	d.store("I1: the new copy has its id before it is made", func(stored *tenure.Stored) {
		stored.Incarnation, stored.LeaseUID = d.Fresh, d.Lease.UID
	})
	self := wire.Member{Name: d.Name, Incarnation: d.Stored.Incarnation}
	d.write(tenure.WriteBegin, "V2: no member has a copy, and an empty one is better than none", self, d.first(self))
	return false
}

// unread says that no consistent read has shown since the lease ended that nobody holds it (E2), and begins one.
func (d *draft) unread(ended tenure.Instant) bool {
	if d.Lease.Read >= ended && d.Lease.Read > 0 {
		return false
	}
	d.wait(wire.ReasonElection, "the primary is gone, and the lease is read once more before its place is taken")
	if d.Reading == nil && !d.recently(d.Tried, d.Policy.Renew/4) {
		d.read("E2: a consistent read must return the same version")
	}
	return true
}

// ended is since when nobody holds a lease that has expired.
func (d *draft) ended() tenure.Instant {
	if d.Lease.Holder == (wire.Member{}) {
		return d.Lease.Changed
	}
	return d.Lease.Changed.Add(d.lasts())
}

// joinInTime takes a lease that has ended for a copy that has everything and had no time to become a member. Members
// that have a copy come first, for as long as an empty one would wait for them; and of those that are no members the
// one that has most.
func joinInTime(d *draft) bool {
	record, turn := d.Lease.Record, slices.Index(d.Policy.Instances, d.Name)
	if turn < 0 || !d.newcomer() || !d.expired() || d.promised() || d.Stored.Fence != nil || d.Write != nil {
		return false
	}
	ended, patience, heard := d.ended(), time.Duration(turn)*firstTurn, true
	if d.Lease.Holder != (wire.Member{}) || len(record.Members) > 1 {
		// Otherwise the only member has given the lease back: there is none to wait for.
		patience, heard = patience+d.duration(), d.heardOut(*record)
	}
	d.askForCopies(*record)
	if d.hearsOfALaterTerm() {
		return d.Lost() != "" // The next pass mends it.
	}
	d.wait(wire.ReasonElection, "the primary is gone, and no member may have a copy: this one has, and is none yet")
	if d.hasCopy(*record) || d.anotherHasMore() || d.recently(ended, patience) || !heard || d.unread(ended) {
		return false
	}
	next := *record
	next.Term, next.Timeline, next.Switchover = d.Lease.Term+1, record.Timeline+1, nil
	next.Members, next.W = []wire.Member{d.Self()}, 1
	d.write(tenure.WriteJoin, "V7: no member has a copy, and this one has everything", d.Self(), next)
	return false
}

// newcomer says that the copy here belongs to the dataset, could lead, and is no member.
func (d *draft) newcomer() bool {
	record := d.Lease.Record
	return d.Policy.Volatile && d.Lease.Exists && d.Lost() == "" && record != nil && record.Initialised &&
		!record.Has(d.Self()) && d.Self().Incarnation != "" && d.Engine.Data == tenure.DataWhole && d.Engine.Flushed != nil &&
		d.Engine.Flushed.Timeline == record.Timeline && d.Engine.SystemIdentifier == record.SystemIdentifier &&
		d.Engine.Leading == nil && d.cannotLead() == "" && !d.predates()
}

// anotherHasMore says that an instance that is no member either has said a moment ago that it has come further.
func (d *draft) anotherHasMore() bool {
	return slices.ContainsFunc(d.Places, func(place tenure.Place) bool {
		return !place.CannotLead && d.Now.Since(place.At) < placeLasts && place.Position.Compare(*d.Engine.Flushed) > 0
	})
}

// mayBeginAnew says that this instance has nothing to lose, and nothing that keeps it from taking the lease.
func (d *draft) mayBeginAnew() bool {
	record := d.Lease.Record
	if !d.Policy.Volatile || !d.Lease.Exists || record == nil || !record.Initialised || d.Stopping || d.Write != nil {
		return false
	}
	return d.Engine.Data == tenure.DataNone && !d.holder() && !d.leads() && !d.promised() && d.Stored.Fence == nil
}

// hearsOfALaterTerm says that a peer knows of a later term of this lease than it has. If a consistent read since then
// shows none, the lease is lost here too (heedALaterTerm), and no term is given out twice (O3).
func (d *draft) hearsOfALaterTerm() bool {
	if d.ToldTerm() <= d.Lease.Term {
		return false
	}
	d.wait(wire.ReasonElection, "a peer tells of a later term of the lease, which is read again")
	return true
}

// askForCopies asks the other instances whether they have a copy, whichever it is: one that has everything may not have
// had the time to become a member. It reports whether a member is among them, and whether anybody is.
func (d *draft) askForCopies(record wire.LeaseRecord) (members, others bool) {
	for _, name := range d.others(record) {
		d.send("V2: does it have a copy?", askEvery, wire.PeerRequest{Kind: wire.PeerPlace, To: wire.Member{Name: name}})
	}
	members = slices.ContainsFunc(record.Members, func(member wire.Member) bool { return member.Name != d.Name })
	return members, len(d.others(record)) > 0
}

// heardOut says that each of the other instances has been asked for long enough to have told that it has a copy.
func (d *draft) heardOut(record wire.LeaseRecord) bool {
	return !slices.ContainsFunc(d.others(record), func(name string) bool {
		return !slices.ContainsFunc(d.Sent, func(sent tenure.Sent) bool {
			return sent.To == name && sent.Kind == wire.PeerPlace && sent.Lasts(d.Now) >= hearPatience
		})
	})
}

// someoneHasCopy says that an instance has said a moment ago that it has a copy and can lead.
func (d *draft) someoneHasCopy() bool {
	return slices.ContainsFunc(d.Places, func(place tenure.Place) bool {
		return !place.CannotLead && d.Now.Since(place.At) < placeLasts
	})
}

// hasCopy says that a member has said a moment ago that it has a copy and can lead.
func (d *draft) hasCopy(record wire.LeaseRecord) bool {
	return slices.ContainsFunc(d.Places, func(place tenure.Place) bool {
		return record.Has(place.Member) && !place.CannotLead && d.Now.Since(place.At) < placeLasts
	})
}

// mayLose lets a member take the lease although another one has answered that it has more, and has not taken it: it
// has gone since, or cannot lead. Where data may be lost that is no reason to wait.
func (d *draft) mayLose() bool {
	return d.Policy.Volatile && d.Now.Since(*d.Ballot.Fencing) >= highestPatience
}

// leaveTheLease releases the lease of an instance that ends: its copy ends with it, so there is nothing to come back
// for.
func (d *draft) leaveTheLease() {
	d.wait(wire.ReasonSwitchover, "the lease is given back: the copy ends with the pod")
	if d.Write == nil {
		d.write(tenure.WriteRelease, "V1: the copy ends with the pod", wire.Member{}, *d.Lease.Record)
	}
}

// predates says that the copy here is from before the cache was emptied, as far as the facts show: it may have come
// further since.
func (d *draft) predates() bool {
	return d.Lease.Record != nil && d.Engine.Flushed != nil && before(*d.Engine.Flushed, d.Lease.Record.Emptied)
}

// before says that a position is from before an emptying. On a later timeline the writes go on counting where its
// primary began, and that one had come as far; so a copy that has not come as far by number either has not heard of it,
// whatever timeline it is on by now.
func before(position tenure.Position, emptied *wire.Emptied) bool {
	return emptied != nil && (position.Timeline < emptied.Timeline || position.LSN < emptied.Offset)
}

// rememberAFlush records that the cache was emptied, and where that was among its writes. The user is told only then:
// if the primary is lost before, the next one is asked again.
func rememberAFlush(d *draft) bool {
	leading, emptied := d.Engine.Leading, d.Engine.Emptied
	if !d.Policy.Volatile || emptied == nil || leading == nil || leading.Term != d.Standing.Term || !d.holder() ||
		d.Standing.Role != tenure.RoleLead || emptied.Timeline != d.Lease.Record.Timeline {
		return false
	}
	if known := d.Lease.Record.Emptied; known != nil && *known == *emptied {
		return false
	}
	d.wait(wire.ReasonFlushing, "the cache was emptied, and that is recorded, so that no copy from before leads")
	if d.Write != nil || len(d.Doubts) > 0 || d.Stored.NextRecord != nil || !d.seenForSure() || d.Lease.Failing != nil {
		return false
	}
	record := *d.Lease.Record
	record.Emptied = emptied
	d.write(tenure.WriteRecord, "V6: copies from before a flush do not lead", d.Self(), record)
	return false
}

// oldPatience is how long after the end of the lease what is known of the own copy may still come from before it: all
// that has come from the primary is counted by then.
const oldPatience = 2 * time.Second

// dropAnOldCopy ends a server whose data must not come back, when nobody leads that could bring it up to date and no
// other instance has a copy that may lead. An empty one is begun in its place as if it had been lost.
func dropAnOldCopy(d *draft) bool {
	if !d.Policy.Volatile || !d.predates() || !d.expired() || d.holder() || d.leads() || d.promised() || d.Stopping ||
		d.Write != nil {
		return false
	}
	d.wait(wire.ReasonElection, "V6: the copy here is from before the cache was emptied, and does not lead")
	d.askForCopies(*d.Lease.Record)
	heard := d.heardOut(*d.Lease.Record)
	if d.recently(d.ended(), oldPatience) || d.someoneHasCopy() || !heard || d.unread(d.ended()) {
		return false
	}
	standing := d.idle()
	standing.OpenReads, standing.Down = false, true
	d.obey("V6: the copy here is from before the cache was emptied", standing)
	d.do(tenure.Kill{Why: "V6: the copy here is from before the cache was emptied, and nobody has a later one"})
	return true
}
