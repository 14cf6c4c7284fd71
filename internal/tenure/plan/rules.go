// Package plan decides what an agent does about the lease of its database: Decide is a function from a Snapshot to a
// Plan and nothing else. The rules below are the table of contents; their ids are those of the design of high
// availability. The invariants in invariants.go are written independently of them and are checked before every act.
//
// Start reading at rules.
package plan

import (
	"cmp"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// rules is every rule, safety first. A rule that ends the plan leaves the later ones for a pass that sees its effect.
var rules = []rule{
	// What must never happen.
	stopLeadingInTime,     // C1, C2: past the deadline, or under another holder, nothing of the server is left.
	waitForFacts,          // Without the volume or the settings nothing is begun, and nobody is answered.
	countForNothing,       // I1: a copy that was put back answers nobody, and only waits for a new one.
	keepPromisesAfterBoot, // A promise outlives a boot by a whole duration, because its end cannot be told any more.
	startOver,             // V2: a lease that nobody has obeyed is forgotten when the settings name another one.
	mendALostLease,        // O1, O2, O3: a lease that is gone, or another one, is not free.
	learnFromTheLease,     // F2: terms only grow; a fence is lifted by a consistent read alone.
	readTheLease,          // E5: what is in doubt is read until it is known.
	heedALaterTerm,        // O3: a term that members know of and the lease does not show makes it a lost one.
	surrenderALostCopy,    // V1: a holder whose copy is gone gives the lease back, so that one with a copy takes it.

	// What others ask.
	answerPeers,         // E3, F1: nothing is answered that is not on the volume before.
	decideOnSwitchovers, // Whoever asks for another primary is told yes or no.

	// The holder.
	renewTheLease,   // The deadline counts from the begin of a successful renewal.
	askForPromises,  // Failsafe: from the first failed renewal on.
	beginADatabase,  // The first holder makes the first data, and serves nobody before that is recorded.
	yieldThePlace,   // Switchover: gate, stop, the final position, then the transfer.
	leadAsTheHolder, // C3, Q2, G1: the server leads only by the lease, waits for the quorum, and lets in when it may.
	rememberAFlush,  // V6: what was emptied is recorded before anybody is told, so that no copy from before it leads.
	changeMembers,   // Q1, Q3: one side at a time.
	routeWrites,     // The write address leads to the holder once its server is a primary, before its gate opens.
	tellPeers,       // Others follow at once.

	// The others.
	standForTheLease, // E1, E2, E3, E4.
	dropAnOldCopy,    // V6: a copy from before a flush makes room for an empty one when nobody has a later one.
	joinInTime,       // V7: a copy that is no member yet leads when no member has one.
	beginAnew,        // V2: where data may be lost, an empty copy is begun when no member has one.
	followTheHolder,  // F2: only a holder of the highest term ever seen.
	missTheHolder,    // A holder that reaches the API server and no peer hears of it by the pods of its members.
	labelThePod,
	finishWhenTold,
}

// rule adds actions and holds to the draft. It reports whether the plan ends with it.
type rule func(*draft) (end bool)

// Decide makes the plan.
func Decide(snapshot tenure.Snapshot) tenure.Plan {
	plan := &draft{Snapshot: snapshot}
	for _, rule := range rules {
		if rule(plan) {
			break
		}
	}
	return plan.plan
}

// draft is a plan in the making. Rules change the snapshot in it where a later rule must see what an earlier one has
// put before it, such as what will be on the volume by then.
type draft struct {
	tenure.Snapshot
	plan tenure.Plan
	// obeyed says that the plan tells the server something new: no facts are about that yet.
	obeyed bool
}

func (d *draft) do(action tenure.Action) { d.plan.Actions = append(d.plan.Actions, action) }

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
	d.Stored = stored
	d.do(tenure.Store{Why: why, Stored: stored})
}

// obey tells the server what to be, if it is not that already.
func (d *draft) obey(why tenure.Why, standing tenure.Standing) {
	standing.Serial = d.Standing.Serial
	if same(standing, d.Standing) {
		return
	}
	d.Standing, d.obeyed = standing, true
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
	d.Sent = append(slices.Clone(d.Sent), tenure.Sent{
		To: request.To.Name, Kind: request.Kind, At: d.Now, Since: d.Now,
	})
	d.again(every)
}
