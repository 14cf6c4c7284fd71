package operator

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	databaseloop "meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/internal/database/observe"
	figures "meridian.dev/meridian/internal/metrics"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
)

// scope is one namespace, or all of them, with a cache and loops of its own. A cache over several namespaces could not
// say how far it has come in each.
type scope struct {
	// namespace is empty for all.
	namespace string
	options   Options
	metrics   *loop.Metrics
	// observer counts writes.
	observer *figures.Observer
	// leads asks whether this process is still the one that acts, nil if there is no other.
	leads func(context.Context) error
	// fleet is what the databases of all scopes leave to each other.
	fleet *observe.Fleet
	// crowd is what the restores on trial of all scopes share.
	crowd *observe.Crowd
}

// scopes returns one for each namespace that the operator works in.
func (o Options) scopes(metrics *loop.Metrics) []scope {
	fleet := &observe.Fleet{Most: o.Rolls, Failures: o.RollFailures, Namespaces: o.Namespaces}
	crowd := &observe.Crowd{Most: o.Trials}
	if len(o.Namespaces) == 0 {
		return []scope{{options: o, metrics: metrics, fleet: fleet, crowd: crowd}}
	}
	var list []scope
	for _, namespace := range o.Namespaces {
		list = append(list, scope{namespace: namespace, options: o, metrics: metrics, fleet: fleet, crowd: crowd})
	}
	return list
}

// name is that of the controller of databases.
func (s scope) name() string { return s.named("geodatabase") }

// named tells the controllers of several namespaces apart.
func (s scope) named(kind string) string {
	if s.namespace == "" {
		return kind
	}
	return kind + "-" + s.namespace
}

// add puts the cache and the loops of the scope into the manager.
func (s scope) add(ctx context.Context, into manager.Manager) error {
	part, err := cluster.New(into.GetConfig(), func(options *cluster.Options) {
		options.Scheme = into.GetScheme()
		if s.namespace != "" {
			options.Cache.DefaultNamespaces = map[string]cache.Config{s.namespace: {}}
		}
		// Without this, the first Get of a Secret would list and keep all of them.
		options.Cache.ByObject = databaseloop.Selected()
		options.Cache.NewInformer = newInformer
		options.Client.Cache = &client.CacheOptions{DisableFor: databaseloop.Live()}
	})
	if err != nil {
		return fmt.Errorf("make the cache of %s: %w", s.name(), err)
	}
	if err := into.Add(part); err != nil {
		return fmt.Errorf("add the cache of %s: %w", s.name(), err)
	}
	for _, engine := range engines {
		if err := engine.add(s, ctx, into, part); err != nil {
			return err
		}
	}
	return nil
}

func databaseImages(o *Options, flags *pflag.FlagSet) {
	flags.StringVar(&o.Images.Server, "server-image", o.Images.Server,
		"image with PostgreSQL and PostGIS, without its tag, which is the major version")
}

// addDatabases puts the loop of databases into the manager.
func (s scope) addDatabases(ctx context.Context, into manager.Manager, part cluster.Cluster) error {
	tracker, err := s.track(ctx, part)
	if err != nil {
		return err
	}
	named := prometheus.WrapRegistererWith(prometheus.Labels{"scope": s.name()}, metrics.Registry)
	for _, collector := range []prometheus.Collector{tracker, figures.Resources(part.GetClient())} {
		if err := named.Register(collector); err != nil {
			return fmt.Errorf("register the metrics of %s: %w", s.name(), err)
		}
	}
	pulse := &service.Pulse{Label: database.LabelDatabase}
	reconciler, err := s.loop(part, tracker, pulse)
	if err != nil {
		return fmt.Errorf("put the loop of %s together: %w", s.name(), err)
	}
	watcher, err := controller.New(s.name(), into, controller.Options{
		Reconciler: reconciler, MaxConcurrentReconciles: s.options.Workers, ReconciliationTimeout: passTimeout,
	})
	if err != nil {
		return fmt.Errorf("make the controller %s: %w", s.name(), err)
	}
	if err := databaseloop.Watch(watcher, part.GetCache(), pulse); err != nil {
		return fmt.Errorf("watch for %s: %w", s.name(), err)
	}
	return nil
}

// track remembers own writes. A process that gains the leadership starts with an empty memory, and one that loses it
// ends, so that every database is read live once by whoever acts.
func (s scope) track(ctx context.Context, part cluster.Cluster) (*expect.Tracker, error) {
	caches := expect.NewCaches(part.GetScheme())
	if err := caches.Watch(ctx, part.GetCache(), s.namespace, databaseloop.Cached()...); err != nil {
		return nil, fmt.Errorf("watch own writes: %w", err)
	}
	if err := caches.ReadLive(databaseloop.Live()...); err != nil {
		return nil, fmt.Errorf("watch own writes: %w", err)
	}
	return expect.New(caches, part.GetScheme(), expect.Options{}), nil
}

func (s scope) loop(part cluster.Cluster, tracker *expect.Tracker, pulse *service.Pulse) (*databaseloop.Loop, error) {
	images := s.options.Images
	images.Place = s.options.Place
	author, refusals, counted := authorOf(part.GetScheme()), &observe.Refusals{}, s.observer.Client(part.GetClient())
	return databaseloop.New(loop.Config{
		Name: s.name(), Client: counted, Live: part.GetAPIReader(), Tracker: tracker,
		Leads: s.leads, Events: part.GetEventRecorder(Name), Metrics: s.metrics,
	}, observe.Observer{
		Live: part.GetAPIReader(), Author: author, Images: images, Now: time.Now, Ask: observe.AskAgent,
		Installation: s.options.Home + "/" + Name, LostAfter: s.options.LostAfter, Pulse: pulse, Refusals: refusals,
		Fleet: s.fleet, Crowd: s.crowd, AskTime: service.AskTimeThrough(part.GetClient()),
		TryWrite: service.TryWriteThrough(part.GetClient(), part.GetAPIReader()),
		Try:      observe.TryPod(part.GetClient()), TryResize: observe.TryResize(part.GetClient()),
	}, act.Actor{
		Client: counted, Live: part.GetAPIReader(), Author: author, Random: rand.Reader, Now: time.Now,
		Tell: act.TellAgent, Refused: refusals.Note, Begin: s.fleet.Begin, Try: s.crowd.Begin,
	}, func(gone types.NamespacedName) {
		refusals.Forget(gone)
		s.fleet.Forget(gone)
		s.crowd.Forget(gone)
	})
}

// authorOf is the name under which all children are written, for good.
func authorOf(scheme *runtime.Scheme) apply.Author {
	return apply.Author{Scheme: scheme, Prefix: database.AnnotationPrefix, Manager: database.FieldManager}
}
