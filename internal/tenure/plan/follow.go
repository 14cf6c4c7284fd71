package plan

import (
	"slices"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// followTheHolder follows whoever the lease names, at a term that is not below any that was seen (F2), and nobody while
// a fence stands.
func followTheHolder(d *draft) bool {
	lease := d.Lease
	switch {
	case d.holder(), d.leads():
		return false
	case d.Stored.Fence != nil:
		d.obey("F1: an election was answered", d.idle())
		d.wait(wire.ReasonFenced, "this instance has answered an election and waits for its outcome")
		return false
	case d.Stopping:
		return false
	case lease.Exists && lease.Term < d.Stored.MaxTerm:
		return false // Whoever was just promised something holds a later term: the next pass knows that the lease is lost.
	case !lease.Exists || lease.Record == nil || !lease.Record.Initialised || lease.Holder.Name == d.Name:
		d.rest()
		return false
	case lease.Holder == (wire.Member{}):
		if d.Standing.Role != tenure.RoleFollow {
			d.rest()
		}
		return false
	}
	standing := d.idle()
	standing.Role, standing.Term, standing.Timeline = tenure.RoleFollow, lease.Term, lease.Record.Timeline
	standing.Upstream, standing.W = lease.Holder, lease.Record.W
	for _, peer := range d.Peers {
		if peer.Name == lease.Holder.Name {
			standing.UpstreamAddress = peer.Address
		}
	}
	d.obey("F2: it holds the lease at the highest term that was seen", standing)
	return false
}

// ignoreRestoredCopy is for a copy that may be an older state of the one that was here (I1). It is not the member
// that it looks like: it answers no election, promises nothing and leads nothing, and what is stored beside it is as
// old. It learns who leads, so that a new copy can be made from there.
func ignoreRestoredCopy(d *draft) bool {
	if d.Engine.Data != tenure.DataPutBack {
		return false
	}
	refuseAll(d, "I1: the copy here was put back, and counts for nothing")
	if d.Ballot != nil {
		d.do(tenure.Conduct{Why: "I1: the copy here was put back"})
	}
	if d.Lost() != "" {
		d.readTheLostLease()
		d.waitPutBack()
	} else {
		learnFromTheLease(d)
		readTheLease(d)
		if lease := d.Lease; lease.Exists && lease.Record != nil && lease.Record.Initialised &&
			lease.Holder != (wire.Member{}) && lease.Holder.Name != d.Name && d.Stored.Fence == nil {
			followTheHolder(d)
		} else {
			d.waitPutBack()
		}
		labelThePod(d)
	}
	finishWhenTold(d)
	return true
}

// waitPutBack follows nobody, and says which timelines were given out: this copy must not write one of them anew, so it
// is told nothing before that is known.
func (d *draft) waitPutBack() {
	if !d.Lease.Known || d.Stopping {
		return
	}
	standing := d.idle()
	standing.OpenReads = false
	if record := d.record(); record != nil {
		standing.Timeline = record.Timeline
	}
	d.obey("I1: the copy was put back, and there is nobody to follow", standing)
}

// rest is for an instance that knows of nobody to follow. A lease that was never read is waited for.
func (d *draft) rest() {
	if d.Lease.Failing != nil && !d.Lease.Known {
		d.wait(wire.ReasonWaitingForLease, "the API server does not answer")
	}
	d.obey("there is nobody to follow", d.idle())
}

// readable says that applications may read here: the write address does not lead to this replica, so that nobody takes
// it for the primary.
func (d *draft) readable() bool { return d.Route.Known && d.Route.Address != d.Address }

// labelThePod lets the read address find this instance, and finds out whether the write address still leads here.
func labelThePod(d *draft) bool {
	if d.Lease.Failing != nil || d.Stopping {
		return false
	}
	d.lookAtTheRoute()
	if d.routeComesFirst() {
		return false
	}
	role, read := d.labels()
	cut, use := d.cut(), d.use()
	right := d.Labels.Role == role && d.Labels.Read == read && d.Labels.Cut == cut && d.Labels.Use == use
	if d.Labels.Writing || d.Labels.Known && right ||
		!d.Labels.Known && d.recently(d.Labels.Tried, d.Policy.Renew/4) {
		return false
	}
	d.do(tenure.WriteLabels{
		Why: "others find instances by what their pods say", Role: role, Read: read, Cut: cut, Use: use,
	})
	return false
}

// useSlack is by how much less must be in use than a step says before the pod says less: what the file system sets
// aside for files that grow comes and goes by several percent, and would otherwise be a write each time. A volume that
// grows by a sixth or more is beyond it.
const useSlack = 9

// use is how full the volume is, in the steps that the pod tells.
func (d *draft) use() int {
	now, told := d.Engine.Use, d.Labels.Use
	if !d.Engine.Known || now == 0 {
		return told
	}
	step := now / wire.VolumeUseStep * wire.VolumeUseStep
	switch {
	case step < told && told < 100 && now >= told-useSlack:
		return told
	case step < wire.VolumeUseFrom:
		return 0
	}
	return step
}

// routeComesFirst says that the labels wait for the write address. Each of them changes the read address, and nodes
// take over such changes together and no more than once in a second or so: applications that write would wait for those
// that read.
func (d *draft) routeComesFirst() bool {
	if d.Standing.Role != tenure.RoleLead {
		return false
	}
	routed := d.Route.Known && d.Route.Address == d.Address && d.Route.Term == d.Standing.Term
	long := d.Lacking != nil && !d.recently(*d.Lacking, d.Policy.Renew)
	return !routed && !long
}

// lookAtTheRoute is for a replica: it lets applications in only when the write address leads elsewhere.
func (d *draft) lookAtTheRoute() {
	if d.leads() || d.holder() || !d.Lease.Exists || d.Route.Writing {
		return
	}
	here := d.Route.Address == d.Address && d.Address != ""
	if d.Route.Known && !here || d.recently(d.Route.Tried, d.Policy.Renew/4) {
		return
	}
	d.do(tenure.ReadRoute{Why: "a replica lets applications in only when the write address leads elsewhere"})
	d.again(d.Policy.Renew / 4)
}

// labels are what the pod shall say of itself. The primary is read only if there is no replica for that.
func (d *draft) labels() (role string, read bool) {
	leading := d.Engine.Leading
	if d.Standing.Role != tenure.RoleLead || leading == nil {
		// One that waits for the outcome of an election goes on being read.
		return "replica", d.Standing.OpenReads && (d.Standing.Role == tenure.RoleFollow || d.Labels.Read)
	}
	near := func(replica tenure.Replica) bool { return replica.Near }
	return "primary", !slices.ContainsFunc(leading.Replicas, near)
}
