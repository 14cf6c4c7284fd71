package plan

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

const (
	// askEvery and fenceEvery are how often a peer is asked again.
	askEvery   = 300 * time.Millisecond
	fenceEvery = 500 * time.Millisecond
	// standTurn is how long each member lets those before it go first: votes cannot split, but requests can be spared.
	standTurn = 200 * time.Millisecond
	// highestPatience is how long the member that has most is given to take the lease itself.
	highestPatience = 2 * time.Second
	// catchUpPatience is how long the log of another member is waited for before answers are asked for anew.
	catchUpPatience = 10 * time.Second
	// hearPatience is how long answers are waited for where none is needed.
	hearPatience = time.Second
)

// standForTheLease conducts an election when the lease has ended: ask, fence, and take it with enough answers.
func standForTheLease(d *draft) bool {
	if d.Ballot != nil && (d.Ballot.Version != d.Lease.Version || d.Ballot.LeaseUID != d.Lease.UID) {
		d.do(tenure.Conduct{Why: "E1: answers are about one version of the lease, and it has another"})
	}
	if !d.mayStand() {
		return false
	}
	d.wait(wire.ReasonElection, "the lease of the primary has ended, and the members agree on a new one")
	if d.tooEarly() {
		return false
	}
	if d.Ballot == nil {
		ballot := tenure.Ballot{
			LeaseUID: d.Lease.UID, Version: d.Lease.Version, Begun: d.Now, Willing: []wire.Member{d.Self()},
		}
		d.do(tenure.Conduct{Why: "nobody has renewed the lease for its whole duration", Ballot: &ballot})
	}
	if d.Ballot.Fencing == nil {
		return d.ask()
	}
	return d.collect()
}

// mayStand says whether this copy may lead at all, and whether the lease has ended.
func (d *draft) mayStand() bool {
	record := d.Lease.Record
	if !d.Lease.Exists || d.holder() || record == nil || !record.Initialised || !record.Has(d.Self()) ||
		d.Engine.Data != tenure.DataWhole || d.Engine.Leading != nil || d.promised() || d.cannotLead() != "" || d.predates() {
		return false
	}
	if d.Stored.Fence != nil && d.Stored.Fence.Version != d.Lease.Version {
		return false
	}
	if !d.expired() {
		d.again(d.Lease.Changed.Add(d.lasts()).Since(d.Now))
		return false
	}
	if d.Policy.Durability == tenure.Async && d.Engine.Lag > d.Policy.MaxFailoverLag {
		d.wait(wire.ReasonQuorumMissing, fmt.Sprintf("this copy lacks %d bytes, and spec.maxFailoverLag allows %d",
			d.Engine.Lag, d.Policy.MaxFailoverLag))
		return false
	}
	return d.Write == nil
}

// tooEarly waits for the own turn, and for a consistent read after the lease has ended (E2).
func (d *draft) tooEarly() bool {
	ended, turn := d.ended(), 0
	for _, member := range d.Lease.Record.Members {
		if member == d.Self() {
			break
		}
		if member != d.Lease.Holder {
			turn++
		}
	}
	if d.recently(ended, time.Duration(turn)*standTurn) {
		return true
	}
	needed := ended
	for _, doubt := range d.Doubts {
		needed = max(needed, doubt.Ended)
	}
	if d.Lease.Read >= needed && d.Lease.Read > 0 {
		return false
	}
	if d.Reading == nil && !d.recently(d.Tried, d.Policy.Renew/4) {
		d.read("E2: a consistent read must return the same version")
	}
	return true
}

// answersNeeded is how many members must answer.
func (d *draft) answersNeeded() int {
	// The record says what was promised; the own settings may be ahead of it, or behind.
	if d.Policy.Durability == tenure.Async && d.Lease.Record.W == 1 {
		return 1
	}
	return recordOf(*d.Lease.Record).Answers()
}

// ask asks who would answer. Nobody is fenced before enough say yes (E3): one blind member must not disturb a healthy
// primary.
func (d *draft) ask() bool {
	willing, needed := 0, d.answersNeeded()
	for _, member := range d.Lease.Record.Members {
		if slices.Contains(d.Ballot.Willing, member) {
			willing++
		}
	}
	hear := needed == 1 && willing < len(d.Lease.Record.Members)-1 && d.Now.Since(d.Ballot.Begun) < hearPatience
	if willing < needed || hear {
		d.askTheOthers()
		d.wait(wire.ReasonQuorumMissing, fmt.Sprintf("%d members would answer, and %d must, so that nothing is lost",
			willing, needed))
		// The others may have a reason to be silent that only the lease can tell: a watch does not show that it was put
		// back.
		if d.Reading == nil && !d.recently(max(d.Lease.Read, d.Tried), d.lasts()) {
			d.read("too few would answer, and the lease may be another one by now")
		}
		return false
	}
	ballot := *d.Ballot
	now := d.Now
	ballot.Fencing = &now
	fence := tenure.Fence{LeaseUID: ballot.LeaseUID, Version: ballot.Version}
	d.fence("F1: the own fence is on the volume before any answer", fence)
	d.do(tenure.Conduct{Why: "E3: enough members would answer", Ballot: &ballot})
	d.answerOwn(fence)
	return d.collect()
}

func (d *draft) askTheOthers() {
	for _, member := range d.Lease.Record.Members {
		if member.Name != d.Name && !slices.Contains(d.Ballot.Willing, member) {
			d.send("E3: would it answer?", askEvery, wire.PeerRequest{
				Kind: wire.PeerAsk, To: member, LeaseVersion: d.Ballot.Version,
			})
		}
	}
}

func (d *draft) answerOwn(fence tenure.Fence) {
	d.do(tenure.AnswerBallot{
		Why: "F1: the own position counts only behind the own fence", Fence: fence,
		Reply: wire.PeerReply{PeerHeader: d.header(), Yes: true},
	})
}

// collect asks for answers, and takes the lease with enough of them and a position that none exceeds (E4).
func (d *draft) collect() bool {
	if d.learnThatItWasPutBack() {
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
	d.again(askEvery)
	for _, member := range d.Lease.Record.Members {
		if member.Name != d.Name && !d.answered(member) {
			d.send("E4: how far has it come?", fenceEvery, wire.PeerRequest{
				Kind: wire.PeerFence, To: member, LeaseVersion: d.Ballot.Version,
			})
		}
	}
	fence := tenure.Fence{LeaseUID: d.Ballot.LeaseUID, Version: d.Ballot.Version}
	switch {
	case own == nil:
		if !slices.ContainsFunc(d.plan.Actions, isOwnAnswer) && d.Now.Since(*d.Ballot.Fencing) >= askEvery {
			d.answerOwn(fence)
		}
	case count < d.answersNeeded() || d.mustHear(count):
		d.wait(wire.ReasonQuorumMissing, fmt.Sprintf("%d members have answered, and %d must", count, d.answersNeeded()))
	case highest.Member == (wire.Member{}) || own.Position.Compare(highest.Position) >= 0 || d.mayLose():
		d.takeOver()
	default:
		d.catchUp(*own, highest, fence)
	}
	return true
}

// mustHear lets the others answer for a moment where no answer is needed: whoever has most shall lead.
func (d *draft) mustHear(count int) bool {
	return d.answersNeeded() == 1 && count < len(d.Ballot.Willing) && d.Now.Since(*d.Ballot.Fencing) < hearPatience
}

func isOwnAnswer(action tenure.Action) bool {
	answer, ok := action.(tenure.AnswerBallot)
	return ok && answer.ID == 0
}

func (d *draft) answered(member wire.Member) bool {
	return slices.ContainsFunc(d.Ballot.Answers, func(a tenure.Answer) bool { return a.Member == member })
}

// takeOver changes holder, term and timeline, and carries members and quorum over unchanged (Q2). The timeline is
// reserved by the same write (T1).
func (d *draft) takeOver() {
	record := *d.Lease.Record
	record.Term, record.Timeline, record.Switchover = d.Lease.Term+1, record.Timeline+1, nil
	d.write(tenure.WriteTake, "E4: enough members have answered, and none has more than this copy", d.Self(), record)
}

// catchingUp says that the log of another member is being taken for a ballot of this one. An answer to somebody else's
// ballot meanwhile would end that; if two take the log of a third and call each other, neither would ever have it.
func (d *draft) catchingUp() bool {
	return d.Standing.Role == tenure.RoleCatchUp && d.Ballot != nil && d.Ballot.Fencing != nil &&
		d.recently(*d.Ballot.Fencing, catchUpPatience)
}

// ownBallotFirst is what whoever asks meanwhile is told.
func (d *draft) ownBallotFirst() string {
	return "this instance conducts a ballot of its own, and takes the log of " + d.Standing.Upstream.Name + " for it"
}

// catchUp takes the log of the member that has most, if that does not take the lease itself. If the log does not come,
// that member may be gone, and its answer with it: those that are left are asked anew.
func (d *draft) catchUp(own, highest tenure.Answer, fence tenure.Fence) {
	if !highest.CannotLead && d.Now.Since(*d.Ballot.Fencing) < highestPatience {
		d.wait(wire.ReasonElection, highest.Member.Name+" has more of the log, and is given the time to take the lease")
		return
	}
	if d.Now.Since(*d.Ballot.Fencing) >= catchUpPatience {
		why := "the log of " + highest.Member.Name + " does not come: answers are asked for anew"
		d.do(tenure.Conduct{Why: tenure.Why(why)})
		d.obey("an election begins anew", d.idle())
		return
	}
	if d.Standing.Role == tenure.RoleCatchUp && d.Engine.Flushed != nil &&
		d.Engine.Flushed.Compare(highest.Position) >= 0 {
		d.obey("F1: the own position counts only behind the own fence", d.idle())
		d.answerOwn(fence)
		return
	}
	standing := d.idle()
	standing.Role, standing.Upstream, standing.UpstreamAddress = tenure.RoleCatchUp, highest.Member, highest.Address
	standing.Until = &highest.Position
	why := fmt.Sprintf("%s has more than %s and does not take the lease", highest.Member, own.Position)
	d.obey(tenure.Why(why), standing)
	d.wait(wire.ReasonElection, "the log of "+highest.Member.Name+" is taken first")
}
