package act

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
)

// FreeLeft takes the finalizer off the lease of a database that no longer exists, such as one whose own finalizer
// somebody has taken off by hand: nobody else would, and its namespace could never go. Only a lease that is being
// deleted is freed, and one whose database is gone by a live read: pods that were told to stay keep theirs.
func (a Actor) FreeLeft(ctx context.Context, key client.ObjectKey) error {
	named := client.ObjectKey{Namespace: key.Namespace, Name: database.LeaseName(key.Name)}
	var lease coordinationv1.Lease
	if err := a.Client.Get(ctx, named, &lease); err != nil || !left(&lease, key.Name) {
		return client.IgnoreNotFound(err)
	}
	if err := a.Live.Get(ctx, named, &lease); err != nil || !left(&lease, key.Name) {
		return client.IgnoreNotFound(err)
	}
	var living v1alpha1.GeoDatabase
	if err := a.Live.Get(ctx, key, &living); err == nil {
		return nil
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look whether %s is gone: %w", key, err)
	}
	log.FromContext(ctx).Info("Freeing the lease of a database that is gone", "lease", named)
	after := lease.DeepCopy()
	controllerutil.RemoveFinalizer(after, database.LeaseFinalizer)
	patch := client.MergeFromWithOptions(&lease, client.MergeFromWithOptimisticLock{})
	err := a.Client.Patch(ctx, after, patch, client.FieldOwner(database.FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("free the lease of %s: %w", key, err)
	}
	return nil
}

// left says that a lease is being deleted, and stays by our finalizer alone for a database of that name.
func left(lease *coordinationv1.Lease, name string) bool {
	owner := metav1.GetControllerOfNoCopy(lease)
	return lease.DeletionTimestamp != nil && controllerutil.ContainsFinalizer(lease, database.LeaseFinalizer) &&
		lease.Labels[database.LabelDatabase] == name && owner != nil && owner.Kind == "GeoDatabase" && owner.Name == name
}
