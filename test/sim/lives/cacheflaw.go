package lives

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// cacheFlaws are mistakes that are made with caches, and with databases that have some.
func cacheFlaws() []Flaw {
	return []Flaw{
		{Name: "nobody looks whether a cache follows", Lives: []string{"a cache ends with its database"},
			Parts: sees(func(object *v1alpha1.GeoCache) { object.Spec.FollowDatabase = false })},
		{Name: "every cache follows its database", Lives: []string{"a cache goes on without its database"},
			Parts: sees(func(object *v1alpha1.GeoCache) { object.Spec.FollowDatabase = true })},
		{Name: "only the garbage collector ends a cache", Lives: []string{"a cache ends with its database"},
			Parts: writes(func(s *sloppy) {
				s.remove = func(ctx context.Context, object client.Object, o ...client.DeleteOption) error {
					if _, self := object.(*v1alpha1.GeoCache); self {
						return nil
					}
					return s.Client.Delete(ctx, object, o...)
				}
			})},
		{Name: "hibernation is not read", Lives: []string{"a cache hibernates"},
			Parts: sees(func(object *v1alpha1.GeoDatabase) { object.Spec.Hibernated = false })},
		{Name: "a lost lease is made again at once", Lives: []string{"the lease of a cache is lost"},
			Parts: sees(forgetsTheLease)},
		{Name: "a lost lease is never made again", Lives: []string{"the lease of a cache is lost, and then its pod"},
			Parts: writes(func(s *sloppy) {
				s.create = func(ctx context.Context, object client.Object, o ...client.CreateOption) error {
					if object.GetName() == cache.LeaseName(Tiles.Name) {
						return nil
					}
					return s.Client.Create(ctx, object, o...)
				}
			})},
		{Name: "the keys of a cache outlive it", Lives: []string{"a cache comes and goes"},
			Parts: sees(func(secret *corev1.Secret) { delete(secret.Annotations, database.AnnotationBound) })},
		{Name: "a second cache takes the place of the first", Lives: []string{"a cache comes, and a second one"},
			Parts: sees(func(object *v1alpha1.GeoCache) {
				if object.Name == "tiles" {
					object.Spec.DatabaseRef.Name = "another"
				}
			})},
		{Name: "a cache that is made again keeps its first password", Lives: []string{
			"a cache is made again with another password"},
			Parts: sees(func(secret *corev1.Secret) {
				if uri, found := secret.Data[wire.KeyURI]; found && string(uri) == "third" {
					secret.Data[wire.KeyURI] = []byte("first")
				}
			})},
		{Name: "the Secret for applications is written as a whole", Lives: []string{"a cache comes"},
			Blind: []string{"L1", "L2"}, Parts: writes(func(s *sloppy) {
				s.patch = func(ctx context.Context, object client.Object, p client.Patch, o ...client.PatchOption) error {
					secret, ok := object.(*corev1.Secret)
					if !ok || secret.Name != database.BindingName(Cities.Name) {
						return s.Client.Patch(ctx, object, p, o...)
					}
					secret.Data[wire.KeyURI] = []byte("with a new password")
					return s.Client.Update(ctx, secret)
				}
			})},
	}
}

// forgetsTheLease reads settings that name no lease.
func forgetsTheLease(stored *corev1.ConfigMap) {
	if stored.Name != cache.SettingsName(Tiles.Name) {
		return
	}
	settings, err := wire.DecodeCacheSettings([]byte(stored.Data[wire.KeySettings]))
	if err != nil {
		return
	}
	settings.LeaseUID = ""
	if text, err := settings.Encode(); err == nil {
		stored.Data[wire.KeySettings] = string(text)
	}
}
