package ballot

import (
	"fmt"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// catchingUp says that the log of another member is being taken for a ballot of this one. An answer to somebody else's
// ballot meanwhile would end that; if two take the log of a third and call each other, neither would ever have it.
func catchingUp(d *draft.Draft) bool {
	return d.Standing.Role == tenure.RoleCatchUp && d.Ballot != nil && d.Ballot.Fencing != nil &&
		d.Recently(*d.Ballot.Fencing, catchUpPatience)
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
		return "tenure.tell-only-a-known-position: there is no whole copy here"
	case d.Predates():
		return "tenure.bring-nothing-back: the copy here is from before the cache was emptied"
	case d.Engine.Leading != nil:
		return "the server here still leads"
	case d.Stored.Fence != nil && d.Stored.Fence.Version != version:
		// A fence is replaced only after it was lifted: an older ballot in its place would let the holder of the newer
		// one go on.
		return "tenure.lift-a-fence-only-by-a-read: another ballot was answered, and its outcome is not known yet"
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

// AnswerAsk says whether this instance would answer a ballot, or why not. To ask has no effect (E3).
func AnswerAsk(d *draft.Draft, request tenure.Request, unwilling string) {
	d.Do(tenure.Reply{
		Why: "tenure.fence-only-a-winnable-ballot: asking has no effect", ID: request.ID,
		Reply: wire.PeerReply{PeerHeader: d.Header(), Yes: unwilling == "", Why: unwilling},
	})
}

// doubtTheLease reads the lease when a member asks about an older version: whoever asks has read it, and a watch does
// not show that the lease was put back.
func doubtTheLease(d *draft.Draft, request tenure.Request) {
	older := d.Lease.Exists && tenure.Newer(d.Lease.Version, request.LeaseVersion)
	if older && d.Reading == nil && d.Write == nil && !d.Recently(max(d.Lease.Read, d.Tried), d.Lasts()) {
		d.ReadLease("another member asks about an older version: the lease may have been put back")
	}
}

// AnswerFence answers a ballot behind a fence that is on the volume before (F1), unless this instance is unwilling.
func AnswerFence(
	d *draft.Draft, request tenure.Request, unwilling string, answer func(*draft.Draft) wire.PeerReply,
) {
	switch {
	case unwilling != "":
		d.Refuse(request, unwilling)
		return
	case catchingUp(d):
		d.Refuse(request, "this instance conducts a ballot of its own, and streams from "+d.Standing.Upstream.Name+
			" for it")
		return
	}
	fence := tenure.Fence{LeaseUID: request.LeaseUID, Version: request.LeaseVersion}
	d.Fence("tenure.fence-before-answering: the fence is on the volume before the answer", fence)
	reply := answer(d)
	reply.CannotLead = d.CannotLead() != ""
	d.Do(tenure.AnswerBallot{
		Why: "tenure.fence-before-answering: " +
			"an answer holds only if nothing is taken from a primary any more", ID: request.ID, Fence: fence,
		Reply: reply,
	})
}

// plainly is the answer of a member where the lease says all else.
func plainly(d *draft.Draft) wire.PeerReply { return wire.PeerReply{PeerHeader: d.Header(), Yes: true} }

// Answer answers a ballot about a lease that has ended, or the question whether this instance would.
func Answer(d *draft.Draft, request tenure.Request) {
	why := unwilling(d, request.LeaseVersion)
	if request.Kind == wire.PeerFence {
		AnswerFence(d, request, why, plainly)
		return
	}
	doubtTheLease(d, request)
	AnswerAsk(d, request, why)
}
