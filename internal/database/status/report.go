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

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
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
type Event struct {
	Warning bool
	// Reason and Action are CamelCase words, Note is one sentence.
	Reason, Action, Note string
}

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
		Durability:         v1alpha1.DurabilityAsync,
		Version:            version(snapshot),
		Members:            members(snapshot),
		Term:               before.Term,
	}
	if len(pass.Plan.Holds) > 0 {
		after.WaitingFor = pass.Plan.Holds[0].Message
	}
	if snapshot.Binding.Exists && snapshot.Binding.Foreign == "" {
		after.Binding = &v1alpha1.Binding{Name: database.BindingName(snapshot.Name)}
	}
	after.Conditions = condition.Merge(before.Conditions,
		condition.At{Generation: snapshot.Generation, Now: snapshot.Now}, claims(pass)...)
	return after, events(before, after, pass)
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

// replicas counts those that do their work, of those that are wished.
func replicas(snapshot database.Snapshot) string {
	ready := 0
	for _, instance := range snapshot.Instances {
		if well(instance) && instance.Report.Role == string(wire.RoleReplica) {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, max(snapshot.Spec.Instances, 1)-1)
}

// primary is the instance that takes writes now, by its own word.
func primary(snapshot database.Snapshot) string {
	for _, instance := range snapshot.Instances {
		if instance.Report.Reachable && instance.Report.Role == string(wire.RolePrimary) {
			return instance.Name
		}
	}
	return ""
}

func version(snapshot database.Snapshot) string {
	for _, instance := range snapshot.Instances {
		if instance.Report.ServerVersion != "" {
			return instance.Report.ServerVersion
		}
	}
	return ""
}

// well says that an instance runs, is ready and says so itself.
func well(instance database.Instance) bool {
	return instance.Pod != nil && instance.Pod.Ready && !instance.Pod.Deleting &&
		instance.Report.Reachable && instance.Report.State == string(wire.StateRunning)
}

func members(snapshot database.Snapshot) []v1alpha1.InstanceStatus {
	var list []v1alpha1.InstanceStatus
	for _, instance := range snapshot.Instances {
		if instance.Set == nil {
			continue
		}
		member := v1alpha1.InstanceStatus{
			Name: instance.Name, Role: role(instance.Report), Ready: well(instance), Message: trouble(instance),
		}
		if instance.Pod != nil {
			member.Node = instance.Pod.Node
		}
		list = append(list, member)
	}
	slices.SortFunc(list, func(a, b v1alpha1.InstanceStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func role(report database.Report) v1alpha1.InstanceRole {
	switch {
	case report.Reachable && report.Role == string(wire.RolePrimary):
		return v1alpha1.RolePrimary
	case report.Reachable && report.Role == string(wire.RoleReplica):
		return v1alpha1.RoleReplica
	default:
		return v1alpha1.RoleUnknown
	}
}

// trouble says in one sentence why an instance is not well. The words of a network error are left out: they name ports
// that differ from call to call, and the status would be written for nothing.
func trouble(instance database.Instance) string {
	switch {
	case well(instance):
		return ""
	case instance.Pod == nil:
		return "it has no pod"
	case instance.Pod.Deleting:
		return "its pod is being deleted"
	case instance.Pod.Stuck != "":
		return instance.Pod.Stuck
	case !instance.Report.Reachable:
		return "its agent gives no report"
	case instance.Report.Message != "":
		return instance.Report.Message
	default:
		return "it is " + instance.Report.State
	}
}
