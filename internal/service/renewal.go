package service

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

type (
	lease = *coordinationv1.Lease
	queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
)

// Handler tells renewals, which only keep the pulse, from changes, which are news for what the lease belongs to.
func (p *Pulse) Handler(of handler.MapFunc) handler.TypedEventHandler[*coordinationv1.Lease, reconcile.Request] {
	add := func(ctx context.Context, changed lease, into queue) {
		for _, request := range of(ctx, changed) {
			into.Add(request)
		}
	}
	return handler.TypedFuncs[lease, reconcile.Request]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[lease], into queue) {
			p.Beat(e.Object, time.Now())
			add(ctx, e.Object, into)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[lease], into queue) {
			if revived := p.Beat(e.ObjectNew, time.Now()); revived || LeaseChanged(e.ObjectOld, e.ObjectNew) {
				add(ctx, e.ObjectNew, into)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[lease], into queue) {
			p.Forget(client.ObjectKeyFromObject(e.Object))
			add(ctx, e.Object, into)
		},
	}
}

// Silences has a pass run when a lease is late or ends, which is no event.
func (p *Pulse) Silences() source.Source {
	return source.Func(func(ctx context.Context, into queue) error {
		go p.listen(ctx, into)
		return nil
	})
}

func (p *Pulse) listen(ctx context.Context, into queue) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, silent := range p.Silent(now) {
				into.Add(reconcile.Request{NamespacedName: silent})
			}
		}
	}
}
