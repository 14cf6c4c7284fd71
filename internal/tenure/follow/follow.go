// Package follow is what an instance does that is not the holder: it follows whoever is, and hears of it at once. Start
// reading at TheHolder.
package follow

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// TellPeers tells each instance that a new holder leads, so that nobody waits for a watch or a name server.
func TellPeers(d *draft.Draft) bool {
	record := d.Record()
	if record == nil || !d.Holder() && d.Lease.Term != d.Stored.HeldTerm+1 {
		return false
	}
	if d.Holder() && d.Engine.Leading == nil {
		return false
	}
	if d.Stored.HeldTerm == 0 {
		return false
	}
	tell := wire.PeerRequest{PeerHeader: wire.PeerHeader{Term: d.Lease.Term}, Kind: wire.PeerTell}
	vouches := d.Ours() && d.Lease.Term == d.Stored.MaxTerm
	if vouches {
		tell.LeaseVersion, tell.Record, tell.Duration = d.Lease.Version, d.Lease.Record, d.Lease.Duration
	}
	for _, name := range d.Others(*record) {
		tell.To = wire.Member{Name: name}
		switch {
		case told(d, name) < d.Lease.Term:
			d.Send("others follow at once", time.Second, tell)
		case vouches && !follows(d, name):
			d.Send("tenure.lift-a-fence-only-by-a-read: "+
				"one that is fenced and cannot read the lease hears of its version here", d.Policy.Renew, tell)
		}
	}
	return false
}

// follows says that an instance takes the log here.
func follows(d *draft.Draft, name string) bool {
	return d.Engine.Leading != nil && slices.ContainsFunc(d.Engine.Leading.Replicas, func(replica tenure.Replica) bool {
		return replica.Member.Name == name
	})
}

func told(d *draft.Draft, name string) int64 {
	for _, peer := range d.Peers {
		if peer.Name == name {
			return peer.Told
		}
	}
	return 0
}

// TheHolder follows whoever the lease names, at a term that is not below any that was seen (F2), and nobody while
// a fence stands.
func TheHolder(d *draft.Draft) bool {
	lease := d.Lease
	switch {
	case d.Holder(), d.Leads():
		return false
	case d.Stored.Fence != nil:
		d.Obey("tenure.fence-before-answering: an election was answered", d.Idle())
		d.Wait(wire.ReasonFenced, "this instance has answered an election and waits for its outcome")
		return false
	case d.Stopping:
		return false
	case lease.Exists && lease.Term < d.Stored.MaxTerm:
		return false // Whoever was just promised something holds a later term: the next pass knows that the lease is lost.
	case !lease.Exists || lease.Record == nil || !lease.Record.Initialised || lease.Holder.Name == d.Name:
		rest(d)
		return false
	case lease.Holder == (wire.Member{}):
		if d.Standing.Role != tenure.RoleFollow {
			rest(d)
		}
		return false
	}
	standing := d.Idle()
	standing.Role, standing.Term, standing.Timeline = tenure.RoleFollow, lease.Term, lease.Record.Timeline
	standing.Upstream, standing.W = lease.Holder, lease.Record.W
	for _, peer := range d.Peers {
		if peer.Name == lease.Holder.Name {
			standing.UpstreamAddress = peer.Address
		}
	}
	d.Obey("tenure.lift-a-fence-only-by-a-read: it holds the lease at the highest term that was seen", standing)
	return false
}

// stuckEvery is how often the others are asked how far they have come by one that cannot go on.
const stuckEvery = time.Second

// AskWhatOthersHave is for a copy that lacks WAL which the holder does not have any more.
func AskWhatOthersHave(d *draft.Draft) bool {
	if d.Engine.Stuck && d.Standing.Role == tenure.RoleFollow && d.Lease.Record != nil {
		d.AskForPlaces(stuckEvery)
	}
	return false
}

// rest is for an instance that knows of nobody to follow. A lease that was never read is waited for.
func rest(d *draft.Draft) {
	if d.Lease.Failing != nil && !d.Lease.Known {
		d.Wait(wire.ReasonWaitingForLease, "the API server does not answer")
	}
	d.Obey("there is nobody to follow", d.Idle())
}
