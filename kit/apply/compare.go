package apply

import (
	"reflect"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// State is the relation of a live object to an intent.
type State string

const (
	// Same means that there is nothing to write.
	Same State = "Same"
	// Absent means that the child does not exist.
	Absent State = "Absent"
	// Changed means that the intent is not the one that was written last.
	Changed State = "Changed"
	// Drifted means that the intent is the one that was written last, and somebody else has changed the child since.
	Drifted State = "Drifted"
	// Terminating means that the child is being deleted. Nothing is written until it is gone.
	Terminating State = "Terminating"
	// Foreign means that the name is taken by an object of another owner. It is never touched.
	Foreign State = "Foreign"
	// Unreadable means that the live object cannot be converted, see Difference.Problem. It is never touched.
	Unreadable State = "Unreadable"
)

// Difference is what lies between an intent and a live object.
type Difference struct {
	State State
	// Changes are sorted by path. They may be empty for Changed, when the live object already is as it should be.
	Changes []Change
	// Problem is one sentence, for Foreign and Unreadable.
	Problem string

	intent          Intent
	uid             types.UID
	resourceVersion string
	operations      []operation
}

// Compare says how the live object, nil if there is none, differs from the intent. It is pure.
func Compare(want Intent, live client.Object) Difference {
	if live == nil || reflect.ValueOf(live).IsNil() {
		return Difference{State: Absent, intent: want}
	}
	difference := Difference{intent: want, uid: live.GetUID(), resourceVersion: live.GetResourceVersion()}
	if !want.author.owns(live, want.owner) {
		difference.State, difference.Problem = Foreign, foreign(want.kind, live).Error()
		return difference
	}
	if live.GetDeletionTimestamp() != nil {
		difference.State = Terminating
		return difference
	}
	if want.author.Memo.isSame(want, live) {
		difference.State = Same
		return difference
	}
	have, err := treeOf(live)
	if err != nil {
		difference.State, difference.Problem = Unreadable, err.Error()
		return difference
	}

	written := want.writtenTo(live)
	found := comparison{
		secret: want.secret(), unchanged: written.Hash == want.record.Hash, kind: want.kind.Kind,
	}
	found.maps(nil, want.tree, have, written.Fields)
	switch {
	case written.Hash != want.record.Hash:
		difference.State = Changed
	case len(found.operations) > 0:
		difference.State = Drifted
	default:
		difference.State = Same
		want.author.Memo.keepSame(want, live)
		return difference
	}
	recordAt := path{{name: "metadata"}, {name: "annotations"}, {name: want.author.intentKey()}}
	difference.operations = append(found.operations, operation{Op: "add", Path: recordAt.pointer(), Value: want.encoded})
	difference.Changes = found.sorted()
	return difference
}

// Action returns the write that brings the live object to the intent, and false if there is none to make.
func (d Difference) Action() (Action, bool) {
	action := Action{
		Kind: d.intent.kind, Key: d.intent.key, Changes: d.Changes,
		author: d.intent.author, intent: &d.intent,
	}
	switch d.State {
	case Absent:
		action.Verb = Create
	case Changed, Drifted:
		action.Verb = Update
		action.UID, action.ResourceVersion = d.uid, d.resourceVersion
		action.operations = d.operations
	default:
		return Action{}, false
	}
	return action, true
}
