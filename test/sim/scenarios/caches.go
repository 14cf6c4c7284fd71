package scenarios

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
)

// ofCache is a scenario of a cache.
func ofCache(name string, instances int, faults ...Fault) scenario {
	s := of("cache, "+name, instances, faults...).mode(tenure.Async)
	s.Volatile = true
	return s
}

// memories are about caches: every end of a server is the end of its copy.
func memories() []scenario {
	const s = time.Second
	const takeOver = 2 * s // Of a lease that was given back.
	return []scenario{
		ofCache("bootstrap", 3),
		ofCache("bootstrap of one", 1),
		ofCache("bootstrap of two", 2),
		ofCache("server of the holder killed", 3, at(0, FaultKillServer, Holder, 0)).within(takeOver + s),
		ofCache("server of the only one killed", 1, at(0, FaultKillServer, Holder, 0)),
		ofCache("server of a replica killed", 3, at(0, FaultKillServer, Replica, 0)).within(s),
		ofCache("servers killed one after the other", 3, at(0, FaultKillServer, 0, 0), at(4*s, FaultKillServer, 1, 0),
			at(8*s, FaultKillServer, 2, 0)),
		ofCache("agent of the holder killed", 3, at(0, FaultCrash, Holder, 0)),
		ofCache("pod of the holder replaced at once", 3, at(0, FaultVolumeLost, Holder, 0)).within(leaseLasts + 3*s),
		ofCache("pod of the holder of two replaced at once", 2, at(0, FaultVolumeLost, Holder, 0)).within(leaseLasts + 3*s),
		ofCache("pod of the only one replaced at once", 1, at(0, FaultVolumeLost, Holder, 0)),
		ofCache("node of the holder powered off", 3, at(0, FaultPowerOff, Holder, 30*s)).within(leaseLasts + 3*s),
		ofCache("node of the holder of two powered off", 2, at(0, FaultPowerOff, Holder, 30*s)).within(leaseLasts + 3*s),
		ofCache("node of a replica powered off", 3, at(0, FaultPowerOff, Replica, 30*s)).within(s),
		ofCache("holder cut from all", 3, at(0, FaultCut, Holder, 30*s)).within(leaseLasts + 3*s),
		ofCache("holder cut from the API server", 3, at(0, FaultCutAPI, Holder, 25*s)).within(s),
		ofCache("holder cut from its peers", 3, at(0, FaultCutPeers, Holder, 40*s)).within(s),
		ofCache("replica cut from all for long", 3, at(0, FaultCut, Replica, 45*s)).within(s),
		ofCache("agent of the holder frozen", 3, at(0, FaultFreeze, Holder, 30*s)).within(leaseLasts + 3*s),
		ofCache("loop of the holder's server hangs", 3, at(0, FaultHang, Holder, 20*s)).within(s),
		ofCache("all restart at once", 3, at(0, FaultAllCrash, 0, 0)),
		ofCache("all powered off at once", 3, at(0, FaultAllOff, 0, 0)),
		ofCache("holder and one replica powered off", 3, at(0, FaultPowerOff, Holder, 40*s), at(0, FaultPowerOff, 2, 40*s)),
		ofCache("switchover", 3, at(0, FaultSwitchover, 0, 0)).within(takeOver),
		ofCache("pod of the holder deleted", 3, at(0, FaultTerminate, Holder, 0)).within(takeOver),
		ofCache("pod of the holder of two deleted", 2, at(0, FaultTerminate, Holder, 0)),
		ofCache("pod of the only one deleted", 1, at(0, FaultTerminate, Holder, 0)),
		ofCache("roll", 3, at(0, FaultTerminate, 0, 0), at(20*s, FaultTerminate, 1, 0), at(40*s, FaultTerminate, 2, 0)),
		ofCache("API server away", 3, at(0, FaultAPIAway, 0, 40*s)).within(s),
		ofCache("API server away, agent of the holder killed", 3, at(0, FaultAPIAway, 0, 25*s),
			at(8*s, FaultCrash, Holder, 0)),
		ofCache("API server away, server of the holder killed", 3, at(0, FaultAPIAway, 0, 25*s),
			at(8*s, FaultKillServer, Holder, 0)),
		ofCache("API server away, agent of a replica killed", 3, at(0, FaultAPIAway, 0, 25*s),
			at(8*s, FaultCrash, Replica, 0)),
		ofCache("API server away, one instance", 1, at(0, FaultAPIAway, 0, 25*s)).within(s),
		ofCache("switchover while no replica is reached", 3, at(0, FaultCutPeers, Holder, 20*s),
			at(6*s, FaultSwitchover, 0, 0)).within(s),
		ofCache("flush", 3, at(0, FaultFlush, 0, 0)).within(s),
		ofCache("flush, server of the holder killed", 3, at(0, FaultFlush, 0, 0),
			at(150*time.Millisecond, FaultKillServer, Holder, 0)),
		ofCache("flush in a switchover", 3, at(0, FaultSwitchover, 0, 0), at(100*time.Millisecond, FaultFlush, 0, 0)),
		ofCache("flush that a replica of two misses, holder lost", 2, at(0, FaultCutPeers, Replica, 40*s),
			at(2*s, FaultFlush, 0, 0), at(4*s, FaultPowerOff, Holder, 60*s)),
		ofCache("flush that a replica misses, holder lost", 3, at(0, FaultCutPeers, 2, 40*s),
			at(2*s, FaultFlush, 0, 0), at(4*s, FaultPowerOff, Holder, 60*s)),
		ofCache("flush while the API server is away", 3, at(0, FaultAPIAway, 0, 25*s), at(2*s, FaultFlush, 0, 0)).within(s),
		ofCache("grow from one to three", 1, wishing(0, 3)).machines(3).within(s),
		ofCache("shrink from three to one", 3, wishing(0, 1)),
		ofCache("first primary lost before it is followed", 3,
			Fault{Kind: FaultKillServer, At: 1200 * time.Millisecond, Node: Holder},
			Fault{Kind: FaultVolumeLost, At: 2500 * time.Millisecond, Node: Holder}),
		ofCache("new primary lost before it is followed", 3, at(0, FaultKillServer, Holder, 0),
			at(900*time.Millisecond, FaultVolumeLost, Holder, 0)),
		ofCache("holder lost while a replica is too old", 2, at(0, FaultCutPeers, Replica, 60*s),
			at(40*s, FaultPowerOff, Holder, 30*s)),
	}
}

// forgotten are about the lease of a cache that somebody deletes, or puts back to what it was.
func forgotten() []scenario {
	const s = time.Second
	return []scenario{
		ofCache("lease deleted", 3, at(early, FaultLeaseLost, 0, 0)),
		ofCache("lease deleted, agent of the holder killed", 3, at(early, FaultLeaseLost, 0, 0),
			at(2*s, FaultCrash, Holder, 0)),
		ofCache("lease of one deleted", 1, at(early, FaultLeaseLost, 0, 0)),
		ofCache("lease deleted after a switchover", 3, at(0, FaultSwitchover, 0, 0), at(10*s+early, FaultLeaseLost, 0, 0)),
		ofCache("lease put back", 3, Fault{Kind: FaultLeaseBack, At: began, Other: 1}).within(s),
		ofCache("lease put back with its versions", 3, Fault{Kind: FaultLeaseBack, At: began, Other: 1, Wish: 1}).within(s),
		ofCache("lease put back to before a flush", 3, at(0, FaultFlush, 0, 0),
			Fault{Kind: FaultLeaseBack, At: began + 5*s}).within(s),
		ofCache("lease of one put back to before a flush", 1, at(0, FaultFlush, 0, 0),
			Fault{Kind: FaultLeaseBack, At: began + 5*s}).within(s),
		ofCache("lease put back to before a switchover", 3, at(0, FaultSwitchover, 0, 0),
			Fault{Kind: FaultLeaseBack, At: began + 5*s, Other: 1}).within(2 * s),
	}
}
