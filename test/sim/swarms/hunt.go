package swarms

import (
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/agenda"
)

// PutBackSwarm is a random case in which volumes are put back to older states.
func PutBackSwarm(seed uint64) sim.Case {
	c := databaseSwarm(seed) // A cache has no volumes.
	random := agenda.Chosen(seed, 0xbacc)
	c.Name = "swarm with volumes put back"
	if c.Durability != tenure.Strict || c.Nodes < 3 {
		c.Durability, c.Nodes, c.Instances = tenure.Strict, 3+2*random.IntN(2), 3
		c.Instances = c.Nodes
	}
	for range 1 + random.IntN(3) {
		c.Faults = append(c.Faults, sim.Fault{
			Kind: sim.FaultPutBack, At: sim.Began + time.Duration(random.Int64N(int64(c.Last-sim.Began-5*time.Second))),
			Node: random.IntN(c.Nodes+3) - 2, Other: random.IntN(sim.Snapshots),
			For: time.Duration(random.Int64N(int64(10 * time.Second))),
		})
	}
	return c
}

// Hunt is one schedule of the search for a flaw.
func Hunt(flaw sim.Flaw, seed uint64) sim.Case {
	if flaw.Volatile {
		return huntCache(flaw, seed)
	}
	c := databaseSwarm(seed)
	random := agenda.Chosen(seed, 0xb17e)
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
	var faults []sim.Fault
	if c.SlowClock {
		c.Lease = 4 * time.Second
		faults = sim.Deposing(c.Nodes, random)
	}
	for _, fault := range c.Faults {
		if fault.Point != sim.PointTime && (fault.Kind != sim.FaultFreezePod || c.Durability != tenure.Async) {
			fault.Node %= c.Nodes
			faults = append(faults, fault)
		}
	}
	faults, moment := troubles(flaw, c, faults, random)
	c.Last = min(moment+20*time.Second, 70*time.Second)
	if c.SlowClock {
		c.Last = 60 * time.Second
	}
	c.Unsettled, c.Budget = true, 5*time.Second
	if sim.HasKind(faults, sim.FaultWish) {
		faults = append(faults, sim.Fault{Kind: sim.FaultWish, At: c.Last - time.Second, Wish: c.Nodes})
	}
	faults = append(faults, strokes(flaw, c, random)...)
	c.Faults = faults
	if flaw.Aim != nil {
		c = flaw.Aim(c, random)
	}
	if aim := aims[flaw.Bug]; aim != nil {
		c = aim(c, random)
	}
	return c
}

// troubles adds faults at moments to those that are there, and says when the last one begins.
func troubles(f sim.Flaw, c sim.Case, faults []sim.Fault, random *rand.Rand) ([]sim.Fault, time.Duration) {
	moment := sim.Began
	more := 3 + random.IntN(5)
	if c.SlowClock {
		more = random.IntN(4)
	}
	for range more {
		longest := []time.Duration{time.Second, 4 * time.Second, 12 * time.Second}[random.IntN(3)]
		moment += time.Duration(random.Int64N(int64(longest)))
		fault := sim.Fault{
			Kind: f.Kinds[random.IntN(len(f.Kinds))], At: moment, Node: random.IntN(c.Nodes+3) - 2,
			Other: random.IntN(c.Nodes),
			For:   time.Duration(random.Int64N(int64(20*time.Second))) + 500*time.Millisecond, Wish: 1 + random.IntN(c.Nodes),
		}
		if random.IntN(2) == 0 {
			fault.Node = sim.Holder
		}
		if fault.Kind == sim.FaultFreezePod && random.IntN(2) == 0 {
			fault.For = 8*time.Second + time.Duration(random.Int64N(int64(5*time.Second)))
		}
		if fault.Kind == sim.FaultVolumeLost && sim.HasKind(faults, sim.FaultVolumeLost) {
			continue
		}
		faults = append(faults, fault)
	}
	return faults, moment
}

// strokes are faults at the places that the flaw is about.
func strokes(f sim.Flaw, c sim.Case, random *rand.Rand) []sim.Fault {
	var faults []sim.Fault
	for _, kind := range f.Points {
		for node := range c.Nodes {
			for ordinal := range 4 {
				fault := sim.FaultsAt[kind][random.IntN(len(sim.FaultsAt[kind]))]
				fault.Point, fault.Node, fault.Ordinal = kind, node, ordinal
				faults = append(faults, fault)
			}
		}
	}
	return faults
}

// huntCache is one schedule of the search for a flaw of a cache.
func huntCache(flaw sim.Flaw, seed uint64) sim.Case {
	c := cacheSwarm(seed)
	random := agenda.Chosen(seed, 0xb17e)
	c.Name, c.Bug, c.Unsettled, c.Budget = string(flaw.Bug), flaw.Bug, true, 5*time.Second
	c.Nodes, c.Instances = 3, 3
	c.Faults, _ = troubles(flaw, c, nil, random)
	c.Last = sim.Began + 50*time.Second
	if flaw.Aim != nil {
		c = flaw.Aim(c, random)
	}
	return c
}
