package operator

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/act"
	cacheloop "meridian.dev/meridian/internal/cache/controller"
	"meridian.dev/meridian/internal/cache/observe"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
)

func cacheImages(o *Options, flags *pflag.FlagSet) {
	flags.StringVar(&o.CacheImages.Redis, "redis-image", o.CacheImages.Redis, "image with Redis")
	flags.StringVar(&o.CacheImages.Valkey, "valkey-image", o.CacheImages.Valkey, "image with Valkey")
}

// addCaches puts the loop of caches into the manager, over the same store of objects as that of databases and with a
// memory of its own writes.
func (s scope) addCaches(ctx context.Context, into manager.Manager, part cluster.Cluster) error {
	name := s.named("geocache")
	seen := expect.NewCaches(part.GetScheme())
	if err := seen.Watch(ctx, part.GetCache(), s.namespace, cacheloop.Cached()...); err != nil {
		return fmt.Errorf("watch own writes of %s: %w", name, err)
	}
	if err := seen.ReadLive(cacheloop.Live()...); err != nil {
		return fmt.Errorf("watch own writes of %s: %w", name, err)
	}
	tracker := expect.New(seen, part.GetScheme(), expect.Options{})
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"scope": name}, metrics.Registry)
	if err := labelled.Register(tracker); err != nil {
		return fmt.Errorf("register the metrics of %s: %w", name, err)
	}
	images := s.options.CacheImages
	images.Agent, images.Place = s.options.Images.Agent, s.options.Place
	pulse := &service.Pulse{Label: cache.LabelCache}
	author, counted := authorOf(part.GetScheme()), s.observer.Client(part.GetClient())
	reconciler, err := cacheloop.New(loop.Config{
		Name: name, Client: counted, Live: part.GetAPIReader(), Tracker: tracker,
		Leads: s.leads, Events: part.GetEventRecorder(Name), Metrics: s.metrics,
	}, observe.Observer{
		Live: part.GetAPIReader(), Author: author, Images: images, Now: time.Now, Ask: observe.AskAgent,
		AskTime: service.AskTimeThrough(part.GetClient()), Pulse: pulse,
		TryWrite: service.TryWriteThrough(part.GetClient(), part.GetAPIReader()),
	}, act.Actor{
		Client: counted, Live: part.GetAPIReader(), Author: author, Random: rand.Reader, Now: time.Now,
		Flush: act.FlushAgent,
	}, func(types.NamespacedName) {})
	if err != nil {
		return fmt.Errorf("put the loop of %s together: %w", name, err)
	}
	watcher, err := controller.New(name, into, controller.Options{
		Reconciler: reconciler, MaxConcurrentReconciles: s.options.Workers, ReconciliationTimeout: passTimeout,
	})
	if err != nil {
		return fmt.Errorf("make the controller %s: %w", name, err)
	}
	return cacheloop.Watch(watcher, part.GetCache(), pulse)
}
