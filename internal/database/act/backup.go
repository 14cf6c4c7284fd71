package act

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// storeAccess brings the mounted Secret to what the Secrets have that the spec names, by a live look.
func (p *pass) storeAccess(
	ctx context.Context, action database.Action, store database.StoreAccess,
) (database.Result, error) {
	var stored corev1.Secret
	if err := p.Secret(ctx, action.Name, &stored); err != nil {
		return database.Result{}, err
	}
	if string(stored.UID) != action.UID || stored.ResourceVersion != action.ResourceVersion {
		return database.Result{}, moved(action, "it was changed since")
	}
	repository, err := p.repositoryOf(ctx, store)
	if err != nil {
		return database.Result{}, err
	}
	var data map[string][]byte
	if repository != nil {
		secrets, err := service.Secrets(ctx, p.Live, p.object.Namespace, render.SecretsOf(*repository))
		if err != nil {
			return database.Result{}, err
		}
		var missing string
		if data, missing = render.AccessData(*repository, secrets); missing != "" {
			return database.Result{}, moved(action, missing)
		}
	}
	return p.Write(ctx, render.Access(p.design, action.Name, data), service.Existing(&stored))
}

// repositoryOf is the repository that the Secret leads to, nil if nobody needs it any more.
func (p *pass) repositoryOf(ctx context.Context, store database.StoreAccess) (*v1alpha1.Repository, error) {
	spec := p.design.Spec
	switch {
	case !store.Begin && spec.Backup == nil, store.Begin && p.design.Record.Initialised:
		return nil, nil
	case !store.Begin:
		return &spec.Backup.Repository, nil
	case spec.Bootstrap.Restore != nil:
		return &spec.Bootstrap.Restore.Repository, nil
	case spec.Bootstrap.Clone == nil:
		return nil, nil
	}
	var other v1alpha1.GeoDatabase
	key := client.ObjectKey{Namespace: p.object.Namespace, Name: spec.Bootstrap.Clone.Name}
	if err := p.Live.Get(ctx, key, &other); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the GeoDatabase %s live: %w", key.Name, err)
	}
	if other.Spec.Backup == nil {
		return nil, nil
	}
	return &other.Spec.Backup.Repository, nil
}

// wantBase writes into the settings of backups which base backup is to be made next, and leaves everything else of them
// as it is stored.
func (p *pass) wantBase(ctx context.Context, action database.Action, want database.WantBase) (database.Result, error) {
	return p.editSettings(ctx, action, func(settings *stored) error {
		if settings.design.BackupSettings == nil {
			return moved(action, "no backups are asked for")
		}
		backup := *settings.design.BackupSettings
		backup.Base = &wire.BaseWanted{ID: want.ID, Instance: want.Instance}
		settings.design.BackupSettings = &backup
		if want.Now != "" {
			settings.design.Backup.Now = want.Now
		}
		return nil
	})
}
