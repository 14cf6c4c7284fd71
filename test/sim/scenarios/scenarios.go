// Package scenarios has the pieces of a database's and of a cache's life that the simulator runs. Start reading at All.
package scenarios

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/test/sim"
)

// All are all of them.
func All() []sim.Scenario {
	var all []sim.Scenario
	for _, each := range slices.Concat(lives(), losses(), away(), moves(), modes(), lost(), memories(), forgotten()) {
		all = append(all, sim.Scenario(each))
	}
	return all
}

// scenario is one in the making.
type scenario sim.Scenario

// Case is one schedule.
type Case = sim.Case

// Fault is one thing that goes wrong.
type Fault = sim.Fault

// FaultKind is what goes wrong.
type FaultKind = sim.FaultKind

// What goes wrong, and with whom.
const (
	began = sim.Began

	FaultAPIAway    = sim.FaultAPIAway
	FaultAllCrash   = sim.FaultAllCrash
	FaultAllOff     = sim.FaultAllOff
	FaultClockStep  = sim.FaultClockStep
	FaultCrash      = sim.FaultCrash
	FaultCut        = sim.FaultCut
	FaultCutAPI     = sim.FaultCutAPI
	FaultCutPeers   = sim.FaultCutPeers
	FaultFlush      = sim.FaultFlush
	FaultFreeze     = sim.FaultFreeze
	FaultFreezePod  = sim.FaultFreezePod
	FaultGiveUp     = sim.FaultGiveUp
	FaultHang       = sim.FaultHang
	FaultKillServer = sim.FaultKillServer
	FaultLeaseBack  = sim.FaultLeaseBack
	FaultLeaseLost  = sim.FaultLeaseLost
	FaultOperator   = sim.FaultOperator
	FaultPause      = sim.FaultPause
	FaultPowerOff   = sim.FaultPowerOff
	FaultPutBack    = sim.FaultPutBack
	FaultRoute      = sim.FaultRoute
	FaultRouteGone  = sim.FaultRouteGone
	FaultSwitchover = sim.FaultSwitchover
	FaultTerminate  = sim.FaultTerminate
	FaultVolumeLost = sim.FaultVolumeLost
	FaultWatchDead  = sim.FaultWatchDead
	FaultWish       = sim.FaultWish
	Holder          = sim.Holder
	LastReplica     = sim.LastReplica
	Replica         = sim.Replica
)

func at(d time.Duration, kind FaultKind, node int, lasting time.Duration) Fault {
	return Fault{Kind: kind, At: began + d, Node: node, For: lasting}
}

func of(name string, instances int, faults ...Fault) scenario {
	last := began
	for _, fault := range faults {
		last = max(last, fault.At+fault.For)
	}
	return scenario{Case: Case{Name: name, Nodes: instances, Instances: instances, Faults: faults, Last: last}}
}

func (s scenario) within(gap time.Duration) scenario {
	s.Gap = gap
	return s
}

func (s scenario) mode(durability tenure.Durability) scenario {
	s.Durability = durability
	return s
}

func (s scenario) lagging() scenario {
	s.Lag = true
	return s
}

func (s scenario) machines(count int) scenario {
	s.Nodes = count
	return s
}

func wishing(d time.Duration, count int) Fault {
	return Fault{Kind: FaultWish, At: began + d, Wish: count}
}

const (
	leaseLasts = 10 * time.Second
	early      = 100 * time.Millisecond // The operator of this world looks at whole seconds.
)

// lives are about how many instances there are.
func lives() []scenario {
	const s = time.Second
	return []scenario{
		of("bootstrap", 3),
		of("bootstrap of one", 1),
		of("bootstrap of two", 2),
		of("bootstrap of four", 4),
		of("bootstrap of five", 5),
		of("grow from one to three to five", 1, wishing(0, 3), wishing(12*s, 5)).machines(5),
		of("shrink from five to three to one", 5, wishing(0, 3), wishing(15*s, 1)),
		of("shrink from three to two", 3, wishing(0, 2)),
		of("wish changes midway", 3, wishing(0, 5), wishing(2*s, 2), wishing(4*s, 4)).machines(5),
	}
}

// losses are about machines, processes and the network between them.
func losses() []scenario {
	const s = time.Second
	return []scenario{
		of("holder crashes", 3, at(0, FaultCrash, Holder, 0)),
		of("server of the holder is killed", 3, at(0, FaultKillServer, Holder, 0)).within(5 * s),
		of("holder powered off", 3, at(0, FaultPowerOff, Holder, 30*s)).within(leaseLasts + 3*s),
		of("holder of five powered off", 5, at(0, FaultPowerOff, Holder, 30*s)).within(leaseLasts + 3*s),
		of("holder powered off, replica cut from the API server", 3, at(-s, FaultCutAPI, Replica, 60*s),
			at(0, FaultPowerOff, Holder, 30*s)).within(leaseLasts + 3*s),
		of("holder of two powered off", 2, at(0, FaultPowerOff, Holder, 25*s)),
		of("holder cut from all", 3, at(0, FaultCut, Holder, 30*s)).within(leaseLasts + 3*s),
		of("holder cut from the API server", 3, at(0, FaultCutAPI, Holder, 25*s)).within(2 * s),
		of("holder cut from its peers", 3, at(0, FaultCutPeers, Holder, 60*s)).within(2*leaseLasts + 5*s),
		of("holder of five cut from its peers", 5, at(0, FaultCutPeers, Holder, 60*s)).within(2*leaseLasts + 5*s),
		of("holder cut from its peers again and again", 3, at(0, FaultCutPeers, Holder, 25*s),
			at(40*s, FaultCutPeers, Holder, 25*s), at(80*s, FaultCutPeers, Holder, 25*s)),
		of("replica cut from its peers", 3, at(0, FaultCutPeers, Replica, 60*s)).within(2 * s),
		of("agent of the holder frozen", 3, at(0, FaultFreeze, Holder, 30*s)).within(leaseLasts + 3*s),
		of("pod of the holder frozen", 3, at(0, FaultFreezePod, Holder, 30*s)).within(leaseLasts + 3*s),
		of("machine of the holder paused", 3, at(0, FaultPause, Holder, 30*s)).within(leaseLasts + 3*s),
		of("wall clock of the holder put forward", 3, at(0, FaultClockStep, Holder, 5*s)).within(s),
		of("wall clock of the holder put forward again and again", 3, at(0, FaultClockStep, Holder, 2*s),
			at(s, FaultClockStep, Holder, 2*s), at(5*s, FaultClockStep, Holder, 4*s)).within(s),
		of("wall clock of the holder put forward by more than the lease", 3,
			at(0, FaultClockStep, Holder, 30*s)).within(5 * s),
		of("replica powered off", 3, at(0, FaultPowerOff, Replica, 20*s)).within(2 * s),
		of("replica cut from the API server", 3, at(0, FaultCutAPI, Replica, 40*s)).within(2 * s),
		of("replica cut from all", 3, at(0, FaultCut, Replica, 40*s)).within(2 * s),
	}
}

// away are about the API server and what is written there.
func away() []scenario {
	const s = time.Second
	return []scenario{
		of("watch of a replica dead", 3, at(0, FaultWatchDead, Replica, 60*s)).within(2 * s),
		of("watch of the holder dead", 3, at(0, FaultWatchDead, Holder, 60*s)).within(2 * s),
		of("API server away", 3, at(0, FaultAPIAway, 0, 60*s)).within(2 * s),
		of("API server away, one instance", 1, at(0, FaultAPIAway, 0, 25*s)).within(2 * s),
		of("API server away, two instances", 2, at(0, FaultAPIAway, 0, 25*s)).within(2 * s),
		of("API server away, replica dead", 3, at(0, FaultPowerOff, Replica, 25*s),
			at(5*s, FaultAPIAway, 0, 30*s)).within(2 * s),
		of("API server away, holder crashes", 3, at(0, FaultAPIAway, 0, 25*s), at(8*s, FaultCrash, Holder, 0)),
		of("API server away, replica crashes", 3, at(0, FaultAPIAway, 0, 25*s),
			at(8*s, FaultCrash, Replica, 0)).within(2 * s),
		of("API server away, replica reboots", 3, at(0, FaultAPIAway, 0, 25*s),
			at(8*s, FaultPowerOff, Replica, s)).within(2 * s),
		of("API server away shortly, again and again", 3, at(0, FaultAPIAway, 0, 5*s), at(7*s, FaultAPIAway, 0, 9*s),
			at(19*s, FaultAPIAway, 0, 3*s)).within(2 * s),
		of("write address emptied", 3, at(0, FaultRoute, 0, 0)).within(2 * s),
		of("write address gone for a while", 3, at(0, FaultRouteGone, 0, 20*s)).within(2 * s),
		of("loop of the holder's server hangs", 3, at(0, FaultHang, Holder, 30*s)).within(2 * s),
		of("loop of a replica's server hangs", 3, at(0, FaultHang, Replica, 30*s)).within(2 * s),
		of("loop of a replica's server hangs for long, holder powered off", 5, at(0, FaultHang, Replica, 300*s),
			at(20*s, FaultPowerOff, Holder, 30*s)).within(leaseLasts + 3*s),
		of("loop of a replica's server hangs, holder powered off", 5, at(0, FaultHang, Replica, 300*s),
			at(s, FaultPowerOff, Holder, 30*s)).within(2*leaseLasts + 18*s),
		of("loop of the server hangs while a replica goes", 3, at(0, FaultHang, Holder, 20*s),
			at(s, FaultPowerOff, Replica, 10*s)).within(2 * s),
	}
}

// lost are about a lease that is deleted, or put back to what it was.
func lost() []scenario {
	const s = time.Second
	return []scenario{
		of("lease deleted", 3, at(early, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease of one deleted", 1, at(early, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease of two deleted", 2, at(early, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease of five deleted", 5, at(early, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease deleted twice", 3, at(early, FaultLeaseLost, 0, 0), at(20*s, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease deleted again at once", 3, at(early, FaultLeaseLost, 0, 0),
			at(3*s+2*early, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease of one deleted twice", 1, at(early, FaultLeaseLost, 0, 0), at(20*s, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease of two deleted twice, operator away in between", 2, at(early, FaultLeaseLost, 0, 0),
			at(3500*time.Millisecond, FaultOperator, 0, 30*s), at(20*s, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease deleted twice while a replica is away, copy of the holder lost", 3, at(-s, FaultPowerOff, Replica, 40*s),
			at(early, FaultLeaseLost, 0, 0), at(20*s, FaultLeaseLost, 0, 0), at(21*s, FaultVolumeLost, Holder, 5*s),
			at(60*s, FaultGiveUp, 0, 0)),
		of("lease deleted while the operator is away", 3, at(-s, FaultOperator, 0, 60*s),
			at(early, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease deleted, holder crashes", 3, at(early, FaultLeaseLost, 0, 0), at(s, FaultCrash, Holder, 0)),
		of("lease deleted, holder powered off", 3, at(early, FaultLeaseLost, 0, 0), at(s, FaultPowerOff, Holder, 40*s)),
		of("lease deleted after the holder was powered off", 3, at(0, FaultPowerOff, Holder, 40*s),
			at(3*s, FaultLeaseLost, 0, 0)),
		of("lease deleted in an election", 3, at(0, FaultPowerOff, Holder, 40*s),
			at(10500*time.Millisecond, FaultLeaseLost, 0, 0)),
		of("lease deleted, replica dead", 3, at(0, FaultPowerOff, Replica, 40*s),
			at(s, FaultLeaseLost, 0, 0)).within(2 * s),
		of("lease deleted, all restart", 3, at(early, FaultLeaseLost, 0, 0), at(s, FaultAllCrash, 0, 0)),
		of("lease deleted, all powered off", 3, at(early, FaultLeaseLost, 0, 0), at(2*s, FaultAllOff, 0, 0)),
		of("lease deleted in a switchover", 3, at(0, FaultSwitchover, 0, 0), at(300*time.Millisecond, FaultLeaseLost, 0, 0)),
		of("lease deleted, a copy and the holder lost", 3, at(early, FaultLeaseLost, 0, 0),
			at(s, FaultVolumeLost, Replica, 5*s), at(2*s, FaultAllCrash, 0, 0), at(40*s, FaultGiveUp, 0, 0)),
		of("lease deleted, copy of the holder lost", 3, at(early, FaultLeaseLost, 0, 0), at(s, FaultVolumeLost, Holder, 5*s),
			at(40*s, FaultGiveUp, 0, 0)),
		of("lease of five deleted, copy of the holder lost", 5, at(early, FaultLeaseLost, 0, 0),
			at(s, FaultVolumeLost, Holder, 5*s), at(40*s, FaultGiveUp, 0, 0)),
		of("Async, lease deleted", 3, at(early, FaultLeaseLost, 0, 0)).mode(tenure.Async).within(2 * s),
		of("lease put back", 3, Fault{Kind: FaultLeaseBack, At: began}).within(2 * s),
		of("lease put back with its versions", 3, Fault{Kind: FaultLeaseBack, At: began, Wish: 1}).within(2 * s),
		of("lease put back far", 3, Fault{Kind: FaultLeaseBack, At: began, Other: 3}).within(2 * s),
		of("lease put back after a switchover", 3, at(0, FaultSwitchover, 0, 0),
			Fault{Kind: FaultLeaseBack, At: began + 12*s, Other: 1}),
		of("lease put back to before an election", 3, at(0, FaultPowerOff, Holder, 40*s),
			Fault{Kind: FaultLeaseBack, At: began + 25*s}),
		of("lease put back to before an election with its versions", 3, at(0, FaultPowerOff, Holder, 40*s),
			Fault{Kind: FaultLeaseBack, At: began + 25*s, Wish: 1}),
		of("lease put back to before an election, all restart", 3, at(0, FaultPowerOff, Holder, 40*s),
			Fault{Kind: FaultLeaseBack, At: began + 25*s}, at(26*s, FaultAllCrash, 0, 0)),
		of("lease of five put back to before an election", 5, at(0, FaultPowerOff, Holder, 40*s),
			at(24*s, FaultPowerOff, Holder, 60*s), Fault{Kind: FaultLeaseBack, At: began + 25*s}).lagging(),
		of("lease put back, holder powered off", 3, Fault{Kind: FaultLeaseBack, At: began, Other: 1},
			at(100*time.Millisecond, FaultPowerOff, Holder, 40*s)),
	}
}

// moves are about a primary that moves, and about copies that are lost.
func moves() []scenario {
	const s = time.Second
	return []scenario{
		of("switchover", 3, at(0, FaultSwitchover, 0, 0)).within(4 * s),
		of("switchover to one that is named", 3, Fault{Kind: FaultSwitchover, At: began, Other: 2}),
		of("switchover, two instances", 2, at(0, FaultSwitchover, 0, 0)),
		of("holder told to end", 3, at(0, FaultTerminate, Holder, 0)).within(4 * s),
		of("holder of two told to end", 2, at(0, FaultTerminate, Holder, 0)),
		of("only instance told to end", 1, at(0, FaultTerminate, Holder, 0)),
		of("replica told to end", 3, at(0, FaultTerminate, Replica, 0)).within(2 * s),
		of("candidate told to end", 3, at(0, FaultPowerOff, Holder, 40*s),
			at(10200*time.Millisecond, FaultTerminate, Holder, 0)),
		of("volume of a replica lost", 3, at(0, FaultVolumeLost, Replica, 2*s)).within(2 * s),
		of("volume of the holder lost", 3, at(0, FaultVolumeLost, Holder, 2*s)),
		of("volume of the replica of two lost", 2, at(0, FaultVolumeLost, Replica, 2*s)),
		of("volume of a replica put back", 3, at(0, FaultPutBack, Replica, 2*s)).within(2 * s),
		of("volume of the holder put back", 3, at(0, FaultPutBack, Holder, 2*s)),
		of("volume of a replica put back, holder powered off", 3, at(0, FaultPutBack, Replica, 2*s),
			at(200*time.Millisecond, FaultPowerOff, Holder, 30*s)).lagging(),
		of("all restart at once", 3, at(0, FaultAllCrash, 0, 0)),
		of("all powered off at once", 3, at(0, FaultAllOff, 0, 0)),
		of("two of five powered off", 5, at(0, FaultPowerOff, Holder, 40*s), at(s, FaultPowerOff, 3, 40*s)),
		of("roll", 3, at(0, FaultTerminate, 0, 0), at(20*s, FaultTerminate, 1, 0), at(40*s, FaultTerminate, 2, 0)),
	}
}

// modes are about Available and Async.
func modes() []scenario {
	const s = time.Second
	return []scenario{
		of("two instances degrade and come back", 2, at(0, FaultPowerOff, Replica, 40*s)).mode(tenure.Available),
		of("three instances degrade and come back", 3, at(0, FaultPowerOff, 0, 40*s), at(0, FaultPowerOff, 1, 40*s)).
			mode(tenure.Available),
		of("three instances degrade for as long as both replicas are away", 3, at(0, FaultPowerOff, Replica, 60*s),
			at(0, FaultPowerOff, LastReplica, 60*s)).mode(tenure.Available).within(2 * leaseLasts),
		of("Available, holder powered off", 3, at(0, FaultPowerOff, Holder, 30*s)).mode(tenure.Available).
			within(leaseLasts + 3*s),
		of("Async, holder powered off", 3, at(0, FaultPowerOff, Holder, 30*s)).mode(tenure.Async).within(leaseLasts + 3*s),
		of("Async, holder cut from all", 3, at(0, FaultCut, Holder, 30*s)).mode(tenure.Async).within(leaseLasts + 3*s),
		of("Async, agent of the holder frozen", 3, at(0, FaultFreeze, Holder, 30*s)).mode(tenure.Async),
		of("Async, API server away", 3, at(0, FaultAPIAway, 0, 25*s)).mode(tenure.Async).within(2 * s),
		of("Async, switchover", 3, at(0, FaultSwitchover, 0, 0)).mode(tenure.Async),
	}
}
