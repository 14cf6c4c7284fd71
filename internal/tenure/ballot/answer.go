package ballot

import (
	"fmt"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// CatchingUp says that the log of another member is being taken for a ballot of this one. An answer to somebody else's
// ballot meanwhile would end that; if two take the log of a third and call each other, neither would ever have it.
func CatchingUp(d *draft.Draft) bool {
	return d.Standing.Role == tenure.RoleCatchUp && d.Ballot != nil && d.Ballot.Fencing != nil &&
		d.Recently(*d.Ballot.Fencing, draft.CatchUpPatience)
}

// OwnBallotFirst is what whoever asks meanwhile is told.
func OwnBallotFirst(d *draft.Draft) string {
	return "this instance conducts a ballot of its own, and takes the log of " + d.Standing.Upstream.Name + " for it"
}

// unwilling says why this instance does not answer a ballot, empty if it would (E3).
func unwilling(d *draft.Draft, version string) string {
	term, may := d.MayLead()
	switch {
	case may && (d.Leads() || d.Holder()):
		return fmt.Sprintf("this instance itself leads at term %d", term)
	case d.Bound():
		return "a promise to the holder is valid"
	case d.Engine.Data != tenure.DataWhole:
		return "I2: there is no whole copy here"
	case d.Predates():
		return "V6: the copy here is from before the cache was emptied"
	case d.Engine.Leading != nil:
		return "the server here still leads"
	case d.Stored.Fence != nil && d.Stored.Fence.Version != version:
		// A fence is replaced only after it was lifted: an older ballot in its place would let the holder of the newer
		// one go on.
		return "F2: another ballot was answered, and its outcome is not known yet"
	case d.Lease.Exists && tenure.Newer(d.Lease.Version, version):
		return "the lease was renewed since"
	case d.Lease.Exists && !d.Expired():
		return "the lease was renewed a moment ago"
	case !d.Lease.Known && d.Lease.Failing == nil:
		return "the lease was not read yet"
	case !d.Lease.Known && d.Now.Since(*d.Lease.Failing) < d.Policy.Duration:
		return "it is not known for long enough that nobody renews the lease"
	}
	return ""
}

// AnswerAsk says whether this instance would answer a ballot. To ask has no effect (E3).
func AnswerAsk(d *draft.Draft, request tenure.Request) {
	why := unwilling(d, request.LeaseVersion)
	// Whoever asks has read it. A watch does not show that the lease was put back.
	older := d.Lease.Exists && tenure.Newer(d.Lease.Version, request.LeaseVersion)
	if older && d.Reading == nil && d.Write == nil && !d.Recently(max(d.Lease.Read, d.Tried), d.Lasts()) {
		d.ReadLease("another member asks about an older version: the lease may have been put back")
	}
	d.Do(tenure.Reply{
		Why: "E3: asking has no effect", ID: request.ID,
		Reply: wire.PeerReply{PeerHeader: d.Header(), Yes: why == "", Why: why},
	})
}

// AnswerFence answers a ballot behind a fence that is on the volume before (F1).
func AnswerFence(d *draft.Draft, request tenure.Request) {
	if why := unwilling(d, request.LeaseVersion); why != "" {
		d.Refuse(request, why)
		return
	}
	if CatchingUp(d) {
		d.Refuse(request, OwnBallotFirst(d))
		return
	}
	fence := tenure.Fence{LeaseUID: request.LeaseUID, Version: request.LeaseVersion}
	d.Fence("F1: the fence is on the volume before the answer", fence)
	d.Do(tenure.AnswerBallot{
		Why: "F1: an answer holds only if nothing is taken from a primary any more", ID: request.ID, Fence: fence,
		Reply: wire.PeerReply{PeerHeader: d.Header(), Yes: true, CannotLead: d.CannotLead() != ""},
	})
}
