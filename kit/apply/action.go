package apply

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Verb is what an Action does.
type Verb string

// The verbs of an Action.
const (
	Create Verb = "Create"
	Update Verb = "Update"
	Delete Verb = "Delete"
)

// Action is one conditional write as data. Its exported fields may be logged, compared and stored: they hold no values
// of Secrets.
type Action struct {
	Verb Verb
	Kind schema.GroupVersionKind
	Key  types.NamespacedName
	// UID and ResourceVersion are the state that the action was decided on, empty for Create. The action is
	// refused when the object is in any other.
	UID             types.UID
	ResourceVersion string
	// Changes are what an Update changes.
	Changes []Change

	author     Author
	intent     *Intent
	operations []operation
	target     client.Object
	options    []client.DeleteOption
}

// String names the action and its precondition.
func (a Action) String() string {
	if a.Verb == Create {
		return fmt.Sprintf("%s %s %s", a.Verb, a.Kind.Kind, a.Key)
	}
	return fmt.Sprintf("%s %s %s at %s", a.Verb, a.Kind.Kind, a.Key, a.ResourceVersion)
}

// GoString keeps values of Secrets out of prints.
func (a Action) GoString() string { return a.String() }

// Remove returns the action that deletes the live child of the owner, or a ForeignError if it is somebody else's. It
// is pure. Of the options only the grace period and the propagation policy make sense: the preconditions are set here.
func (a Author) Remove(live client.Object, owner types.UID, options ...client.DeleteOption) (Action, error) {
	kind, err := apiutil.GVKForObject(live, a.Scheme)
	if err != nil {
		return Action{}, fmt.Errorf("find the kind of %T: %w", live, err)
	}
	if !a.owns(live, owner) {
		return Action{}, foreign(kind, live)
	}
	return Action{
		Verb: Delete, Kind: kind, Key: client.ObjectKeyFromObject(live),
		UID: live.GetUID(), ResourceVersion: live.GetResourceVersion(),
		author: a, target: blank(live, kind), options: options,
	}, nil
}

// blank returns an object of the same Go type with nothing but its name, to be sent or filled.
func blank(like client.Object, kind schema.GroupVersionKind) client.Object {
	made := reflect.New(reflect.TypeOf(like).Elem()).Interface().(client.Object)
	if _, untyped := made.(runtime.Unstructured); untyped {
		made.GetObjectKind().SetGroupVersionKind(kind)
	}
	made.SetNamespace(like.GetNamespace())
	made.SetName(like.GetName())
	return made
}
