package database

import "meridian.dev/meridian/internal/wire"

// Up says that the pod of an instance is ready and stays: applications may reach it.
func (i Instance) Up() bool { return i.Pod != nil && i.Pod.Ready && !i.Pod.Deleting }

// Serves says that an instance is the primary, by the lease and by its own word at the term of the lease.
func (s Snapshot) Serves(instance Instance) bool {
	report := instance.Report
	return s.Lease.Holder != "" && s.Lease.Holder == instance.Name && !s.Lease.Expired && report.Reachable &&
		report.Role == string(wire.RolePrimary) && report.Serving && report.Term == s.Lease.Term
}

// Streams says that an instance is a replica that receives the WAL of the primary.
func (s Snapshot) Streams(instance Instance) bool {
	return instance.Up() && instance.Report.Reachable && instance.Report.Streams
}

// Healthy says that an instance does its part: it is in the write quorum, and serves if it holds the lease, and streams
// if another one does.
func (s Snapshot) Healthy(instance Instance) bool {
	if !s.Lease.HasMember(instance.Name) {
		return false
	}
	if instance.Name == s.Lease.Holder {
		return s.Serves(instance)
	}
	return s.Streams(instance)
}
