package lives

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
)

var (
	cached = Life{
		Name: "create a cache", Cache: true, End: keeps("256Mi"),
		Script: []search.Step{createDatabase(3, v1alpha1.ReclaimRetain), createCache("256Mi")},
	}
	warm = after(cached)

	cachedThrice = Life{
		Name: "replicas of a cache", Cache: true, From: warm, Script: []search.Step{replicas(3)}, End: hasReplicas(3),
	}
	warmThrice = after(cachedThrice)
)

// Caches are the lives of a cache. The database is only there by name.
func Caches() []Life { return append(cacheLives(), companies()...) }

// companies are lives of a cache with several instances.
func companies() []Life {
	return []Life{
		{Name: "another image of a cache", Cache: true, From: warmThrice, Restarts: 1, Moves: 1,
			Script: []search.Step{cacheImage("redis:9")}, End: all(hasReplicas(3), runsCache("redis:9"))},
		{Name: "an image of a cache that is not there, and back", Cache: true, From: warmThrice, Restarts: 2, Moves: 1,
			Script: []search.Step{cacheImage(kube.Missing + ":9"), cacheImage("")}, End: hasReplicas(3)},
		{Name: "another parameter of a cache", Cache: true, From: warmThrice, End: all(hasReplicas(3), hasHertz("20")),
			Script: []search.Step{{Name: "hz is 20", Do: changeCache(func(object *v1alpha1.GeoCache) {
				object.Spec.Parameters = map[string]v1alpha1.Setting{"hz": "20"}
			})}}},
		{Name: "the lease of a cache of three is lost", Cache: true, From: warmThrice, End: goesOnWithoutALease,
			Script: []search.Step{loseCacheLease}},
		{Name: "the node of the primary of a cache is lost", Cache: true, From: warmThrice, Moves: 1, End: isLedByTheNext,
			Script: []search.Step{loseNodeOf(1)}},
	}
}

// isLedByTheNext says that the second instance accepts writes. Nobody takes the place of the first one: its pod stays
// for as long as its node is away.
func isLedByTheNext(state search.State) error {
	scene, err := tilers.scene(state)
	if err != nil {
		return err
	}
	conditions := scene.cache.Status.Conditions
	if scene.holder.Name != "tiles-2" || !scene.there(scene.holder) ||
		!condition.IsTrue(conditions, v1alpha1.ConditionServing) {
		return fmt.Errorf("%s leads: %s", scene.holder.Name, told(conditions))
	}
	return nil
}

func cacheImage(name string) search.Step {
	return search.Step{Name: "image: " + name, Do: changeCache(func(object *v1alpha1.GeoCache) {
		object.Spec.Image = name
	})}
}

// runsCache says which image all servers of the cache run.
func runsCache(image string) func(search.State) error {
	return func(state search.State) error {
		scene, err := tilers.scene(state)
		if err != nil {
			return err
		}
		for _, pod := range scene.view.Pods.Items {
			if !slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
				return container.Name == cache.ContainerCache && container.Image == image
			}) {
				return fmt.Errorf("%s does not run %s", pod.Name, image)
			}
		}
		return nil
	}
}

// hasHertz says that the servers of the cache have the parameter hz.
func hasHertz(value string) func(search.State) error {
	return func(state search.State) error {
		settings, _, err := cacheSettings(context.Background(), state)
		if err == nil && !slices.Contains(settings.Parameters, wire.Parameter{Name: "hz", Value: value}) {
			return fmt.Errorf("the parameters are %v", settings.Parameters)
		}
		return errors.Join(err, everyPod(state, taken, settings.Hash()))
	}
}

// cacheLives are those of a cache of which most have one instance.
func cacheLives() []Life {
	dropped := search.Step{Name: "the cache is deleted", Do: remove(&v1alpha1.GeoCache{}, Tiles.Name)}
	return []Life{
		cached,
		{Name: "cache before its database", Cache: true, End: keeps("256Mi"),
			Script: []search.Step{createCache("256Mi"), createDatabase(3, v1alpha1.ReclaimRetain)}},
		{Name: "more memory", Cache: true, From: warm, Script: []search.Step{remember("512Mi")}, End: keeps("512Mi")},
		{Name: "less memory", Cache: true, From: warm, Script: []search.Step{remember("128Mi")}, End: keeps("128Mi")},
		{Name: "more memory and less", Cache: true, From: warm, Script: []search.Step{remember("512Mi"), remember("200Mi")},
			End: keeps("200Mi")},
		cachedThrice,
		{Name: "replicas of a cache, and fewer", Cache: true, From: warm, Restarts: 1,
			Script: []search.Step{replicas(3), replicas(1)}, End: hasReplicas(1)},
		{Name: "a cache is emptied", Cache: true, From: warm, End: isEmptied,
			Script: []search.Step{{Name: "empty it", Do: changeCache(func(object *v1alpha1.GeoCache) {
				metav1.SetMetaDataAnnotation(&object.ObjectMeta, cache.AnnotationFlush, "now")
			})}}},
		{Name: "another policy", Cache: true, From: warm, End: all(keeps("256Mi"), evicts("allkeys-lfu")),
			Script: []search.Step{{Name: "evict by frequency", Do: changeCache(func(object *v1alpha1.GeoCache) {
				object.Spec.EvictionPolicy = "allkeys-lfu"
			})}}},
		{Name: "the pod of a cache ends", Cache: true, Restarts: 1, Moves: 1, From: warm, End: keeps("256Mi"),
			Script: []search.Step{{Name: "its pod is deleted", Do: remove(&corev1.Pod{}, cache.PodName("tiles-1"))}}},
		{Name: "the primary of a cache ends", Cache: true, Restarts: 1, Moves: 1, From: warmThrice, End: hasReplicas(3),
			Script: []search.Step{{Name: "its pod is deleted", Do: remove(&corev1.Pod{}, cache.PodName("tiles-1"))}}},
		{Name: "the node of the primary of a cache is away for a minute", Cache: true, Restarts: 1, Moves: 1,
			From: warmThrice, End: hasReplicas(3), Script: []search.Step{
				loseNodeOf(1), {Name: "node1 is back", Do: bringBack(1)},
			}},
		{Name: "another version with replicas of a cache", Cache: true, From: warmThrice, End: hasReplicas(3),
			Script: []search.Step{upgrade(cacheOperator)}},
		{Name: "certificates of a cache end", Cache: true, From: warm, Script: []search.Step{
			{Name: "40 days pass", Wait: 40 * 24 * time.Hour}, {Name: "40 days pass", Wait: 40 * 24 * time.Hour},
		}, End: all(keeps("256Mi"), hasNewSecret(cache.LeafName(Tiles.Name)))},
		{Name: "another version with a cache", Cache: true, From: warm, End: cacheServes,
			Script: []search.Step{upgrade(cacheOperator)}},
		{Name: "a cache is paused and not any more", Cache: true, From: warm, End: keeps("512Mi"),
			Script: []search.Step{pauseCache(true), remember("512Mi"), pauseCache(false)}},
		{Name: "a cache is deleted", Cache: true, Restarts: 1, From: warm, Script: []search.Step{dropped}, End: cacheGone},
		{Name: "a cache is deleted before it was there", Cache: true, Restarts: 1, End: cacheGone,
			Script: []search.Step{createDatabase(3, v1alpha1.ReclaimRetain), createCache("256Mi"), dropped}},
		{Name: "a cache is deleted and made again", Cache: true, Restarts: 1, From: warm, End: keeps("128Mi"),
			Script: []search.Step{dropped, createCache("128Mi")}},
		{Name: "a cache follows its database", Cache: true, From: warm, Script: []search.Step{follow},
			End: all(keeps("256Mi"), follows)},
		{Name: "a cache ends with its database", Cache: true, Restarts: 1, From: warm, End: cacheGone,
			Script: []search.Step{follow, dropDatabase}},
		{Name: "a cache goes on without its database", Cache: true, From: warm, End: goesOnAlone,
			Script: []search.Step{dropDatabase}},
		{Name: "a cache hibernates", Cache: true, Restarts: 1, From: warm, End: asleep,
			Script: []search.Step{follow, hibernate(true)}},
		{Name: "a cache hibernates and wakes", Cache: true, Restarts: 1, Moves: 1, From: warm, Wakes: true,
			Script: []search.Step{follow, hibernate(true)}, End: all(keeps("256Mi"), isAwake)},
		{Name: "a cache hibernates and is woken at once", Cache: true, Restarts: 1, Moves: 1, From: warm,
			Script: []search.Step{follow, hibernate(true), hibernate(false)}, End: keeps("256Mi")},
		{Name: "the lease of a cache is lost", Cache: true, From: warm, End: goesOnWithoutALease,
			Script: []search.Step{loseCacheLease}},
		{Name: "the lease of a cache is lost, and then its pod", Cache: true, Restarts: 1, From: warm, End: keeps("256Mi"),
			Script: []search.Step{loseCacheLease,
				{Name: "its pod is deleted", Do: remove(&corev1.Pod{}, cache.PodName("tiles-1"))}}},
		{Name: "the children of a cache are spoilt", Cache: true, From: warm, End: keeps("256Mi"),
			Script: []search.Step{{Name: "its settings are deleted", Do: remove(&corev1.ConfigMap{}, "tiles-settings")}}},
	}
}

var (
	follow = search.Step{Name: "follow the database", Do: changeCache(func(object *v1alpha1.GeoCache) {
		object.Spec.FollowDatabase = true
	})}
	dropDatabase   = search.Step{Name: "the database is deleted", Do: remove(&v1alpha1.GeoDatabase{}, Cities.Name)}
	loseCacheLease = search.Step{Name: "the lease of the cache is lost",
		Do: func(ctx context.Context, cluster client.Client) error {
			return forceAway(ctx, cluster, cache.LeaseName(Tiles.Name))
		}}
)

// evicts says by which policy the server of the cache evicts.
func evicts(policy string) func(search.State) error {
	return func(state search.State) error {
		settings, _, err := cacheSettings(context.Background(), state)
		if err == nil && settings.EvictionPolicy != policy {
			return fmt.Errorf("the policy is %s, want %s", settings.EvictionPolicy, policy)
		}
		return errors.Join(err, everyPod(state, taken, settings.Hash()))
	}
}

// follows says that the garbage collector ends the cache with its database.
func follows(state search.State) error {
	var found v1alpha1.GeoCache
	if err := state.Get(context.Background(), Tiles, &found); err != nil {
		return err
	}
	object, err := databaseOf(state)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(found.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID == object.UID
	}) {
		return errors.New("the database does not own it")
	}
	return nil
}

// asleep says that the cache has no pods, and says why.
func asleep(state search.State) error {
	var found v1alpha1.GeoCache
	if err := state.Get(context.Background(), Tiles, &found); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := state.List(context.Background(), &pods, client.InNamespace(space)); err != nil {
		return err
	}
	if len(pods.Items) > 0 || condition.IsTrue(found.Status.Conditions, condition.Ready) {
		return fmt.Errorf("there are %d pods: %s", len(pods.Items), told(found.Status.Conditions))
	}
	return nil
}

// goesOnAlone says that the cache works, and tells that its database is missing.
func goesOnAlone(state search.State) error {
	return worksWith(state, v1alpha1.ConditionDegraded, "DatabaseMissing")
}

// goesOnWithoutALease says that the cache works, and tells that its lease is missing.
func goesOnWithoutALease(state search.State) error {
	var lease coordinationv1.Lease
	if found, err := kube.Get(context.Background(), state, cache.LeaseName(Tiles.Name), &lease); found || err != nil {
		return fmt.Errorf("there is another lease: %w", err)
	}
	return worksWith(state, v1alpha1.ConditionStalled, "LeaseLost")
}

func worksWith(state search.State, typ, reason string) error {
	var found v1alpha1.GeoCache
	if err := state.Get(context.Background(), Tiles, &found); err != nil {
		return err
	}
	var pod corev1.Pod
	there, err := kube.Get(context.Background(), state, cache.PodName("tiles-1"), &pod)
	if !there || err != nil || !kube.Ready(&pod) {
		return fmt.Errorf("its pod is not there, or not ready: %w", err)
	}
	if now := condition.Find(found.Status.Conditions, typ); now == nil || now.Status != "True" || now.Reason != reason {
		return fmt.Errorf("it does not say %s: %s", reason, told(found.Status.Conditions))
	}
	return nil
}

func createCache(memory string) search.Step {
	return search.Step{Name: "create a cache of " + memory, Do: func(ctx context.Context, cluster client.Client) error {
		size := resource.MustParse(memory)
		err := cluster.Create(ctx, &v1alpha1.GeoCache{
			ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: Tiles.Name},
			Spec: v1alpha1.GeoCacheSpec{
				DatabaseRef: v1alpha1.DatabaseRef{Name: Cities.Name}, Replicas: 1, Memory: &size,
			},
		})
		return client.IgnoreAlreadyExists(err)
	}}
}

func remember(memory string) search.Step {
	return search.Step{Name: memory + " of memory", Do: changeCache(func(object *v1alpha1.GeoCache) {
		size := resource.MustParse(memory)
		object.Spec.Memory = &size
	})}
}

func pauseCache(so bool) search.Step {
	return search.Step{Name: fmt.Sprintf("paused: %t", so), Do: changeCache(func(object *v1alpha1.GeoCache) {
		object.Spec.Paused = so
	})}
}

func replicas(count int32) search.Step {
	return search.Step{Name: fmt.Sprintf("%d replicas", count), Do: changeCache(func(object *v1alpha1.GeoCache) {
		object.Spec.Replicas = count
	})}
}

func hasReplicas(count int) func(search.State) error {
	return func(state search.State) error {
		if err := cacheServes(state); err != nil {
			return err
		}
		seen := &kube.View{}
		if err := state.List(context.Background(), &seen.Pods, client.InNamespace(space)); err != nil {
			return err
		}
		if len(seen.Pods.Items) != count {
			return fmt.Errorf("there are %d pods, want %d", len(seen.Pods.Items), count)
		}
		return nil
	}
}

// isEmptied says that the request was carried out, and is gone.
func isEmptied(state search.State) error {
	var found v1alpha1.GeoCache
	if err := state.Get(context.Background(), Tiles, &found); err != nil {
		return err
	}
	var pod corev1.Pod
	if _, err := kube.Get(context.Background(), state, cache.PodName("tiles-1"), &pod); err != nil {
		return err
	}
	if found.Annotations[cache.AnnotationFlush] != "" || pod.Annotations[flushed] == "" {
		return fmt.Errorf("the request is there, or was not carried out: %s", told(found.Status.Conditions))
	}
	return cacheServes(state)
}

func cacheServes(state search.State) error {
	var found v1alpha1.GeoCache
	if err := state.Get(context.Background(), Tiles, &found); err != nil {
		return err
	}
	if !condition.IsTrue(found.Status.Conditions, condition.Ready) ||
		found.Status.ObservedGeneration != found.Generation {
		return fmt.Errorf("it is not ready: %s", told(found.Status.Conditions))
	}
	return nil
}

// keeps says that the cache is as wished, with so much memory, in a container of just the right size.
func keeps(memory string) func(search.State) error {
	return func(state search.State) error {
		if err := cacheServes(state); err != nil {
			return err
		}
		var pod corev1.Pod
		if _, err := kube.Get(context.Background(), state, cache.PodName("tiles-1"), &pod); err != nil {
			return err
		}
		if wanted := resource.MustParse(memory); allowedTo(&pod) != wanted.Value() {
			return fmt.Errorf("the server keeps %d, want %s", allowedTo(&pod), memory)
		}
		return nil
	}
}

func cacheGone(state search.State) error {
	err := state.Get(context.Background(), Tiles, &v1alpha1.GeoCache{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		return fmt.Errorf("the cache is there: %w", err)
	}
	return nothingIsLeft(state)
}

// Lives are all of them.
func Lives() []Life { return slices.Concat(Databases(), bindings(), Caches()) }

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
		if found, err := kube.Get(ctx, cluster, name, &before); err != nil || found {
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
		if _, err := kube.Get(context.Background(), state, database.AppSecretName(Cities.Name), &secret); err != nil {
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
