package act

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// createLease makes the lease of a database that has never had one. Its finalizer is taken off by us alone, so it is
// made only while the database is guarded: otherwise a deleted database would leave it behind for ever.
func (p *pass) createLease(
	ctx context.Context, action database.Action, create database.CreateLease,
) (database.Result, error) {
	if err := p.requireGuard(ctx, action); err != nil {
		return database.Result{}, err
	}
	if err := p.requireSuccession(ctx, action, create); err != nil {
		return database.Result{}, err
	}
	return p.Write(ctx, render.Lease(p.design, create.Succeeds, create.Before), nil)
}

// requireSuccession reads the settings live: which leases a new one succeeds cannot be said later, and another operator
// may have seen the agents take one over since.
func (p *pass) requireSuccession(ctx context.Context, action database.Action, create database.CreateLease) error {
	if create.Succeeds == "" {
		return nil
	}
	var live corev1.ConfigMap
	if err := p.live(ctx, database.SettingsName(p.object.Name), &live); err != nil {
		return err
	}
	settings, err := wire.DecodeSettings([]byte(live.Data[wire.KeySettings]))
	before := wire.ParseLost(live.Annotations[wire.AnnotationLostBefore])
	if err != nil || settings.LeaseUID != create.Succeeds || !slices.Equal(before, create.Before) {
		return moved(action, "the settings name another lease by now")
	}
	return nil
}

// requireGuard reads the database live: what only its finalizer cleans up is not made without it.
func (p *pass) requireGuard(ctx context.Context, action database.Action) error {
	now, err := p.liveDatabase(ctx)
	if err != nil {
		return err
	}
	return p.guarded(action, now)
}

// guarded says that a database that was read live is the one of the pass, lives, and has the finalizer.
func (p *pass) guarded(action database.Action, now *v1alpha1.GeoDatabase) error {
	switch {
	case now.UID != p.object.UID || now.DeletionTimestamp != nil:
		return moved(action, "the database is being deleted")
	case !controllerutil.ContainsFinalizer(now, database.Finalizer):
		return moved(action, "the database is not guarded yet")
	}
	return nil
}

// requireDeletion reads live that the database of the pass is being deleted.
func (p *pass) requireDeletion(ctx context.Context, action database.Action) error {
	now, err := p.liveDatabase(ctx)
	if err != nil {
		return err
	}
	if now.UID != p.object.UID || now.DeletionTimestamp == nil {
		return moved(action, "the database is not being deleted")
	}
	return nil
}

// liveDatabase is the database as the API server has it now.
func (p *pass) liveDatabase(ctx context.Context) (*v1alpha1.GeoDatabase, error) {
	var now v1alpha1.GeoDatabase
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(p.object), &now); err != nil {
		return nil, fmt.Errorf("read the database live: %w", err)
	}
	return &now, nil
}

// freeLease takes the finalizer off the lease of a database that is being deleted. Its agents may renew it meanwhile:
// then the next pass tries again.
func (p *pass) freeLease(ctx context.Context, action database.Action) (database.Result, error) {
	if err := p.requireDeletion(ctx, action); err != nil {
		return database.Result{}, err
	}
	var lease coordinationv1.Lease
	if err := p.live(ctx, action.Name, &lease); err != nil {
		return database.Result{}, err
	}
	if string(lease.UID) != action.UID {
		return database.Result{}, moved(action, "it is another one")
	}
	after := lease.DeepCopy()
	controllerutil.RemoveFinalizer(after, database.LeaseFinalizer)
	patch := client.MergeFromWithOptions(&lease, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Patch(ctx, after, patch, client.FieldOwner(database.FieldManager)); err != nil {
		p.Doubt(action, err)
		return database.Result{}, err
	}
	return database.Result{Done: true, Wrote: true}, nil
}

// tellPod writes onto a pod which settings and secrets are stored. The kubelet brings the mounted files up to date
// whenever its pod changes, and otherwise only once in a while.
func (p *pass) tellPod(ctx context.Context, action database.Action, tell database.TellPod) (database.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	after := pod.DeepCopy()
	if tell.Hash != "" {
		annotate(after, database.AnnotationSettings, tell.Hash)
	}
	if tell.Secrets != "" {
		annotate(after, database.AnnotationSecrets, tell.Secrets)
	}
	if tell.Backup != "" {
		annotate(after, database.AnnotationBackup, tell.Backup)
	}
	return p.Patch(ctx, action, &pod, after)
}
