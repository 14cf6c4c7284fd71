package render

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// Keys of the Secret for applications that can be names of environment variables: one envFrom gives an application all
// addresses. Those of a cache are there twice: with its name, and without for the first one.
const (
	envWrite     = "DATABASE_URL"
	envRead      = "DATABASE_READ_URL"
	envCache     = "CACHE_URL"
	envCacheRead = "CACHE_READ_URL"
	envCacheCA   = "CACHE_CA"
)

// cacheKeys are the keys that lead to a cache, each with the key of the cache's own Secret that it comes from.
var cacheKeys = []struct{ key, from string }{
	{envCache, wire.KeyURI}, {envCacheRead, wire.KeyReadURI}, {envCacheCA, wire.KeyAuthority},
}

// Environment returns the Secret for applications as it shall be: with the addresses of the database and of the caches
// that there are. No key is changed that somebody else has written, and no other one, ever. The addresses of a cache
// whose Secret is not known stay as they are.
//
// CACHE_URL leads to the first cache. When others come beside it, it stays where it is: an application that has used it
// is not to lose its cache because somebody adds another.
func Environment(secret *corev1.Secret, caches []service.Cache) *corev1.Secret {
	made := addresses{Secret: secret.DeepCopy(), bound: boundKeys(secret), keys: map[string]string{}}
	if made.Data == nil {
		made.Data = map[string][]byte{}
	}
	own := service.Cache{Secret: secret}
	made.bind(envWrite, wire.KeyURI, own)
	made.bind(envRead, wire.KeyReadURI, own)
	living := slices.DeleteFunc(slices.Clone(caches), func(cache service.Cache) bool { return cache.Deleting })
	chosen := first(living, made.bound[envCache])
	for _, cache := range living {
		for _, each := range cacheKeys {
			made.bind(each.key+"__"+strings.ToUpper(strings.ReplaceAll(cache.Name, "-", "_")), each.from, cache)
			if cache.Name == chosen {
				made.bind(each.key, each.from, cache)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(made.bound)) {
		if _, stays := made.keys[key]; !stays {
			delete(made.Data, key)
		}
	}
	writeBoundKeys(made.Secret, made.keys)
	return made.Secret
}

// followLogin makes the addresses of the database follow credentials that have just been put in, where they are ours:
// one write moves all of them.
func followLogin(secret *corev1.Secret) {
	bound := boundKeys(secret)
	for _, each := range []struct{ key, from string }{{envWrite, wire.KeyURI}, {envRead, wire.KeyReadURI}} {
		if _, ours := bound[each.key]; ours {
			secret.Data[each.key] = secret.Data[each.from]
		}
	}
}

// addresses is a Secret for applications in the making.
type addresses struct {
	*corev1.Secret
	// bound says for each key that was written here for which cache that was, with no name for the database itself; keys
	// is the same for those that stay.
	bound, keys map[string]string
}

// bind writes one key, if it is ours to write.
func (e addresses) bind(key, from string, cache service.Cache) {
	_, exists := e.Data[key]
	before, ours := e.bound[key]
	switch {
	case exists && !ours:
		// Somebody else has written it.
	case cache.Secret != nil && len(cache.Secret.Data[from]) > 0:
		e.Data[key], e.keys[key] = cache.Secret.Data[from], cache.Name
	case exists && before == cache.Name:
		e.keys[key] = cache.Name
	}
}

// first is the cache that is meant when none is named: the one that was before, or the oldest.
func first(caches []service.Cache, before string) string {
	var oldest service.Cache
	for i, cache := range caches {
		if cache.Name == before {
			return before
		}
		if i == 0 || cache.Created.Before(oldest.Created) {
			oldest = cache
		}
	}
	return oldest.Name
}

func boundKeys(secret *corev1.Secret) map[string]string {
	bound := map[string]string{}
	if json.Unmarshal([]byte(secret.Annotations[database.AnnotationBound]), &bound) != nil {
		return nil // Nothing is ours then: nothing is changed or taken away.
	}
	return bound
}

func writeBoundKeys(secret *corev1.Secret, keys map[string]string) {
	if len(keys) == 0 {
		delete(secret.Annotations, database.AnnotationBound)
		return
	}
	// The names of a map are sorted in JSON.
	text, err := json.Marshal(keys)
	if err != nil {
		return // Two words are always JSON.
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[database.AnnotationBound] = string(text)
}

// KeyChanges says in which keys two versions of a Secret differ, without a value: +KEY, -KEY and ~KEY, sorted by key.
func KeyChanges(before, after *corev1.Secret) []string {
	all := map[string]bool{}
	for _, secret := range []*corev1.Secret{before, after} {
		for key := range secret.Data {
			all[key] = true
		}
	}
	var changes []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, had := before.Data[key]
		is, has := after.Data[key]
		switch {
		case !had:
			changes = append(changes, "+"+key)
		case !has:
			changes = append(changes, "-"+key)
		case !bytes.Equal(was, is):
			changes = append(changes, "~"+key)
		}
	}
	return changes
}
