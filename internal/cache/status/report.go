// Package status derives what people and tools get to see of a cache, in one place: status, conditions and events from
// the Snapshot, the Plan and the Outcome of a pass. It is pure, and nothing here is ever read back to decide anything.
//
// Start reading at Report; the conditions are in conditions.go, and what each reason means is in reasons.go.
package status

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// Pass is what a pass has come to.
type Pass struct {
	Snapshot cache.Snapshot
	Plan     cache.Plan
	Outcome  cache.Outcome
	// Violations are why the plan was refused, one sentence each.
	Violations []string
	// Problem is the error of a pass that is tried again, Refused that of one for which this is of no use. A conflict
	// is neither.
	Problem, Refused string
	// CacheBehind is why the pass had to read live although nothing was new, empty otherwise.
	CacheBehind string
}

// Event is something that happened to a cache.
type Event = service.Event

// Report returns the status that follows from a pass, and what is worth telling as events. Figures that change by the
// second are not part of it, or rounded: a cache that nobody changes has a status that nobody writes.
func Report(before v1alpha1.GeoCacheStatus, pass Pass) (v1alpha1.GeoCacheStatus, []Event) {
	snapshot := pass.Snapshot
	after := v1alpha1.GeoCacheStatus{
		ObservedGeneration: snapshot.Generation,
		PendingChanges:     slices.Clone(pass.Plan.Pending),
		Selector:           cache.SelectorOf(snapshot.Name),
		Primary:            primary(snapshot),
		Memory:             memory(snapshot),
		Members:            members(snapshot),
		Term:               snapshot.Lease.Term,
		Use:                use(snapshot),
		Flushed:            before.Flushed,
	}
	if holder, _ := snapshot.Instance(snapshot.Lease.Holder); holder.Report.Flushed != "" {
		after.Flushed = holder.Report.Flushed
	}
	for _, instance := range snapshot.Instances {
		if after.Version == "" {
			after.Version = instance.Report.ServerVersion
		}
	}
	for _, member := range after.Members {
		after.Replicas++
		if member.Ready {
			after.ReadyReplicas++
		}
	}
	if len(pass.Plan.Holds) > 0 {
		after.WaitingFor = pass.Plan.Holds[0].Message
	}
	if snapshot.Route.Family != "" {
		after.Service = cache.WriteName(snapshot.Name)
	}
	if snapshot.Binding.Exists && snapshot.Binding.Foreign == "" {
		after.Binding = &v1alpha1.Binding{Name: cache.AppSecretName(snapshot.Name)}
	}
	if told := snapshot.Rotation.Status(); told != nil {
		after.Rotations = &v1alpha1.CacheRotations{Password: told}
	}
	after.Conditions = condition.Merge(before.Conditions,
		condition.At{Generation: snapshot.Generation, Now: snapshot.Now}, claims(pass)...)
	return after, events(before, after, pass)
}

// primary is the instance that takes writes now, by the lease and by its own word.
func primary(snapshot cache.Snapshot) string {
	if holder, _ := snapshot.Instance(snapshot.Lease.Holder); snapshot.Serves(holder) {
		return holder.Name
	}
	return ""
}

// use is that of the primary, rounded: a cache that is used as before has a status that nobody writes.
func use(snapshot cache.Snapshot) *v1alpha1.CacheUse {
	holder, _ := snapshot.Instance(snapshot.Lease.Holder)
	report := holder.Report
	if !snapshot.Serves(holder) || report.Allowed == 0 {
		return nil
	}
	// In steps of five percent.
	percent := func(part, whole int64) string { return strconv.FormatInt((part*20+whole/2)/whole*5, 10) + "%" }
	made := &v1alpha1.CacheUse{
		Memory: percent(report.Used, report.Allowed), Evicted: digits(report.Evicted), Clients: digits(report.Clients),
	}
	if reads := report.Hits + report.Misses; reads > 0 {
		made.HitRatio = percent(report.Hits, reads)
	}
	return made
}

// digits keeps the first two.
func digits(number int64) int64 {
	unit := int64(1)
	for number/unit >= 100 {
		unit *= 10
	}
	return number / unit * unit
}

// memory is what is in force everywhere, nil while that is not known of every instance.
func memory(snapshot cache.Snapshot) *resource.Quantity {
	var least int64
	for _, instance := range snapshot.Instances {
		allowed := instance.Report.Allowed
		if !instance.Report.Reachable || allowed == 0 {
			return nil
		}
		if least == 0 || allowed < least {
			least = allowed
		}
	}
	if least == 0 {
		return nil
	}
	return resource.NewQuantity(least, resource.BinarySI)
}

func members(snapshot cache.Snapshot) []v1alpha1.InstanceStatus {
	var list []v1alpha1.InstanceStatus
	for _, instance := range snapshot.Instances {
		member := v1alpha1.InstanceStatus{
			Name: instance.Name, Role: role(instance), Ready: instance.Runs(), Message: trouble(instance),
		}
		if instance.Pod != nil {
			member.Node = instance.Pod.Node
		}
		list = append(list, member)
	}
	slices.SortFunc(list, func(a, b v1alpha1.InstanceStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func role(instance cache.Instance) v1alpha1.InstanceRole {
	switch {
	case instance.Leads():
		return v1alpha1.RolePrimary
	case instance.Report.Reachable && instance.Report.Role == string(wire.RoleReplica):
		return v1alpha1.RoleReplica
	}
	return v1alpha1.RoleUnknown
}

// trouble says in one sentence why an instance is not well. The words of a network error are left out: they differ from
// call to call, and the status would be written for nothing.
func trouble(instance cache.Instance) string {
	pod, report := instance.Pod, instance.Report
	switch {
	case instance.Runs():
		return ""
	case pod == nil:
		return "it has no pod"
	case pod.Deleting:
		return "its pod is being deleted"
	case pod.Stuck != "":
		return pod.Stuck
	case !report.Reachable:
		return "its agent gives no report"
	case report.Message != "":
		return report.Message
	}
	return "it is " + report.State
}
