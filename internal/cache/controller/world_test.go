package controller_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/act"
	"meridian.dev/meridian/internal/cache/controller"
	"meridian.dev/meridian/internal/cache/observe"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
	"meridian.dev/meridian/kit/sim"
)

const space = "gis"

var (
	key     = client.ObjectKey{Namespace: space, Name: "tiles"}
	secrets = corev1.SchemeGroupVersion.WithKind("Secret")
)

// world is an API server in memory with the loop on it. The test plays the controllers that are missing: it makes the
// pod, carries out the resize, and answers for the agent.
type world struct {
	t      *testing.T
	kinds  *runtime.Scheme
	clock  sim.Clock
	server *sim.Server
	admin  client.Client
	// operator is the life of the operator at present, nil after a crash.
	operator *sim.Process
	loop     *controller.Loop
	// hook decides about the writes of the operator; lag keeps its caches in the past.
	hook sim.Hook
	lag  bool
	// past is how far a new life starts in the past.
	past   uint64
	mounts *int64 // The rotation that the kubelet goes on mounting, nil for that which is stored.
	silent string // An instance that does not say what it presents.
	// holes is memory that the server does not give back.
	holes int64
	// term is what the agents have come to, and flushed the last request that they have carried out.
	term    int64
	flushed string
	writes  int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log.SetLogger(logr.Discard())
	w := &world{t: t, kinds: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		must(t, add(w.kinds))
	}
	kinds, err := kindsOnce()
	must(t, err)
	w.server, err = sim.New(sim.Options{Scheme: w.kinds, Kinds: kinds, Now: w.clock.Now})
	must(t, err)
	outside, err := w.server.Start(sim.Life{Name: "outside"})
	must(t, err)
	w.admin = outside.Live()
	database := &v1alpha1.GeoDatabase{Spec: v1alpha1.GeoDatabaseSpec{
		Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")},
	}}
	database.Namespace, database.Name = space, "cities"
	must(t, w.admin.Create(t.Context(), database))
	return w
}

// kindsOnce compiles the schemas, which takes longer than most stories.
var kindsOnce = sync.OnceValues(func() ([]sim.Kind, error) {
	var kinds []sim.Kind
	for _, name := range []string{"geocaches", "geodatabases"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "crds", "meridian.dev_"+name+".yaml"))
		if err != nil {
			return nil, err
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &definition); err != nil {
			return nil, err
		}
		kind, err := sim.FromDefinition(&definition, "v1alpha1")
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	for _, kind := range sim.BuiltIn() {
		if kind.GroupVersionKind.Kind == "Pod" {
			// The simulated server has no subresource for a resize, so the resources of a pod may be changed as they are.
			kind.Check = nil
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
})

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rendered is shared by all worlds, which want the same again and again.
var rendered = apply.NewMemo(4096)

// start begins a life of the operator, with empty memory and caches that may stand in the past.
func (w *world) start() {
	w.t.Helper()
	at := w.server.Version()
	if at > w.past {
		at -= w.past
	}
	process, err := w.server.Start(sim.Life{
		Name: "operator", Hook: w.decide, Cache: sim.CacheOptions{Uncached: []schema.GroupVersionKind{secrets}, At: at},
	})
	must(w.t, err)
	writer := resizer{process.Client()}
	author := apply.Author{
		Scheme: w.kinds, Prefix: cache.AnnotationPrefix, Manager: cache.FieldManager, Memo: rendered,
	}
	w.operator = process
	w.loop, err = controller.New(loop.Config{
		Name: "test", Client: writer, Live: process.Live(), Now: w.clock.Now,
		Tracker: expect.New(process.Cache(), w.kinds, expect.Options{Now: w.clock.Now}),
	}, observe.Observer{
		Live: process.Live(), Author: author, Now: w.clock.Now, Ask: w.ask,
		Images: cache.Images{Agent: "meridian:1", Redis: "redis:8", Valkey: "valkey:8"},
	}, act.Actor{Client: writer, Live: process.Live(), Author: author, Random: rand.Reader, Now: w.clock.Now,
		Flush: w.flush}, nil)
	must(w.t, err)
}

func (w *world) decide(call sim.Call) sim.Verdict {
	if !call.Verb.Writes() {
		return sim.Done
	}
	w.writes++
	if w.hook != nil {
		return w.hook(call)
	}
	return sim.Done
}

// resizer sends a resize as an ordinary patch.
type resizer struct{ client.Client }

func (r resizer) SubResource(name string) client.SubResourceClient {
	return resizeOnly{r.Client.SubResource(name), r.Client, name}
}

type resizeOnly struct {
	client.SubResourceClient
	whole client.Client
	name  string
}

func (r resizeOnly) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
) error {
	if r.name == "resize" {
		return r.whole.Patch(ctx, object, patch)
	}
	return r.SubResourceClient.Patch(ctx, object, patch, options...)
}

// pass lets a second go by and runs one pass, in a new life if the last one is over. What goes wrong in it is part of
// life: the next pass goes on.
func (w *world) pass() {
	w.t.Helper()
	w.clock.Advance(time.Second)
	if w.operator == nil || w.operator.Crashed() {
		w.start()
	}
	if !w.lag {
		w.operator.Cache().CatchUp()
	}
	_, err := w.loop.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
	if err != nil && errors.Is(err, reconcile.TerminalError(nil)) {
		w.t.Fatalf("the pass gives up: %v", err)
	}
}

// settle plays the world and runs passes until something is so.
func (w *world) settle(what string, done func() bool) {
	w.t.Helper()
	for range 200 {
		w.play()
		w.pass()
		if done() {
			return
		}
	}
	w.t.Fatalf("%s: not within 200 passes; status %+v", what, w.cache().Status)
}

func (w *world) get(name string, into client.Object) bool {
	w.t.Helper()
	err := w.admin.Get(context.Background(), client.ObjectKey{Namespace: space, Name: name}, into)
	must(w.t, client.IgnoreNotFound(err))
	return err == nil
}

func (w *world) cache() *v1alpha1.GeoCache {
	found := &v1alpha1.GeoCache{}
	w.get(key.Name, found)
	return found
}

func (w *world) create(memory string) {
	w.t.Helper()
	size := resource.MustParse(memory)
	made := &v1alpha1.GeoCache{Spec: v1alpha1.GeoCacheSpec{
		DatabaseRef: v1alpha1.DatabaseRef{Name: "cities"}, Replicas: 1, Memory: &size,
	}}
	made.Namespace, made.Name = key.Namespace, key.Name
	must(w.t, w.admin.Create(context.Background(), made))
}

func (w *world) change(change func(*v1alpha1.GeoCacheSpec)) {
	w.t.Helper()
	object := w.cache()
	change(&object.Spec)
	must(w.t, w.admin.Update(context.Background(), object))
}

func (w *world) remember(memory string) {
	w.t.Helper()
	w.change(func(spec *v1alpha1.GeoCacheSpec) { size := resource.MustParse(memory); spec.Memory = &size })
}

// ready says that the cache is as wished with so much memory.
func (w *world) ready(memory string) func() bool {
	return func() bool {
		object, wanted := w.cache(), resource.MustParse(memory)
		return condition.IsTrue(object.Status.Conditions, condition.Ready) &&
			object.Status.ObservedGeneration == object.Generation &&
			object.Status.Memory != nil && object.Status.Memory.Cmp(wanted) == 0
	}
}

// play takes one step of the controllers that are not simulated: StatefulSets, kubelets, and agents that agree on the
// first instance that runs.
func (w *world) play() {
	w.t.Helper()
	var sets appsv1.StatefulSetList
	must(w.t, w.admin.List(context.Background(), &sets, client.InNamespace(space)))
	running := map[string]bool{}
	for i := range sets.Items {
		if sets.Items[i].DeletionTimestamp != nil {
			for w.server.Collect() {
			}
			continue
		}
		if w.playSet(&sets.Items[i]) {
			running[sets.Items[i].Name] = true
		}
	}
	var pods corev1.PodList
	must(w.t, w.admin.List(context.Background(), &pods, client.InNamespace(space)))
	for i := range pods.Items {
		if owner := metav1.GetControllerOf(&pods.Items[i]); !w.get(owner.Name, &appsv1.StatefulSet{}) {
			must(w.t, w.admin.Delete(context.Background(), &pods.Items[i]))
		}
	}
	w.agree(running)
}

// playSet makes the pod of a set and carries out its size. It reports whether the server runs.
func (w *world) playSet(set *appsv1.StatefulSet) bool {
	ctx, name := context.Background(), set.Name+"-0"
	if set.Status.ObservedGeneration != set.Generation {
		set.Status.ObservedGeneration = set.Generation
		must(w.t, w.admin.Status().Update(ctx, set))
	}
	pod := &corev1.Pod{}
	if !w.get(name, pod) {
		yes := true
		made := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
		made.Namespace, made.Name = space, name
		made.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: &yes,
		}}
		must(w.t, w.admin.Create(ctx, made))
		return false
	}
	credentials := w.get("tiles", &corev1.Secret{}) && w.get("tiles-tls", &corev1.Secret{})
	if !credentials || !w.get("tiles-settings", &corev1.ConfigMap{}) {
		return false // Its volumes cannot be mounted.
	}
	limits := pod.Spec.Containers[0].Resources
	wanted := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: addressOf(set.Name),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "cache", Resources: &limits, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}},
	}
	if len(pod.Status.ContainerStatuses) == 0 ||
		pod.Status.ContainerStatuses[0].Resources.Limits.Memory().Cmp(*limits.Limits.Memory()) != 0 {
		pod.Status = wanted
		must(w.t, w.admin.Status().Update(ctx, pod))
	}
	return true
}

func addressOf(instance string) string { return "10.0.0." + strings.TrimPrefix(instance, "tiles-") }

// agree plays the agents: whoever holds the lease stays, as long as it runs; those that are wanted and run are members;
// the write address leads to the holder.
func (w *world) agree(running map[string]bool) {
	ctx, lease, slice := context.Background(), &coordinationv1.Lease{}, &discoveryv1.EndpointSlice{}
	service := &corev1.Service{}
	if w.get("tiles", service) && len(service.Spec.IPFamilies) == 0 {
		service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		must(w.t, w.admin.Update(ctx, service))
	}
	settings, told := w.settings()
	if !told || !w.get("tiles-primary", lease) || !w.get("tiles", slice) || settings.LeaseUID != string(lease.UID) {
		return
	}
	record := wire.LeaseRecord{DatabaseUID: settings.CacheUID, W: 1, Timeline: 1, Initialised: true, SystemIdentifier: "i"}
	for _, name := range settings.Instances {
		if running[name] {
			record.Members = append(record.Members, wire.Member{Name: name, Incarnation: "i"})
		}
	}
	holder := w.holder()
	if !running[holder] && len(record.Members) > 0 {
		holder, w.term = record.Members[0].Name, w.term+1
	}
	if holder == "" || len(record.Members) == 0 {
		return
	}
	record.Term = w.term
	document, err := record.Encode()
	must(w.t, err)
	if lease.Annotations[wire.AnnotationRecord] == document && len(slice.Endpoints) > 0 {
		return
	}
	identity, term := holder+"/i", int32(w.term)
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &identity, &term
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, wire.AnnotationRecord, document)
	must(w.t, w.admin.Update(ctx, lease))
	metav1.SetMetaDataAnnotation(&slice.ObjectMeta, wire.AnnotationTerm, strconv.FormatInt(w.term, 10))
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{addressOf(holder)}}}
	must(w.t, w.admin.Update(ctx, slice))
}

func (w *world) settings() (wire.CacheSettings, bool) {
	var stored corev1.ConfigMap
	if !w.get("tiles-settings", &stored) {
		return wire.CacheSettings{}, false
	}
	settings, err := wire.DecodeCacheSettings([]byte(stored.Data[wire.KeySettings]))
	must(w.t, err)
	return settings, true
}

func (w *world) holder() string {
	var lease coordinationv1.Lease
	if !w.get("tiles-primary", &lease) || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return wire.ParseMember(*lease.Spec.HolderIdentity).Name
}

// ask plays an agent: the server keeps what is wanted, as far as its container can carry it, and takes a little more.
// A container that is smaller than that would be killed.
func (w *world) ask(_ context.Context, agent service.Agent) (wire.CacheReport, error) {
	instance := "tiles-" + strings.TrimPrefix(agent.Address, "10.0.0.")
	var pod corev1.Pod
	settings, told := w.settings()
	if !told || !w.get(instance+"-0", &pod) || len(pod.Status.ContainerStatuses) == 0 {
		return wire.CacheReport{}, errors.New("connection refused")
	}
	limit := pod.Status.ContainerStatuses[0].Resources.Limits.Memory().Value()
	allowed := min(settings.Memory, wire.CacheCapacity(limit))
	resident := allowed + 20<<20 + w.holes
	if resident > limit {
		w.t.Errorf("the server takes %d in a container of %d: it is killed", resident, limit)
	}
	report := wire.CacheReport{
		Version: 1, CacheUID: settings.CacheUID, Instance: instance, Incarnation: "i1", State: wire.StateRunning,
		Role: wire.RoleReplica, Streams: true, Serving: true, ServerVersion: "8.0.2", Flushed: w.flushed,
		Memory: wire.CacheMemory{Allowed: allowed, Resident: resident, Limit: limit},
	}
	var mounted corev1.Secret
	if w.get("tiles-tls", &mounted) {
		report.ReplicationPassword = len(mounted.Data[wire.KeyReplicationPassword]) > 0
		report.Rotation, _ = strconv.ParseInt(string(mounted.Data[wire.KeyNextRotation]), 10, 64)
		if w.mounts != nil {
			report.Rotation = *w.mounts
		}
		if data := mounted.Data; instance != w.silent {
			report.Certificate = wire.CertificateIdentity(data["tls.crt"], data["tls.key"], data["ca.crt"])
		}
	}
	if instance == w.holder() {
		report.Role, report.Streams = wire.RolePrimary, false
	}
	if allowed == settings.Memory {
		report.SettingsHash = settings.Hash()
	}
	return report, nil
}

// flush plays the agent that is asked to empty the cache.
func (w *world) flush(_ context.Context, agent service.Agent, request wire.Flush) error {
	if agent.Address != addressOf(w.holder()) {
		w.t.Errorf("%s is asked to empty the cache, and %s leads", agent.Address, w.holder())
	}
	w.flushed = request.ID
	return nil
}
