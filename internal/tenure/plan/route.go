package plan

import (
	"fmt"
	"hash/fnv"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Times of the write address.
const (
	// routeLasts is how long the holder believes without a look that the write address is as it has written it. A watch
	// tells when somebody has changed it; this is for a watch that says nothing and should. routeSpread spreads the looks
	// of many databases.
	routeLasts  = 10 * time.Minute
	routeSpread = 2 * time.Minute
)

// routeWrites makes the write address lead here once applications are let in, and again when somebody has changed,
// emptied or replaced it.
func routeWrites(d *draft) bool {
	leading, route := d.Engine.Leading, d.Route
	if d.Standing.Role != tenure.RoleLead || leading == nil || !leading.Open || d.Address == "" {
		return false
	}
	d.tellOfTheRoute()
	switch {
	case route.Writing:
	case route.Known && (route.Absent || route.Term > d.Standing.Term):
		d.lookAtTheRouteAgain(d.Policy.Renew)
	case route.Known && route.Address == d.Address && route.Term == d.Standing.Term && route.Touched:
		d.lookAtTheRouteAgain(d.Policy.Renew / 4)
	case route.Known && route.Address == d.Address && route.Term == d.Standing.Term:
		d.lookAtTheRouteAgain(routeLasts + d.spread())
	case route.Known || !d.recently(route.Tried, d.Policy.Renew/4):
		d.do(tenure.WriteRoute{Why: "applications are let in here", Address: d.Address, Term: d.Standing.Term})
	}
	return false
}

// closeTheRoute is for a pod that ends while its place is given away. Whoever connects to an address that is no more
// waits in vain; a write address that leads nowhere refuses at once, and can be tried again.
func (d *draft) closeTheRoute() {
	route := d.Route
	if d.Stopping && route.Known && route.Address == d.Address && !route.Writing && d.Lease.Failing == nil {
		d.do(tenure.WriteRoute{Why: "the pod ends, and its address leads nowhere", Term: d.Standing.Term})
	}
}

// tellOfTheRoute names what keeps the write address from leading here.
func (d *draft) tellOfTheRoute() {
	switch route := d.Route; {
	case !route.Known:
	case route.Absent:
		d.wait(wire.ReasonRouteMissing, "the EndpointSlice of the write address is not there, and the agents do not make it")
	case route.Term > d.Standing.Term:
		d.wait(wire.ReasonRouteMissing, fmt.Sprintf("the write address says that it is of term %d, and the lease is at %d",
			route.Term, d.Standing.Term))
	}
}

func (d *draft) lookAtTheRouteAgain(every time.Duration) {
	if d.Lease.Failing != nil || d.recently(d.Route.Seen, every) || d.recently(d.Route.Tried, every) {
		return
	}
	d.do(tenure.ReadRoute{Why: "somebody may have changed the write address"})
}

// spread is another delay for each instance and each look.
func (d *draft) spread() time.Duration {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, d.Name, d.Route.Seen)
	return time.Duration(sum.Sum64() % uint64(routeSpread))
}
