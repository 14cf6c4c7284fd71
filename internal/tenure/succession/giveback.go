package succession

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/isolation"
	"meridian.dev/meridian/internal/tenure/route"
	"meridian.dev/meridian/internal/wire"
)

// killPatience is how long a server may take to die. One that hangs in the kernel dies when that lets go of it.
const killPatience = 2 * time.Second

// GiveBack ends the server and releases the lease, if the others can elect. Without a quorum it is released only when
// no process is left. What is not released ends by itself, and is not renewed for as long.
func GiveBack(d *draft.Draft, why tenure.Why) {
	if d.Now >= d.Rest {
		d.Do(tenure.Rest{Why: why, Until: d.Now.Add(d.Policy.Duration)})
	}
	standing := d.Idle()
	standing.OpenReads, standing.Down = false, true
	standing.Serial = d.Standing.Serial
	told := draft.Same(standing, d.Standing)
	d.Obey(why, standing)
	begun := d.Rest.Add(-d.Policy.Duration)
	gone := told && d.Engine.Obeyed == d.Standing.Serial && !d.Engine.Processes
	stuck := d.Lease.Record.W > 1 && d.Now.Since(begun) >= killPatience
	if !gone {
		d.Do(tenure.Kill{Why: why})
		d.Again(killPatience / 4)
	}
	d.AskForPlaces(draft.PlaceEvery)
	switch {
	case !(gone || stuck) || d.Write != nil || !d.Holder():
	case OthersElectSince(d, begun):
		d.WriteLease(tenure.WriteRelease, why, wire.Member{}, *d.Lease.Record)
	default:
		d.Wait(wire.ReasonQuorumMissing, "too few other members are there to elect without this copy: the lease is not "+
			"given back, and ends by itself")
	}
}

// OthersElectSince says that so many of the others are there that they can elect without this copy: they have answered
// since then, or say on their pods that they do not reach it. Those of which nothing is known may have made their
// copies anew: as these they are no members, and as what they were they never come back. The copy of a cache that gives
// its lease back does not come back either: there is nothing to wait for.
func OthersElectSince(d *draft.Draft, since tenure.Instant) bool {
	if d.Policy.Volatile {
		return d.OthersCanElect()
	}
	there := 0
	for _, place := range d.Places {
		if place.At >= since && place.Member != d.Self() && d.Lease.Record.Has(place.Member) {
			there++
		}
	}
	return max(there, isolation.Cuts(d)) >= d.AnswersNeeded()
}

// FinishWhenTold says that an instance which ends has nothing to give away.
func FinishWhenTold(d *draft.Draft) bool {
	if d.Stopping && (!d.Holder() || d.Standing.Role != tenure.RoleLead && d.Standing.Role != tenure.RoleYield &&
		len(d.Lease.Record.Members) == 1) && d.Engine.Leading == nil {
		d.Plan.Finished = route.LeavesTheAddress(d, d.Yielded)
	}
	return false
}

// Retreat ends the server and gives the lease back: nothing was acknowledged here for a while, and others can.
func Retreat(d *draft.Draft) {
	why := tenure.Why("enough members say that they do not reach this holder, and it has no quorum without them")
	d.Wait(wire.ReasonCutOff, "this instance is cut off from the others, and gives the lease back")
	if d.Now >= d.Rest {
		d.Do(tenure.Rest{Why: why, Until: d.Now.Add(d.Policy.Duration), Retreat: true})
	}
	GiveBack(d, why)
}
