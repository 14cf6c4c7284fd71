package act

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// deleteClaim asks the API server once more about the database itself: its spec may say Retain by now. The claim of a
// living database goes only when nothing counts on its data any more.
func (p *pass) deleteClaim(ctx context.Context, action database.Action) (database.Result, error) {
	now, err := p.liveDatabase(ctx)
	if err != nil {
		return database.Result{}, err
	}
	switch {
	case now.UID != p.object.UID:
		return database.Result{}, moved(action, "the database is another one")
	case now.Spec.Storage.Reclaim != v1alpha1.ReclaimDelete:
		return database.Result{}, moved(action, "spec.storage.reclaim says Retain now")
	}
	if err := p.mayGo(ctx, action, now); err != nil {
		return database.Result{}, err
	}
	var claim corev1.PersistentVolumeClaim
	if err := p.ReadAsDecided(ctx, action, &claim); err != nil {
		return database.Result{}, err
	}
	return p.Remove(ctx, &claim)
}

// mayGo says that a claim may go: with its database, unless that leaves its children behind, or because nothing counts
// on it any more.
func (p *pass) mayGo(ctx context.Context, action database.Action, now *v1alpha1.GeoDatabase) error {
	if now.DeletionTimestamp == nil {
		instance, _ := database.ClaimOwner(action.Name)
		return p.isLeft(ctx, action, instance)
	}
	stay := moved(action, "the children of the database stay")
	if controllerutil.ContainsFinalizer(now, metav1.FinalizerOrphanDependents) {
		return stay
	}
	if controllerutil.ContainsFinalizer(now, metav1.FinalizerDeleteDependents) {
		return nil
	}
	for _, child := range []client.Object{&corev1.ConfigMap{}, &corev1.Service{}, &coordinationv1.Lease{}} {
		if owned, err := p.owns(ctx, child); owned || err != nil {
			return err
		}
	}
	return stay
}

// owns says that a child of which there is one is there and still bound to the database. Garbage collection cuts those
// loose that stay.
func (p *pass) owns(ctx context.Context, child client.Object) (bool, error) {
	name := database.SettingsName(p.object.Name)
	switch child.(type) {
	case *corev1.Service:
		name = database.WriteName(p.object.Name)
	case *coordinationv1.Lease:
		name = database.LeaseName(p.object.Name)
	}
	if err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, child); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	controller := metav1.GetControllerOfNoCopy(child)
	return controller != nil && controller.UID == p.object.UID, nil
}

// isLeft reads live whether anything still counts on an instance: the settings, or the lease, which must be held by
// another one.
func (p *pass) isLeft(ctx context.Context, action database.Action, instance string) error {
	var settings corev1.ConfigMap
	if err := p.live(ctx, database.SettingsName(p.object.Name), &settings); err != nil {
		return err
	}
	stored, err := wire.DecodeSettings([]byte(settings.Data[wire.KeySettings]))
	if err != nil {
		return err
	}
	var lease coordinationv1.Lease
	if err := p.live(ctx, database.LeaseName(p.object.Name), &lease); err != nil {
		return err
	}
	switch {
	case slices.Contains(stored.Instances, instance):
		return moved(action, "the settings name it")
	case string(lease.UID) != stored.LeaseUID:
		return moved(action, "the lease is another one")
	case lease.Spec.HolderIdentity != nil && wire.ParseMember(*lease.Spec.HolderIdentity).Name == instance:
		return moved(action, "it holds the lease")
	}
	text, written := lease.Annotations[wire.AnnotationRecord]
	if !written {
		return nil
	}
	record, err := wire.DecodeLeaseRecord(text)
	if err != nil {
		return err
	}
	for _, member := range record.Members {
		if member.Name == instance {
			return moved(action, "its copy is in the write quorum")
		}
	}
	return nil
}

// live reads a child live by name.
func (p *pass) live(ctx context.Context, name string, into client.Object) error {
	if err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, into); err != nil {
		return fmt.Errorf("read %s live: %w", name, err)
	}
	return nil
}

// deleteSet deletes the StatefulSet of an instance that has left, and with it its pod.
func (p *pass) deleteSet(ctx context.Context, action database.Action) (database.Result, error) {
	if err := p.isLeft(ctx, action, action.Name); err != nil {
		return database.Result{}, err
	}
	var set appsv1.StatefulSet
	if err := p.ReadAsDecided(ctx, action, &set); err != nil {
		return database.Result{}, err
	}
	return p.Remove(ctx, &set, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// removePod deletes a pod that is being deleted and whose node will not say when it has ended: the node is gone, or an
// administrator vouches that nothing runs on it. Both are read live: the volume of the pod is free from then on.
func (p *pass) removePod(ctx context.Context, action database.Action) (database.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	if pod.DeletionTimestamp == nil {
		return database.Result{}, moved(action, "it is not being deleted")
	}
	var node corev1.Node
	switch err := p.Live.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return database.Result{}, fmt.Errorf("read its node live: %w", err)
	case !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeOutOfService
	}):
		return database.Result{}, moved(action, "its node is there, and nobody vouches that nothing runs on it")
	}
	return p.Delete(ctx, action, &pod, client.GracePeriodSeconds(0))
}

// removeChild deletes a child that is not wanted any more: a policy, or a certificate.
func (p *pass) removeChild(ctx context.Context, action database.Action) (database.Result, error) {
	if database.Does[database.RemoveCertificate](action) {
		return p.removeCertificate(ctx, action)
	}
	var child networkingv1.NetworkPolicy
	if action.Kind != database.KindPolicy {
		return database.Result{}, fmt.Errorf("no %s is ever removed", action.Kind)
	}
	if err := p.ReadAsDecided(ctx, action, &child); err != nil {
		return database.Result{}, err
	}
	return p.Remove(ctx, &child)
}

// setFinalizer writes over the version of the database that the pass has read. Whoever guards a database also puts the
// name of the installation onto it.
func (p *pass) setFinalizer(ctx context.Context, wanted bool) (database.Result, error) {
	return p.changeDatabase(ctx, database.Action{Do: database.Guard{}, Name: p.object.Name}, wanted,
		func(after *v1alpha1.GeoDatabase) {
			if !wanted {
				controllerutil.RemoveFinalizer(after, database.Finalizer)
				return
			}
			controllerutil.AddFinalizer(after, database.Finalizer)
			annotate(after, database.AnnotationInstallation, p.design.Installation)
			if after.Annotations[database.AnnotationSwitched] == "" {
				annotate(after, database.AnnotationSwitched, after.Spec.Switchover)
			}
		})
}

// annotate sets an annotation, or takes it away if it would be empty.
func annotate(object client.Object, name, value string) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	if delete(annotations, name); value != "" {
		annotations[name] = value
	}
	object.SetAnnotations(annotations)
}

// changeDatabase patches the database itself, conditional on the version that the pass has read. One that may be gone
// after that is not expected to be seen again.
func (p *pass) changeDatabase(
	ctx context.Context, action database.Action, stays bool, change func(*v1alpha1.GeoDatabase),
) (database.Result, error) {
	after := p.object.DeepCopy()
	change(after)
	patch := client.MergeFromWithOptions(p.object, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Patch(ctx, after, patch, client.FieldOwner(database.FieldManager)); err != nil {
		p.Doubt(action, err)
		return database.Result{}, err
	}
	if stays {
		p.ledger.Wrote(after)
	}
	p.object = after
	return database.Result{Done: true, Wrote: true}, nil
}
