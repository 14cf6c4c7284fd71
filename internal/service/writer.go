package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"meridian.dev/meridian/internal/redact"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
)

// Writer carries out what a plan says about the objects of one resource. Every write is conditional on the state that
// it was decided on, and every one is written into the ledger of the pass.
type Writer[Step any] struct {
	client client.Client
	live   client.Reader
	author apply.Author
	ledger expect.Ledger
	owner  client.Object
}

// NewWriter is the writer of one pass over the owner. It writes with the client, reads from the API server by live, and
// signs as the author.
func NewWriter[Step any](
	writes client.Client, live client.Reader, author apply.Author, ledger expect.Ledger, owner client.Object,
) Writer[Step] {
	return Writer[Step]{client: writes, live: live, author: author, ledger: ledger, owner: owner}
}

// CarryOut has each action done. It returns what became of it, and the errors of those that failed: one that fails does
// not keep the others back.
func (w Writer[Step]) CarryOut(
	ctx context.Context, actions []Action[Step], do func(context.Context, Action[Step]) (Result[Step], error),
) (Outcome[Step], error) {
	var outcome Outcome[Step]
	var failed error
	for _, action := range actions {
		log.FromContext(ctx).Info("Writing", "verb", action.Verb(), "kind", action.Kind, "child", action.Name,
			"why", action.Why)
		result, err := do(ctx, action)
		result.Action = action
		if err != nil {
			// The API server quotes values in what it refuses; names of fields are enough.
			err = redact.Error(err)
			result.Problem = err.Error()
			failed = errors.Join(failed, fmt.Errorf("%s %s %s: %w", action.Verb(), action.Kind, action.Name, err))
		}
		outcome.Results = append(outcome.Results, result)
	}
	return outcome, failed
}

// Update brings a child to what is rendered. It is read live: the plan knows the version that it was decided on, and
// the patch is made against exactly that one.
func (w Writer[Step]) Update(ctx context.Context, action Action[Step], wanted client.Object) (Result[Step], error) {
	live := reflect.New(reflect.TypeOf(wanted).Elem()).Interface().(client.Object)
	if err := w.ReadAsDecided(ctx, action, live); err != nil {
		return Result[Step]{}, err
	}
	return w.Write(ctx, wanted, live)
}

// Write brings a child to what is wanted, from the live object or from nothing.
func (w Writer[Step]) Write(ctx context.Context, wanted, live client.Object) (Result[Step], error) {
	intent, err := w.author.Intent(wanted, w.owner.GetUID())
	if err != nil {
		return Result[Step]{}, err
	}
	difference := apply.Compare(intent, live)
	action, needed := difference.Action()
	switch {
	case difference.State == apply.Foreign:
		return Result[Step]{}, &apply.ForeignError{Kind: intent.Kind(), Key: intent.Key()}
	case !needed:
		return Result[Step]{Done: true}, nil
	}
	return w.apply(ctx, action)
}

// Remove deletes a child of the owner that was read live.
func (w Writer[Step]) Remove(
	ctx context.Context, child client.Object, options ...client.DeleteOption,
) (Result[Step], error) {
	action, err := w.author.Remove(child, w.owner.GetUID(), options...)
	if err != nil {
		return Result[Step]{}, err
	}
	return w.apply(ctx, action)
}

func (w Writer[Step]) apply(ctx context.Context, action apply.Action) (Result[Step], error) {
	done, err := (apply.Actor{Client: w.client, Live: w.live, Recorder: w.ledger}).Do(ctx, action)
	if err != nil {
		return Result[Step]{}, err
	}
	result := Result[Step]{Done: true, Wrote: done.Outcome == apply.Done}
	for _, change := range done.Unheld {
		result.Unheld = append(result.Unheld, change.Path)
	}
	return result, nil
}

// Patch changes an object from exactly the version that it was read at.
func (w Writer[Step]) Patch(ctx context.Context, action Action[Step], from, to client.Object) (Result[Step], error) {
	patch := client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
	if err := w.client.Patch(ctx, to, patch, client.FieldOwner(w.author.Manager)); err != nil {
		w.Doubt(action, err)
		return Result[Step]{}, err
	}
	w.ledger.Wrote(to)
	return Result[Step]{Done: true, Wrote: true}, nil
}

// PublishBundle writes what applications trust into the Secret for them, and since when, and leaves everything else in
// it as it is.
func (w Writer[Step]) PublishBundle(
	ctx context.Context, action Action[Step], bundle []byte, now time.Time,
) (Result[Step], error) {
	var live corev1.Secret
	if err := w.ReadAsDecided(ctx, action, &live); err != nil {
		return Result[Step]{}, err
	}
	after := live.DeepCopy()
	switch {
	case len(bundle) == 0:
		return Result[Step]{}, Moved(action, "the authorities are gone")
	case bytes.Equal(after.Data[wire.KeyAuthority], bundle):
		return Result[Step]{Done: true}, nil
	case after.Data == nil:
		after.Data = map[string][]byte{}
	}
	after.Data[wire.KeyAuthority] = bundle
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, AnnotationTold, now.UTC().Format(time.RFC3339))
	return w.Patch(ctx, action, &live, after)
}

// Delete deletes exactly what was read, whoever has made it: a pod belongs to its StatefulSet, so kit/apply would call
// it foreign.
func (w Writer[Step]) Delete(
	ctx context.Context, action Action[Step], object client.Object, options ...client.DeleteOption,
) (Result[Step], error) {
	uid, version := object.GetUID(), object.GetResourceVersion()
	options = append(options, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err := w.client.Delete(ctx, object, options...); err != nil && !apierrors.IsNotFound(err) {
		w.Doubt(action, err)
		return Result[Step]{}, err
	}
	w.ledger.Deleted(object)
	return Result[Step]{Done: true, Wrote: true}, nil
}

// ReadAsDecided reads an object live and refuses it when it is not the one that the action was decided on.
func (w Writer[Step]) ReadAsDecided(ctx context.Context, action Action[Step], into client.Object) error {
	err := w.live.Get(ctx, client.ObjectKey{Namespace: w.owner.GetNamespace(), Name: action.Name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return Moved(action, "it is gone")
	case err != nil:
		return fmt.Errorf("read it live: %w", err)
	case string(into.GetUID()) != action.UID || into.GetResourceVersion() != action.ResourceVersion:
		return Moved(action, "it was changed since")
	}
	return nil
}

// Secret reads a Secret live. One that does not exist is left blank.
func (w Writer[Step]) Secret(ctx context.Context, name string, into *corev1.Secret) error {
	err := w.live.Get(ctx, client.ObjectKey{Namespace: w.owner.GetNamespace(), Name: name}, into)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the Secret %s live: %w", name, err)
	}
	return nil
}

// Existing is the live object that a write starts from, nothing for one that does not exist.
func Existing(secret *corev1.Secret) client.Object {
	if secret.UID == "" {
		return nil
	}
	return secret
}

// Doubt records that a write may have been carried out although it was answered with an error.
func (w Writer[Step]) Doubt(action Action[Step], err error) {
	if expect.Undecided(err) {
		w.ledger.Doubt(fmt.Sprintf("%s %s %s may or may not have been carried out", action.Verb(), action.Kind, action.Name))
	}
}

// Moved is the error of a decision that the world has overtaken.
func Moved[Step any](action Action[Step], why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: action.Kind}, action.Name, errors.New(why))
}
