// Package succession is how the place of the primary passes on without an election: the first copy of a database, a
// switchover, a pod that ends, a holder that gives its lease back. Start reading at YieldThePlace.
package succession

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/lease"
	"meridian.dev/meridian/internal/tenure/route"
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
)

// DecideOnSwitchovers says yes or no to whoever asks for another primary: nothing that is asked for comes to nothing in
// silence. Asking twice for the same is asking once.
func DecideOnSwitchovers(d *draft.Draft) bool {
	for _, caller := range d.Callers {
		reply := judge(d, caller.Switchover)
		switch {
		case d.Asked != nil && d.Asked.ID == caller.Switchover.ID:
			reply = wire.SwitchoverReply{Accepted: true}
		case d.Asked != nil:
			reply = wire.SwitchoverReply{Why: "another switchover is under way", Later: true}
		}
		d.Do(tenure.Decide{Why: "whoever asks is told", Caller: caller, Reply: reply})
	}
	return false
}

// YieldThePlace gives the lease to a member that has everything: because the pod ends, or because somebody has asked.
// The lease is renewed all along, so that nobody else stands; the transfer names the target, so that nobody else can.
func YieldThePlace(d *draft.Draft) bool {
	if !d.Holder() {
		prepareNoMore(d, "this instance is not the holder")
		if d.Asked != nil {
			d.Do(tenure.Forget{Why: "this instance is not the holder"})
		}
		return false
	}
	if d.Yielding == nil {
		return beginToYield(d)
	}
	if d.Standing.Role != tenure.RoleYield {
		d.Obey("the place is being given away", d.Ending())
	}
	return passOn(d)
}

// beginToYield looks at the preconditions. A pod that ends stops its server whatever they are.
func beginToYield(d *draft.Draft) bool {
	if !d.Stopping && d.Asked == nil {
		prepareNoMore(d, "nobody asks for another primary any more")
		return false
	}
	// A candidate between the lease and the promotion gives the lease back at once.
	if d.Standing.Role != tenure.RoleLead || d.Engine.Leading == nil && d.Standing.OpenStart == "" {
		if !d.Stopping {
			return false
		}
		// Nobody else could take it, or nobody can be told: there is nothing to wait for.
		if !d.OthersCanElect() || d.Lease.Failing != nil {
			d.Plan.Finished = d.Engine.Leading == nil && d.Write == nil
			return true
		}
		GiveBack(d, "the pod ends before its server has led")
		waited := d.Now.Since(d.Rest.Add(-d.Policy.Duration))
		d.Plan.Finished = waited >= draft.ClosePatience && d.Write == nil && d.Engine.Leading == nil && !d.Engine.Processes
		return true
	}
	if !d.Stopping {
		if reply := judge(d, *d.Asked); !reply.Accepted {
			d.Do(tenure.Forget{Why: tenure.Why(reply.Why)})
			return false
		}
		if recorded := d.Lease.Record.Switchover; recorded == nil || *recorded != *d.Asked {
			if d.Write == nil && len(d.Doubts) == 0 {
				record := *d.Lease.Record
				record.Switchover = d.Asked
				d.WriteLease(tenure.WriteRecord, "the intent is stored before anything is done for it", d.Self(), record)
			}
			return false
		}
	}
	if !prepared(d) {
		return false
	}
	d.Do(tenure.Yield{Why: "applications are kept out, and the server stops with all that it has acknowledged"})
	d.Obey("the place is being given away", d.Ending())
	d.Wait(wire.ReasonSwitchover, "the server stops")
	return true
}

// prepared says that the server stops within a moment when it is told to. What takes long is done before applications
// are kept out. A pod that ends does not wait longer than its patience; a switchover that was asked for is given up.
func prepared(d *draft.Draft) bool {
	leading := d.Engine.Leading
	if d.Policy.Volatile || leading == nil || d.Lease.Failing != nil {
		return true
	}
	if d.Preparing == nil {
		now := d.Now
		d.Do(tenure.Prepare{Why: "the server writes what it has in memory while it still serves", Since: &now})
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
		prepareNoMore(d, why)
		d.Do(tenure.Forget{Why: why})
		return false
	}
	d.Wait(wire.ReasonSwitchover, "the server serves, and writes what it has in memory, so that its stop is short")
	d.Again(patience - waited)
	return false
}

func prepareNoMore(d *draft.Draft, why tenure.Why) {
	if d.Preparing != nil {
		d.Do(tenure.Prepare{Why: why})
	}
}

// judge says whether a switchover that is asked for can be begun, or why not.
func judge(d *draft.Draft, wish wire.Switchover) wire.SwitchoverReply {
	no := func(why string, later bool) wire.SwitchoverReply { return wire.SwitchoverReply{Why: why, Later: later} }
	switch {
	case !d.Holder():
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
func passOn(d *draft.Draft) bool {
	waited := d.Now.Since(*d.Yielding)
	d.Again(draft.PlaceEvery)
	final := d.Engine.Final
	if final == nil || d.Engine.Processes {
		lease.Arm(d)
		d.Wait(wire.ReasonSwitchover, "the server stops")
		if waited > stopPatience && !d.Stopping {
			takeBack(d, "the server did not stop in time")
		}
		return true
	}
	if len(d.Lease.Record.Members) == 1 || d.Lease.Failing != nil {
		if !d.Stopping {
			takeBack(d, "there is nobody to give the place to")
		}
		if d.Policy.Volatile && d.Stopping && d.Lease.Failing == nil {
			leaveTheLease(d)
			return true
		}
		return finishYield(d)
	}
	d.Wait(wire.ReasonSwitchover, "a member that has everything takes the lease")
	d.AskForPlaces(draft.PlaceEvery)
	if d.Write != nil {
		return true
	}
	record := *d.Lease.Record
	record.Switchover = nil
	target, found := target(d, *final)
	switch {
	case found && len(d.Doubts) == 0:
		record.Term, record.Timeline = record.Term+1, record.Timeline+1
		d.WriteLease(tenure.WriteTransfer, "the target has everything that was acknowledged", target, record)
	case d.Now.Since(d.Stopped) > transferPatience:
		if d.Stopping && !OthersElectSince(d, *d.Yielding) {
			// The others alone cannot elect: this copy comes back as the holder, and must not need an election for that.
			return finishYield(d)
		}
		if d.Stopping {
			d.WriteLease(tenure.WriteRelease, "no member has taken over, and the pod ends", wire.Member{}, record)
			return true
		}
		takeBack(d, "no member had everything in time")
	}
	return true
}

// finishYield ends the plan of an instance that has nobody to give its place to.
func finishYield(d *draft.Draft) bool {
	d.Plan.Finished = d.Stopping && route.LeavesTheAddress(d, d.Stopped)
	return true
}

// target is a member that has the final position, by what it said after the server had stopped.
func target(d *draft.Draft, final tenure.Position) (wire.Member, bool) {
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

func takeBack(d *draft.Draft, why tenure.Why) {
	if len(d.Doubts) > 0 || d.Write != nil {
		return
	}
	d.Do(tenure.Yield{Why: why, Stop: true})
	d.Do(tenure.Forget{Why: why})
}

// leaveTheLease releases the lease of an instance that ends: its copy ends with it, so there is nothing to come back
// for.
func leaveTheLease(d *draft.Draft) {
	d.Wait(wire.ReasonSwitchover, "the lease is given back: the copy ends with the pod")
	if d.Write == nil {
		d.WriteLease(tenure.WriteRelease, "tenure.release-without-a-copy: "+
			"the copy ends with the pod", wire.Member{}, *d.Lease.Record)
	}
}
