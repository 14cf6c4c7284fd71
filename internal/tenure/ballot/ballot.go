// Package ballot is an election: whoever stands asks who would answer, fences, and takes the lease with enough answers
// and no less WAL than any of them. Who must answer is an Electorate: enough members for the quorum when the lease has
// ended, all of them when it is lost. Start reading at Electorate.
package ballot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

const (
	// fenceEvery is how often a peer is asked again for its answer.
	fenceEvery = 500 * time.Millisecond
	// catchUpPatience is how long the log of another member is waited for before answers are asked for anew.
	catchUpPatience = 10 * time.Second
)

// Electorate is who must answer, and what an election with them means. All else about an election is the same.
type Electorate struct {
	// Members may answer, and Needed is how many of them must. Others says whether a member is asked over the network.
	Members []wire.Member
	Needed  int
	Others  func(wire.Member) bool
	// ByName lets the first by name have the most if several do, and not the first who has answered.
	ByName bool
	// MayLose lets a copy win that has less than another one which has not taken the lease in time.
	MayLose bool
	// Opening, Enough and Asking say why a ballot is opened, why members are fenced, and why they are asked for answers.
	Opening, Enough, Asking tenure.Why
	// Answer is what this instance itself answers, but for the position.
	Answer func(*draft.Draft) wire.PeerReply
	// TooFewWilling and TooFewAnswers tell what is waited for.
	TooFewWilling func(silent []wire.Member, willing int)
	TooFewAnswers func(count int)
	// Win writes the lease.
	Win func(*draft.Draft)
}

// Open opens a ballot about the version of the lease that is there, unless one is open.
func (e Electorate) Open(d *draft.Draft) {
	if d.Ballot != nil {
		return
	}
	d.Do(tenure.Conduct{Why: e.Opening, Ballot: &tenure.Ballot{
		LeaseUID: d.Lease.UID, Version: d.Lease.Version, Begun: d.Now, Willing: []wire.Member{d.Self()},
	}})
}

// Ask asks who would answer, and begins to fence when enough would. Nobody is fenced before (E3): one blind member must
// not disturb a healthy primary.
func (e Electorate) Ask(d *draft.Draft) (enough bool) {
	var silent []wire.Member
	for _, member := range e.Members {
		if !slices.Contains(d.Ballot.Willing, member) {
			silent = append(silent, member)
		}
	}
	willing := len(e.Members) - len(silent)
	hears := e.Needed == 1 && willing < len(e.Members)-1 && d.Now.Since(d.Ballot.Begun) < draft.HearPatience
	if willing < e.Needed || hears {
		e.request(d, "tenure.fence-only-a-winnable-ballot: would it answer?", draft.AskEvery, wire.PeerAsk, silent)
		e.TooFewWilling(silent, willing)
		return false
	}
	ballot, now := *d.Ballot, d.Now
	ballot.Fencing = &now
	d.Again(draft.AskEvery)
	d.Fence("tenure.fence-before-answering: the own fence is on the volume before any answer", fenceOf(ballot))
	d.Do(tenure.Conduct{Why: e.Enough, Ballot: &ballot})
	answerOwn(d, e.Answer)
	return true
}

// request asks members about the version of the lease that the ballot is about.
func (e Electorate) request(
	d *draft.Draft, why tenure.Why, every time.Duration, kind wire.PeerKind, members []wire.Member,
) {
	for _, member := range members {
		if e.Others(member) {
			d.Send(why, every, wire.PeerRequest{
				PeerHeader: wire.PeerHeader{LeaseUID: d.Ballot.LeaseUID}, Kind: kind, To: member,
				LeaseVersion: d.Ballot.Version,
			})
		}
	}
}

// Collect asks for answers, and takes the lease with enough of them and a position that none exceeds (E4).
func (e Electorate) Collect(d *draft.Draft) {
	own, highest, count, silent := e.count(d)
	d.Again(draft.AskEvery)
	e.request(d, e.Asking, fenceEvery, wire.PeerFence, silent)
	fencing := d.Now.Since(*d.Ballot.Fencing)
	// Where no answer is needed, the others may answer for a moment: whoever has most shall lead.
	hears := e.Needed == 1 && count < len(d.Ballot.Willing) && fencing < draft.HearPatience
	switch {
	case own == nil:
		if !slices.ContainsFunc(d.Plan.Actions, isOwnAnswer) && fencing >= draft.AskEvery {
			answerOwn(d, e.Answer)
		}
	case count < e.Needed || hears:
		e.TooFewAnswers(count)
	case highest.Member == (wire.Member{}) || own.Position.Compare(highest.Position) >= 0 ||
		e.MayLose && fencing >= draft.HighestPatience:
		e.Win(d)
	default:
		catchUp(d, *own, highest)
	}
}

// count looks at the answers: the own one, the one of the other member that has most, how many there are, and who is
// silent.
func (e Electorate) count(d *draft.Draft) (own *tenure.Answer, highest tenure.Answer, count int, silent []wire.Member) {
	answers := slices.Clone(d.Ballot.Answers)
	if e.ByName {
		slices.SortStableFunc(answers, func(a, b tenure.Answer) int {
			return strings.Compare(a.Member.String(), b.Member.String())
		})
	}
	for _, answer := range answers {
		switch {
		case !slices.Contains(e.Members, answer.Member):
			continue
		case answer.Member == d.Self():
			own = &answer
		case highest.Member == (wire.Member{}) || answer.Position.Compare(highest.Position) > 0:
			highest = answer
		}
		count++
	}
	for _, member := range e.Members {
		if !slices.ContainsFunc(answers, func(a tenure.Answer) bool { return a.Member == member }) {
			silent = append(silent, member)
		}
	}
	return own, highest, count, silent
}

// answerOwn answers the own ballot, as others are asked to.
func answerOwn(d *draft.Draft, answer func(*draft.Draft) wire.PeerReply) {
	d.Do(tenure.AnswerBallot{
		Why: "tenure.fence-before-answering: " +
			"the own position counts only behind the own fence", Fence: fenceOf(*d.Ballot), Reply: answer(d),
	})
}

func isOwnAnswer(action tenure.Action) bool {
	answer, ok := action.(tenure.AnswerBallot)
	return ok && answer.ID == 0
}

func fenceOf(ballot tenure.Ballot) tenure.Fence {
	return tenure.Fence{LeaseUID: ballot.LeaseUID, Version: ballot.Version}
}

// catchUp takes the log of the member that has most, if that does not take the lease itself. If the log does not come,
// that member may be gone, and its answer with it: those that are left are asked anew.
func catchUp(d *draft.Draft, own, highest tenure.Answer) {
	if !highest.CannotLead && d.Now.Since(*d.Ballot.Fencing) < draft.HighestPatience {
		d.Wait(wire.ReasonElection, highest.Member.Name+" has more WAL, and is given the time to take the lease")
		return
	}
	if d.Now.Since(*d.Ballot.Fencing) >= catchUpPatience {
		why := "the log of " + highest.Member.Name + " does not come: answers are asked for again"
		d.Do(tenure.Conduct{Why: tenure.Why(why)})
		d.Obey("an election begins anew", d.Idle())
		return
	}
	if d.Standing.Role == tenure.RoleCatchUp && d.Engine.Flushed != nil &&
		d.Engine.Flushed.Compare(highest.Position) >= 0 {
		d.Obey("tenure.fence-before-answering: the own position counts only behind the own fence", d.Idle())
		answerOwn(d, plainly)
		return
	}
	standing := d.Idle()
	standing.Role, standing.Upstream, standing.UpstreamAddress = tenure.RoleCatchUp, highest.Member, highest.Address
	standing.Until = &highest.Position
	why := fmt.Sprintf("%s has more than %s and does not take the lease", highest.Member, own.Position)
	d.Obey(tenure.Why(why), standing)
	d.Wait(wire.ReasonElection, "the log of "+highest.Member.Name+" is received first")
}
