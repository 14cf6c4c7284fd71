// Package act carries out plans: one switch over the verbs, every write conditional on the state that it was decided
// on. It decides nothing. When the world has moved, the write is refused as a conflict and the next pass plans anew.
//
// Actions are independent: one that fails does not keep the others back. What cannot be undone is preceded by a live
// read of everything that the decision rested on.
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
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/pki"
)

// Actor writes for passes.
type Actor struct {
	// Client writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Author apply.Author
	// Random is crypto/rand.Reader outside of tests.
	Random io.Reader
	Now    func() time.Time
	// Tell hands a request for another primary to the agent of the holder.
	Tell func(ctx context.Context, agent Agent, request wire.Switchover) error
}

// Agent is where an agent is reached, and as whom.
type Agent struct {
	// Address is that of the pod, Host the name that its certificate must have.
	Address, Host string
	Material      pki.Material
}

// pass is one plan under way.
type pass struct {
	Actor
	object *v1alpha1.GeoDatabase
	design database.Design
	ledger expect.Ledger
}

// Act carries out a plan. It returns what became of each action, and the errors of those that failed.
func (a Actor) Act(
	ctx context.Context, ledger expect.Ledger, object *v1alpha1.GeoDatabase, plan database.Plan,
) (database.Outcome, error) {
	p := &pass{Actor: a, object: object, design: plan.Design, ledger: ledger}
	var outcome database.Outcome
	var failed error
	for _, action := range plan.Actions {
		log.FromContext(ctx).Info("Writing", "verb", action.Verb, "kind", action.Kind, "child", action.Name,
			"why", action.Why)
		result, err := p.do(ctx, action)
		result.Action = action
		if err != nil {
			result.Problem = err.Error()
			failed = errors.Join(failed, fmt.Errorf("%s %s %s: %w", action.Verb, action.Kind, action.Name, err))
		}
		outcome.Results = append(outcome.Results, result)
	}
	return outcome, failed
}

func (p *pass) do(ctx context.Context, action database.Action) (database.Result, error) {
	switch action.Verb {
	case database.Create:
		return p.createChild(ctx, action)
	case database.Update:
		return p.updateChild(ctx, action)
	case database.Grow:
		return p.growClaim(ctx, action)
	case database.StoreRecord:
		return p.storeRecord(ctx, action)
	case database.CreateBinding:
		return p.createBinding(ctx)
	case database.StoreCertificates:
		return p.storeCertificates(ctx, action)
	case database.Guard:
		return p.setFinalizer(ctx, true)
	case database.Release:
		return p.setFinalizer(ctx, false)
	case database.CreateLease:
		return p.createLease(ctx, action)
	case database.FreeLease:
		return p.freeLease(ctx, action)
	case database.SetInstances:
		return p.setInstances(ctx, action)
	case database.TellPod:
		return p.tellPod(ctx, action)
	case database.NoteRequest, database.EndRequest:
		return p.writeRequest(ctx, action)
	case database.SwitchOver:
		return p.switchOver(ctx, action)
	case database.DeleteClaim:
		return p.deleteClaim(ctx, action)
	case database.DeletePod:
		return p.deletePod(ctx, action)
	case database.RemovePod:
		return p.removePod(ctx, action)
	case database.DeleteSet:
		return p.deleteSet(ctx, action)
	default:
		return database.Result{}, fmt.Errorf("unknown verb %q", action.Verb)
	}
}

func (p *pass) createChild(ctx context.Context, action database.Action) (database.Result, error) {
	child, err := render.Find(p.design, action.Kind, action.Name)
	if err != nil {
		return database.Result{}, err
	}
	return p.write(ctx, child, nil)
}

// updateChild reads the child live: the plan knows the version that it was decided on, and the patch is made against
// exactly that one.
func (p *pass) updateChild(ctx context.Context, action database.Action) (database.Result, error) {
	child, err := render.Find(p.design, action.Kind, action.Name)
	if err != nil {
		return database.Result{}, err
	}
	live := reflect.New(reflect.TypeOf(child).Elem()).Interface().(client.Object)
	if err := p.readAsDecided(ctx, action, live); err != nil {
		return database.Result{}, err
	}
	return p.write(ctx, child, live)
}

// write brings a child to what is wanted, from the live object or from nothing.
func (p *pass) write(ctx context.Context, wanted, live client.Object) (database.Result, error) {
	intent, err := p.Author.Intent(wanted, p.object.UID)
	if err != nil {
		return database.Result{}, err
	}
	difference := apply.Compare(intent, live)
	action, needed := difference.Action()
	switch {
	case difference.State == apply.Foreign:
		return database.Result{}, &apply.ForeignError{Kind: intent.Kind(), Key: intent.Key()}
	case !needed:
		return database.Result{Done: true}, nil
	}
	return p.carryOut(ctx, action)
}

func (p *pass) carryOut(ctx context.Context, action apply.Action) (database.Result, error) {
	actor := apply.Actor{Client: p.Client, Live: p.Live, Recorder: p.ledger}
	result, err := actor.Do(ctx, action)
	if err != nil {
		return database.Result{}, err
	}
	written := database.Result{Done: true, Wrote: result.Outcome == apply.Done}
	for _, change := range result.Unheld {
		written.Unheld = append(written.Unheld, change.String())
	}
	return written, nil
}

// readAsDecided reads an object live and refuses it when it is not the one that the action was decided on.
func (p *pass) readAsDecided(ctx context.Context, action database.Action, into client.Object) error {
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
func moved(action database.Action, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: action.Kind}, action.Name, errors.New(why))
}
