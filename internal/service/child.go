package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"meridian.dev/meridian/kit/apply"
)

// Child is one object that the spec asks for.
type Child struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	State State  `json:"state"`
	// UID and ResourceVersion are those of the live object, empty if there is none.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Changes are the fields that differ, readable.
	Changes []string `json:"changes,omitempty"`
	// Tolerated are the fields that admission changes whenever they are written. They are left as they are.
	Tolerated []string `json:"tolerated,omitempty"`
	// Problem says who has the name, or why the object cannot be read.
	Problem string `json:"problem,omitempty"`
}

// Taken says that somebody else has the name, or that nobody can tell who has.
func (c Child) Taken() bool { return c.State == Foreign || c.State == Unreadable }

// State is how a live object relates to what is wanted. The words are those of kit/apply.
type State string

// The states of a child.
const (
	Same        State = "Same"
	Absent      State = "Absent"
	Changed     State = "Changed"
	Drifted     State = "Drifted"
	Terminating State = "Terminating"
	Foreign     State = "Foreign"
	Unreadable  State = "Unreadable"
)

// The kinds of children.
const (
	KindSettings    = "ConfigMap"
	KindSlice       = "EndpointSlice"
	KindPolicy      = "NetworkPolicy"
	KindClaim       = "PersistentVolumeClaim"
	KindBudget      = "PodDisruptionBudget"
	KindRole        = "Role"
	KindRoleBinding = "RoleBinding"
	KindService     = "Service"
	KindAccount     = "ServiceAccount"
	KindSet         = "StatefulSet"
	KindLease       = "Lease"
	KindSecret      = "Secret"
	KindPod         = "Pod"
)

// Find returns the child of that kind and name.
func Find(children []Child, kind, name string) (Child, bool) {
	for _, child := range children {
		if child.Kind == kind && child.Name == name {
			return child, true
		}
	}
	return Child{}, false
}

// Verbs are the steps of a loop that bring a child to what is wanted.
type Verbs[Step any] struct {
	Create, Update, Repair Step
	// Marks are annotations of ours that nobody is told of when they change.
	Marks []string
}

// WriteKind brings all children of a kind to what is wanted.
func (d *Draft[Step]) WriteKind(children []Child, kind string, add func(Action[Step])) {
	for _, child := range children {
		if child.Kind == kind {
			d.WriteChild(child, add)
		}
	}
}

// WriteChild brings one child to what is wanted, if it is ours to write.
func (d *Draft[Step]) WriteChild(child Child, add func(Action[Step])) {
	if d.Writes(child.Kind, child.Name) {
		return
	}
	action := Action[Step]{
		Kind: child.Kind, Name: child.Name, UID: child.UID, ResourceVersion: child.ResourceVersion,
	}
	switch child.State {
	case Absent:
		action.Do, action.Why = d.Verbs.Create, "it is wanted and not there"
	case Changed:
		action.Do, action.Why = d.Verbs.Update, "wanted: "+d.Summary(child.Changes)
	case Drifted:
		action.Do, action.Why = d.Verbs.Repair, "somebody else has changed it: "+d.Summary(child.Changes)
	case Terminating:
		d.Hold(Progressing, 0, "ChildTerminating", fmt.Sprintf(
			"the %s %s is being deleted and will be made again when it is gone", child.Kind, child.Name))
		return
	case Same, Foreign, Unreadable:
		return
	}
	add(action)
}

// Compared is what a comparison with the live object says of a child. The text of a change is shown in events, plans
// and logs. Without one it names the field alone: a value may be a password, and a page of settings is no sentence.
func Compared(
	ctx context.Context, try TryWrite, child Child, difference apply.Difference, text func(apply.Change) string,
) Child {
	child.State, child.Problem = State(difference.State), difference.Problem
	child.Tolerated = try.Tolerated(ctx, difference)
	if len(child.Tolerated) > 0 && len(child.Tolerated) == len(difference.Changes) {
		child.State = Same
		return child
	}
	for _, change := range difference.Changes {
		told := change.Path
		if text != nil {
			told = text(change)
		}
		child.Changes = append(child.Changes, told)
	}
	return child
}

// Summary names some changes: a message is read by people.
func (d *Draft[Step]) Summary(changes []string) string {
	const most = 3
	changes = slices.DeleteFunc(slices.Clone(changes), func(change string) bool {
		return slices.ContainsFunc(d.Verbs.Marks, func(mark string) bool { return strings.Contains(change, mark) })
	})
	switch {
	case len(changes) == 0:
		return "a mark of ours"
	case len(changes) > most:
		return strings.Join(changes[:most], ", ") + fmt.Sprintf(" and %d more", len(changes)-most)
	}
	return strings.Join(changes, ", ")
}

// TellTolerated names the fields that admission changes whenever they are written. They hold nothing up.
func (d *Draft[Step]) TellTolerated(children []Child) {
	for _, child := range children {
		if len(child.Tolerated) > 0 {
			d.Drawn.Pending = append(d.Drawn.Pending, fmt.Sprintf("admission in this cluster changes the %s %s whenever it "+
				"is written, and that is left as it is: %s", child.Kind, child.Name, d.Summary(child.Tolerated)))
		}
	}
}
