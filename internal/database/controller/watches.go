package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
)

// Cached are the kinds that the loop reads from caches. Every kind that it writes is here or in Live.
func Cached() []client.Object {
	return []client.Object{
		&v1alpha1.GeoDatabase{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{},
		&appsv1.StatefulSet{}, &corev1.Pod{},
	}
}

// Live are the kinds that are read from the API server at any time. No cache ever holds a Secret.
func Live() []client.Object { return []client.Object{&corev1.Secret{}} }

// Watch has the controller run a pass when a database or one of its children changes in the given cache.
func Watch(watcher controller.Controller, from cache.Cache) error {
	// The status is written by this loop itself; only what others write is news.
	news := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	databases := source.Kind[client.Object](from, &v1alpha1.GeoDatabase{}, &handler.EnqueueRequestForObject{}, news)
	if err := watcher.Watch(databases); err != nil {
		return err
	}
	for _, child := range Cached()[1:] {
		toDatabase := handler.EnqueueRequestsFromMapFunc(databaseOf)
		if err := watcher.Watch(source.Kind[client.Object](from, child, toDatabase)); err != nil {
			return err
		}
	}
	return nil
}

// databaseOf finds the database of a child by its label. Children that have lost it are found by the next look.
func databaseOf(_ context.Context, child client.Object) []reconcile.Request {
	name := child.GetLabels()[database.LabelDatabase]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}}}
}
