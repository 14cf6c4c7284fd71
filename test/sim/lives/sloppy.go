package lives

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/test/sim/lives/sloppy"
)

// sees has an operator believe what it does not see, from the cache and live.
func sees[T client.Object](lie func(T)) func(*parts) {
	return func(p *parts) {
		seen := func(object client.Object) {
			if found, ok := object.(T); ok {
				lie(found)
			}
		}
		p.client = &sloppy.Client{Client: p.client, OnSeen: seen}
		p.live = &sloppy.Client{Client: p.live, OnSeen: seen}
	}
}

// Seeing is a client that changes what it reads before anybody sees it.
func Seeing(inner client.Client, change func(client.Object)) client.Client {
	return &sloppy.Client{Client: inner, OnSeen: change}
}

// writes has an operator write in another way.
func writes(how func(*sloppy.Client)) func(*parts) {
	return func(p *parts) {
		made := &sloppy.Client{Client: p.client}
		how(made)
		p.client = made
	}
}

// reconciler is a loop with something around it.
type reconciler func(context.Context, reconcile.Request) (reconcile.Result, error)

func (r reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	return r(ctx, request)
}
