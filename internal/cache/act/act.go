// Package act carries out plans: one switch over the verbs, every write conditional on the state that it was decided
// on. It decides nothing. When the world has moved, the write is refused as a conflict and the next pass plans anew.
//
// Actions are independent: one that fails does not keep the others back.
//
// Start reading at Actor.Act.
package act

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/redact"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
)

// Actor writes for passes.
type Actor struct {
	// Client writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Author apply.Author
	// Flush asks an agent to empty its cache.
	Flush func(ctx context.Context, agent service.Agent, request wire.Flush) error
	// Random is crypto/rand.Reader outside of tests.
	Random io.Reader
	Now    func() time.Time
}

// pass is one plan under way.
type pass struct {
	Actor
	object *v1alpha1.GeoCache
	design cache.Design
	ledger expect.Ledger
}

// Act carries out a plan. It returns what became of each action, and the errors of those that failed.
func (a Actor) Act(
	ctx context.Context, ledger expect.Ledger, object *v1alpha1.GeoCache, plan cache.Plan,
) (cache.Outcome, error) {
	p := &pass{Actor: a, object: object, design: plan.Design, ledger: ledger}
	var outcome cache.Outcome
	var failed error
	for _, action := range plan.Actions {
		log.FromContext(ctx).Info("Writing", "verb", action.Verb(), "kind", action.Kind, "child", action.Name,
			"why", action.Why)
		result, err := p.do(ctx, action)
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

func (p *pass) do(ctx context.Context, action cache.Action) (cache.Result, error) {
	switch do := action.Do.(type) {
	case cache.Create, cache.Update:
		return p.writeChild(ctx, action)
	case cache.ResizePod:
		return p.resizePod(ctx, action, do.Bytes)
	case cache.DeletePod, cache.RestartPod:
		return p.deletePod(ctx, action)
	case cache.CreateBinding:
		return p.createBinding(ctx)
	case cache.BeginPassword:
		return p.beginPassword(ctx, action, do.Token)
	case cache.MovePassword:
		return p.movePassword(ctx, action, do.Number)
	case cache.StoreCertificates:
		return p.storeCertificates(ctx, action)
	case cache.CreateLease:
		return p.write(ctx, render.Lease(p.design), nil)
	case cache.DeleteSet:
		return p.deleteSet(ctx, action)
	case cache.TellPod:
		return p.tellPod(ctx, action, do.Hash)
	case cache.AskFlush:
		return p.askFlush(ctx, action, do.Request)
	case cache.EndFlush:
		return p.changeCache(ctx, action, func(object *v1alpha1.GeoCache) {
			delete(object.Annotations, cache.AnnotationFlush)
		})
	case cache.FollowDatabase:
		return p.changeCache(ctx, action, func(object *v1alpha1.GeoCache) { bind(object, do.Database) })
	case cache.DeleteCache:
		return p.deleteCache(ctx, action, do.Database)
	}
	return cache.Result{}, fmt.Errorf("unknown verb %s", action.Verb())
}

// writeChild reads a child that is to be changed live: the plan knows the version that it was decided on, and the patch
// is made against exactly that one.
func (p *pass) writeChild(ctx context.Context, action cache.Action) (cache.Result, error) {
	child, err := render.Find(p.design, action.Kind, action.Name)
	if err != nil {
		return cache.Result{}, err
	}
	if cache.Does[cache.Create](action) {
		return p.write(ctx, child, nil)
	}
	live := reflect.New(reflect.TypeOf(child).Elem()).Interface().(client.Object)
	if err := p.readAsDecided(ctx, action, live); err != nil {
		return cache.Result{}, err
	}
	return p.write(ctx, child, live)
}

// write brings a child to what is wanted, from the live object or from nothing.
func (p *pass) write(ctx context.Context, wanted, live client.Object) (cache.Result, error) {
	intent, err := p.Author.Intent(wanted, p.object.UID)
	if err != nil {
		return cache.Result{}, err
	}
	difference := apply.Compare(intent, live)
	action, needed := difference.Action()
	switch {
	case difference.State == apply.Foreign:
		return cache.Result{}, &apply.ForeignError{Kind: intent.Kind(), Key: intent.Key()}
	case !needed:
		return cache.Result{Done: true}, nil
	}
	done, err := (apply.Actor{Client: p.Client, Live: p.Live, Recorder: p.ledger}).Do(ctx, action)
	if err != nil {
		return cache.Result{}, err
	}
	result := cache.Result{Done: true, Wrote: done.Outcome == apply.Done}
	for _, change := range done.Unheld {
		result.Unheld = append(result.Unheld, change.Path)
	}
	return result, nil
}

// readAsDecided reads an object live and refuses it when it is not the one that the action was decided on.
func (p *pass) readAsDecided(ctx context.Context, action cache.Action, into client.Object) error {
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: action.Name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return moved(action, "it is gone")
	case err != nil:
		return fmt.Errorf("read it live: %w", err)
	case string(into.GetUID()) != action.UID || into.GetResourceVersion() != action.ResourceVersion:
		return moved(action, "it was changed since")
	}
	return nil
}

// moved is the error of a decision that the world has overtaken.
func moved(action cache.Action, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: action.Kind}, action.Name, errors.New(why))
}
