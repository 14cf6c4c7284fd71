package controller

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/children"
	"meridian.dev/meridian/internal/database"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Cached are the kinds that the loop reads from caches. Every kind that it writes is here or in Live.
func Cached() []client.Object {
	return append([]client.Object{
		&v1alpha1.GeoDatabase{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{},
		&appsv1.StatefulSet{}, &corev1.Pod{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	}, labelled()...)
}

// labelled are kinds of which a cluster has many that have nothing to do with Meridian. The caches hold those with our
// label only; what a cache does not show is looked for live.
func labelled() []client.Object {
	return []client.Object{
		&coordinationv1.Lease{}, &discoveryv1.EndpointSlice{}, &corev1.ServiceAccount{}, &rbacv1.Role{},
		&rbacv1.RoleBinding{},
	}
}

// Selected says which objects of the kinds in Cached a cache holds, for those of which it does not hold all.
func Selected() map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{database.LabelManagedBy: "meridian"})
	selected := map[client.Object]cache.ByObject{}
	for _, kind := range labelled() {
		selected[kind] = cache.ByObject{Label: ours}
	}
	return selected
}

// Live are the kinds that are read from the API server at any time. No cache ever holds a Secret.
func Live() []client.Object { return []client.Object{&corev1.Secret{}} }

// Watch has the controller run a pass when a database or one of its children changes in the given cache.
func Watch(watcher controller.Controller, from cache.Cache, pulse *children.Pulse) error {
	// The status is written by this loop itself; only what others write is news.
	news := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	sources := []source.Source{
		source.Kind[client.Object](from, &v1alpha1.GeoDatabase{}, &handler.EnqueueRequestForObject{}, news),
		source.Kind(from, &coordinationv1.Lease{}, leases(pulse)),
		source.Func(func(ctx context.Context, into queue) error { go listen(ctx, pulse, into); return nil }),
	}
	for _, child := range Cached()[1:] {
		if _, apart := child.(*coordinationv1.Lease); !apart {
			toDatabase := handler.EnqueueRequestsFromMapFunc(databaseOf)
			sources = append(sources, source.Kind[client.Object](from, child, toDatabase))
		}
	}
	for _, each := range sources {
		if err := watcher.Watch(each); err != nil {
			return err
		}
	}
	return nil
}

// leases tells renewals, which only keep the pulse, from changes, which are news.
func leases(pulse *children.Pulse) handler.TypedEventHandler[*coordinationv1.Lease, reconcile.Request] {
	add := func(lease *coordinationv1.Lease, into queue) {
		for _, request := range databaseOf(context.Background(), lease) {
			into.Add(request)
		}
	}
	type lease = *coordinationv1.Lease
	return handler.TypedFuncs[lease, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[lease], into queue) {
			pulse.Beat(e.Object, time.Now())
			add(e.Object, into)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[lease], into queue) {
			if revived := pulse.Beat(e.ObjectNew, time.Now()); revived || children.LeaseChanged(e.ObjectOld, e.ObjectNew) {
				add(e.ObjectNew, into)
			}
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[lease], into queue) {
			pulse.Forget(client.ObjectKeyFromObject(e.Object))
			add(e.Object, into)
		},
	}
}

// listen has a pass run when a lease is late or ends, which is no event.
func listen(ctx context.Context, pulse *children.Pulse, into queue) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, silent := range pulse.Silent(now) {
				into.Add(reconcile.Request{NamespacedName: silent})
			}
		}
	}
}

// databaseOf finds the database of a child by its label. Children that have lost it are found by the next look.
func databaseOf(_ context.Context, child client.Object) []reconcile.Request {
	name := child.GetLabels()[database.LabelDatabase]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}}}
}
