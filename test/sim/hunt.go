package sim

import (
	"math/rand/v2"
	"time"
)

// shrinkAndLose takes a member out and the holder's machine away, right after the record says so.
func shrinkAndLose(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock, c.Lag = 3, 3, false, false, true
	c.Lease = 4 * time.Second
	c.Faults = []Fault{{Kind: FaultWish, At: began + time.Duration(random.Int64N(int64(8*time.Second))), Wish: 2}}
	for node := range c.Nodes {
		c.Faults = append(c.Faults, Fault{
			Kind: FaultPowerOff, Point: PointRecord, Node: node, Ordinal: 2 + random.IntN(7), For: 40 * time.Second,
		})
	}
	c.Last, c.Unsettled, c.Budget = began+40*time.Second, true, 5*time.Second
	return c
}

// takeLate has a primary with a slow clock deposed by writes that are long on their way.
func takeLate(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock, c.Lag = 3, 3, true, true, true
	c.Lease, c.Last, c.Unsettled, c.Budget = 4*time.Second, 60*time.Second, true, 5*time.Second
	c.Faults = Deposing(c.Nodes, random)
	for node := range c.Nodes {
		for ordinal := range 4 {
			late := 2*time.Second + time.Duration(random.Int64N(int64(5*time.Second)))
			c.Faults = append(c.Faults, Fault{Kind: FaultLate, Point: PointTake, Node: node, Ordinal: ordinal, For: late})
		}
	}
	return c
}

// restartInThePast ends whoever has answered an election, and lets its watch begin in the past before its first read
// has an answer.
func restartInThePast(c Case, random *rand.Rand) Case {
	c = takeLate(c, random)
	for node := range c.Nodes {
		for ordinal := range 4 {
			c.Faults = append(c.Faults, Fault{Kind: FaultCrash, Point: PointAnswer, Node: node, Ordinal: ordinal})
		}
		for ordinal := range 40 {
			if random.IntN(2) == 0 {
				late := time.Second + time.Duration(random.Int64N(int64(800*time.Millisecond)))
				c.Faults = append(c.Faults, Fault{Kind: FaultLate, Point: PointRead, Node: node, Ordinal: ordinal, For: late})
			}
		}
	}
	return c
}

// putBackWhileAway puts the lease back to what it was when a member went away, and takes the holder away.
func putBackWhileAway(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock, c.Lag = 5, 5, false, false, true
	c.Lease = 4 * time.Second
	c.Faults = []Fault{
		{Kind: FaultPowerOff, At: began, Node: Holder, For: 30 * time.Second},
		{Kind: FaultPowerOff, At: began + 14*time.Second, Node: Holder, For: 50 * time.Second},
		{Kind: FaultLeaseBack, At: began + 15*time.Second, Other: random.IntN(3), Wish: random.IntN(2)},
	}
	c.Last, c.Unsettled, c.Budget = began+60*time.Second, true, 5*time.Second
	return c
}

// putBackAndLose puts the volume of a replica back, and takes the holder away before anybody could make up for it.
func putBackAndLose(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock, c.Lag = 3, 3, false, false, true
	c.Lease = 4 * time.Second
	moment := began + time.Duration(random.Int64N(int64(20*time.Second)))
	c.Faults = []Fault{
		{Kind: FaultPutBack, At: moment, Node: Replica, Other: random.IntN(Snapshots), For: time.Second},
		{Kind: FaultPowerOff, At: moment + time.Duration(random.Int64N(int64(time.Second))), Node: Holder,
			For: 40 * time.Second},
	}
	c.Last, c.Unsettled, c.Budget = moment+50*time.Second, true, 5*time.Second
	return c
}

// takeInVain has a member that takes the lease cut off from the API server right then: its timeline is given out, and
// nobody ever writes on it.
func takeInVain(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock, c.Lag = 5, 5, false, false, true
	c.Lease = 4 * time.Second
	moment := began + 10*time.Second + time.Duration(random.Int64N(int64(5*time.Second)))
	c.Faults = []Fault{
		{Kind: FaultPowerOff, At: moment, Node: Holder, For: 80 * time.Second},
		{Kind: FaultAppliedCut, Point: PointTake, Node: 1 + random.IntN(2), For: 70 * time.Second},
	}
	c.Last, c.Unsettled, c.Budget = moment+85*time.Second, true, 5*time.Second
	return c
}

// standBack is an election in which whoever has most may not reach the API server.
func standBack(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock = 5, 5, false, false
	c.Lease = 4 * time.Second
	c.Faults = []Fault{
		{Kind: FaultPowerOff, At: began + time.Second, Node: Holder, For: 60 * time.Second},
		{Kind: FaultCutAPI, At: began, Node: random.IntN(5), For: 62 * time.Second},
	}
	c.Last, c.Unsettled, c.Budget = began+75*time.Second, true, 10*time.Second
	return c
}
