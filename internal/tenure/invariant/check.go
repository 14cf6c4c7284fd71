// Package invariant says what no plan of the loop may break, written from what must hold and without a look at the
// rules, and checks it before every act. Start reading at invariants.
package invariant

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/kit/rule"
)

// invariants are written from what must hold, without a look at the rules. Each is asked about every action, with what
// is on the volume by then.
var invariants = []rule.Invariant[moment, tenure.Action]{
	rule.Never("tenure.keep-the-quorum", keepTheQuorum,
		"what the server waits for and what the lease promises always share a member", "Q1"),
	rule.Never("tenure.carry-the-quorum-over", carryTheQuorumOver,
		"members and quorum never change together with the holder", "Q2"),
	rule.Never("tenure.add-before-removing", addBeforeTakingOut,
		"a lost member is replaced by adding another one first, in a write of its own", "Q3"),
	rule.Never("tenure.count-only-the-own-copy", countOnlyTheOwnCopy,
		"an instance answers and writes in the name of the copy that it has, and of a restored copy not at all", "I1"),
	rule.Never("tenure.arm-no-later-than-the-deadline", armNoLaterThanTheDeadline,
		"the watchdog ends the server before the lease ends for the others", "C1"),
	rule.Never("tenure.shorten-the-lease-in-steps", shortenInSteps,
		"the watchdog goes by the last renewal that it knows of until it hears of the shorter one", "C1"),
	rule.Never("tenure.lead-only-by-right", leadOnlyByRight,
		"a server leads only under a valid lease or promises, with a watchdog, at the highest term seen", "C3"),
	rule.Never("tenure.take-only-the-voted-version", takeOnlyTheVersionOfTheBallot,
		"answers are about one version of the lease", "E1"),
	rule.Never("tenure.elect-only-after-the-end", electOnlyAfterTheEnd,
		"a ballot begins when nobody has renewed the lease for its whole duration, by a consistent read", "E2"),
	rule.Never("tenure.fence-only-a-winnable-ballot", fenceOnlyWithTheWilling,
		"nobody is fenced before so many members would answer that the ballot can be won", "E3"),
	rule.Never("tenure.take-only-with-answers", takeOnlyWithAnswers,
		"whoever takes the lease is a member, and has the answers of enough members and no less WAL than any of them", "E4"),
	rule.Never("tenure.forget-no-write-in-doubt", forgetNoWriteInDoubt,
		"a write of the lease whose outcome is unknown may still be done", "E5"),
	rule.Never("tenure.forget-no-recovered-lease", forgetNoLeaseWrittenAnew,
		"a lease that this instance began to recover is remembered until it is sure which lease counts", "E5"),
	rule.Never("tenure.fence-before-answering", answerOnlyFenced,
		"the fence is on the volume before a ballot is answered, so that nothing is received after the answer", "F1"),
	rule.Never("tenure.lift-a-fence-only-by-a-read", liftOnlyByAConsistentRead,
		"what a watch shows may be older than the ballot that was answered", "F2"),
	rule.Never("tenure.follow-nobody-behind-a-fence", followNobodyBehindAFence,
		"an instance that has answered a ballot follows nobody until the ballot is decided", "F3"),
	rule.Never("tenure.open-only-with-the-quorum", openOnlyWithEnough,
		"applications come in when enough members have all WAL up to the end of recovery", "G1"),
	rule.Never("tenure.promise-only-what-is-stored", promiseOnlyWhatIsStored,
		"a promise that a crash forgets is none", "P1"),
	rule.Never("tenure.transfer-only-after-the-stop", transferOnlyAfterTheEnd,
		"the lease goes to a member that has everything, after the server has ended", "S1"),
	rule.Never("tenure.route-only-for-the-own-term", routeOnlyInTheOwnName,
		"whoever has handed over does not close the write address of the next primary", "S2"),
	rule.Never("tenure.proxy-only-without-a-server", proxyOnlyWithoutAServer,
		"connections are passed on to the next primary only in place of a server that has ended", "S3"),
	rule.Never("tenure.tell-only-a-known-position", tellOnlyAKnownPlace,
		"a position is told of a whole copy whose server does not write", "I3"),
	rule.Never("tenure.reserve-the-next-timeline", reserveTheNextTimeline,
		"each new holder gets the next term and the next timeline, so no two primaries write the same one", "T1"),
	rule.Never("tenure.catch-up-only-to-a-ballot-answer", catchUpOnlyToABallotAnswer,
		"what the lease says makes no candidate wait: there may be nobody who has it", "T2"),
	rule.Never("tenure.succeed-only-with-promises", writeAnewOnlyWithPromises,
		"a holder recovers its lost lease only with the promises of enough members", "O1"),
	rule.Never("tenure.restore-only-with-all-answers", restoreOnlyWithAll,
		"without the lease nobody knows which members count, so all must answer", "O2"),
	rule.Never("tenure.obey-only-a-successor", obeyOnlyASuccessor,
		"another lease is obeyed only if it says that it replaces the one obeyed before, at a later term", "O3"),
	rule.Never("tenure.forget-no-term", forgetNoTerm,
		"a term that was seen is never given out or led under again", "M1"),
	rule.Never("tenure.begin-only-without-a-copy", beginOnlyWithoutACopy,
		"an empty cache is begun only where no copy that could lead is known", "V2"),
	rule.Never("tenure.bring-nothing-back", bringNothingBack, "what a flush removed never comes back", "V6"),
	rule.Never("tenure.nonmember-leads-only-as-last-copy", nonMemberLeadsOnlyAsLastCopy,
		"a copy that is no member leads only where data may be lost and no member has a copy", "V7"),
}

// All are all of them.
func All() []rule.Rule { return rule.Invariants(invariants) }

// moment is the world when an action is about to be done: the snapshot, with the volume and the ballot as the actions
// before it have left them.
type moment struct {
	tenure.Snapshot
	stored tenure.Stored
}

// Check returns the invariants that the plan would break. A plan with a violation is refused as a whole.
func Check(snapshot tenure.Snapshot, plan tenure.Plan) []rule.Violation {
	var violations []rule.Violation
	now := moment{Snapshot: snapshot, stored: snapshot.Stored}
	for _, action := range plan.Actions {
		for _, violation := range rule.Check(invariants, now, action) {
			violation.Detail = action.Verb() + ": " + violation.Detail
			violations = append(violations, violation)
		}
		switch action := action.(type) {
		case tenure.Store:
			now.stored, now.Stored = action.Stored, action.Stored
		case tenure.Conduct:
			now.Ballot = action.Ballot
		}
	}
	return violations
}
