package plan

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

const (
	// endingPatience and askedPatience are how long a server that still serves may take to make its stop short: a pod that
	// ends has its grace period, and a switchover that was asked for is worth a while.
	endingPatience = 10 * time.Second
	askedPatience  = 5 * time.Minute
	// stopPatience bounds the stop of the server in a switchover, and transferPatience what comes after it.
	stopPatience     = 25 * time.Second
	transferPatience = 5 * time.Second
	// placeEvery is how often the members are asked how far they have come.
	placeEvery = 100 * time.Millisecond
)

// decideOnSwitchovers says yes or no to whoever asks for another primary: nothing that is asked for comes to nothing in
// silence. Asking twice for the same is asking once.
func decideOnSwitchovers(d *draft) bool {
	for _, caller := range d.Callers {
		reply := d.judge(caller.Switchover)
		switch {
		case d.Asked != nil && d.Asked.ID == caller.Switchover.ID:
			reply = wire.SwitchoverReply{Accepted: true}
		case d.Asked != nil:
			reply = wire.SwitchoverReply{Why: "another switchover is under way", Later: true}
		}
		d.do(tenure.Decide{Why: "whoever asks is told", Caller: caller, Reply: reply})
	}
	return false
}

// yieldThePlace gives the lease to a member that has everything: because the pod ends, or because somebody has asked.
// The lease is renewed all along, so that nobody else stands; the transfer names the target, so that nobody else can.
func yieldThePlace(d *draft) bool {
	if !d.holder() {
		d.prepareNoMore("this instance is not the holder")
		if d.Asked != nil {
			d.do(tenure.Forget{Why: "this instance is not the holder"})
		}
		return false
	}
	if d.Yielding == nil {
		return d.beginToYield()
	}
	if d.Standing.Role != tenure.RoleYield {
		d.obey("the place is being given away", d.yielding())
	}
	return d.passOn()
}

func (d *draft) yielding() tenure.Standing {
	standing := d.Standing
	standing.Role, standing.OpenStart = tenure.RoleYield, ""
	return standing
}

// beginToYield looks at the preconditions. A pod that ends stops its server whatever they are.
func (d *draft) beginToYield() bool {
	if !d.Stopping && d.Asked == nil {
		d.prepareNoMore("nobody asks for another primary any more")
		return false
	}
	// A candidate between the lease and the promotion gives the lease back at once.
	if d.Standing.Role != tenure.RoleLead || d.Engine.Leading == nil && d.Standing.OpenStart == "" {
		if !d.Stopping {
			return false
		}
		// Nobody else could take it, or nobody can be told: there is nothing to wait for.
		if !d.othersCanElect() || d.Lease.Failing != nil {
			d.plan.Finished = d.Engine.Leading == nil && d.Write == nil
			return true
		}
		d.giveBack("the pod ends before its server has led")
		waited := d.Now.Since(d.Rest.Add(-d.Policy.Duration))
		d.plan.Finished = waited >= closePatience && d.Write == nil && d.Engine.Leading == nil && !d.Engine.Processes
		return true
	}
	if !d.Stopping {
		if reply := d.judge(*d.Asked); !reply.Accepted {
			d.do(tenure.Forget{Why: tenure.Why(reply.Why)})
			return false
		}
		if recorded := d.Lease.Record.Switchover; recorded == nil || *recorded != *d.Asked {
			if d.Write == nil && len(d.Doubts) == 0 {
				record := *d.Lease.Record
				record.Switchover = d.Asked
				d.write(tenure.WriteRecord, "the intent is stored before anything is done for it", d.Self(), record)
			}
			return false
		}
	}
	if !d.prepared() {
		return false
	}
	d.do(tenure.Yield{Why: "applications are kept out, and the server stops with all that it has acknowledged"})
	d.obey("the place is being given away", d.yielding())
	d.wait(wire.ReasonSwitchover, "the server stops")
	return true
}

// prepared says that the server stops within a moment when it is told to. What takes long is done before applications
// are kept out. A pod that ends does not wait longer than its patience; a switchover that was asked for is given up.
func (d *draft) prepared() bool {
	leading := d.Engine.Leading
	if d.Policy.Volatile || leading == nil || d.Lease.Failing != nil {
		return true
	}
	if d.Preparing == nil {
		now := d.Now
		d.do(tenure.Prepare{Why: "the server writes what it has in memory while it still serves", Since: &now})
	}
	patience := askedPatience
	if d.Stopping {
		patience = endingPatience
	}
	waited := d.Now.Since(*d.Preparing)
	switch {
	case leading.Prepared == *d.Preparing || waited >= patience && d.Stopping:
		return true
	case waited >= patience:
		// Nobody was kept out yet. A stop that waits for a checkpoint is no switchover.
		const why = "the checkpoint before the switchover did not end in time: this instance stays the primary"
		d.prepareNoMore(why)
		d.do(tenure.Forget{Why: why})
		return false
	}
	d.wait(wire.ReasonSwitchover, "the server serves, and writes what it has in memory, so that its stop is short")
	d.again(patience - waited)
	return false
}

func (d *draft) prepareNoMore(why tenure.Why) {
	if d.Preparing != nil {
		d.do(tenure.Prepare{Why: why})
	}
}

// judge says whether a switchover that is asked for can be begun, or why not.
func (d *draft) judge(wish wire.Switchover) wire.SwitchoverReply {
	no := func(why string, later bool) wire.SwitchoverReply { return wire.SwitchoverReply{Why: why, Later: later} }
	switch {
	case !d.holder():
		return no("this instance is not the primary", false)
	case wish.Target == d.Name:
		return no("the target is the primary already", false)
	case d.Stopping:
		return no("the pod ends, and gives its place away by itself", false)
	case d.Lease.Failing != nil:
		return no("the API server does not answer", true)
	case d.Engine.Leading == nil:
		return no("the server does not lead yet", true)
	}
	for _, replica := range d.Engine.Leading.Replicas {
		fits := wish.Target == "" || wish.Target == replica.Member.Name
		if fits && replica.Near && d.Lease.Record.Has(replica.Member) {
			return wire.SwitchoverReply{Accepted: true}
		}
	}
	return no("no eligible replica is caught up", false)
}

// passOn transfers the lease once the server has stopped and a member has the final position. If none has it in time, a
// server that shall go on is started again: the lease was renewed all along, and a renewal at its present version has
// succeeded after any transfer that was in doubt.
func (d *draft) passOn() bool {
	waited := d.Now.Since(*d.Yielding)
	d.again(placeEvery)
	final := d.Engine.Final
	if final == nil || d.Engine.Processes {
		d.arm()
		d.wait(wire.ReasonSwitchover, "the server stops")
		if waited > stopPatience && !d.Stopping {
			d.takeBack("the server did not stop in time")
		}
		return true
	}
	if len(d.Lease.Record.Members) == 1 || d.Lease.Failing != nil {
		if !d.Stopping {
			d.takeBack("there is nobody to give the place to")
		}
		if d.Policy.Volatile && d.Stopping && d.Lease.Failing == nil {
			d.leaveTheLease()
			return true
		}
		return d.finishYield()
	}
	d.wait(wire.ReasonSwitchover, "a member that has everything takes the lease")
	d.askForPlaces()
	if d.Write != nil {
		return true
	}
	record := *d.Lease.Record
	record.Switchover = nil
	target, found := d.target(*final)
	switch {
	case found && len(d.Doubts) == 0:
		record.Term, record.Timeline = record.Term+1, record.Timeline+1
		d.write(tenure.WriteTransfer, "the target has everything that was acknowledged", target, record)
	case d.Now.Since(d.Stopped) > transferPatience:
		if d.Stopping && !d.othersElectSince(*d.Yielding) {
			// The others alone cannot elect: this copy comes back as the holder, and must not need an election for that.
			return d.finishYield()
		}
		if d.Stopping {
			d.write(tenure.WriteRelease, "no member has taken over, and the pod ends", wire.Member{}, record)
			return true
		}
		d.takeBack("no member had everything in time")
	}
	return true
}

// askForPlaces asks the other members how far they have come.
func (d *draft) askForPlaces() {
	for _, member := range d.Lease.Record.Members {
		if member != d.Self() {
			d.send("where is it now, and is it there at all?", placeEvery, wire.PeerRequest{Kind: wire.PeerPlace, To: member})
		}
	}
}

// othersElectSince says that so many of the others are there that they can elect without this copy: they have answered
// since then, or say on their pods that they do not reach it. Those of which nothing is known may have made their
// copies anew: as these they are no members, and as what they were they never come back. The copy of a cache that gives
// its lease back does not come back either: there is nothing to wait for.
func (d *draft) othersElectSince(since tenure.Instant) bool {
	if d.Policy.Volatile {
		return d.othersCanElect()
	}
	there := 0
	for _, place := range d.Places {
		if place.At >= since && place.Member != d.Self() && d.Lease.Record.Has(place.Member) {
			there++
		}
	}
	return max(there, d.cuts()) >= d.answersNeeded()
}

// finishYield ends the plan of an instance that has nobody to give its place to.
func (d *draft) finishYield() bool {
	d.plan.Finished = d.Stopping && d.leavesTheAddress(d.Stopped)
	return true
}

// target is a member that has the final position, by what it said after the server had stopped.
func (d *draft) target(final tenure.Position) (wire.Member, bool) {
	var best tenure.Place
	for _, place := range d.Places {
		fits := d.Asked == nil || d.Asked.Target == "" || d.Asked.Target == place.Member.Name
		if d.Stopping {
			fits = true
		}
		if !fits || place.CannotLead || place.At < *d.Yielding || !d.Lease.Record.Has(place.Member) ||
			place.Position.Compare(final) < 0 {
			continue
		}
		if best.Member == (wire.Member{}) || place.Member.Name < best.Member.Name {
			best = place
		}
	}
	return best.Member, best.Member != (wire.Member{})
}

func (d *draft) takeBack(why tenure.Why) {
	if len(d.Doubts) > 0 || d.Write != nil {
		return
	}
	d.do(tenure.Yield{Why: why, Stop: true})
	d.do(tenure.Forget{Why: why})
}

// finishWhenTold says that an instance which ends has nothing to give away.
func finishWhenTold(d *draft) bool {
	if d.Stopping && (!d.holder() || d.Standing.Role != tenure.RoleLead && d.Standing.Role != tenure.RoleYield &&
		len(d.Lease.Record.Members) == 1) && d.Engine.Leading == nil {
		d.plan.Finished = d.leavesTheAddress(d.Yielded)
	}
	return false
}
