package observe

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
)

// readCaches looks which caches name the database, and whether applications are led to them. It never fails: a database
// does not wait for what is wrong with its caches.
func (p *pass) readCaches(ctx context.Context) error {
	found, err := service.CachesOf(ctx, p.reader, p.Live, client.ObjectKeyFromObject(p.object))
	if err != nil {
		p.facts.Caches.Problem = service.Brief(err)
		return nil
	}
	for _, cache := range found {
		p.facts.Caches.List = append(p.facts.Caches.List, database.Cache{
			Name: cache.Name, Ready: cache.Ready, Deleting: cache.Deleting, Problem: cache.Problem,
		})
	}
	if secret := p.binding; secret != nil && (secret.Immutable == nil || !*secret.Immutable) {
		p.facts.Caches.Unbound = render.KeyChanges(secret, render.Environment(secret, found))
	}
	return nil
}
