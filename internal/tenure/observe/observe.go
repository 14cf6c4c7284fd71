// Package observe makes the snapshot of a pass: what the agent remembers, what is on the volume, and what the server
// and the watchdog say now. It decides nothing. Start reading at Observer.Look.
package observe

import (
	"slices"

	"meridian.dev/meridian/internal/tenure"
)

// Observer looks through the ports.
type Observer struct {
	Ports tenure.Ports
	// Name is this instance, Address where its peers reach it.
	Name, Address string
}

// Look makes the snapshot. What is not loaded from the volume is loaded now.
func (o *Observer) Look(state *tenure.State, stopping bool) tenure.Snapshot {
	problem := o.load(state)
	snapshot := tenure.Snapshot{
		Boot: o.Ports.Clock.Boot(), Name: o.Name, Address: o.Address, Fresh: o.Ports.Fresh(), Stopping: stopping,
		Problem: problem, Guard: o.Ports.Watchdog.Look(), Stored: state.Stored,
		Engine: state.Memory.Look(o.Ports.Server.Facts(), o.Ports.Clock.Now()),
	}
	snapshot.DatabaseUID, snapshot.Policy = o.Ports.Wishes.Look()
	if snapshot.DatabaseUID == "" {
		// Settings that cannot be read after a restart do not make the volume that of another database.
		snapshot.DatabaseUID = state.Stored.DatabaseUID
	}
	// The moment is the last thing to look at: no fact may be younger than it.
	snapshot.Jumps = o.Ports.Clock.Jumps()
	snapshot.Now = o.Ports.Clock.Now()
	state.Memory.Settle(snapshot.Self())
	snapshot.Memory = state.Memory
	snapshot.Inbox, snapshot.Callers = slices.Clone(state.Inbox), slices.Clone(state.Callers)
	return snapshot
}

// load reads the volume after a start, and after a write that failed: nobody knows then what is there.
func (o *Observer) load(state *tenure.State) (problem string) {
	if state.Loaded {
		return ""
	}
	stored, err := o.Ports.Volume.Load()
	if err != nil {
		return err.Error()
	}
	state.Stored, state.Loaded = stored, true
	return ""
}
