package cache

import (
	"slices"

	"meridian.dev/meridian/internal/wire"
)

// Up says that the pod of an instance is ready and stays: applications may reach it.
func (i Instance) Up() bool { return i.Pod != nil && i.Pod.Ready && !i.Pod.Deleting }

// Runs says that the server of an instance works, by the word of its agent too.
func (i Instance) Runs() bool {
	return i.Up() && i.Report.Reachable && i.Report.State == string(wire.StateRunning)
}

// Leads says that an instance calls itself the primary, whoever holds the lease.
func (i Instance) Leads() bool {
	return i.Report.Reachable && i.Report.Role == string(wire.RolePrimary)
}

// Serves says that an instance is the primary, by the lease and by its own word.
func (s Snapshot) Serves(instance Instance) bool {
	return instance.Name != "" && s.Lease.Holder == instance.Name && instance.Leads() && instance.Report.Serving
}

// Streams says that an instance is a replica that has everything, and could become the primary.
func (s Snapshot) Streams(instance Instance) bool {
	return instance.Report.Reachable && instance.Report.Streams && slices.Contains(s.Lease.Members, instance.Name)
}

// Healthy says that an instance does its part: it is up, and is the primary or has everything that the primary has.
func (s Snapshot) Healthy(instance Instance) bool {
	return instance.Up() && (s.Serves(instance) || s.Streams(instance))
}
