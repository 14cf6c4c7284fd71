package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
)

// singles are the faults that each kind of place can have.
var singles = map[PointKind][]Fault{
	PointRead: {{Kind: FaultRefused}, {Kind: FaultLate, For: 1500 * time.Millisecond}},
	PointWrite: {{Kind: FaultRefused}, {Kind: FaultApplied}, {Kind: FaultNotApplied},
		{Kind: FaultLate, For: 3 * time.Second}, {Kind: FaultLate, For: 12 * time.Second}},
	PointMessage: {{Kind: FaultLost}, {Kind: FaultReplyLost}, {Kind: FaultLate, For: 900 * time.Millisecond},
		{Kind: FaultLate, For: 6 * time.Second}, {Kind: FaultTwice, For: 4 * time.Second}},
	PointStore: {{Kind: FaultFails}},
	PointTransfer: {{Kind: FaultApplied}, {Kind: FaultAppliedCut, For: 6 * time.Second},
		{Kind: FaultForgotten, For: 12 * time.Second}},
	PointChange: {{Kind: FaultForgotten, For: 12 * time.Second}},
	PointTake: {{Kind: FaultAppliedCut, For: 6 * time.Second}, {Kind: FaultLate, For: 3 * time.Second},
		{Kind: FaultLate, For: 7 * time.Second}},
	PointAnswer: {{Kind: FaultCrash}, {Kind: FaultPowerOff, For: 2 * time.Second},
		{Kind: FaultVolumeLost, For: time.Second}},
	PointRecord: {{Kind: FaultCrash}, {Kind: FaultPowerOff, For: 20 * time.Second}},
	PointLook:   {{Kind: FaultRefused}},
	PointShow:   {{Kind: FaultRefused}, {Kind: FaultApplied}},
	PointFence:  {{Kind: FaultFails}},
	PointAct:    {{Kind: FaultCrash}, {Kind: FaultPowerOff, For: 20 * time.Second}},
	PointBefore: {{Kind: FaultCrash}, {Kind: FaultPowerOff, For: 20 * time.Second},
		{Kind: FaultFreeze, For: 15 * time.Second}},
	PointAfter: {{Kind: FaultCrash}, {Kind: FaultVolumeLost, For: time.Second},
		{Kind: FaultFreezePod, For: 15 * time.Second}},
}

// swarmKinds are the places that swarms draw from, pointKinds all of them.
var (
	swarmKinds = []PointKind{PointRead, PointWrite, PointMessage, PointStore, PointFence, PointBefore, PointAfter,
		PointTake, PointTransfer, PointChange, PointAnswer}
	pointKinds = append(slices.Clone(swarmKinds), PointRecord, PointLook, PointShow, PointAct)
)

// calls are the places where an agent asks something of the API server.
var calls = []PointKind{PointRead, PointWrite, PointTake, PointTransfer, PointChange, PointLook, PointShow}

// lastCalls are writes that are the last thing that a process does, or would have been. Among all places they are
// boundaries of acts like others. A crash at a read is the one after the act before it.
var lastCalls = map[PointKind][]Fault{
	PointWrite: {{Kind: FaultCrashBefore}, {Kind: FaultCrashAfter}},
	PointShow:  {{Kind: FaultCrashBefore}, {Kind: FaultCrashAfter}},
}

// Singles are the cases of a scenario with one more fault, at every place that an undisturbed run of it has.
func Singles(s Scenario) []Case { return s.singlesAt(pointKinds, nil) }

// CallSingles are those at calls of the API server.
func CallSingles(s Scenario) []Case { return s.singlesAt(calls, lastCalls) }

func (s Scenario) singlesAt(kinds []PointKind, more map[PointKind][]Fault) []Case {
	s.Lag = true
	undisturbed := Run(s.Case, false)
	var cases []Case
	// How a database comes to be is searched once, in the scenarios that are about that.
	first := undisturbed.Early
	if len(s.Faults) == 0 {
		first = nil
	}
	for node := range s.Nodes {
		for _, kind := range kinds {
			key := pointKey{node, kind}
			for ordinal := first[key]; ordinal < undisturbed.Points[key]; ordinal++ {
				for _, fault := range slices.Concat(singles[kind], more[kind]) {
					if !s.bears(fault) {
						continue
					}
					fault.Point, fault.Node, fault.Ordinal = kind, node, ordinal
					c := s.Case
					c.Lag = true
					c.Faults = append(append([]Fault{}, s.Faults...), fault)
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

// bears says whether the promise of the scenario covers the fault.
func (s Scenario) bears(fault Fault) bool {
	switch fault.Kind {
	case FaultVolumeLost, FaultPutBack:
		if s.Volatile {
			return fault.Kind == FaultVolumeLost // Another pod, and so another copy, at any time. There is no claim.
		}
		// The last copy, or more copies than the quorum has, may not be lost.
		return s.Instances >= 3 && s.Durability == "" && !s.loses()
	case FaultFreezePod, FaultPause:
		return s.Durability != tenure.Async
	default:
		return true
	}
}

func (s Scenario) loses() bool {
	for _, fault := range s.Faults {
		if fault.Kind == FaultVolumeLost || fault.Kind == FaultPutBack || fault.Kind == FaultWish {
			return true
		}
	}
	return false
}

// swarmOrdinals are how many of each place a swarm draws from.
var swarmOrdinals = map[PointKind]int{
	PointRead: 15, PointWrite: 40, PointMessage: 60, PointStore: 30, PointFence: 4, PointBefore: 150,
	PointAfter: 150, PointTake: 3, PointTransfer: 3, PointChange: 6, PointAnswer: 4,
}

// Swarm is a random case. Every sixth is about a cache.
func Swarm(seed uint64) Case {
	if seed%6 == 5 {
		return cacheSwarm(seed)
	}
	return databaseSwarm(seed)
}

// WholeSwarm is a random case of a database in which the loop of production runs the servers.
func WholeSwarm(seed uint64) Case {
	c := databaseSwarm(seed)
	random := chosen(seed, 0x3407e)
	c.Name, c.Whole, c.Major = "swarm of a whole database", true, []int{15, 17}[random.IntN(2)]
	for range random.IntN(4) {
		fault := singles[PointAct][random.IntN(2)]
		fault.Point, fault.Node, fault.Ordinal = PointAct, random.IntN(c.Nodes), random.IntN(100)
		c.Faults = append(c.Faults, fault)
	}
	if random.IntN(3) == 0 {
		return c
	}
	kinds := []FaultKind{
		FaultDisk, FaultServer, FaultCheckpoint, FaultReplay, FaultSilent, FaultMuch, FaultCancel, FaultClock, FaultClockStep,
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:1+random.IntN(3)]
	for range 1 + random.IntN(4) {
		c.Faults = append(c.Faults, Fault{
			Kind: kinds[random.IntN(len(kinds))], At: began + time.Duration(random.Int64N(int64(c.Last-began-5*time.Second))),
			Node: random.IntN(c.Nodes+3) - 2, Wish: 1 + random.IntN(6),
			For: time.Duration(random.Int64N(int64(25*time.Second))) + 500*time.Millisecond,
		})
	}
	return c
}

func databaseSwarm(seed uint64) Case {
	random := chosen(seed, 0x50a3)
	c := Case{Name: "swarm", Seed: seed, Lag: true, Last: 70 * time.Second, Budget: 150 * time.Second}
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
	start := began
	if random.IntN(5) == 0 {
		start = 0
	}
	moment := func() time.Duration {
		return start + time.Duration(random.Int64N(int64(c.Last-start-5*time.Second)))
	}
	kinds := timedKinds(c, random)
	for range 1 + random.IntN(6) {
		fault := Fault{
			Kind: kinds[random.IntN(len(kinds))], At: moment(), Node: random.IntN(c.Nodes+3) - 2, Other: random.IntN(c.Nodes),
			For: time.Duration(random.Int64N(int64(25*time.Second))) + 500*time.Millisecond, Wish: 1 + random.IntN(c.Nodes),
		}
		if fault.Kind == FaultVolumeLost && hasKind(c.Faults, FaultVolumeLost) {
			continue
		}
		c.Faults = append(c.Faults, fault)
	}
	if hasKind(c.Faults, FaultWish) {
		c.Faults = append(c.Faults, Fault{Kind: FaultWish, At: c.Last - time.Second, Wish: c.Nodes})
	}
	c.Lease = []time.Duration{10 * time.Second, 10 * time.Second, 4 * time.Second}[random.IntN(3)]
	if c.SlowClock {
		c.Lease = 4 * time.Second
		c.Faults = append(c.Faults, deposing(c.Nodes, random)...)
	}
	for range random.IntN(12) {
		kind := swarmKinds[random.IntN(len(swarmKinds))]
		fault := singles[kind][random.IntN(len(singles[kind]))]
		if fault.Kind == FaultVolumeLost || fault.Kind == FaultFreezePod && c.Durability == tenure.Async {
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
func cacheSwarm(seed uint64) Case {
	random := chosen(seed, 0xcac4e)
	c := Case{
		Name: "swarm of a cache", Seed: seed, Volatile: true, Durability: tenure.Async, Lag: random.IntN(3) > 0,
		Last: 70 * time.Second, Budget: 150 * time.Second,
	}
	c.Nodes = []int{3, 3, 3, 2, 4, 1}[random.IntN(6)]
	c.Instances = c.Nodes
	c.Lease = []time.Duration{10 * time.Second, 10 * time.Second, 4 * time.Second}[random.IntN(3)]
	start := began
	if random.IntN(4) == 0 {
		start = 0
	}
	kinds := []FaultKind{
		FaultCrash, FaultPowerOff, FaultFreeze, FaultKillServer, FaultVolumeLost, FaultCut, FaultCutAPI, FaultCutPeers,
		FaultCutOneWay, FaultAPIAway, FaultWatchDead, FaultTerminate, FaultSwitchover, FaultAllCrash,
		FaultAllOff, FaultRoute, FaultRouteGone, FaultHang, FaultLeaseLost, FaultLeaseBack, FaultOperator, FaultWish,
		FaultFlush, FaultFlush,
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:2+random.IntN(4)]
	for range 1 + random.IntN(6) {
		c.Faults = append(c.Faults, Fault{
			Kind: kinds[random.IntN(len(kinds))], Node: random.IntN(c.Nodes+3) - 2, Other: random.IntN(c.Nodes),
			At:  start + time.Duration(random.Int64N(int64(c.Last-start-5*time.Second))),
			For: time.Duration(random.Int64N(int64(30*time.Second))) + 500*time.Millisecond, Wish: 1 + random.IntN(c.Nodes),
		})
	}
	if hasKind(c.Faults, FaultWish) {
		c.Faults = append(c.Faults, Fault{Kind: FaultWish, At: c.Last - time.Second, Wish: c.Nodes})
	}
	for range random.IntN(12) {
		kind := swarmKinds[random.IntN(len(swarmKinds))]
		fault := singles[kind][random.IntN(len(singles[kind]))]
		if fault.Kind == FaultFreezePod {
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

// deposing gives the lease to the machine with the slow clock again and again.
func deposing(nodes int, random *rand.Rand) []Fault {
	var faults []Fault
	for at := began; at < 60*time.Second; at += 4*time.Second + time.Duration(random.Int64N(int64(8*time.Second))) {
		faults = append(faults, Fault{Kind: FaultSwitchover, At: at, Other: nodes})
	}
	return faults
}

func hasKind(faults []Fault, kind FaultKind) bool {
	for _, fault := range faults {
		if fault.Kind == kind {
			return true
		}
	}
	return false
}

// timedKinds is which faults a swarm has: each swarm has a few kinds of them, so that each is seen alone and often.
func timedKinds(c Case, random *rand.Rand) []FaultKind {
	all := []FaultKind{
		FaultCrash, FaultPowerOff, FaultFreeze, FaultKillServer, FaultCut, FaultCutAPI, FaultCutPeers, FaultCutOneWay,
		FaultAPIAway, FaultWatchDead, FaultLease, FaultTerminate, FaultSwitchover, FaultAllCrash, FaultAllOff,
		FaultRoute, FaultRouteGone, FaultHang, FaultLeaseLost, FaultLeaseBack, FaultOperator,
	}
	if c.Durability != tenure.Async {
		all = append(all, FaultFreezePod, FaultPause)
	}
	if c.Durability == tenure.Strict && c.Nodes >= 3 {
		all = append(all, FaultVolumeLost)
	}
	if c.Nodes > 2 {
		all = append(all, FaultWish)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:2+random.IntN(4)]
}

// Shrink leaves out of a failing case what it does not need to fail.
func Shrink(c Case) Case {
	for again := true; again; {
		again = false
		for index := range c.Faults {
			fewer := c
			fewer.Faults = append(append([]Fault{}, c.Faults[:index]...), c.Faults[index+1:]...)
			if len(Run(fewer, false).Problems) > 0 {
				c, again = fewer, true
				break
			}
		}
	}
	return c
}
