package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/expect"
)

// Recorder is told of every write, so that the next pass does not act on a cache that has not seen it. A Ledger
// of the sibling package expect is one.
type Recorder interface {
	// Wrote gets the object as the API server returned it.
	Wrote(obj client.Object)
	// Deleted gets the name, UID and resourceVersion that a delete was conditional on.
	Deleted(obj client.Object)
	// Doubt is called when a request may or may not have been carried out.
	Doubt(why string)
}

// Actor carries out actions.
type Actor struct {
	// Client writes. Its reads are not used.
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live client.Reader
	// Recorder may be nil.
	Recorder Recorder
}

// Outcome is what became of an Action.
type Outcome string

const (
	// Done means that the action was carried out.
	Done Outcome = "Done"
	// Existed means that a child to be created exists already and is ours, from an earlier pass that nobody remembers.
	// It may differ from the intent: the next pass compares it.
	Existed Outcome = "Existed"
	// Gone means that a child to be deleted was gone already.
	Gone Outcome = "Gone"
)

// Result is what an Action led to.
type Result struct {
	Outcome Outcome
	// Object is the child after a Create or an Update as the API server returned it, nil after a Delete.
	Object client.Object
	// Unheld are the wanted fields that the API server did not take over, although it accepted the write.
	Unheld []Change
}

// Do carries out one action. When the object is not in the state that the action was decided on, the error satisfies
// apierrors.IsConflict, and nothing was written. See also ForeignError and ImmutableError.
func (a Actor) Do(ctx context.Context, action Action) (Result, error) {
	result, err := a.do(ctx, action)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", action, err)
	}
	return result, nil
}

func (a Actor) do(ctx context.Context, action Action) (Result, error) {
	if action.Verb != Create && (action.UID == "" || action.ResourceVersion == "") {
		return Result{}, errors.New("refused: it has no UID and resourceVersion to be conditional on")
	}
	switch action.Verb {
	case Create:
		return a.create(ctx, action)
	case Update:
		return a.update(ctx, action)
	case Delete:
		return a.delete(ctx, action)
	default:
		return Result{}, fmt.Errorf("refused: unknown verb %q", action.Verb)
	}
}

func (a Actor) create(ctx context.Context, action Action) (Result, error) {
	made := action.intent.object.DeepCopyObject().(client.Object)
	err := a.Client.Create(ctx, made, client.FieldOwner(action.author.Manager))
	switch {
	case err == nil:
		return a.wrote(Done, action, made), nil
	case !apierrors.IsAlreadyExists(err):
		return Result{}, a.failed(action, err)
	}
	live, err := a.read(ctx, action)
	switch {
	case apierrors.IsNotFound(err):
		return Result{}, moved(action, "the object existed a moment ago and is gone")
	case err != nil:
		return Result{}, fmt.Errorf("read the existing object: %w", err)
	case !action.author.owns(live, action.intent.owner):
		return Result{}, foreign(action.Kind, live)
	}
	return a.wrote(Existed, action, live), nil
}

func (a Actor) update(ctx context.Context, action Action) (Result, error) {
	// The tests come first: the rest is addressed by index, and means nothing on another version of the object.
	operations := append([]operation{
		{Op: "test", Path: "/metadata/uid", Value: string(action.UID)},
		{Op: "test", Path: "/metadata/resourceVersion", Value: action.ResourceVersion},
	}, action.operations...)
	patch, err := json.Marshal(operations)
	if err != nil {
		return Result{}, fmt.Errorf("encode the patch: %w", err)
	}
	updated := blank(action.intent.object, action.Kind)
	err = a.Client.Patch(ctx, updated,
		client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(action.author.Manager))
	switch {
	case err == nil:
		return a.wrote(Done, action, updated), nil
	case apierrors.IsNotFound(err):
		return Result{}, moved(action, "the object is gone")
	case apierrors.IsInvalid(err):
		return Result{}, a.refused(ctx, action, err)
	default:
		return Result{}, a.failed(action, err)
	}
}

// refused tells a failed test of the patch from a failed validation: the API server answers both with 422.
func (a Actor) refused(ctx context.Context, action Action, err error) error {
	live, readErr := a.read(ctx, action)
	if apierrors.IsNotFound(readErr) {
		return moved(action, "the object is gone")
	}
	if readErr == nil && (live.GetUID() != action.UID || live.GetResourceVersion() != action.ResourceVersion) {
		return moved(action, "the object has been modified, it is at "+live.GetResourceVersion())
	}
	if found := immutable(action, err); found != nil {
		return found
	}
	return err
}

func (a Actor) delete(ctx context.Context, action Action) (Result, error) {
	target := action.target.DeepCopyObject().(client.Object)
	target.SetUID(action.UID)
	target.SetResourceVersion(action.ResourceVersion)
	options := append(append([]client.DeleteOption(nil), action.options...),
		client.Preconditions{UID: &action.UID, ResourceVersion: &action.ResourceVersion})
	outcome := Done
	if err := a.Client.Delete(ctx, target, options...); err != nil {
		if !apierrors.IsNotFound(err) {
			return Result{}, a.failed(action, err)
		}
		outcome = Gone
	}
	if a.Recorder != nil {
		a.Recorder.Deleted(target)
	}
	return Result{Outcome: outcome}, nil
}

func (a Actor) read(ctx context.Context, action Action) (client.Object, error) {
	live := blank(action.intent.object, action.Kind)
	return live, a.Live.Get(ctx, action.Key, live)
}

// wrote records the object and compares it with what was wanted.
func (a Actor) wrote(outcome Outcome, action Action, obj client.Object) Result {
	if a.Recorder != nil {
		a.Recorder.Wrote(obj)
	}
	result := Result{Outcome: outcome, Object: obj}
	if outcome == Done {
		result.Unheld = Compare(*action.intent, obj).Changes
	}
	return result
}

// failed records that the write may have been carried out, unless the answer rules that out.
func (a Actor) failed(action Action, err error) error {
	if a.Recorder != nil && expect.Undecided(err) {
		a.Recorder.Doubt(fmt.Sprintf("%s may or may not have been carried out", action))
	}
	return err
}
