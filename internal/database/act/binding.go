package act

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/children"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// bindCaches writes the addresses of the caches that there are now, by a live look, into the Secret for applications.
func (p *pass) bindCaches(ctx context.Context, action database.Action) (database.Result, error) {
	var secret corev1.Secret
	if err := p.readAsDecided(ctx, action, &secret); err != nil {
		return database.Result{}, err
	}
	found, err := children.CachesOf(ctx, p.Live, p.Live, client.ObjectKeyFromObject(p.object))
	if err != nil {
		return database.Result{}, err
	}
	after := render.Environment(&secret, found)
	if len(render.KeyChanges(&secret, after)) == 0 {
		return database.Result{Done: true}, nil
	}
	patch := client.MergeFromWithOptions(&secret, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Patch(ctx, after, patch, client.FieldOwner(database.FieldManager)); err != nil {
		p.doubt(action, err)
		return database.Result{}, err
	}
	p.ledger.Wrote(after)
	return database.Result{Done: true, Wrote: true}, nil
}
