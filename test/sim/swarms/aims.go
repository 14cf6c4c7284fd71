package swarms

import (
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/test/sim"
)

// aims make the schedules for flaws that faults at random find too seldom, and that have no Aim of their own.
var aims = map[sim.Bug]func(sim.Case, *rand.Rand) sim.Case{
	"a member has two senders":                             countTwice,
	"a replica that waits for a lost timeline is promoted": loseTheNextOne,
}

// countTwice leaves the holder of five with one replica, which comes back before its first connection is seen to be
// dead; then both lose power, and the others are there again.
func countTwice(c sim.Case, random *rand.Rand) sim.Case {
	c.Nodes, c.Instances = 5, 5
	cut := sim.Began + within(random, 3*time.Second)
	order := random.Perm(c.Nodes)
	c.Faults = nil
	for _, node := range order[:3] {
		c.Faults = append(c.Faults, sim.Fault{Kind: sim.FaultCutPeers, At: cut, Node: node, For: 9 * time.Second})
	}
	lost := cut + 8*time.Second
	off := cut + time.Second + within(random, time.Second)
	c.Faults = append(c.Faults,
		sim.Fault{Kind: sim.FaultPowerOff, At: off, Node: order[3], For: time.Second},
		sim.Fault{Kind: sim.FaultPowerOff, At: lost, Node: order[3], For: 50 * time.Second},
		sim.Fault{Kind: sim.FaultPowerOff, At: lost, Node: order[4], For: 50 * time.Second})
	c.Last, c.Unsettled, c.Budget = lost+50*time.Second, true, 5*time.Second
	return c
}

// loseTheNextOne keeps the WAL of the holder of five from all but one, and takes the holder away. That one leads, and
// is lost when another has heard of its timeline and has no WAL up to where that begins; one of the others leads next.
// The first holder is there again when one of those is away.
func loseTheNextOne(c sim.Case, random *rand.Rand) sim.Case {
	c.Nodes, c.Instances, c.Lease = 5, 5, 4*time.Second
	cut := sim.Began + within(random, 3*time.Second)
	lost := cut + 200*time.Millisecond + within(random, 2*time.Second)
	back := 14*time.Second + within(random, 6*time.Second)
	order := random.Perm(c.Nodes)
	c.Faults = []sim.Fault{
		{Kind: sim.FaultPowerOff, At: lost, Node: sim.Holder, For: back},
		{Kind: sim.FaultPowerOff, Point: sim.PointTell, Node: order[0], For: time.Minute},
		{Kind: sim.FaultPowerOff, At: lost + back - 500*time.Millisecond, Node: order[2+random.IntN(2)],
			For: 30 * time.Second},
	}
	for place, node := range order[1:] {
		from := cut
		if place > 0 {
			from -= time.Second // Whoever has more than these leads.
		}
		c.Faults = append(c.Faults, sim.Fault{
			Kind: sim.FaultCutOneWay, At: from, Node: sim.Holder, Other: node, For: 10 * time.Second,
		})
	}
	c.Last, c.Unsettled, c.Budget = lost+40*time.Second, true, 5*time.Second
	return c
}

// within is a moment of a span.
func within(random *rand.Rand, span time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(span)))
}
