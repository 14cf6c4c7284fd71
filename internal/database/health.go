package database

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Broken says why no PostgreSQL can run in the pod of an instance, empty if one does or may.
func (i Instance) Broken() string {
	report := i.Report
	switch {
	case i.Pod == nil:
		return ""
	case i.Pod.Stuck != "":
		return i.Pod.Stuck
	case !report.Reachable:
		return ""
	case report.State == string(wire.StateFailed) || report.Reason == string(wire.ReasonServerFailing):
		return report.Reason + ": " + report.Message
	}
	return ""
}

// Wiped says that the agent finds its volume without the data that it has had. It makes none anew by itself, in case
// somebody brings the data back; another instance takes its place meanwhile.
func (i Instance) Wiped() bool {
	says := wire.Reason(i.Report.Reason)
	return i.Report.Reachable && (says == wire.ReasonVolumeEmpty || says == wire.ReasonDataDamaged)
}

// idleAfter is how long a replica is not ready before it counts as idle: after a failover all of them are for a moment.
const idleAfter = time.Minute

// Idle says that a replica has not been ready for a while and does not stream, by its own word, while there is a
// primary: no write waits for it, and no election needs its answer. One that gives no report may stream.
func (s Snapshot) Idle(name string) bool {
	instance, _ := s.Instance(name)
	pod, report := instance.Pod, instance.Report
	return pod != nil && !pod.Ready && !pod.UnreadySince.IsZero() && s.Now.Sub(pod.UnreadySince) > idleAfter &&
		report.Reachable && report.Role == string(wire.RoleReplica) && !report.Streams && s.Leads(s.Lease.Holder)
}

// Leads says that an instance holds the lease and runs as the primary, whether or not it accepts writes yet.
func (s Snapshot) Leads(name string) bool {
	instance, _ := s.Instance(name)
	return name != "" && name == s.Lease.Holder && !s.Lease.Expired && instance.Pod != nil && !instance.Pod.Deleting &&
		instance.Report.Reachable && instance.Report.Role == string(wire.RolePrimary)
}

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

// Absence is why an instance is away that may come back by itself, and for how long it is waited for.
type Absence struct {
	// What is a sentence for a user, Lost what is said of the instance when the wait is over.
	What, Lost string
	Since      time.Time
	Wait       time.Duration
}

// Over says that the instance has been waited for long enough.
func (a Absence) Over(now time.Time) bool { return a.What != "" && now.Sub(a.Since) > a.Wait }

// Absence is why the instance is away, the zero value if it is not, or if nobody knows since when. A volume that can be
// attached to another node is back soon after its node is gone; one that is on that node is gone with it.
func (i Instance) Absence(wait time.Duration) Absence {
	pod, node := i.Pod, i.Node
	switch {
	case pod == nil || node.OutOfService:
	case !node.AwaySince.IsZero():
		return Absence{
			fmt.Sprintf("the node %s of %s is not ready", pod.Node, i.Name),
			fmt.Sprintf("its node has been away for longer than %s", wait), node.AwaySince, wait,
		}
	case node.Gone && !node.HasVolume && !pod.UnreadySince.IsZero():
		return Absence{
			fmt.Sprintf("the node %s of %s is gone, and its volume can be attached to another one", pod.Node, i.Name),
			fmt.Sprintf("its node is gone, and it has not come back elsewhere for longer than %s", wait),
			pod.UnreadySince, wait,
		}
	case !pod.UnplacedSince.IsZero():
		return Absence{
			"no node can take " + i.Name,
			fmt.Sprintf("no node that reaches its volume has taken it for longer than %s", wait), pod.UnplacedSince, wait,
		}
	}
	return Absence{}
}
