package plan

import (
	"slices"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/lease"
	"meridian.dev/meridian/internal/tenure/lost"
	"meridian.dev/meridian/internal/wire"
)

// phase is what the lease is to this instance in this pass. It says which rules apply at all. A pass goes from one
// phase to the next, as what it knows says, and ends with the one that has no next.
type phase struct {
	// name is for people.
	name string
	// rules apply in this order. One that ends the plan leaves the later ones, and the later phases, for a pass that sees
	// its effect.
	rules []step
	// next is the phase after this one, nil for the end.
	next func(*draft.Draft) *phase
}

// The phases, as a pass goes through them.
var (
	// beginning is every pass: what must never happen, whatever else is so.
	beginning = &phase{name: "beginning", rules: safely, next: func(d *draft.Draft) *phase {
		switch {
		case lease.Blind(d):
			return blind
		case d.Engine.Data == tenure.DataPutBack:
			return restored
		}
		return remembering
	}}

	// blind: the volume, the settings or the server tell too little.
	blind = &phase{name: "blind", rules: blindly}

	// restored: the copy may be an older state of the one that was here (I1). It is not the member that it looks like: it
	// answers no election, promises nothing and leads nothing, and what is stored beside it is as old. It learns who
	// leads, so that a new copy can be made from there.
	restored = &phase{name: "restored", rules: ignoring, next: func(d *draft.Draft) *phase {
		if d.Lost() != "" {
			return restoredWithoutALease
		}
		return restoredLearning
	}}
	restoredWithoutALease = &phase{name: "restored, without a lease", rules: slices.Concat(looking, idling, ending)}
	restoredLearning      = &phase{name: "restored, learning", rules: learning, next: func(d *draft.Draft) *phase {
		if lease := d.Lease; lease.Exists && lease.Record != nil && lease.Record.Initialised &&
			lease.Holder != (wire.Member{}) && lease.Holder.Name != d.Name && d.Stored.Fence == nil {
			return restoredFollowing
		}
		return restoredWaiting
	}}
	restoredFollowing = &phase{name: "restored, following", rules: slices.Concat(following, labelling, ending)}
	restoredWaiting   = &phase{name: "restored, waiting", rules: slices.Concat(idling, labelling, ending)}

	// remembering: what this volume was told before, and may have to be told again.
	remembering = &phase{name: "remembering", rules: reminded, next: func(d *draft.Draft) *phase {
		if d.Lost() != "" {
			return leaseLost
		}
		return obeying
	}}

	// leaseLost: the lease is gone, or another one is in its place, or it was restored to an older state.
	leaseLost = &phase{name: "lease lost", rules: slices.Concat(losing, looking, testifying),
		next: func(d *draft.Draft) *phase {
			switch {
			case d.Stopping:
				return lostStopping
			case lost.Leads(d):
				return lostLeading
			case lost.Waits(d):
				return lostWaiting
			}
			return lostStanding
		}}
	lostStopping = &phase{name: "lease lost, stopping", rules: stopping}
	lostLeading  = &phase{name: "lease lost, leading", rules: slices.Concat(promised, succeeding, leading)}
	lostWaiting  = &phase{name: "lease lost, waiting", rules: slices.Concat(promised, staying)}
	lostStanding = &phase{name: "lease lost, standing", rules: slices.Concat(staying, standingWithAll)}

	// obeying: the lease is the one that this volume obeys.
	obeying = &phase{name: "obeying", rules: slices.Concat(learning, doubting, answering, renewing, promised, passingOn,
		leading, holding, standing, following, reporting, labelling, ending)}
)

// phases are all of them, in the order of the page of rules.
var phases = []*phase{
	beginning, blind, restored, restoredWithoutALease, restoredLearning, restoredFollowing, restoredWaiting, remembering,
	leaseLost, lostStopping, lostLeading, lostWaiting, lostStanding, obeying,
}
