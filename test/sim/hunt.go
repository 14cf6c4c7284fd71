package sim

import (
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/internal/tenure"
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
	c.Faults = deposing(c.Nodes, random)
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
		{Kind: FaultPutBack, At: moment, Node: Replica, Other: random.IntN(snapshots), For: time.Second},
		{Kind: FaultPowerOff, At: moment + time.Duration(random.Int64N(int64(time.Second))), Node: Holder,
			For: 40 * time.Second},
	}
	c.Last, c.Unsettled, c.Budget = moment+50*time.Second, true, 5*time.Second
	return c
}

// PutBackSwarm is a random case in which volumes are put back to older states.
func PutBackSwarm(seed uint64) Case {
	c := databaseSwarm(seed) // A cache has no volumes.
	random := chosen(seed, 0xbacc)
	c.Name = "swarm with volumes put back"
	if c.Durability != tenure.Strict || c.Nodes < 3 {
		c.Durability, c.Nodes, c.Instances = tenure.Strict, 3+2*random.IntN(2), 3
		c.Instances = c.Nodes
	}
	for range 1 + random.IntN(3) {
		c.Faults = append(c.Faults, Fault{
			Kind: FaultPutBack, At: began + time.Duration(random.Int64N(int64(c.Last-began-5*time.Second))),
			Node: random.IntN(c.Nodes+3) - 2, Other: random.IntN(snapshots),
			For: time.Duration(random.Int64N(int64(10 * time.Second))),
		})
	}
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

// Hunt is one schedule of the search for a flaw.
func Hunt(flaw Flaw, seed uint64) Case {
	if flaw.Volatile {
		return huntCache(flaw, seed)
	}
	c := databaseSwarm(seed)
	random := chosen(seed, 0xb17e)
	c.Name, c.Bug, c.WildClocks, c.Whole = string(flaw.Bug), flaw.Bug, false, flaw.Whole
	if flaw.Nodes > 0 {
		c.Nodes, c.Instances = flaw.Nodes, flaw.Nodes
	} else if c.Nodes < 3 {
		c.Nodes, c.Instances = 3, 3
	}
	c.Durability = tenure.Strict
	if len(flaw.Modes) > 0 {
		c.Durability = flaw.Modes[random.IntN(len(flaw.Modes))]
	}
	// What is promised by quorum is looked for where clocks cannot be trusted: an election may meet a living primary.
	c.WildClocks = c.Durability == tenure.Strict && random.IntN(4) > 0
	c.Unsettled = c.WildClocks
	c.SlowClock = c.WildClocks && random.IntN(3) > 0
	c.Lease = []time.Duration{10 * time.Second, 4 * time.Second}[random.IntN(2)]
	var faults []Fault
	if c.SlowClock {
		c.Lease = 4 * time.Second
		faults = deposing(c.Nodes, random)
	}
	for _, fault := range c.Faults {
		if fault.Point != PointTime && (fault.Kind != FaultFreezePod || c.Durability != tenure.Async) {
			fault.Node %= c.Nodes
			faults = append(faults, fault)
		}
	}
	faults, moment := flaw.troubles(c, faults, random)
	c.Last = min(moment+20*time.Second, 70*time.Second)
	if c.SlowClock {
		c.Last = 60 * time.Second
	}
	c.Unsettled, c.Budget = true, 5*time.Second
	if hasKind(faults, FaultWish) {
		faults = append(faults, Fault{Kind: FaultWish, At: c.Last - time.Second, Wish: c.Nodes})
	}
	faults = append(faults, flaw.strokes(c, random)...)
	c.Faults = faults
	if flaw.Aim != nil {
		c = flaw.Aim(c, random)
	}
	return c
}

// troubles adds faults at moments to those that are there, and says when the last one begins.
func (f Flaw) troubles(c Case, faults []Fault, random *rand.Rand) ([]Fault, time.Duration) {
	moment := began
	more := 3 + random.IntN(5)
	if c.SlowClock {
		more = random.IntN(4)
	}
	for range more {
		longest := []time.Duration{time.Second, 4 * time.Second, 12 * time.Second}[random.IntN(3)]
		moment += time.Duration(random.Int64N(int64(longest)))
		fault := Fault{
			Kind: f.Kinds[random.IntN(len(f.Kinds))], At: moment, Node: random.IntN(c.Nodes+3) - 2,
			Other: random.IntN(c.Nodes),
			For:   time.Duration(random.Int64N(int64(20*time.Second))) + 500*time.Millisecond, Wish: 1 + random.IntN(c.Nodes),
		}
		if random.IntN(2) == 0 {
			fault.Node = Holder
		}
		if fault.Kind == FaultFreezePod && random.IntN(2) == 0 {
			fault.For = 8*time.Second + time.Duration(random.Int64N(int64(5*time.Second)))
		}
		if fault.Kind == FaultVolumeLost && hasKind(faults, FaultVolumeLost) {
			continue
		}
		faults = append(faults, fault)
	}
	return faults, moment
}

// strokes are faults at the places that the flaw is about.
func (f Flaw) strokes(c Case, random *rand.Rand) []Fault {
	var faults []Fault
	for _, kind := range f.Points {
		for node := range c.Nodes {
			for ordinal := range 4 {
				fault := singles[kind][random.IntN(len(singles[kind]))]
				fault.Point, fault.Node, fault.Ordinal = kind, node, ordinal
				faults = append(faults, fault)
			}
		}
	}
	return faults
}
