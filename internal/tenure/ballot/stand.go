// Package ballot is the election of a new holder when the lease has ended, for who stands and for who answers. Start
// reading at StandForTheLease.
package ballot

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// StandForTheLease conducts an election when the lease has ended: ask, fence, and take it with enough answers.
func StandForTheLease(d *draft.Draft) bool {
	if d.Ballot != nil && (d.Ballot.Version != d.Lease.Version || d.Ballot.LeaseUID != d.Lease.UID) {
		d.Do(tenure.Conduct{Why: "E1: answers are about one version of the lease, and it has another"})
	}
	if !mayStand(d) {
		return false
	}
	d.Wait(wire.ReasonElection, "the lease of the primary has ended, and the members agree on a new one")
	if tooEarly(d) {
		return false
	}
	if d.Ballot == nil {
		ballot := tenure.Ballot{
			LeaseUID: d.Lease.UID, Version: d.Lease.Version, Begun: d.Now, Willing: []wire.Member{d.Self()},
		}
		d.Do(tenure.Conduct{Why: "nobody has renewed the lease for its whole duration", Ballot: &ballot})
	}
	if d.Ballot.Fencing == nil {
		return ask(d)
	}
	return collect(d)
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
		d.ReadLease("E2: a consistent read must return the same version")
	}
	return true
}

// ask asks who would answer. Nobody is fenced before enough say yes (E3): one blind member must not disturb a healthy
// primary.
func ask(d *draft.Draft) bool {
	willing, needed := 0, d.AnswersNeeded()
	for _, member := range d.Lease.Record.Members {
		if slices.Contains(d.Ballot.Willing, member) {
			willing++
		}
	}
	hear := needed == 1 && willing < len(d.Lease.Record.Members)-1 && d.Now.Since(d.Ballot.Begun) < draft.HearPatience
	if willing < needed || hear {
		askTheOthers(d)
		d.Wait(wire.ReasonQuorumMissing, fmt.Sprintf("%d members would answer, and %d must, so that nothing is lost",
			willing, needed))
		// The others may have a reason to be silent that only the lease can tell: a watch does not show that it was put
		// back.
		if d.Reading == nil && !d.Recently(max(d.Lease.Read, d.Tried), d.Lasts()) {
			d.ReadLease("too few would answer, and the lease may be another one by now")
		}
		return false
	}
	ballot := *d.Ballot
	now := d.Now
	ballot.Fencing = &now
	fence := tenure.Fence{LeaseUID: ballot.LeaseUID, Version: ballot.Version}
	d.Fence("F1: the own fence is on the volume before any answer", fence)
	d.Do(tenure.Conduct{Why: "E3: enough members would answer", Ballot: &ballot})
	answerOwn(d, fence)
	return collect(d)
}

func askTheOthers(d *draft.Draft) {
	for _, member := range d.Lease.Record.Members {
		if member.Name != d.Name && !slices.Contains(d.Ballot.Willing, member) {
			d.Send("E3: would it answer?", draft.AskEvery, wire.PeerRequest{
				Kind: wire.PeerAsk, To: member, LeaseVersion: d.Ballot.Version,
			})
		}
	}
}

func answerOwn(d *draft.Draft, fence tenure.Fence) {
	d.Do(tenure.AnswerBallot{
		Why: "F1: the own position counts only behind the own fence", Fence: fence,
		Reply: wire.PeerReply{PeerHeader: d.Header(), Yes: true},
	})
}

// collect asks for answers, and takes the lease with enough of them and a position that none exceeds (E4).
func collect(d *draft.Draft) bool {
	if learnThatItWasPutBack(d) {
		return true
	}
	var own *tenure.Answer
	var highest tenure.Answer
	count := 0
	for _, answer := range d.Ballot.Answers {
		if !d.Lease.Record.Has(answer.Member) {
			continue
		}
		count++
		if answer.Member == d.Self() {
			own = &answer
		} else if highest.Member == (wire.Member{}) || answer.Position.Compare(highest.Position) > 0 {
			highest = answer
		}
	}
	d.Again(draft.AskEvery)
	for _, member := range d.Lease.Record.Members {
		if member.Name != d.Name && !answered(d, member) {
			d.Send("E4: how far has it come?", draft.FenceEvery, wire.PeerRequest{
				Kind: wire.PeerFence, To: member, LeaseVersion: d.Ballot.Version,
			})
		}
	}
	fence := tenure.Fence{LeaseUID: d.Ballot.LeaseUID, Version: d.Ballot.Version}
	switch {
	case own == nil:
		if !slices.ContainsFunc(d.Plan.Actions, isOwnAnswer) && d.Now.Since(*d.Ballot.Fencing) >= draft.AskEvery {
			answerOwn(d, fence)
		}
	case count < d.AnswersNeeded() || mustHear(d, count):
		d.Wait(wire.ReasonQuorumMissing, fmt.Sprintf("%d members have answered, and %d must", count, d.AnswersNeeded()))
	case highest.Member == (wire.Member{}) || own.Position.Compare(highest.Position) >= 0 || mayLose(d):
		takeOver(d)
	default:
		CatchUp(d, *own, highest, fence)
	}
	return true
}

// mustHear lets the others answer for a moment where no answer is needed: whoever has most shall lead.
func mustHear(d *draft.Draft, count int) bool {
	return d.AnswersNeeded() == 1 && count < len(d.Ballot.Willing) && d.Now.Since(*d.Ballot.Fencing) < draft.HearPatience
}

func isOwnAnswer(action tenure.Action) bool {
	answer, ok := action.(tenure.AnswerBallot)
	return ok && answer.ID == 0
}

func answered(d *draft.Draft, member wire.Member) bool {
	return slices.ContainsFunc(d.Ballot.Answers, func(a tenure.Answer) bool { return a.Member == member })
}

// takeOver changes holder, term and timeline, and carries members and quorum over unchanged (Q2). The timeline is
// reserved by the same write (T1).
func takeOver(d *draft.Draft) {
	record := *d.Lease.Record
	record.Term, record.Timeline, record.Switchover = d.Lease.Term+1, record.Timeline+1, nil
	d.WriteLease(tenure.WriteTake, "E4: enough members have answered, and none has more than this copy", d.Self(), record)
}

// CatchUp takes the log of the member that has most, if that does not take the lease itself. If the log does not come,
// that member may be gone, and its answer with it: those that are left are asked anew.
func CatchUp(d *draft.Draft, own, highest tenure.Answer, fence tenure.Fence) {
	if !highest.CannotLead && d.Now.Since(*d.Ballot.Fencing) < draft.HighestPatience {
		d.Wait(wire.ReasonElection, highest.Member.Name+" has more of the log, and is given the time to take the lease")
		return
	}
	if d.Now.Since(*d.Ballot.Fencing) >= draft.CatchUpPatience {
		why := "the log of " + highest.Member.Name + " does not come: answers are asked for anew"
		d.Do(tenure.Conduct{Why: tenure.Why(why)})
		d.Obey("an election begins anew", d.Idle())
		return
	}
	if d.Standing.Role == tenure.RoleCatchUp && d.Engine.Flushed != nil &&
		d.Engine.Flushed.Compare(highest.Position) >= 0 {
		d.Obey("F1: the own position counts only behind the own fence", d.Idle())
		answerOwn(d, fence)
		return
	}
	standing := d.Idle()
	standing.Role, standing.Upstream, standing.UpstreamAddress = tenure.RoleCatchUp, highest.Member, highest.Address
	standing.Until = &highest.Position
	why := fmt.Sprintf("%s has more than %s and does not take the lease", highest.Member, own.Position)
	d.Obey(tenure.Why(why), standing)
	d.Wait(wire.ReasonElection, "the log of "+highest.Member.Name+" is taken first")
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
	why := tenure.Why("O3: an answer tells of a later record, so the lease was put back to what it had been")
	d.Store(why, func(stored *tenure.Stored) {
		stored.LastRecord, stored.MaxTerm = &last, max(stored.MaxTerm, last.Term)
	})
	d.Do(tenure.Conduct{Why: why})
	return true
}

func later(record, than wire.LeaseRecord) bool {
	return record.Term > than.Term || record.Term == than.Term && record.Revision > than.Revision
}

// mayLose lets a member take the lease although another one has answered that it has more, and has not taken it: it
// has gone since, or cannot lead. Where data may be lost that is no reason to wait.
func mayLose(d *draft.Draft) bool {
	return d.Policy.Volatile && d.Now.Since(*d.Ballot.Fencing) >= draft.HighestPatience
}
