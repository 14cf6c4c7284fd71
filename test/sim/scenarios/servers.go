package scenarios

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim"
)

// fifteen is a database of PostgreSQL 15, of which acknowledged writes are on two copies.
func fifteen(s scenario) scenario {
	s.Major, s.Durability = 15, tenure.Strict
	return s
}

// Servers are about what goes wrong with a server beside its loop: only a world that has both can run them.
func Servers() []sim.Scenario {
	const s = time.Second
	var all []sim.Scenario
	for _, each := range []scenario{
		of("disk of the holder hangs", 3, at(0, sim.FaultDisk, Holder, 30*s)).within(10 * s),
		of("disk of the only one hangs", 1, at(0, sim.FaultDisk, Holder, 20*s)).within(22 * s),
		of("disk of a replica hangs", 3, at(0, sim.FaultDisk, Replica, 30*s)).within(2 * s),
		of("server of the holder hangs", 3, at(0, sim.FaultServer, Holder, 30*s)).within(10 * s),
		of("server of a replica hangs", 3, at(0, sim.FaultServer, Replica, 30*s)).within(2 * s),
		of("checkpoint of the holder held, switchover", 3, at(0, sim.FaultCheckpoint, Holder, 60*s),
			at(s, FaultSwitchover, 0, 0)).within(4 * s),
		of("checkpoint of the holder held, told to end", 3, at(0, sim.FaultCheckpoint, Holder, 120*s),
			at(s, FaultTerminate, Holder, 0)).within(4 * s),
		of("replay of a replica slow, holder powered off", 3,
			Fault{Kind: sim.FaultReplay, At: began, Node: Replica, Wish: 2, For: 2 * time.Minute},
			Fault{Kind: sim.FaultReplay, At: began, Node: LastReplica, Wish: 2, For: 2 * time.Minute},
			at(20*s, FaultPowerOff, Holder, 30*s)),
		of("silent connections, holder powered off", 3, at(0, sim.FaultSilent, 0, 60*s), at(0, sim.FaultSilent, 1, 60*s),
			at(0, sim.FaultSilent, 2, 60*s), at(s, FaultPowerOff, Holder, 30*s)).within(leaseLasts + 3*s),
		of("replica far behind, holder powered off", 3, at(0, FaultCut, LastReplica, 45*s),
			Fault{Kind: sim.FaultMuch, At: began + 3*s, Node: Holder, Wish: 4}, at(20*s, FaultPowerOff, Holder, 50*s)),
		of("waits of the holder cancelled while no replica is there", 3, at(0, FaultPowerOff, Replica, 20*s),
			at(0, FaultPowerOff, LastReplica, 20*s), at(5*s, sim.FaultCancel, Holder, 0)),
		of("switchover, target powered off as it begins", 3, at(0, FaultSwitchover, 0, 0),
			at(600*time.Millisecond, FaultPowerOff, Holder, 30*s)).within(leaseLasts + 6*s),
		of("replica of two starts again in a long transaction", 2, at(0, sim.FaultLong, Holder, 30*s),
			at(6*s, FaultPowerOff, Replica, s)).within(10 * s),
		of("replicas start again in a long transaction, holder powered off", 3, at(0, sim.FaultLong, Holder, 60*s),
			at(6*s, FaultPowerOff, Replica, s), at(7*s, FaultPowerOff, LastReplica, s), at(15*s, FaultPowerOff, Holder, 60*s)).
			within(leaseLasts + 10*s),
		fifteen(of("holder of two cut off, next checkpoint takes minutes", 2, at(0, FaultCut, Holder, 20*s)).
			within(leaseLasts + 20*s)),
		of("wall clock of the holder put back", 3, at(0, sim.FaultClock, Holder, 3600*s)).within(2 * s),
		of("holder cut off, wall clocks put back as it is rewound", 3, at(0, FaultCut, Holder, 15*s),
			at(15*s, sim.FaultClock, Replica, 20*s), at(15*s, sim.FaultClock, LastReplica, 20*s),
			at(15*s+s/2, sim.FaultClock, Replica, 20*s), at(15*s+s/2, sim.FaultClock, LastReplica, 20*s),
			at(16*s+s/2, sim.FaultClock, Replica, 20*s), at(16*s+s/2, sim.FaultClock, LastReplica, 20*s)),
	} {
		// A clock that was put back stays so: nothing is to be waited for.
		if len(each.Faults) == 1 && each.Faults[0].Kind == sim.FaultClock {
			each.Last = began + s
		}
		each.Whole = true
		all = append(all, sim.Scenario(each))
	}
	return all
}
