package operated

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/act"
	"meridian.dev/meridian/internal/cache/controller"
	"meridian.dev/meridian/internal/cache/observe"
	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	store "meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/caches"
	"meridian.dev/meridian/test/sim/law"
)

// geocache is what only a cache has.
type geocache struct {
	*Cluster
	attended time.Duration // When a user last did what the status asks for.
}

// world is the database of the cache. It is there by name only.
var world = client.ObjectKey{Namespace: name.Namespace, Name: "world"}

func (g *geocache) names() names {
	return names{
		program: "cache operator", label: cache.LabelCache, kind: v1alpha1.GroupVersion.WithKind("GeoCache"),
		cached: controller.Cached(), lease: cache.LeaseName(name.Name), write: cache.WriteName(name.Name),
		settings: cache.SettingsName(name.Name), grace: 30 * time.Second,
	}
}

func (g *geocache) made() []client.Object {
	memory := resource.MustParse("64Mi")
	return []client.Object{
		&v1alpha1.GeoDatabase{
			ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: world.Name},
			Spec:       v1alpha1.GeoDatabaseSpec{Instances: 1, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}},
		},
		&v1alpha1.GeoCache{
			ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
			Spec: v1alpha1.GeoCacheSpec{
				DatabaseRef: v1alpha1.DatabaseRef{Name: world.Name}, Replicas: int32(g.Case.Instances), Memory: &memory,
				FollowDatabase: g.Case.Seed%2 == 1,
			},
		},
	}
}

func (g *geocache) seen() *seen {
	var found v1alpha1.GeoCache
	var of v1alpha1.GeoDatabase
	if g.get(name.Name, &found) != nil {
		return nil
	}
	g.must(g.get(world.Name, &of))
	seen := &seen{
		Object: &found, conditions: found.Status.Conditions, observed: found.Status.ObservedGeneration,
		count: int(found.Spec.Replicas), image: found.Spec.Image, primary: found.Status.Primary,
		asleep: found.Spec.FollowDatabase && of.Spec.Hibernated,
	}
	if !seen.asleep { // One that sleeps has nothing, and is emptied when it wakes.
		seen.asks = found.Annotations[cache.AnnotationFlush]
	}
	return seen
}

func (g *geocache) edit(object client.Object, fault sim.Fault) bool {
	o, _ := object.(*v1alpha1.GeoCache)
	switch fault.Kind {
	case sim.FaultWish:
		o.Spec.Replicas = int32(fault.Wish)
	case sim.FaultFlush:
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, cache.AnnotationFlush, g.Identity("flush-"))
	case FaultParameter:
		o.Spec.Parameters = map[string]v1alpha1.Setting{"hz": v1alpha1.Setting(fmt.Sprint(10 + fault.Wish))}
	case FaultImage:
		o.Spec.Image = fmt.Sprintf("redis:8.%d", fault.Wish)
	case FaultRestart:
		o.Spec.PodTemplate = &v1alpha1.PodTemplate{Metadata: &v1alpha1.PodMetadata{
			Annotations: map[string]string{"example.com/restart": g.Identity("token-")},
		}}
	case FaultMemory:
		memory := resource.MustParse(fmt.Sprintf("%dMi", 64*fault.Wish))
		o.Spec.Memory = &memory
	case FaultHibernate, FaultWake:
		var of v1alpha1.GeoDatabase
		g.must(g.get(world.Name, &of))
		of.Spec.Hibernated = fault.Kind == FaultHibernate
		g.must(g.cluster.Update(g.ctx, &of))
		o.Spec.FollowDatabase = true
	default:
		return false
	}
	return true
}

func (g *geocache) loop(o *operator, p parts) (reconcile.Reconciler, error) {
	ask := asking(g.Cluster, g.report, wire.DecodeCacheReport)
	if g.flaw.ToldOfCache != nil {
		ask = g.flaw.ToldOfCache(ask)
	}
	live, now := p.config.Live, p.config.Now
	return controller.New(p.config, observe.Observer{
		Live: live, Author: p.author, Now: now, Pulse: p.pulse, Ask: ask,
		Images: cache.Images{Agent: "meridian:1", Redis: "redis:8", Valkey: "valkey:8"},
	}, act.Actor{
		Client: p.config.Client, Live: live, Author: p.author, Random: rand.Reader, Now: now,
		Flush: func(_ context.Context, agent service.Agent, request wire.Flush) error {
			who, err := o.reach(agent)
			if err == nil {
				g.AskFlush(who, request.ID)
			}
			return err
		},
	}, nil)
}

// report is that of an instance, with the certificate as the operator knows it.
func (g *geocache) report(who int) (wire.CacheReport, bool) {
	report, ok := g.ReportCache(who)
	report.Certificate = g.identity(report.Certificate)
	return report, ok
}

// settingsOf are stored settings, also in the words of the lease.
func (g *geocache) settingsOf(stored *corev1.ConfigMap) (wire.CacheSettings, wire.Settings) {
	settings, err := wire.DecodeCacheSettings([]byte(stored.Data[wire.KeySettings]))
	g.must(err)
	return settings, wire.Settings{
		DatabaseUID: settings.CacheUID, LeaseUID: settings.LeaseUID, Instances: settings.Instances,
		LeaseMilliseconds: settings.LeaseMilliseconds, Durability: string(tenure.Async),
	}
}

func (g *geocache) publish(stored *corev1.ConfigMap) {
	_, wish := g.settingsOf(stored)
	g.Wish(wish)
}

func (g *geocache) mount(who int, object *corev1.Pod) {
	var app, leaf corev1.Secret
	var stored corev1.ConfigMap
	for of, into := range map[string]client.Object{
		cache.AppSecretName(name.Name): &app, cache.LeafName(name.Name): &leaf, g.Cluster.names.settings: &stored,
	} {
		if g.get(of, into) != nil {
			return // The volumes of a pod stay as they are.
		}
	}
	settings, wish := g.settingsOf(&stored)
	given := caches.Mounted{
		Settings: settings, Certificate: g.pods[who].certificate, Passwords: redis.Passwords{
			Present: string(app.Data[wire.KeyPassword]), Own: string(leaf.Data[wire.KeyReplicationPassword]),
		},
	}
	for _, status := range object.Status.ContainerStatuses {
		if status.Name == cache.ContainerCache && status.Resources != nil {
			given.Limit = status.Resources.Limits.Memory().Value()
		}
	}
	g.MountCache(who, given, wish)
}

func (g *geocache) follows(who int) bool {
	report, _ := g.ReportCache(who)
	return report.Streams
}

// lacks goes by the spec: a server keeps what that says, in a container of just the right size.
func (g *geocache) lacks(who int, pod *corev1.Pod) string {
	report, _ := g.ReportCache(who)
	var found v1alpha1.GeoCache
	g.must(g.get(name.Name, &found))
	wanted := found.Spec.Memory.Value()
	for _, status := range pod.Status.ContainerStatuses {
		if limit := status.Resources.Limits.Memory().Value(); limit != wire.CacheLimit(wanted) {
			return fmt.Sprintf("a container for %d bytes, and not of %d", wanted, limit)
		}
	}
	if kept := report.Memory.Allowed; kept != wanted || found.Status.Memory == nil || found.Status.Memory.Value() != kept {
		return fmt.Sprintf("room for %d bytes: it has %d, and the status says %s", wanted, kept, found.Status.Memory)
	}
	return strings.Join(report.PendingRestart, ", ")
}

// attend deletes the pods of a cache whose lease is lost, and the only pod of one that waits for a restart: the status
// asks for it.
func (g *geocache) attend() {
	if !g.Calm() || g.Now()-g.attended < time.Minute {
		return
	}
	object := g.seen()
	if object == nil || !slices.ContainsFunc(object.conditions, func(told metav1.Condition) bool {
		return told.Status == metav1.ConditionTrue && (told.Reason == "LeaseLost" || told.Reason == "RestartPending")
	}) {
		return
	}
	g.attended = g.Now()
	g.Note(-1, "a user deletes the pods of the cache")
	for who := range g.pods {
		g.deletePod(who)
	}
	g.show()
}

func (g *geocache) weigh(call store.Call) {
	g.ask(law.TakeNoCopy, call, g.takesNoCopy)
	g.ask(law.LeaseOnce, call, g.makesLeaseOnce)
}

// takesNoCopy has the operator remove no instance that the agents have counted on for a while: before, it could not
// know.
func (g *geocache) takesNoCopy(call store.Call) error {
	who, takes := g.takes(call, "StatefulSet")
	record, since := g.Stored(), g.counted[who]
	known := since > 0 && g.Now()-since > lately
	if takes && known && record != nil && record.Has(g.member(who)) {
		return fmt.Errorf("the lease has counted on %s for %s", g.member(who), g.Now()-since)
	}
	return nil
}

// makesLeaseOnce has the operator make no lease in the place of one that an instance knows of.
func (g *geocache) makesLeaseOnce(call store.Call) error {
	if call.Verb != store.Create || call.Kind.Kind != "Lease" || g.Cluster.lease().UID != "" {
		return nil
	}
	for who := range g.pods {
		if report, _ := g.ReportCache(who); report.Term > 0 {
			return fmt.Errorf("%s has obeyed the one of term %d", instanceName(who), report.Term)
		}
	}
	return nil
}
