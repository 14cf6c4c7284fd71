package ballot

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// StandForTheLease conducts an election when the lease has ended: ask, fence, and take it with enough answers.
func StandForTheLease(d *draft.Draft) bool {
	if d.Ballot != nil && (d.Ballot.Version != d.Lease.Version || d.Ballot.LeaseUID != d.Lease.UID) {
		d.Do(tenure.Conduct{Why: "tenure.take-only-the-voted-version: " +
			"answers are about one version of the lease, and it has another"})
	}
	if !mayStand(d) {
		return false
	}
	d.Wait(wire.ReasonElection, "the lease of the primary has ended, and the members agree on a new one")
	if tooEarly(d) {
		return false
	}
	members := electorate(d)
	members.Open(d)
	if d.Ballot.Fencing == nil && !members.Ask(d) {
		return false
	}
	if !learnThatItWasPutBack(d) {
		members.Collect(d)
	}
	return true
}

// electorate are the members: enough of them must answer for no acknowledged write to be lost.
func electorate(d *draft.Draft) Electorate {
	needed := d.AnswersNeeded()
	return Electorate{
		Members: d.Lease.Record.Members, Needed: needed,
		Others:  func(member wire.Member) bool { return member.Name != d.Name },
		Opening: "nobody has renewed the lease for its whole duration", Enough: "tenure.fence-only-a-winnable-ballot: " +
			"enough members would answer",
		Asking: "tenure.take-only-with-answers: how far has it come?",
		Answer: plainly,
		// Where data may be lost, a member that has more and has not taken the lease, because it has gone since or cannot
		// lead, is no reason to wait.
		MayLose: d.Policy.Volatile,
		Win:     takeOver,
		TooFewWilling: func(_ []wire.Member, willing int) {
			d.Wait(wire.ReasonQuorumMissing, fmt.Sprintf("%d members would answer, and %d must, so that nothing is lost",
				willing, needed))
			// The others may have a reason to be silent that only the lease can tell: a watch does not show that it was put
			// back.
			if d.Reading == nil && !d.Recently(max(d.Lease.Read, d.Tried), d.Lasts()) {
				d.ReadLease("too few would answer, and the lease may be another one by now")
			}
		},
		TooFewAnswers: func(count int) {
			d.Wait(wire.ReasonQuorumMissing, fmt.Sprintf("%d members have answered, and %d must", count, needed))
		},
	}
}

// mayStand says whether this copy may lead at all, and whether the lease has ended.
func mayStand(d *draft.Draft) bool {
	record := d.Lease.Record
	if !d.Lease.Exists || d.Holder() || record == nil || !record.Initialised || !record.Has(d.Self()) ||
		d.Engine.Data != tenure.DataWhole || d.Engine.Leading != nil || d.Bound() || d.CannotLead() != "" || d.Predates() {
		return false
	}
	if d.Stored.Fence != nil && d.Stored.Fence.Version != d.Lease.Version {
		return false
	}
	if !d.Expired() {
		d.Again(d.Lease.Changed.Add(d.Lasts()).Since(d.Now))
		return false
	}
	if d.Policy.Durability == tenure.Async && d.Engine.Lag > d.Policy.MaxFailoverLag {
		d.Wait(wire.ReasonQuorumMissing, fmt.Sprintf("this copy lacks %d bytes, and spec.maxFailoverLag allows %d",
			d.Engine.Lag, d.Policy.MaxFailoverLag))
		return false
	}
	return d.Write == nil
}

// tooEarly waits for the own turn, and for a consistent read after the lease has ended (E2).
func tooEarly(d *draft.Draft) bool {
	ended, turn := d.Ended(), 0
	for _, member := range d.Lease.Record.Members {
		if member == d.Self() {
			break
		}
		if member != d.Lease.Holder {
			turn++
		}
	}
	if d.Recently(ended, time.Duration(turn)*draft.StandTurn) {
		return true
	}
	needed := ended
	for _, doubt := range d.Doubts {
		needed = max(needed, doubt.Ended)
	}
	if d.Lease.Read >= needed && d.Lease.Read > 0 {
		return false
	}
	if d.Reading == nil && !d.Recently(d.Tried, d.Policy.Renew/4) {
		d.ReadLease("tenure.elect-only-after-the-end: a consistent read must return the same version")
	}
	return true
}

// takeOver changes holder, term and timeline, and carries members and quorum over unchanged (Q2). The timeline is
// reserved by the same write (T1).
func takeOver(d *draft.Draft) {
	record := *d.Lease.Record
	record.Term, record.Timeline, record.Switchover = d.Lease.Term+1, record.Timeline+1, nil
	d.WriteLease(tenure.WriteTake, "tenure.take-only-with-answers: "+
		"enough members have answered, and none has more than this copy", d.Self(), record)
}

// learnThatItWasPutBack is for a copy that was away when the lease was put back to what it had been then: for it the
// lease looks as it should. Whoever has seen more answers with its records, and nobody else does. An election by the
// quorum of the past could leave out what was acknowledged since, so it ends, and the lease is lost here too (O3).
func learnThatItWasPutBack(d *draft.Draft) bool {
	last := *d.Lease.Record
	for _, answer := range d.Ballot.Answers {
		for _, record := range answer.Records {
			if answer.Member != d.Self() && later(record, last) {
				last = record
			}
		}
	}
	if !later(last, *d.Lease.Record) {
		return false
	}
	why := tenure.Why("tenure.believe-a-later-term: " +
		"an answer tells of a later record, so the lease was restored to an older state")
	d.Store(why, func(stored *tenure.Stored) {
		stored.LastRecord, stored.MaxTerm = &last, max(stored.MaxTerm, last.Term)
	})
	d.Do(tenure.Conduct{Why: why})
	return true
}

func later(record, than wire.LeaseRecord) bool {
	return record.Term > than.Term || record.Term == than.Term && record.Revision > than.Revision
}
