// Package status derives what people and tools get to see of a database, in one place: status, conditions and events
// from the Snapshot, the Plan and the Outcome of a pass. It is pure, and nothing here is ever read back to decide
// anything.
//
// Start reading at Report; the conditions are in conditions.go, and what each reason means is in reasons.go.
package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// Pass is what a pass has come to.
type Pass struct {
	Snapshot database.Snapshot
	Plan     database.Plan
	Outcome  database.Outcome
	// Violations are why the plan was refused, one sentence each.
	Violations []string
	// Problem is the error of a pass that is tried again, Refused that of one for which this is of no use. A conflict
	// is neither.
	Problem, Refused string
	// CacheBehind is why the pass had to read live although nothing was new, empty otherwise.
	CacheBehind string
}

// Event is something that happened to a database.
type Event = service.Event

// Report returns the status that follows from a pass, and what is worth telling as events.
func Report(before v1alpha1.GeoDatabaseStatus, pass Pass) (v1alpha1.GeoDatabaseStatus, []Event) {
	snapshot := pass.Snapshot
	after := v1alpha1.GeoDatabaseStatus{
		ObservedGeneration: snapshot.Generation,
		PendingChanges:     slices.Clone(pass.Plan.Pending),
		Instances:          count(snapshot.Instances),
		Selector:           database.SelectorOf(snapshot.Name),
		Replicas:           replicas(snapshot),
		Primary:            primary(snapshot),
		Durability:         durability(snapshot),
		Lag:                lag(snapshot),
		Version:            version(snapshot),
		Members:            members(snapshot),
		Term:               snapshot.Lease.Term,
		Caches:             caches(before, snapshot),
	}
	if size := pass.Plan.Design.Growth.Size; !size.IsZero() {
		after.VolumeSize = &size
	}
	if len(pass.Plan.Holds) > 0 {
		after.WaitingFor = pass.Plan.Holds[0].Message
	}
	if snapshot.Binding.Exists && snapshot.Binding.Foreign == "" {
		after.Binding = &v1alpha1.Binding{Name: database.AppSecretName(snapshot.Name)}
	}
	after.Rotations = rotations(snapshot)
	after.Backup = backup(before.Backup, snapshot)
	after.Conditions = condition.Merge(before.Conditions,
		condition.At{Generation: snapshot.Generation, Now: snapshot.Now}, claims(pass)...)
	return after, events(before, after, pass)
}

// caches are those that name the database. What they are like is told by their own status.
func caches(before v1alpha1.GeoDatabaseStatus, snapshot database.Snapshot) []v1alpha1.CacheSummary {
	if snapshot.Caches.Problem != "" {
		return before.Caches
	}
	var list []v1alpha1.CacheSummary
	for _, cache := range snapshot.Caches.List {
		list = append(list, v1alpha1.CacheSummary{Name: cache.Name, Ready: cache.Ready})
	}
	return list
}

// count counts instances that exist: a kept claim alone is none.
func count(instances []database.Instance) int32 {
	var existing int32
	for _, instance := range instances {
		if instance.Set != nil {
			existing++
		}
	}
	return existing
}

// replicas counts those that follow and are counted on, of those that are wished.
func replicas(snapshot database.Snapshot) string {
	ready := 0
	for _, instance := range snapshot.Instances {
		if instance.Name != snapshot.Lease.Holder && well(snapshot, instance) {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, max(snapshot.Spec.Instances, 1)-1)
}

// primary is the instance that takes writes now: by the lease, and by its own word. One whose agent gives no report is
// still the primary as long as it renews its lease and the write address leads to it.
func primary(snapshot database.Snapshot) string {
	lease := snapshot.Lease
	holder, _ := snapshot.Instance(lease.Holder)
	unheard := holder.Pod != nil && holder.Pod.Ready && !holder.Report.Reachable && !lease.Expired &&
		snapshot.Route.Target == holder.Name && snapshot.Route.Term == lease.Term
	switch {
	case snapshot.LeaseLost():
		return soleServer(snapshot)
	case serves(snapshot, holder) || unheard:
		return holder.Name
	}
	return ""
}

// durability is what an acknowledged write is worth now, by the record that the agents keep.
func durability(snapshot database.Snapshot) v1alpha1.Durability {
	switch snapshot.Lease.W {
	case 0:
		return ""
	case 1:
		return v1alpha1.DurabilityAsync
	default:
		return render.Durability(snapshot.Spec)
	}
}

// lag is how far the slowest replica is behind, so coarse that it seldom changes.
func lag(snapshot database.Snapshot) string {
	slowest, found := time.Duration(0), false
	for _, instance := range snapshot.Instances {
		if instance.Set != nil && instance.Name != snapshot.Lease.Holder && instance.Report.Streams {
			slowest, found = max(slowest, instance.Report.Lag), true
		}
	}
	if !found {
		return ""
	}
	for _, step := range []struct {
		below time.Duration
		text  string
	}{{time.Second, "<1s"}, {10 * time.Second, "<10s"}, {time.Minute, "<1m"}, {10 * time.Minute, "<10m"}} {
		if slowest < step.below {
			return step.text
		}
	}
	return ">=10m"
}

func version(snapshot database.Snapshot) string {
	for _, instance := range snapshot.Instances {
		if instance.Report.ServerVersion != "" {
			return instance.Report.ServerVersion
		}
	}
	return ""
}

// well says that an instance can be used: its pod is ready, and it is healthy.
func well(snapshot database.Snapshot, instance database.Instance) bool {
	return instance.Up() && snapshot.Healthy(instance)
}

func members(snapshot database.Snapshot) []v1alpha1.InstanceStatus {
	var list []v1alpha1.InstanceStatus
	for _, instance := range snapshot.Instances {
		if instance.Set == nil {
			continue
		}
		member := v1alpha1.InstanceStatus{
			Name: instance.Name, Role: role(snapshot, instance), Ready: well(snapshot, instance),
			Message: trouble(snapshot, instance),
		}
		if instance.Pod != nil {
			member.Node = instance.Pod.Node
		}
		list = append(list, member)
	}
	slices.SortFunc(list, func(a, b v1alpha1.InstanceStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// role is what an instance says that it is. Only the holder of the lease is ever called the primary.
func role(snapshot database.Snapshot, instance database.Instance) v1alpha1.InstanceRole {
	report := instance.Report
	switch {
	case report.Reachable && report.Role == string(wire.RolePrimary) && instance.Name == snapshot.Lease.Holder:
		return v1alpha1.RolePrimary
	case report.Reachable && report.Role == string(wire.RoleReplica):
		return v1alpha1.RoleReplica
	default:
		return v1alpha1.RoleUnknown
	}
}

// trouble says in one sentence why an instance is not well. The words of a network error are left out: they name ports
// that differ from call to call, and the status would be written for nothing.
func trouble(snapshot database.Snapshot, instance database.Instance) string {
	report := instance.Report
	switch {
	case well(snapshot, instance):
		return ""
	case instance.Pod == nil:
		return "it has no pod"
	case instance.Pod.Deleting:
		return "its pod is being deleted"
	case instance.Pod.Stuck != "":
		return instance.Pod.Stuck
	case !report.Reachable:
		return "its agent gives no report"
	case report.Message != "":
		return report.Message
	case report.State != string(wire.StateRunning):
		return "it is " + report.State
	case report.Role == string(wire.RoleReplica) && !report.Streams:
		return "it does not stream from the primary yet"
	case report.Role == string(wire.RoleReplica) && !snapshot.Lease.HasMember(instance.Name):
		return "it is not in the write quorum yet"
	default:
		return "it is not ready"
	}
}

// rotations are those that were asked for last, nil if none ever was.
func rotations(snapshot database.Snapshot) *v1alpha1.Rotations {
	told := v1alpha1.Rotations{
		Password: snapshot.Credentials.Status(), Certificates: snapshot.Certificates.Rotation.Status(),
	}
	if told == (v1alpha1.Rotations{}) {
		return nil
	}
	return &told
}
