package act

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/expect"
)

// deleteClaim asks the API server once more about the database itself: its spec may say Retain by now.
func (p *pass) deleteClaim(ctx context.Context, action database.Action) (database.Result, error) {
	var now v1alpha1.GeoDatabase
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(p.object), &now); err != nil {
		return database.Result{}, fmt.Errorf("read the database live: %w", err)
	}
	switch {
	case now.UID != p.object.UID || now.DeletionTimestamp == nil:
		return database.Result{}, moved(action, "the database is not being deleted")
	case now.Spec.Storage.Reclaim != v1alpha1.ReclaimDelete:
		return database.Result{}, moved(action, "spec.storage.reclaim says Retain now")
	}
	var claim corev1.PersistentVolumeClaim
	if err := p.readAsDecided(ctx, action, &claim); err != nil {
		return database.Result{}, err
	}
	return p.remove(ctx, &claim)
}

// deletePod deletes a pod that is still as the plan has seen it, in which no PostgreSQL runs, and whose claim outlives
// it: a deleted claim lives only as long as a pod uses it.
func (p *pass) deletePod(ctx context.Context, action database.Action) (database.Result, error) {
	var pod corev1.Pod
	if err := p.readAsDecided(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == database.ContainerDatabase && status.State.Running != nil {
			return database.Result{}, moved(action, "its database runs")
		}
	}
	if err := p.claimStays(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	// A pod belongs to its StatefulSet, so kit/apply would call it foreign. The plan has seen that the set is ours.
	uid, version := pod.UID, pod.ResourceVersion
	err := p.Client.Delete(ctx, &pod, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		p.doubt(action, err)
		return database.Result{}, err
	}
	p.ledger.Deleted(&pod)
	return database.Result{Done: true, Wrote: true}, nil
}

// claimStays reads every claim that a pod uses live, as the pod itself names them.
func (p *pass) claimStays(ctx context.Context, action database.Action, pod *corev1.Pod) error {
	seen := false
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		var claim corev1.PersistentVolumeClaim
		key := client.ObjectKey{Namespace: pod.Namespace, Name: volume.PersistentVolumeClaim.ClaimName}
		switch err := p.Live.Get(ctx, key, &claim); {
		case apierrors.IsNotFound(err):
			return moved(action, "its claim "+key.Name+" is gone")
		case err != nil:
			return fmt.Errorf("read its claim live: %w", err)
		case claim.DeletionTimestamp != nil:
			return moved(action, "its claim "+key.Name+" is being deleted")
		}
		seen = true
	}
	if !seen {
		return moved(action, "it uses no claim")
	}
	return nil
}

func (p *pass) remove(ctx context.Context, child client.Object) (database.Result, error) {
	action, err := p.Author.Remove(child, p.object.UID)
	if err != nil {
		return database.Result{}, err
	}
	return p.carryOut(ctx, action)
}

// setFinalizer writes over the version of the database that the pass has read.
func (p *pass) setFinalizer(ctx context.Context, wanted bool) (database.Result, error) {
	after := p.object.DeepCopy()
	if wanted {
		controllerutil.AddFinalizer(after, database.Finalizer)
	} else {
		controllerutil.RemoveFinalizer(after, database.Finalizer)
	}
	patch := client.MergeFromWithOptions(p.object, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Patch(ctx, after, patch, client.FieldOwner(database.FieldManager)); err != nil {
		p.doubt(database.Action{Verb: database.Guard, Name: p.object.Name}, err)
		return database.Result{}, err
	}
	if wanted {
		p.ledger.Wrote(after)
	}
	return database.Result{Done: true, Wrote: true}, nil
}

// doubt records that a write may have been carried out although it was answered with an error.
func (p *pass) doubt(action database.Action, err error) {
	if expect.Undecided(err) {
		p.ledger.Doubt(fmt.Sprintf("%s %s %s may or may not have been carried out", action.Verb, action.Kind, action.Name))
	}
}
