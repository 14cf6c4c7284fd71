package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// Cache is a GeoCache as its database sees it.
type Cache struct {
	Name string
	// Created is when somebody made it.
	Created time.Time
	// Ready is what its own status says, Deleting that somebody has deleted it.
	Ready, Deleting bool
	// Secret is what it has written for applications, nil if there is none; Problem is why nobody knows.
	Secret  *corev1.Secret
	Problem string
}

// CachesOf finds the caches that name a database, sorted by name. The Secret of each is read live, by name; one that
// cannot be read is a fact about that cache and no error.
func CachesOf(ctx context.Context, caches, live client.Reader, database client.ObjectKey) ([]Cache, error) {
	var all v1alpha1.GeoCacheList
	if err := caches.List(ctx, &all, client.InNamespace(database.Namespace)); err != nil {
		return nil, fmt.Errorf("list caches: %w", err)
	}
	var list []Cache
	for i := range all.Items {
		if object := &all.Items[i]; object.Spec.DatabaseRef.Name == database.Name {
			list = append(list, cacheOf(ctx, live, object))
		}
	}
	slices.SortFunc(list, func(a, b Cache) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func cacheOf(ctx context.Context, live client.Reader, object *v1alpha1.GeoCache) Cache {
	found := Cache{
		Name: object.Name, Created: object.CreationTimestamp.Time, Deleting: object.DeletionTimestamp != nil,
		Ready: condition.IsTrue(object.Status.Conditions, condition.Ready) &&
			object.Status.ObservedGeneration == object.Generation,
	}
	if found.Deleting {
		return found
	}
	var secret corev1.Secret
	name := wire.CacheSecret(object.Name)
	err := live.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: name}, &secret)
	switch owner := metav1.GetControllerOfNoCopy(&secret); {
	case apierrors.IsNotFound(err):
	case err != nil:
		found.Problem = fmt.Sprintf("the Secret %s cannot be read: %s", name, Brief(err))
	case owner != nil && owner.UID == object.UID:
		// One of an earlier cache of that name has a password that counts no more, and one of somebody else none at all.
		found.Secret = &secret
	}
	return found
}
