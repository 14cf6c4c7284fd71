package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	storecache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
)

// Cached are all kinds that the loop reads from caches, its own resource among them. Of databases it only asks whether
// they exist.
func Cached() []client.Object {
	return append(childKinds(), &v1alpha1.GeoCache{}, &v1alpha1.GeoDatabase{})
}

func childKinds() []client.Object {
	return []client.Object{
		&corev1.ConfigMap{}, &corev1.Service{}, &appsv1.StatefulSet{}, &corev1.Pod{}, &policyv1.PodDisruptionBudget{},
		&coordinationv1.Lease{}, &discoveryv1.EndpointSlice{}, &corev1.ServiceAccount{}, &rbacv1.Role{},
		&rbacv1.RoleBinding{}, &networkingv1.NetworkPolicy{},
	}
}

// Live are the kinds that are read from the API server at any time. No cache ever holds a Secret.
func Live() []client.Object { return []client.Object{&corev1.Secret{}} }

// Watch has the controller run a pass when a cache, one of its children or its database changes in the given cache.
func Watch(watcher controller.Controller, from storecache.Cache, pulse *service.Pulse) error {
	// The status is written by this loop itself; only what others write is news.
	news := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	caches := source.Kind[client.Object](from, &v1alpha1.GeoCache{}, &handler.EnqueueRequestForObject{}, news)
	if err := watcher.Watch(caches); err != nil {
		return err
	}
	sources := []source.Source{source.Kind(from, &coordinationv1.Lease{}, pulse.Handler(cacheOf)), pulse.Silences()}
	for _, child := range childKinds() {
		if _, apart := child.(*coordinationv1.Lease); !apart {
			toCache := handler.EnqueueRequestsFromMapFunc(cacheOf)
			sources = append(sources, source.Kind[client.Object](from, child, toCache))
		}
	}
	for _, each := range sources {
		if err := watcher.Watch(each); err != nil {
			return err
		}
	}
	comesOrGoes := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() // It hibernates, or wakes.
	}}
	toCaches := handler.EnqueueRequestsFromMapFunc(cachesOf(from))
	return watcher.Watch(source.Kind[client.Object](from, &v1alpha1.GeoDatabase{}, toCaches, comesOrGoes))
}

// cacheOf finds the cache of a child by its label. Children that have lost it are found by the next look.
func cacheOf(_ context.Context, child client.Object) []reconcile.Request {
	name := child.GetLabels()[cache.LabelCache]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}}}
}

// cachesOf finds the caches that serve a database.
func cachesOf(from client.Reader) handler.MapFunc {
	return func(ctx context.Context, database client.Object) []reconcile.Request {
		var caches v1alpha1.GeoCacheList
		if err := from.List(ctx, &caches, client.InNamespace(database.GetNamespace())); err != nil {
			// The caches are looked at again within minutes anyway.
			return nil
		}
		var requests []reconcile.Request
		for i := range caches.Items {
			if caches.Items[i].Spec.DatabaseRef.Name == database.GetName() {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&caches.Items[i])})
			}
		}
		return requests
	}
}
