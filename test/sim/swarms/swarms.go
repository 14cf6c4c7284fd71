// Package swarms makes schedules at random, each by its seed: of databases, of caches, and those that look for a flaw.
// What can be in one is in package sim. Start reading at Swarm.
package swarms

import (
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/agenda"
)

// Swarm is a random case. Every sixth is about a cache.
func Swarm(seed uint64) sim.Case {
	if seed%6 == 5 {
		return cacheSwarm(seed)
	}
	return databaseSwarm(seed)
}

// WholeSwarm is a random case of a database in which the loop of production runs the servers.
func WholeSwarm(seed uint64) sim.Case {
	c := databaseSwarm(seed)
	random := agenda.Chosen(seed, 0x3407e)
	c.Name, c.Whole, c.Major = "swarm of a whole database", true, []int{15, 17}[random.IntN(2)]
	c.Faults = append(c.Faults, Troubles(c, random, sim.Began)...)
	c.Faults = append(c.Faults, silences(c)...)
	return c
}

// silences are, in every third swarm, a long transaction, and servers that start meanwhile: they let nobody in.
func silences(c sim.Case) []sim.Fault {
	random := agenda.Chosen(c.Seed, 0x51e27)
	if random.IntN(3) > 0 {
		return nil
	}
	span := func(longest time.Duration) time.Duration { return time.Duration(random.Int64N(int64(longest))) }
	begins := sim.Began + span(c.Last-sim.Began-15*time.Second)
	faults := []sim.Fault{{Kind: sim.FaultLong, At: begins, For: 8*time.Second + span(30*time.Second)}}
	kinds := []sim.FaultKind{sim.FaultCrash, sim.FaultPowerOff, sim.FaultKillServer, sim.FaultTerminate, sim.FaultAllCrash}
	for range 1 + random.IntN(3) {
		faults = append(faults, sim.Fault{
			Kind: kinds[random.IntN(len(kinds))], At: begins + 5*time.Second + span(10*time.Second),
			Node: random.IntN(c.Instances+4) - 4, For: span(10 * time.Second),
		})
	}
	return faults
}

// Troubles are what goes wrong with servers beside their loops, and with agents before an act of those, after a moment.
func Troubles(c sim.Case, random *rand.Rand, from time.Duration) []sim.Fault {
	var faults []sim.Fault
	for range random.IntN(4) {
		fault := sim.FaultsAt[sim.PointAct][random.IntN(2)]
		fault.Point, fault.Node, fault.Ordinal = sim.PointAct, random.IntN(c.Instances), random.IntN(100)
		faults = append(faults, fault)
	}
	if random.IntN(3) == 0 {
		return faults
	}
	kinds := []sim.FaultKind{
		sim.FaultDisk, sim.FaultServer, sim.FaultCheckpoint, sim.FaultReplay, sim.FaultSilent, sim.FaultMuch,
		sim.FaultCancel, sim.FaultClock, sim.FaultClockStep,
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:1+random.IntN(3)]
	for range 1 + random.IntN(4) {
		faults = append(faults, sim.Fault{
			Kind: kinds[random.IntN(len(kinds))],
			At:   from + time.Duration(random.Int64N(int64(c.Last-from-5*time.Second))),
			Node: random.IntN(c.Instances+3) - 2, Wish: 1 + random.IntN(6),
			For: time.Duration(random.Int64N(int64(25*time.Second))) + 500*time.Millisecond,
		})
	}
	return faults
}

func databaseSwarm(seed uint64) sim.Case {
	random := agenda.Chosen(seed, 0x50a3)
	c := sim.Case{Name: "swarm", Seed: seed, Lag: true, Last: 70 * time.Second, Budget: 150 * time.Second}
	c.Nodes = []int{3, 3, 3, 3, 2, 5, 4, 1, 5}[random.IntN(9)]
	c.Instances = c.Nodes
	modes := []tenure.Durability{tenure.Strict, tenure.Strict, tenure.Strict, tenure.Available, tenure.Async}
	c.Durability = modes[random.IntN(5)]
	if c.Durability == tenure.Strict {
		c.WildClocks = random.IntN(4) == 0
		if c.WildClocks {
			c.Unsettled, c.Budget = true, 20*time.Second
			c.SlowClock = random.IntN(2) == 0
		}
	}
	start := sim.Began
	if random.IntN(5) == 0 {
		start = 0
	}
	moment := func() time.Duration {
		return start + time.Duration(random.Int64N(int64(c.Last-start-5*time.Second)))
	}
	kinds := timedKinds(c, random)
	for range 1 + random.IntN(6) {
		fault := sim.Fault{
			Kind: kinds[random.IntN(len(kinds))], At: moment(), Node: random.IntN(c.Nodes+3) - 2, Other: random.IntN(c.Nodes),
			For: time.Duration(random.Int64N(int64(25*time.Second))) + 500*time.Millisecond, Wish: 1 + random.IntN(c.Nodes),
		}
		if fault.Kind == sim.FaultVolumeLost && sim.HasKind(c.Faults, sim.FaultVolumeLost) {
			continue
		}
		c.Faults = append(c.Faults, fault)
	}
	if sim.HasKind(c.Faults, sim.FaultWish) {
		c.Faults = append(c.Faults, sim.Fault{Kind: sim.FaultWish, At: c.Last - time.Second, Wish: c.Nodes})
	}
	c.Lease = []time.Duration{10 * time.Second, 10 * time.Second, 4 * time.Second}[random.IntN(3)]
	if c.SlowClock {
		c.Lease = 4 * time.Second
		c.Faults = append(c.Faults, sim.Deposing(c.Nodes, random)...)
	}
	for range random.IntN(12) {
		kind := sim.UsualPoints[random.IntN(len(sim.UsualPoints))]
		fault := sim.FaultsAt[kind][random.IntN(len(sim.FaultsAt[kind]))]
		if fault.Kind == sim.FaultVolumeLost || fault.Kind == sim.FaultFreezePod && c.Durability == tenure.Async {
			continue
		}
		fault.Point, fault.Node = kind, random.IntN(c.Nodes)
		fault.Ordinal = random.IntN(swarmOrdinals[kind])
		if fault.For > 0 {
			fault.For = time.Duration(random.Int64N(int64(2 * fault.For)))
		}
		c.Faults = append(c.Faults, fault)
	}
	return c
}

// cacheSwarm is a random case of a cache.
func cacheSwarm(seed uint64) sim.Case {
	random := agenda.Chosen(seed, 0xcac4e)
	c := sim.Case{
		Name: "swarm of a cache", Seed: seed, Volatile: true, Durability: tenure.Async, Lag: random.IntN(3) > 0,
		Last: 70 * time.Second, Budget: 150 * time.Second,
	}
	c.Nodes = []int{3, 3, 3, 2, 4, 1}[random.IntN(6)]
	c.Instances = c.Nodes
	c.Lease = []time.Duration{10 * time.Second, 10 * time.Second, 4 * time.Second}[random.IntN(3)]
	start := sim.Began
	if random.IntN(4) == 0 {
		start = 0
	}
	kinds := []sim.FaultKind{
		sim.FaultCrash, sim.FaultPowerOff, sim.FaultFreeze, sim.FaultKillServer, sim.FaultVolumeLost, sim.FaultCut,
		sim.FaultCutAPI, sim.FaultCutPeers, sim.FaultCutOneWay, sim.FaultAPIAway, sim.FaultWatchDead,
		sim.FaultTerminate, sim.FaultSwitchover, sim.FaultAllCrash, sim.FaultAllOff, sim.FaultRoute,
		sim.FaultRouteGone, sim.FaultHang, sim.FaultLeaseLost, sim.FaultLeaseBack, sim.FaultOperator, sim.FaultWish,
		sim.FaultFlush, sim.FaultFlush,
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:2+random.IntN(4)]
	for range 1 + random.IntN(6) {
		c.Faults = append(c.Faults, sim.Fault{
			Kind: kinds[random.IntN(len(kinds))], Node: random.IntN(c.Nodes+3) - 2, Other: random.IntN(c.Nodes),
			At:  start + time.Duration(random.Int64N(int64(c.Last-start-5*time.Second))),
			For: time.Duration(random.Int64N(int64(30*time.Second))) + 500*time.Millisecond, Wish: 1 + random.IntN(c.Nodes),
		})
	}
	if sim.HasKind(c.Faults, sim.FaultWish) {
		c.Faults = append(c.Faults, sim.Fault{Kind: sim.FaultWish, At: c.Last - time.Second, Wish: c.Nodes})
	}
	for range random.IntN(12) {
		kind := sim.UsualPoints[random.IntN(len(sim.UsualPoints))]
		fault := sim.FaultsAt[kind][random.IntN(len(sim.FaultsAt[kind]))]
		if fault.Kind == sim.FaultFreezePod {
			continue
		}
		fault.Point, fault.Node, fault.Ordinal = kind, random.IntN(c.Nodes), random.IntN(swarmOrdinals[kind])
		if fault.For > 0 {
			fault.For = time.Duration(random.Int64N(int64(2 * fault.For)))
		}
		c.Faults = append(c.Faults, fault)
	}
	return c
}

// timedKinds is which faults a swarm has: each swarm has a few kinds of them, so that each is seen alone and often.
func timedKinds(c sim.Case, random *rand.Rand) []sim.FaultKind {
	all := []sim.FaultKind{
		sim.FaultCrash, sim.FaultPowerOff, sim.FaultFreeze, sim.FaultKillServer, sim.FaultCut, sim.FaultCutAPI,
		sim.FaultCutPeers, sim.FaultCutOneWay, sim.FaultAPIAway, sim.FaultWatchDead, sim.FaultLease,
		sim.FaultTerminate, sim.FaultSwitchover, sim.FaultAllCrash, sim.FaultAllOff, sim.FaultRoute,
		sim.FaultRouteGone, sim.FaultHang, sim.FaultLeaseLost, sim.FaultLeaseBack, sim.FaultOperator,
	}
	if c.Durability != tenure.Async {
		all = append(all, sim.FaultFreezePod, sim.FaultPause)
	}
	if c.Durability == tenure.Strict && c.Nodes >= 3 {
		all = append(all, sim.FaultVolumeLost)
	}
	if c.Nodes > 2 {
		all = append(all, sim.FaultWish)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:2+random.IntN(4)]
}

// swarmOrdinals are how many of each place a swarm draws from.
var swarmOrdinals = map[sim.PointKind]int{
	sim.PointRead: 15, sim.PointWrite: 40, sim.PointMessage: 60, sim.PointStore: 30, sim.PointFence: 4,
	sim.PointBefore: 150, sim.PointAfter: 150, sim.PointTake: 3, sim.PointTransfer: 3, sim.PointChange: 6,
	sim.PointAnswer: 4,
}
