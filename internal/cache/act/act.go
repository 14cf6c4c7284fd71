// Package act carries out plans: one switch over the verbs, every write conditional on the state that it was decided
// on. It decides nothing. When the world has moved, the write is refused as a conflict and the next pass plans anew.
//
// Actions are independent: one that fails does not keep the others back.
//
// Start reading at Actor.Act.
package act

import (
	"context"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
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
	service.Writer[cache.Step]
	object *v1alpha1.GeoCache
	design cache.Design
	ledger expect.Ledger
}

// Act carries out a plan. It returns what became of each action, and the errors of those that failed.
func (a Actor) Act(
	ctx context.Context, ledger expect.Ledger, object *v1alpha1.GeoCache, plan cache.Plan,
) (cache.Outcome, error) {
	p := &pass{
		Actor: a, Writer: service.NewWriter[cache.Step](a.Client, a.Live, a.Author, ledger, object),
		object: object, design: plan.Design, ledger: ledger,
	}
	return p.CarryOut(ctx, plan.Actions, p.do)
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
		return p.storeCertificates(ctx, action, do)
	case cache.PublishBundle:
		return p.publishBundle(ctx, action)
	case cache.CreateLease:
		return p.Write(ctx, render.Lease(p.design), nil)
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

// writeChild makes a child as it is rendered, or brings it to that.
func (p *pass) writeChild(ctx context.Context, action cache.Action) (cache.Result, error) {
	child, err := render.Find(p.design, action.Kind, action.Name)
	if err != nil {
		return cache.Result{}, err
	}
	if cache.Does[cache.Create](action) {
		return p.Write(ctx, child, nil)
	}
	return p.Update(ctx, action, child)
}

// moved is the error of a decision that the world has overtaken.
func moved(action cache.Action, why string) error { return service.Moved(action, why) }
