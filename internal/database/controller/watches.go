package controller

import (
	"cmp"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/condition"
)

// Cached are the kinds that the loop reads from caches. Every kind that it writes is here or in Live.
func Cached() []client.Object {
	return append([]client.Object{&v1alpha1.GeoDatabase{}, &v1alpha1.GeoCache{}}, childKinds()...)
}

// childKinds are kinds of which a cluster has many that have nothing to do with Meridian. The caches hold those with
// our label only; what a cache does not show is looked for live, by name.
func childKinds() []client.Object {
	return []client.Object{
		&corev1.ConfigMap{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{}, &appsv1.StatefulSet{}, &corev1.Pod{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &coordinationv1.Lease{},
		&discoveryv1.EndpointSlice{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	}
}

// Selected says which objects of the kinds in Cached a cache holds, and what of them: no memory is spent on what others
// run in the cluster. Who owns the fields of a pod or a lease is asked by nobody, and takes more room than the rest;
// of the other kinds it names whoever has changed a child.
func Selected() map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{database.LabelManagedBy: "meridian"})
	selected := map[client.Object]cache.ByObject{}
	for _, kind := range childKinds() {
		chosen := cache.ByObject{Label: ours}
		switch kind.(type) {
		case *corev1.Pod, *coordinationv1.Lease:
			chosen.Transform = cache.TransformStripManagedFields()
		}
		selected[kind] = chosen
	}
	return selected
}

// Live are the kinds that are read from the API server at any time. No cache ever holds a Secret.
func Live() []client.Object { return []client.Object{&corev1.Secret{}} }

// Watch has the controller run a pass when a database or one of its children changes in the given cache.
func Watch(watcher controller.Controller, from cache.Cache, pulse *service.Pulse) error {
	// The status is written by this loop itself; only what others write is news.
	news := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	sources := []source.Source{
		source.Kind[client.Object](from, &v1alpha1.GeoDatabase{}, &handler.EnqueueRequestForObject{}, news),
		source.Kind(from, &coordinationv1.Lease{}, pulse.Handler(databaseOf)),
		source.Kind[client.Object](from, &v1alpha1.GeoCache{}, handler.EnqueueRequestsFromMapFunc(namedBy), comesOrGoes),
		pulse.Silences(),
	}
	for _, child := range childKinds() {
		if _, apart := child.(*coordinationv1.Lease); apart {
			continue
		}
		toDatabase := handler.EnqueueRequestsFromMapFunc(databaseOf)
		sources = append(sources, source.Kind[client.Object](from, child, toDatabase))
	}
	for _, each := range sources {
		if err := watcher.Watch(each); err != nil {
			return err
		}
	}
	return nil
}

// namedBy finds the database that a cache names.
func namedBy(_ context.Context, object client.Object) []reconcile.Request {
	cache, ok := object.(*v1alpha1.GeoCache)
	if !ok {
		return nil
	}
	key := types.NamespacedName{Namespace: cache.Namespace, Name: cache.Spec.DatabaseRef.Name}
	return []reconcile.Request{{NamespacedName: key}}
}

// comesOrGoes leaves out what a database does not care for: most of what is told about a cache.
var comesOrGoes = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.GeoCache)
	after, too := e.ObjectNew.(*v1alpha1.GeoCache)
	return !ok || !too || CacheChanged(before, after)
}}

// CacheChanged says that something about a cache is new that its database tells of.
func CacheChanged(before, after *v1alpha1.GeoCache) bool {
	ready := func(cache *v1alpha1.GeoCache) bool {
		return condition.IsTrue(cache.Status.Conditions, condition.Ready) &&
			cache.Status.ObservedGeneration == cache.Generation
	}
	return ready(before) != ready(after) || (before.Status.Binding == nil) != (after.Status.Binding == nil) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || before.UID != after.UID
}

// databaseOf finds the database of a child by its label. Children that have lost it are found by the next look.
func databaseOf(_ context.Context, child client.Object) []reconcile.Request {
	bears := child.GetLabels()
	name := cmp.Or(bears[database.LabelDatabase], bears[database.LabelTrial])
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}}}
}
