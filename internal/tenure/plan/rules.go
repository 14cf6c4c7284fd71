// Package plan decides what an agent does about the lease of its database: Decide is a function from a Snapshot to a
// Plan and nothing else. A pass goes through phases, which say what the lease is to this instance; the rules of each
// are in the packages of the protocols, beside this one. The invariants are written independently of them, in package
// invariant, and are checked before every act.
//
// Start reading at phases.go, then rules.go.
package plan

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/ballot"
	"meridian.dev/meridian/internal/tenure/cache"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/follow"
	"meridian.dev/meridian/internal/tenure/isolation"
	"meridian.dev/meridian/internal/tenure/lead"
	"meridian.dev/meridian/internal/tenure/lease"
	"meridian.dev/meridian/internal/tenure/lost"
	"meridian.dev/meridian/internal/tenure/promise"
	"meridian.dev/meridian/internal/tenure/route"
	"meridian.dev/meridian/internal/tenure/succession"
	"meridian.dev/meridian/kit/rule"
)

// step is a rule of the planner.
type step = rule.Step[*draft.Draft]

// The rules, in groups that stay together in every phase. A rule that ends the plan leaves the later ones for a pass
// that sees its effect.
var (
	// What must never happen, whatever else is so.
	safely = []step{
		rule.Do("tenure.stop-at-the-deadline", lease.StopLeadingInTime,
			"past the deadline, or under another holder, no process of the server is left", "C1", "C2"),
	}
	blindly = []step{
		rule.Do("tenure.wait-for-facts", lease.WaitForFacts,
			"without the volume or the settings nothing is begun, and nobody is answered"),
	}
	ignoring = []step{
		rule.Do("tenure.ignore-restored-copy", ignoreRestoredCopy,
			"a volume that was restored may be an older state: its copy answers nobody and waits to be replaced", "I1"),
	}
	idling = []step{
		rule.Do("tenure.idle-with-a-restored-copy", idleWithARestoredCopy,
			"a restored copy is told which timelines were given out, so that it never writes one of them anew", "I1"),
	}
	// What this volume was told before.
	reminded = []step{
		rule.Do("tenure.keep-promises-after-boot", promise.KeepPromisesAfterBoot,
			"when a promise ends cannot be told after a boot, so it holds for a whole lease duration more"),
		rule.Do("tenure.forget-an-unused-lease", cache.StartOver,
			"a lease that nobody has obeyed is forgotten when the settings name another one", "V2"),
		rule.Do("tenure.remember-a-recovered-lease", lost.LearnWhatWasWritten,
			"a holder that has recovered its lease and lost it again has held that term", "O1"),
	}
	// A lease that is lost.
	losing = []step{
		rule.Do("tenure.recover-a-lost-lease", lost.TellOfIt,
			"a lease that is gone, or another one in its place, is not free to take", "O1", "O2", "O3"),
	}
	looking = []step{
		rule.Do("tenure.read-a-lost-lease", lost.ReadTheLostLease,
			"a lost lease may come back, or another one in its place, and a watch does not show that for sure"),
	}
	testifying = []step{
		rule.Do("tenure.answer-without-a-lease", lost.AnswerWithoutALease,
			"a holder may go on by promises, and members may vote on a new lease", "E3", "F1"),
	}
	succeeding = []step{
		rule.Do("tenure.recover-as-the-holder", lost.Succeed,
			"the living holder writes its lost lease anew while enough members promise not to elect", "O1"),
	}
	staying = []step{
		rule.Do("tenure.stay-without-a-lease", lost.StayWithoutALease,
			"the writes of a holder that goes on need those who follow it"),
	}
	standingWithAll = []step{
		rule.Do("tenure.recover-with-all-members", lost.StandWithoutALease,
			"without the lease nobody knows which members count, so all of them must answer", "O2"),
	}
	stopping = []step{
		rule.Do("tenure.stop-without-a-lease", lost.Stop,
			"a pod that ends stops its primary in good order, and gives nothing away"),
	}
	// A lease that is obeyed.
	learning = []step{
		rule.Do("tenure.remember-the-lease", lease.LearnFromTheLease,
			"terms only grow, and a fence is lifted by a consistent read alone", "F2"),
		rule.Do("tenure.read-what-is-in-doubt", lease.ReadTheLease,
			"a write whose outcome is unknown is read until it is known", "E5"),
	}
	doubting = []step{
		rule.Do("tenure.believe-a-later-term", lost.HeedALaterTerm,
			"a term that members know of and the lease does not show means that the lease was restored to an "+
				"older state", "O3"),
		rule.Do("tenure.release-without-a-copy", cache.SurrenderALostCopy,
			"a holder whose copy is gone gives the lease back, so that an instance with a copy takes it", "V1"),
	}
	// What others ask.
	answering = []step{
		rule.Do("tenure.answer-peers", answerPeers, "nothing is answered that is not on the volume before", "E3", "F1"),
		rule.Do("tenure.answer-switchovers", succession.DecideOnSwitchovers,
			"whoever asks for another primary is told yes or no"),
	}
	// The holder.
	renewing = []step{
		rule.Do("tenure.renew-the-lease", lease.RenewTheLease,
			"the deadline counts from the begin of a successful renewal"),
	}
	promised = []step{
		rule.Do("tenure.ask-for-promises", promise.AskForPromises,
			"from the first failed renewal on, the promises of the members carry the primary through an outage "+
				"of the API server"),
	}
	passingOn = []step{
		rule.Do("tenure.create-the-first-copy", succession.BeginADatabase,
			"the first holder creates the data, and serves nobody before that is recorded"),
		rule.Do("tenure.hand-over", succession.YieldThePlace,
			"a switchover closes the gate, stops the server, reads its final position, and then transfers the lease"),
	}
	leading = []step{
		rule.Do("tenure.lead-as-the-holder", lead.AsTheHolder,
			"the server leads only by the lease, waits for its quorum, and lets applications in when it may",
			"C3", "Q2", "G1"),
	}
	holding = []step{
		rule.Do("tenure.record-a-flush", cache.RememberAFlush,
			"a flush is in the lease before anybody is told that it is done, so that no copy from before it leads", "V6"),
		rule.Do("tenure.change-members", lead.ChangeMembers,
			"the quorum changes in the lease and at the server one side at a time", "Q1", "Q3"),
		rule.Do("tenure.route-writes", route.Writes,
			"the write address leads to the holder once its server is a primary, before its gate opens"),
		rule.Do("tenure.tell-peers", follow.TellPeers, "the others follow at once"),
	}
	// The others.
	standing = []step{
		rule.Do("tenure.stand-for-the-lease", ballot.StandForTheLease,
			"a member of the quorum takes an ended lease with the answers of enough members and no less WAL "+
				"than any of them; a copy that is no member never does, whatever WAL it has", "E1", "E2", "E3", "E4"),
		rule.Do("tenure.drop-a-copy-from-before-a-flush", cache.DropAnOldCopy,
			"a copy from before a flush makes room for an empty one when nobody has a later one", "V6"),
		rule.Do("tenure.lead-as-the-last-copy", cache.JoinInTime,
			"a copy that is no member yet leads when no member has one", "V7"),
		rule.Do("tenure.start-an-empty-cache", cache.BeginAnew,
			"where data may be lost, an empty copy is begun when no member has one", "V2"),
	}
	following = []step{
		rule.Do("tenure.follow-the-holder", follow.TheHolder,
			"only a holder of the highest term ever seen is followed", "F2"),
	}
	reporting = []step{
		rule.Do("tenure.ask-what-others-have", follow.AskWhatOthersHave,
			"a copy for which nobody has WAL is replaced only when others have what it has", "I4"),
		rule.Do("tenure.report-a-lost-stream", isolation.ReportALostStream,
			"a holder that reaches the API server and none of its peers must learn that no replica streams"),
	}
	labelling = []step{
		rule.Do("tenure.label-the-pod", route.LabelThePod, "the read address finds this instance by the label of its pod"),
	}
	ending = []step{
		rule.Do("tenure.finish-when-told", succession.FinishWhenTold,
			"a pod may end when this instance has nothing to hand over"),
	}
)

// Rules are what the planner does, in the order of the phases. A rule of several phases is named once.
func Rules() []rule.Rule {
	var all []rule.Rule
	named := map[string]bool{}
	for _, each := range phases {
		for _, known := range rule.Steps(each.rules) {
			if !named[known.ID] {
				named[known.ID] = true
				all = append(all, known)
			}
		}
	}
	return all
}

// Decide makes the plan: it goes from phase to phase, and ends with the last one, or with a rule that ends the plan.
func Decide(snapshot tenure.Snapshot) tenure.Plan {
	d := &draft.Draft{Snapshot: snapshot}
	for each := beginning; each != nil; {
		rule.Run(each.rules, d)
		if each.next == nil {
			break
		}
		each = each.next(d)
	}
	return d.Plan
}
