// Package plan decides what an agent does about the lease of its database: Decide is a function from a Snapshot to a
// Plan and nothing else. The rules below are the table of contents; their ids are those of the design of high
// availability. The invariants in invariants.go are written independently of them and are checked before every act.
//
// Start reading at rules.
package plan

import (
	"cmp"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
)

// rules is every rule, safety first. A rule that ends the plan leaves the later ones for a pass that sees its effect.
var rules = []rule.Step[*draft]{
	// What must never happen.
	rule.Do("tenure.stop-at-the-deadline", stopLeadingInTime,
		"past the deadline, or under another holder, no process of the server is left", "C1", "C2"),
	rule.Do("tenure.wait-for-facts", waitForFacts,
		"without the volume or the settings nothing is begun, and nobody is answered"),
	rule.Do("tenure.ignore-restored-copy", ignoreRestoredCopy,
		"a volume that was restored may be an older state: its copy answers nobody and waits to be replaced", "I1"),
	rule.Do("tenure.keep-promises-after-boot", keepPromisesAfterBoot,
		"when a promise ends cannot be told after a boot, so it holds for a whole lease duration more"),
	rule.Do("tenure.forget-an-unused-lease", startOver,
		"a lease that nobody has obeyed is forgotten when the settings name another one", "V2"),
	rule.Do("tenure.recover-a-lost-lease", mendALostLease,
		"a lease that is gone, or another one in its place, is not free to take", "O1", "O2", "O3"),
	rule.Do("tenure.remember-the-lease", learnFromTheLease,
		"terms only grow, and a fence is lifted by a consistent read alone", "F2"),
	rule.Do("tenure.read-what-is-in-doubt", readTheLease,
		"a write whose outcome is unknown is read until it is known", "E5"),
	rule.Do("tenure.believe-a-later-term", heedALaterTerm,
		"a term that members know of and the lease does not show means that the lease was restored to an "+
			"older state", "O3"),
	rule.Do("tenure.release-without-a-copy", surrenderALostCopy,
		"a holder whose copy is gone gives the lease back, so that an instance with a copy takes it", "V1"),

	// What others ask.
	rule.Do("tenure.answer-peers", answerPeers, "nothing is answered that is not on the volume before", "E3", "F1"),
	rule.Do("tenure.answer-switchovers", decideOnSwitchovers, "whoever asks for another primary is told yes or no"),

	// The holder.
	rule.Do("tenure.renew-the-lease", renewTheLease, "the deadline counts from the begin of a successful renewal"),
	rule.Do("tenure.ask-for-promises", askForPromises,
		"from the first failed renewal on, the promises of the members carry the primary through an outage "+
			"of the API server"),
	rule.Do("tenure.create-the-first-copy", beginADatabase,
		"the first holder creates the data, and serves nobody before that is recorded"),
	rule.Do("tenure.hand-over", yieldThePlace,
		"a switchover closes the gate, stops the server, reads its final position, and then transfers the lease"),
	rule.Do("tenure.lead-as-the-holder", leadAsTheHolder,
		"the server leads only by the lease, waits for its quorum, and lets applications in when it may", "C3", "Q2", "G1"),
	rule.Do("tenure.record-a-flush", rememberAFlush,
		"a flush is in the lease before anybody is told that it is done, so that no copy from before it leads", "V6"),
	rule.Do("tenure.change-members", changeMembers,
		"the quorum changes in the lease and at the server one side at a time", "Q1", "Q3"),
	rule.Do("tenure.route-writes", routeWrites,
		"the write address leads to the holder once its server is a primary, before its gate opens"),
	rule.Do("tenure.tell-peers", tellPeers, "the others follow at once"),

	// The others.
	rule.Do("tenure.stand-for-the-lease", standForTheLease,
		"a replica takes an ended lease with the answers of enough members and no less WAL than any of "+
			"them", "E1", "E2", "E3", "E4"),
	rule.Do("tenure.drop-a-copy-from-before-a-flush", dropAnOldCopy,
		"a copy from before a flush makes room for an empty one when nobody has a later one", "V6"),
	rule.Do("tenure.lead-as-the-last-copy", joinInTime,
		"a copy that is no member yet leads when no member has one", "V7"),
	rule.Do("tenure.start-an-empty-cache", beginAnew,
		"where data may be lost, an empty copy is begun when no member has one", "V2"),
	rule.Do("tenure.follow-the-holder", followTheHolder,
		"only a holder of the highest term ever seen is followed", "F2"),
	rule.Do("tenure.report-a-lost-stream", reportALostStream,
		"a holder that reaches the API server and none of its peers must learn that no replica streams"),
	rule.Do("tenure.label-the-pod", labelThePod, "the read address finds this instance by the label of its pod"),
	rule.Do("tenure.finish-when-told", finishWhenTold, "a pod may end when this instance has nothing to hand over"),
}

// Rules are what the planner does, in order.
func Rules() []rule.Rule { return rule.Steps(rules) }

// Invariants are what no plan may break.
func Invariants() []rule.Rule { return rule.Invariants(invariants) }

// Decide makes the plan.
func Decide(snapshot tenure.Snapshot) tenure.Plan {
	plan := &draft{Snapshot: snapshot}
	rule.Run(rules, plan)
	return plan.plan
}

// draft is a plan in the making. The snapshot in it is as it is when the actions so far were carried out: a later rule
// sees what an earlier one has put before it, such as what will be on the volume by then. No rule changes it but by an
// action.
type draft struct {
	tenure.Snapshot
	plan tenure.Plan
	// obeyed says that the plan tells the server something new: no facts are about that yet.
	obeyed bool
}

func (d *draft) do(action tenure.Action) {
	d.plan.Actions = append(d.plan.Actions, action)
	d.Snapshot = d.After(action)
}

func (d *draft) wait(reason wire.Reason, detail string) {
	d.plan.Holds = append(d.plan.Holds, tenure.Hold{Reason: reason, Detail: detail})
}

func (d *draft) stall(reason wire.Reason, detail string) {
	d.plan.Holds = append(d.plan.Holds, tenure.Hold{Reason: reason, Detail: detail, Stalled: true})
}

// store puts it on the volume, and lets the later rules see it there.
func (d *draft) store(why tenure.Why, change func(*tenure.Stored)) {
	stored := d.Stored
	stored.DatabaseUID = d.DatabaseUID
	change(&stored)
	d.do(tenure.Store{Why: why, Stored: stored})
}

// obey tells the server what to be, if it is not that already.
func (d *draft) obey(why tenure.Why, standing tenure.Standing) {
	standing.Serial = d.Standing.Serial
	if same(standing, d.Standing) {
		return
	}
	d.obeyed = true
	d.do(tenure.Obey{Why: why, Standing: standing})
}

// again brings the next look forward.
func (d *draft) again(in time.Duration) {
	in = max(in, time.Millisecond)
	if d.plan.Again == 0 || in < d.plan.Again {
		d.plan.Again = in
	}
}

// holder says that the lease names this very copy.
func (d *draft) holder() bool {
	return d.Lease.Exists && d.Lease.Record != nil && d.Self().Incarnation != "" && d.Lease.Holder == d.Self() &&
		d.Lost() == ""
}

// record is the one to go by: the lease's, or, while that cannot be read or is lost, the one that was acted upon last.
func (d *draft) record() *wire.LeaseRecord {
	if d.Lost() == "" && d.Lease.Exists && d.Lease.Record != nil && d.outdoes(d.Lease.Record) {
		return d.Lease.Record
	}
	return d.Stored.LastRecord
}

// expired says that nobody has renewed the lease for as long as it lasts by the own clock, or that nobody holds it.
func (d *draft) expired() bool {
	return d.Lease.Exists && (d.Lease.Holder == (wire.Member{}) || d.Now.Since(d.Lease.Changed) >= d.lasts())
}

// lasts is how long a holder must be silent until the lease has ended for the others.
func (d *draft) lasts() time.Duration { return d.duration() - d.Policy.Head(d.duration()) }

// duration is how long the lease and promises last: as the holder has written, or as the own settings say, if that is
// longer. Settings reach the instances one after the other.
func (d *draft) duration() time.Duration { return max(d.Policy.Duration, d.Lease.Duration) }

func (d *draft) header() wire.PeerHeader {
	term := d.Stored.MaxTerm
	if d.Lost() == "" {
		term = max(term, d.Lease.Term)
	}
	return wire.PeerHeader{
		DatabaseUID: d.DatabaseUID, LeaseUID: d.Stored.LeaseUID, Term: term, From: d.Self(), Address: d.Address,
	}
}

// send sends a request, unless the same was sent a moment ago.
func (d *draft) send(why tenure.Why, every time.Duration, request wire.PeerRequest) {
	for _, sent := range d.Sent {
		if sent.To == request.To.Name && sent.Kind == request.Kind && d.Now.Since(sent.At) < every {
			d.again(every - d.Now.Since(sent.At))
			return
		}
	}
	term, lease := request.Term, request.LeaseUID
	request.PeerHeader = d.header()
	request.Term, request.LeaseUID = max(term, request.Term), cmp.Or(lease, request.LeaseUID)
	d.do(tenure.Send{Why: why, Request: request})
	d.again(every)
}
