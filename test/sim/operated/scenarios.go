package operated

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim"
)

// machines is how many there are. An instance in the place of one whose volume is lost has a name of its own.
const machines = 6

// Began is when a scenario begins: by then the operator has made a database, and it is served.
const Began = 60 * time.Second

func at(d time.Duration, kind sim.FaultKind, node int, lasting time.Duration) sim.Fault {
	return sim.Fault{Kind: kind, At: Began + d, Node: node, For: lasting}
}

func wishing(d time.Duration, count int) sim.Fault {
	return sim.Fault{Kind: sim.FaultWish, At: Began + d, Wish: count}
}

func of(name string, instances int, faults ...sim.Fault) sim.Scenario {
	last := Began
	for _, fault := range faults {
		last = max(last, fault.At+fault.For)
	}
	c := sim.Case{
		Name: name, Nodes: machines, Instances: instances, Whole: true, Faults: faults, Last: last, Budget: 10 * time.Minute,
		Around: New(Flaw{}),
	}
	return sim.Scenario{Case: c}
}

// ofCache is a scenario of a cache.
func ofCache(name string, instances int, faults ...sim.Fault) sim.Scenario {
	s := of("cache, "+name, instances, faults...)
	s.Whole, s.Volatile = false, true
	return s
}

// alone is a database of one instance, which can keep nothing twice.
func alone(s sim.Scenario) sim.Scenario {
	s.Durability = tenure.Async
	return s
}

// Scenario is a piece of the life of a database with its operator.
type Scenario struct {
	sim.Scenario
	// Moves is how often the primary is handed over, negative where chance has a part in that.
	Moves int
	// Shows is a piece of its story without which it has shown nothing.
	Shows string
}

// quietly is a scenario in which nothing goes wrong: writes are away for no longer than this, and the primary moves as
// often as the change needs.
func quietly(moves int, gap time.Duration, s sim.Scenario) Scenario {
	s.Gap = gap
	return Scenario{Scenario: s, Moves: moves}
}

// Scenarios are all of them.
func Scenarios() []Scenario { return append(databaseScenarios(), cacheScenarios()...) }

func databaseScenarios() []Scenario {
	const s = time.Second
	image := sim.Fault{Kind: FaultImage, At: Began, Wish: 7}
	rolling := func(what, shows string, fault sim.Fault) Scenario {
		return Scenario{Scenario: of("another image, "+what, 3, image, fault), Moves: -1, Shows: shows}
	}
	return []Scenario{
		quietly(0, 2*s, of("bootstrap of three", 3)),
		quietly(0, 2*s, alone(of("bootstrap of one", 1))),
		quietly(1, 4*s, of("switchover by the user", 3, at(0, sim.FaultSwitchover, 0, 0))),
		quietly(0, 2*s, of("scale from three to five to two", 3, wishing(0, 5), wishing(90*s, 2))),
		quietly(0, 2*s, of("caches of the operator stand still", 3, at(0, FaultStall, Nowhere, 60*s))),
		quietly(1, 4*s, of("parameter that takes a start", 3, sim.Fault{Kind: FaultParameter, At: Began, Wish: 3})),
		quietly(1, 4*s, of("another image", 3, image)),
		rolling("holder powered off", "FAULT power-off", at(12*s, sim.FaultPowerOff, sim.Holder, 30*s)),
		rolling("operator ends", "operator 2 starts", at(8*s, sim.FaultOperator, Nowhere, 20*s)),
		rolling("lease deleted", "create Lease", at(12*s, sim.FaultLeaseLost, Nowhere, 0)),
		rolling("claim deleted", "create PersistentVolumeClaim gis/cities-4", at(12*s, sim.FaultVolumeLost, sim.Replica, 0)),
		rolling("node gone", "is noticed to be away", at(12*s, sim.FaultPowerOff, sim.Replica, gone)),
		quietly(-1, 130*s, of("hibernates and wakes", 3,
			at(0, FaultHibernate, Nowhere, 0), at(120*s, FaultWake, Nowhere, 0))),
		quietly(-1, 2*s, of("deleted", 3, at(0, FaultDelete, Nowhere, 0))),
	}
}

func cacheScenarios() []Scenario {
	const s = time.Second
	image := sim.Fault{Kind: FaultImage, At: Began, Wish: 7}
	rolling := func(what, shows string, fault sim.Fault) Scenario {
		return Scenario{Scenario: ofCache("another image, "+what, 3, image, fault), Moves: -1, Shows: shows}
	}
	return []Scenario{
		quietly(0, 2*s, ofCache("bootstrap of three", 3)),
		quietly(0, 2*s, ofCache("bootstrap of one", 1)),
		quietly(0, 2*s, ofCache("caches of the operator stand still", 3, at(0, FaultStall, Nowhere, 60*s))),
		quietly(1, 4*s, ofCache("pod of the primary deleted", 3, at(0, sim.FaultTerminate, sim.Holder, 0))),
		quietly(0, 2*s, ofCache("scale from three to five to two", 3, wishing(0, 5), wishing(90*s, 2))),
		quietly(0, 2*s, ofCache("scale from one to three to one", 1, wishing(0, 3), wishing(60*s, 1))),
		quietly(0, 2*s, ofCache("another parameter", 3, sim.Fault{Kind: FaultParameter, At: Began, Wish: 3})),
		quietly(0, 2*s, ofCache("more memory, and less", 3, sim.Fault{Kind: FaultMemory, At: Began, Wish: 4},
			sim.Fault{Kind: FaultMemory, At: Began + 60*s, Wish: 2})),
		quietly(0, 2*s, ofCache("emptied", 3, at(0, sim.FaultFlush, Nowhere, 0))),
		quietly(1, 4*s, ofCache("another image", 3, image)),
		rolling("holder powered off", "FAULT power-off", at(6*s, sim.FaultPowerOff, sim.Holder, 30*s)),
		rolling("operator ends", "cache operator 2 starts", at(4*s, sim.FaultOperator, Nowhere, 20*s)),
		rolling("lease deleted", "create Lease", at(6*s, sim.FaultLeaseLost, Nowhere, 0)),
		rolling("node gone", "is noticed to be away", at(6*s, sim.FaultPowerOff, sim.Replica, gone)),
		quietly(-1, 135*s, ofCache("hibernates and wakes", 3,
			at(0, FaultHibernate, Nowhere, 0), at(120*s, FaultWake, Nowhere, 0))),
		quietly(-1, 2*s, ofCache("deleted", 3, at(0, FaultDelete, Nowhere, 0))),
	}
}
