package operated

import (
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/agenda"
	"meridian.dev/meridian/test/sim/swarms"
)

// What a swarm draws from: what users do, what befalls machines and networks, and what befalls the operator.
var (
	wishes = []sim.FaultKind{
		sim.FaultWish, sim.FaultSwitchover, FaultParameter, FaultImage, FaultRestart, sim.FaultTerminate, FaultHibernate,
		FaultDelete, FaultImage, FaultParameter, sim.FaultWish,
	}
	mishaps = []sim.FaultKind{
		sim.FaultCrash, sim.FaultPowerOff, sim.FaultKillServer, sim.FaultCut, sim.FaultCutAPI, sim.FaultCutPeers,
		sim.FaultFreeze, sim.FaultFreezePod, sim.FaultAPIAway, sim.FaultAllCrash, sim.FaultAllOff, sim.FaultWatchDead,
		sim.FaultHang, sim.FaultVolumeLost, sim.FaultLeaseLost, sim.FaultRouteGone, sim.FaultSettings, sim.FaultSettings,
	}
	// Those of caches: a volume is nothing to them, and their model knows no pod that stands still.
	wishesOfCache = []sim.FaultKind{
		sim.FaultWish, sim.FaultWish, sim.FaultFlush, FaultParameter, FaultImage, FaultRestart, FaultMemory,
		sim.FaultTerminate, FaultHibernate, FaultDelete, FaultImage,
	}
	mishapsOfCache = []sim.FaultKind{
		sim.FaultCrash, sim.FaultPowerOff, sim.FaultKillServer, sim.FaultCut, sim.FaultCutAPI, sim.FaultCutPeers,
		sim.FaultFreeze, sim.FaultAPIAway, sim.FaultAllCrash, sim.FaultAllOff, sim.FaultWatchDead, sim.FaultHang,
		sim.FaultLeaseLost, sim.FaultRouteGone, sim.FaultSettings, sim.FaultSettings,
	}
	troubles = []sim.FaultKind{sim.FaultOperator, FaultStall}
	// answers are what calls of the operator may get, and overtakings how they may be late.
	answers = []sim.FaultKind{
		sim.FaultRefused, sim.FaultApplied, FaultConflict, sim.FaultCrashBefore, sim.FaultCrashAfter, sim.FaultLate,
		FaultOvertaken,
	}
)

// Answers are what a call of the operator may get, beside its answer.
func Answers() []sim.FaultKind { return answers }

// gone is how long a node is away that the operator gives up.
const gone = 8 * time.Minute

// Swarm is a random schedule: users who do not wait, machines that fail, and an operator that is not well.
func Swarm(seed uint64) sim.Case {
	random := agenda.Chosen(seed, 0x09e7a7ed)
	c := sim.Case{
		Name: "swarm of an operated database", Seed: seed, Nodes: machines, Whole: true, Lag: random.IntN(2) == 0,
		Budget: 15 * time.Minute, Around: New(Flaw{}),
	}
	c.Instances = []int{3, 3, 3, 2, 4}[random.IntN(5)]
	c.Durability = []tenure.Durability{tenure.Strict, tenure.Strict, tenure.Strict, tenure.Available}[random.IntN(4)]
	return drawn(c, random, wishes, mishaps)
}

// ServerSwarm is one in which servers of a database have troubles beside their loops as well.
func ServerSwarm(seed uint64) sim.Case {
	c := Swarm(seed)
	c.Name, c.Last = "swarm of an operated database with troubled servers", max(c.Last, Began+40*time.Second)
	for _, fault := range swarms.Troubles(c, agenda.Chosen(seed, 0x3407e), Began) {
		c.Faults, c.Last = append(c.Faults, fault), max(c.Last, fault.At+time.Second)
	}
	return c
}

// CacheSwarm is one of a cache.
func CacheSwarm(seed uint64) sim.Case {
	random := agenda.Chosen(seed, 0x09e7cac4)
	c := sim.Case{
		Name: "swarm of an operated cache", Seed: seed, Nodes: machines, Volatile: true, Lag: random.IntN(2) == 0,
		Budget: 15 * time.Minute, Around: New(Flaw{}),
	}
	c.Instances = []int{3, 3, 3, 2, 1}[random.IntN(5)]
	return drawn(c, random, wishesOfCache, mishapsOfCache)
}

// drawn draws what goes wrong.
func drawn(c sim.Case, random *rand.Rand, wishes, mishaps []sim.FaultKind) sim.Case {
	span := 40*time.Second + time.Duration(random.Int64N(int64(100*time.Second)))
	start := Began
	if random.IntN(6) == 0 {
		start = 2 * time.Second
	}
	moment := func() time.Duration { return start + time.Duration(random.Int64N(int64(span))) }
	for range 1 + random.IntN(3) {
		c.Faults = append(c.Faults, sim.Fault{
			Kind: wishes[random.IntN(len(wishes))], At: moment(), Node: random.IntN(c.Nodes) - 2,
			Other: random.IntN(3), Wish: 2 + random.IntN(4),
		})
	}
	for range random.IntN(4) {
		next := mishap(c, random, mishaps, moment())
		if next.Kind != sim.FaultVolumeLost || !sim.HasKind(c.Faults, next.Kind) {
			c.Faults = append(c.Faults, next)
		}
	}
	for range random.IntN(2) {
		c.Faults = append(c.Faults, sim.Fault{
			Kind: troubles[random.IntN(len(troubles))], At: moment(), Node: Nowhere,
			For: time.Duration(random.Int64N(int64(40 * time.Second))),
		})
	}
	for range random.IntN(5) {
		c.Faults = append(c.Faults, sim.Fault{
			Kind: answers[random.IntN(len(answers))], Point: PointCall, Node: Nowhere, Ordinal: random.IntN(1500),
			For: time.Duration(random.Int64N(int64(8 * time.Second))),
		})
	}
	for _, fault := range c.Faults {
		c.Last = max(c.Last, fault.At+time.Second)
	}
	return c
}

// mishap is one of a machine or a network. Few machines stay away for good.
func mishap(c sim.Case, random *rand.Rand, mishaps []sim.FaultKind, moment time.Duration) sim.Fault {
	fault := sim.Fault{
		Kind: mishaps[random.IntN(len(mishaps))], At: moment, Node: random.IntN(c.Nodes+2) - 2,
		For: 500*time.Millisecond + time.Duration(random.Int64N(int64(30*time.Second))),
	}
	if fault.Kind == sim.FaultPowerOff && random.IntN(6) == 0 {
		fault.For = gone
	}
	return fault
}
