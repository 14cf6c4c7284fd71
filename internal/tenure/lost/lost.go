// Package lost is about a lease that is gone, that is another one, or that was restored to an older state. It takes
// with it who holds it, at which term, and which members count. What the volumes remember of that is enough to go on,
// if one is careful (docs/adr/0012-when-the-lease-is-lost.md):
//
//   - O1: the living holder goes on by promises, as if the API server were away. When there is a lease to write to, it
//     writes its record there, at the next term, while W members have promised: no election can have been won without
//     one of them, and none can be won now. Which lease it writes, at which term, is on its volume before: it may not
//     hear of it, and that lease be lost as well.
//   - O2: without a living holder, all members of the last record must answer, those excepted that a user has given up.
//     Each record was stored by its writer, a member of the one before, ahead of being written: so if all members of
//     the highest record that anybody knows of have answered, there is no later one.
//   - O3: a lease with another UID is obeyed only when its record says that it has taken the place of the one that was
//     obeyed before, at a term above any that was seen, by a consistent read. Its UID is on the volume before anything
//     is done by it.
//
// All of it ends in a conditional write at the one version of the new lease that was seen empty, so that only one of
// all who may try at once gets through.
//
// Start reading at LearnWhatWasWritten.
package lost

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/ballot"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/lease"
	"meridian.dev/meridian/internal/tenure/promise"
	"meridian.dev/meridian/internal/wire"
)

// TellOfIt says what is wrong with the lease.
func TellOfIt(d *draft.Draft) bool {
	reason := wire.ReasonLeaseLost
	if d.Lease.Problem != "" {
		reason = wire.ReasonLeaseUnreadable
	}
	d.Stall(reason, "the lease cannot be obeyed: "+d.Lost())
	return false
}

// Leads says that this instance goes on as the primary, as if the API server were away: what counts is what the members
// promise.
func Leads(d *draft.Draft) bool {
	term, may := d.MayLead()
	return d.Leads() || may && term >= d.Stored.MaxTerm
}

// Waits says that it is too early to stand, or that there is no lease to write. Whoever held it last and has come back
// goes on if enough others agree.
func Waits(d *draft.Draft) bool {
	return !d.Vacant() || d.Recently(d.Lease.Changed, d.Lasts())
}

// Stop ends a pod that was told to end.
func Stop(d *draft.Draft) bool {
	lease.StopAnyway(d)
	return true
}

// LearnWhatWasWritten puts on the volume that this instance has held a lease which it has written anew, if that one is
// lost as well, or was put back, before it was seen.
func LearnWhatWasWritten(d *draft.Draft) bool {
	anew, last := d.Stored.Anew, d.Stored.LastRecord
	if anew == nil || last == nil || d.Right.Term != anew.Term || d.Stored.HeldTerm >= anew.Term || d.Lost() == "" {
		return false
	}
	record := heir(d, *last, anew.Term, last.Timeline)
	lease := anew.Leases[len(anew.Leases)-1]
	record.Revision = d.Revision() + 1
	record.Succeeds = slices.DeleteFunc(slices.Clone(record.Succeeds), func(uid string) bool { return uid == lease })
	record = record.Canonical()
	d.Store("tenure.succeed-only-with-promises: "+
		"what was written anew was held, although it is lost again", func(stored *tenure.Stored) {
		stored.LeaseUID, stored.LastRecord = lease, &record
		stored.HeldTerm, stored.MaxTerm = anew.Term, max(stored.MaxTerm, anew.Term)
	})
	return false
}

// ReadTheLostLease looks whether it has come back, or another one in its place: what a watch shows is not enough.
func ReadTheLostLease(d *draft.Draft) bool {
	d.Again(d.Policy.Renew / 2)
	unread := d.Lease.Exists && d.Lease.Read == 0 && d.Now.Since(d.Tried) > d.Policy.Renew/4
	if d.Reading == nil && d.Write == nil && (unread || d.Now.Since(max(d.Lease.Read, d.Tried)) > d.Policy.Renew) {
		d.ReadLease("the lease may have come back, or another one in its place")
	}
	return false
}

// AnswerWithoutALease answers what can be answered: a holder may go on, and a ballot about the place of the lost lease
// may be conducted.
func AnswerWithoutALease(d *draft.Draft) bool {
	for _, request := range d.Inbox {
		why := d.Misled(request)
		switch {
		case why != "":
			d.Refuse(request, why)
		case request.Kind == wire.PeerPromise:
			promise.AnswerPromise(d, request)
		case request.Kind == wire.PeerAsk:
			ballot.AnswerAsk(d, request, unwillingWithoutALease(d, request))
		case request.Kind == wire.PeerFence:
			ballot.AnswerFence(d, request, unwillingWithoutALease(d, request), testimony)
		default:
			d.Refuse(request, "the lease is lost")
		}
	}
	d.RefuseCallers("the lease is lost")
	if d.Ballot != nil && (!d.Vacant() || d.Ballot.LeaseUID != d.Lease.UID || d.Ballot.Version != d.Lease.Version) {
		d.Do(tenure.Conduct{Why: "tenure.take-only-the-voted-version: " +
			"answers are about one version of the lease, and it has another"})
	}
	return false
}

// unwillingWithoutALease says why this instance does not answer such a ballot, empty if it would. It must itself have
// seen, by a consistent read, the very version that the ballot is about: so whatever ballot it has answered before is
// about another version, and can come to nothing any more.
func unwillingWithoutALease(d *draft.Draft, request tenure.Request) string {
	term, may := d.MayLead()
	switch {
	case !d.Vacant() || request.LeaseUID != d.Lease.UID || request.LeaseVersion != d.Lease.Version:
		return "tenure.restore-only-with-all-answers: this instance does not see a lease to be written anew"
	case may || d.Leads():
		return fmt.Sprintf("this instance itself leads at term %d", term)
	case d.Write != nil:
		return "this instance is writing the lease"
	case d.Bound():
		return "a promise to the holder is valid"
	case d.Engine.Data != tenure.DataWhole:
		return "tenure.tell-only-a-known-position: there is no whole copy here"
	}
	return ""
}

// testimony is what this volume knows of the lease that is lost.
func testimony(d *draft.Draft) wire.PeerReply {
	return wire.PeerReply{PeerHeader: d.Header(), Yes: true, Records: d.Testimony(), Held: d.Stored.HeldTerm}
}

// StayWithoutALease lets a replica go on with the holder that it follows: that one's writes need it.
func StayWithoutALease(d *draft.Draft) bool {
	follows := d.Standing.Role == tenure.RoleFollow && d.Stored.Fence == nil
	if !follows && (d.Standing.Role != tenure.RoleCatchUp || d.Ballot == nil) {
		d.Obey("the lease is lost", d.Idle())
	}
	return false
}

// HeedALaterTerm is for a holder that was away when the lease was put back to its own term: for it the lease looks as
// it should, it would renew it for ever, and nobody would follow. Whatever a member says tells of a later term; if a
// consistent read since then does not, the lease is lost here too (O3).
func HeedALaterTerm(d *draft.Draft) bool {
	term := d.ToldTerm()
	if !d.Lease.Exists || term <= max(d.Lease.Term, d.Stored.MaxTerm) || d.Lease.Stale > 0 || !d.SeenForSure() {
		return false
	}
	d.Store("tenure.believe-a-later-term: a member tells of a later term, so the lease was restored to an older state",
		func(stored *tenure.Stored) { stored.MaxTerm = term })
	d.Again(time.Millisecond)
	return true
}
