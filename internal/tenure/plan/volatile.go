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
	if !d.Lease.Exists || d.Lease.Record == nil || d.Lease.Holder != lost || d.Write != nil || d.Engine.Processes ||
		d.Lease.Failing != nil && d.recently(d.Tried, d.Policy.Renew/4) {
		return false
	}
	d.write(tenure.WriteRelease, "V1: the copy that led is gone", wire.Member{}, *d.Lease.Record)
	return false
}

// beginAnew takes a lease that has ended and begins an empty copy. Members that have a copy and can lead stand by
// themselves, within moments; they are asked all the same, and given a whole duration in which nobody of them answers.
func beginAnew(d *draft) bool {
	record, turn := d.Lease.Record, slices.Index(d.Policy.Instances, d.Name)
	if !d.mayBeginAnew() || turn < 0 || !d.expired() {
		return false
	}
	ended, patience := d.Lease.Changed, time.Duration(turn)*firstTurn
	if d.Lease.Holder != (wire.Member{}) {
		ended = ended.Add(d.lasts())
	}
	if d.askForCopies(*record) {
		patience += d.lasts()
	}
	if d.hearsOfALaterTerm() {
		return d.Lost() != "" // The next pass mends it.
	}
	if d.hasCopy(*record) || d.recently(ended, patience) {
		d.wait(wire.ReasonElection, "the primary is gone, and a member that has a copy is given the time to take over")
		return false
	}
	if d.Lease.Read < ended || d.Lease.Read == 0 {
		if d.Reading == nil && !d.recently(d.Tried, d.Policy.Renew/4) {
			d.read("E2: a consistent read must return the same version")
		}
		return false
	}
	d.store("I1: the new copy has its id before it is made", func(stored *tenure.Stored) {
		stored.Incarnation, stored.LeaseUID = d.Fresh, d.Lease.UID
	})
	self := wire.Member{Name: d.Name, Incarnation: d.Stored.Incarnation}
	d.write(tenure.WriteBegin, "V2: no member has a copy, and an empty one is better than none", self, d.first(self))
	return false
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
// shows none, somebody has put the lease back to what it had been, and a new instance cannot know by itself: the lease
// is lost here too, and no term is given out twice (O3).
func (d *draft) hearsOfALaterTerm() bool {
	term := d.ToldTerm()
	if term <= d.Lease.Term {
		return false
	}
	if d.Lease.Stale > 0 || d.Lease.Read == 0 {
		d.wait(wire.ReasonElection, "a peer tells of a later term of the lease, which is read again")
	} else {
		d.store("O3: a peer tells of a later term, so the lease was put back to what it had been",
			func(stored *tenure.Stored) { stored.MaxTerm = max(stored.MaxTerm, term) })
	}
	return true
}

// askForCopies asks the members of other instances whether they have a copy. It reports whether there is one to ask.
func (d *draft) askForCopies(record wire.LeaseRecord) bool {
	asked := false
	for _, member := range record.Members {
		if member.Name != d.Name {
			asked = true
			d.send("V2: does it have a copy?", askEvery, wire.PeerRequest{Kind: wire.PeerPlace, To: member})
		}
	}
	return asked
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
	if d.Write == nil {
		d.write(tenure.WriteRelease, "V1: the copy ends with the pod", wire.Member{}, *d.Lease.Record)
	}
}
