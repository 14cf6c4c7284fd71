package act

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
)

// bindCaches writes the addresses of the caches that there are now, by a live look, into the Secret for applications.
func (p *pass) bindCaches(ctx context.Context, action database.Action) (database.Result, error) {
	found, err := service.CachesOf(ctx, p.Live, p.Live, client.ObjectKeyFromObject(p.object))
	if err != nil {
		return database.Result{}, err
	}
	return p.editBinding(ctx, action, func(binding *corev1.Secret) error {
		*binding = *render.Environment(binding, found)
		return nil
	})
}
