// Package route is how applications find the instances: the write address, which the holder writes, the labels of the
// pods, and who still comes to a pod that ends. Start reading at Writes.
package route

import (
	"fmt"
	"hash/fnv"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

const (
	// routeLasts is how long the holder believes without a look that the write address is as it has written it. A watch
	// tells when somebody has changed it; this is for a watch that says nothing and should. routeSpread spreads the looks
	// of many databases.
	routeLasts  = 10 * time.Minute
	routeSpread = 2 * time.Minute
	// nextPatience is how long a pod that ends waits for the address to lead to the next primary, and draft.ClosePatience
	// how long it tries to close it.
	nextPatience = 3 * time.Second
	// usherLasts is how long nodes are given to take over where the write address leads: they do so once in a second.
	usherLasts = 1500 * time.Millisecond
	// refuseLasts is how long a pod that ends refuses those who come after its place was given away: the next primary
	// writes the address within half a second or so, and then nodes take that over.
	refuseLasts = 2 * time.Second
)

// Writes makes the write address lead here, and again when somebody has changed, emptied or replaced it. It does
// not wait for the gate: nodes take over such a change within a second or so, and applications that are refused here
// meanwhile are let in the moment that the gate opens. It waits for the promotion: that must not meet sessions that are
// about to be let in by the rules of a replica, and would be put off by each of them.
func Writes(d *draft.Draft) bool {
	leading, route := d.Engine.Leading, d.Route
	if d.Standing.Role != tenure.RoleLead || leading == nil || d.Address == "" {
		return false
	}
	tellOfTheRoute(d)
	switch {
	case route.Writing:
	case route.Known && (route.Absent || route.Term > d.Standing.Term):
		lookAtTheRouteAgain(d, d.Policy.Renew)
	case route.Known && route.Address == d.Address && route.Term == d.Standing.Term && route.Touched:
		lookAtTheRouteAgain(d, d.Policy.Renew/4)
	case route.Known && route.Address == d.Address && route.Term == d.Standing.Term:
		lookAtTheRouteAgain(d, routeLasts+spread(d))
	case route.Known || !d.Recently(route.Tried, d.Policy.Renew/4):
		d.Do(tenure.WriteRoute{Why: "applications are let in here, now or soon", Address: d.Address, Term: d.Standing.Term})
	}
	return false
}

// LeavesTheAddress says that a pod which ends need not stay for those who come by the write address. As long as it is
// there, they are refused at once, because no server listens, and try again. An address that is no more answers
// nothing, and a write address that leads nowhere hardly more: kernels send that answer about once a second. So the pod
// stays until the address leads to the next primary, if the others can do without this one; and it closes what still
// leads here when it goes, because another pod may get its address.
func LeavesTheAddress(d *draft.Draft, since tenure.Instant) bool {
	route, waited := d.Route, d.Now.Since(since)
	if !route.Known || route.Address != d.Address || d.Lease.Failing != nil {
		return leavesThoseWhoCome(d, since)
	}
	patience := time.Duration(0)
	if record := d.Lease.Record; record != nil && d.Lease.Holder.Name != d.Name && record.W < len(record.Members) {
		patience = nextPatience
	}
	switch {
	case waited >= patience+draft.ClosePatience:
		return true
	case route.Writing:
	case waited >= patience:
		// In the name of the term that it leads here by: that of a later one is not overwritten.
		d.Do(tenure.WriteRoute{Why: "the pod ends, and its address leads nowhere", Term: route.Term})
	case route.Touched || !d.Recently(route.Tried, d.Policy.Renew/8):
		d.Do(tenure.ReadRoute{Why: "the pod stays until the write address leads elsewhere"})
	}
	d.Wait(wire.ReasonSwitchover, "whoever comes by the write address is refused here until it leads to the next primary")
	d.Again(draft.PlaceEvery)
	return false
}

// leavesThoseWhoCome says that a pod which ends need not stay for those who come by what the write address was a moment
// ago. Those of a cache are led on to the next primary: its clients have a primary at once then, whatever else the
// nodes are busy with. A session of a database is worth more than that second, and this one would end with the pod: it
// is refused, and comes again.
func leavesThoseWhoCome(d *draft.Draft, since tenure.Instant) bool {
	next := d.Route.Address
	switch {
	case !d.Route.Known || next == "" || next == d.Address || d.Engine.Processes || since == 0:
		return true
	case !d.Policy.Volatile:
		return hasRefused(d, since)
	case d.Now.Since(since) >= nextPatience+usherLasts:
		return true
	}
	if d.Ushered.To != next {
		d.Do(tenure.ProxyTo{Why: "the write address leads there, and nodes take that over within a second or so", To: next})
	}
	if d.Ushered.To != "" && d.Now.Since(d.Ushered.Since) >= usherLasts {
		return true
	}
	d.Wait(wire.ReasonSwitchover, "whoever still comes here is led on to the next primary for a moment")
	d.Again(draft.PlaceEvery)
	return false
}

// hasRefused says that a pod which ends has refused for long enough those whom nodes still lead here. An address that
// is no more answers nothing: whoever is led there in that second hangs, and would have been served elsewhere long
// before it gives up. Where the others need this copy for their quorum it does not stay: it has to come back soon.
func hasRefused(d *draft.Draft, since tenure.Instant) bool {
	record := d.Lease.Record
	if record == nil || record.W >= len(record.Members) || d.Lease.Failing != nil || d.Now.Since(since) >= refuseLasts {
		return true
	}
	d.Wait(wire.ReasonSwitchover, "whoever still comes here is refused until nodes know where the write address leads")
	d.Again(draft.PlaceEvery)
	return false
}

// tellOfTheRoute names what keeps the write address from leading here.
func tellOfTheRoute(d *draft.Draft) {
	switch route := d.Route; {
	case !route.Known:
	case route.Absent:
		d.Wait(wire.ReasonRouteMissing, "the EndpointSlice of the write address is not there, and the agents do not make it")
	case route.Term > d.Standing.Term:
		d.Wait(wire.ReasonRouteMissing, fmt.Sprintf("the write address says that it is of term %d, and the lease is at %d",
			route.Term, d.Standing.Term))
	}
}

func lookAtTheRouteAgain(d *draft.Draft, every time.Duration) {
	if d.Lease.Failing != nil || d.Recently(d.Route.Seen, every) || d.Recently(d.Route.Tried, every) {
		return
	}
	d.Do(tenure.ReadRoute{Why: "somebody may have changed the write address"})
}

// spread is another delay for each instance and each look.
func spread(d *draft.Draft) time.Duration {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, d.Name, d.Route.Seen)
	return time.Duration(sum.Sum64() % uint64(routeSpread))
}
