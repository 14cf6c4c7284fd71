package lives

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/sim/search"
)

// bindings are lives of a database to which caches come. Those are there with all that their own loop would have made
// for applications, and without anything else.
func bindings() []Life {
	tiles, zones := arrives("tiles", "first"), arrives("zones", "second")
	leaves := search.Step{Name: "tiles is deleted", Do: remove(&v1alpha1.GeoCache{}, "tiles")}
	return []Life{
		{Name: "a cache comes", From: single, Script: []search.Step{tiles}, End: all(served(upTo(1)...),
			leadsTo(map[string]string{"CACHE_URL": "first", "CACHE_URL__TILES": "first", "CACHE_READ_URL": "first/ro"}),
			lists("tiles"))},
		{Name: "a cache comes, and a second one", From: single, Script: []search.Step{tiles, zones},
			End: all(lists("tiles", "zones"), leadsTo(map[string]string{
				"CACHE_URL": "first", "CACHE_URL__TILES": "first", "CACHE_URL__ZONES": "second",
			}))},
		{Name: "a cache comes and goes", From: single, Script: []search.Step{tiles, leaves}, End: all(served(upTo(1)...),
			leadsTo(map[string]string{"CACHE_URL": "", "CACHE_URL__TILES": "", "CACHE_READ_URL": "", "CACHE_CA": ""}),
			lists())},
		{Name: "a cache is made again with another password", From: single,
			Script: []search.Step{tiles, leaves, arrives("tiles", "third")},
			End:    all(leadsTo(map[string]string{"CACHE_URL": "third", "CACHE_URL__TILES": "third"}), lists("tiles"))},
	}
}

var single = after(Life{
	Name: "one", End: served(upTo(1)...), Script: []search.Step{createDatabase(1, v1alpha1.ReclaimRetain)},
})

// arrives makes a cache with its Secret.
func arrives(name, uri string) search.Step {
	return search.Step{Name: name + " comes", Do: func(ctx context.Context, cluster client.Client) error {
		size := resource.MustParse("64Mi")
		object := &v1alpha1.GeoCache{
			ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name},
			Spec: v1alpha1.GeoCacheSpec{
				DatabaseRef: v1alpha1.DatabaseRef{Name: Cities.Name}, Replicas: 1, Memory: &size,
			},
		}
		if err := cluster.Create(ctx, object); err != nil {
			return client.IgnoreAlreadyExists(err)
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: space, Name: name,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(object, cacheKind)},
			},
			Data: map[string][]byte{"uri": []byte(uri), "ro-uri": []byte(uri + "/ro"), "ca.crt": []byte("ca of " + uri)},
		}
		var before corev1.Secret
		if found, err := get(ctx, cluster, name, &before); err != nil || found {
			// That of the one before has not been collected yet.
			if err := client.IgnoreNotFound(cluster.Delete(ctx, &before)); err != nil {
				return err
			}
		}
		if err := cluster.Create(ctx, secret); err != nil {
			return err
		}
		object.Status.Binding = &v1alpha1.Binding{Name: name}
		return cluster.Status().Update(ctx, object)
	}}
}

// leadsTo says which keys the Secret for applications has, empty for one that it has not. Its own are always there.
func leadsTo(wanted map[string]string) func(search.State) error {
	return func(state search.State) error {
		var secret corev1.Secret
		if _, err := get(context.Background(), state, database.BindingName(Cities.Name), &secret); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			if string(secret.Data[key]) != wanted[key] {
				return fmt.Errorf("%s is %q, want %q", key, secret.Data[key], wanted[key])
			}
		}
		if len(secret.Data["DATABASE_URL"]) == 0 || string(secret.Data["DATABASE_URL"]) != string(secret.Data["uri"]) {
			return fmt.Errorf("DATABASE_URL is %q", secret.Data["DATABASE_URL"])
		}
		return nil
	}
}

// lists says which caches the status of the database names.
func lists(names ...string) func(search.State) error {
	return func(state search.State) error {
		found, err := databaseOf(state)
		if err != nil {
			return err
		}
		if len(found.Status.Caches) != len(names) {
			return fmt.Errorf("the status lists %v, want %v", found.Status.Caches, names)
		}
		for i, name := range names {
			if found.Status.Caches[i].Name != name {
				return fmt.Errorf("the status lists %v, want %v", found.Status.Caches, names)
			}
		}
		return nil
	}
}
