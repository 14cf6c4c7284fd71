//go:build cluster

package controller_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	"meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
	"meridian.dev/meridian/kit/rbac"
	"meridian.dev/meridian/test/apiserver"
)

const (
	space   = "gis"
	home    = "meridian-system"
	account = "meridian-operator"
)

var key = client.ObjectKey{Namespace: space, Name: "cities"}

// world is a real API server with the loop on it, under the rights of the table and no others. The test plays the
// controllers that are missing: it makes the pod, binds the claim, and answers for the agent.
type world struct {
	t      *testing.T
	client client.Client // an administrator's
	loop   *controller.Loop
	// another starts a second loop with caches and memory of its own, as a second process has.
	another func() *controller.Loop
	rights  rbac.Recorder
	// lag makes the caches late.
	lag apiserver.Lag
	// leads is what a loop hears when it asks whether it still leads; nil if it does.
	leads func() error
	// reader is the cache of the loop that was started last.
	reader client.Reader
	lock   sync.Mutex
	writes atomic.Int64
	// fail is asked about every write: what it returns is done to it. Reads is told of every read before it is made.
	fail  func() verdict
	reads func(path string)
	// reports are what the agents say, by the address of their pod; told is what the holder was asked to hand over for.
	reports map[string]wire.Report
	told    []wire.Switchover
	refusal string
	// later is how far the clock of the loop is ahead.
	later time.Duration
	// compares has the loop compare its clock with that of the API server.
	compares bool
}

var installation = rbac.Installation{Name: account, Home: home, ServiceAccount: account}

func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := apiserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	log.SetLogger(logr.Discard())
	w := &world{t: t, reports: map[string]wire.Report{}}
	if w.client, err = client.New(server.Config, client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
	w.prepare()
	limited := w.restricted(server.Config)
	w.loop = w.start(limited, kinds)
	w.another = func() *controller.Loop { return w.start(limited, kinds) }
	return w
}

// prepare installs the definitions, the rights and a class that can expand.
func (w *world) prepare() {
	w.t.Helper()
	for _, name := range []string{space, home} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, name := range []string{"geodatabases", "geocaches"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "crds", "meridian.dev_"+name+".yaml"))
		if err != nil {
			w.t.Fatal(err)
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &definition.Object); err != nil {
			w.t.Fatal(err)
		}
		w.create(definition)
	}
	objects, err := controller.Rights().Objects(installation)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, object := range objects {
		w.create(object.(client.Object))
	}
	yes := true
	w.create(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: "example.com/disk", AllowVolumeExpansion: &yes,
	})
	w.until("the definitions are served", func() bool {
		return w.client.List(w.t.Context(), &v1alpha1.GeoDatabaseList{}) == nil &&
			w.client.List(w.t.Context(), &v1alpha1.GeoCacheList{}) == nil
	})
}

// restricted is the configuration of the operator's account: what the table does not give is refused.
func (w *world) restricted(config *rest.Config) *rest.Config {
	limited := rest.CopyConfig(config)
	limited.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + home + ":" + account}
	limited.Wrap(w.rights.Wrap)
	limited.Wrap(w.lag.Wrap)
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodGet {
				if w.reads != nil {
					w.reads(request.URL.Path)
				}
				return next.RoundTrip(request)
			}
			w.writes.Add(1)
			// Events are sent by others, at any time.
			if w.fail == nil || strings.Contains(request.URL.Path, "/events") {
				return next.RoundTrip(request)
			}
			return w.fail().carryOut(next, request)
		})
	})
	return limited
}

// verdict is what becomes of a request.
type verdict int

const (
	done verdict = iota
	// lost is never seen by the API server; unknown is carried out, and the answer is lost.
	lost
	unknown
)

func (v verdict) carryOut(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	if v == lost {
		return nil, errors.New("connection refused on purpose")
	}
	response, err := next.RoundTrip(request)
	if v == unknown && err == nil {
		_ = response.Body.Close()
		return nil, errors.New("connection reset on purpose")
	}
	return response, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (w *world) start(config *rest.Config, kinds *runtime.Scheme) *controller.Loop {
	w.t.Helper()
	part, err := cluster.New(config, func(options *cluster.Options) {
		options.Scheme = kinds
		options.Cache.ByObject = controller.Selected()
		options.Client.Cache = &client.CacheOptions{DisableFor: controller.Live()}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	caches := expect.NewCaches(kinds)
	if err := caches.Watch(w.t.Context(), part.GetCache(), "", controller.Cached()...); err != nil {
		w.t.Fatal(err)
	}
	if err := caches.ReadLive(controller.Live()...); err != nil {
		w.t.Fatal(err)
	}
	refusals := &observe.Refusals{}
	author := apply.Author{Scheme: kinds, Prefix: database.AnnotationPrefix, Manager: database.FieldManager}
	made, err := controller.New(loop.Config{
		Name: "test", Client: part.GetClient(), Live: part.GetAPIReader(),
		Tracker: expect.New(caches, kinds, expect.Options{}), Events: part.GetEventRecorder("test"),
		Leads: func(context.Context) error {
			if w.leads == nil {
				return nil
			}
			return w.leads()
		},
	}, observe.Observer{
		Live: part.GetAPIReader(), Author: author, Now: w.now, AskTime: func(ctx context.Context) (time.Time, error) {
			if !w.compares {
				return time.Time{}, nil
			}
			return service.AskTimeThrough(part.GetClient())(ctx)
		},
		Images:       database.Images{Agent: "meridian:1", Server: "postgis"},
		Installation: home + "/" + account, LostAfter: 5 * time.Minute, Pulse: &service.Pulse{Label: database.LabelDatabase},
		Ask: w.ask, Refusals: refusals,
		TryWrite: service.TryWriteThrough(part.GetClient(), part.GetAPIReader()),
		Try:      observe.TryPod(part.GetClient()), TryResize: observe.TryResize(part.GetClient()),
	}, act.Actor{
		Client: part.GetClient(), Live: part.GetAPIReader(), Author: author, Random: rand.Reader, Now: w.now, Tell: w.tell,
		Refused: refusals.Note,
	}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := part.Start(ctx); err != nil {
			w.t.Errorf("run the caches: %v", err)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
	if !part.GetCache().WaitForCacheSync(w.t.Context()) {
		w.t.Fatal("the caches were not filled")
	}
	w.reader = part.GetCache()
	return made
}

func (w *world) now() time.Time { return time.Now().Add(w.later) }

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// pass runs one pass. A conflict and a cache that is behind are part of life: the next pass goes on.
func (w *world) pass() {
	w.t.Helper()
	if _, err := w.loop.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		w.t.Fatalf("pass: %v", err)
	}
}

func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	for start := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			w.t.Fatalf("%s: not within a minute; status: %+v", what, w.database().Status)
		}
	}
}

// passUntil runs passes until something is so.
func (w *world) passUntil(what string, done func() bool) {
	w.t.Helper()
	w.until(what, func() bool { w.pass(); return done() })
}

func (w *world) database() *v1alpha1.GeoDatabase {
	var found v1alpha1.GeoDatabase
	if err := w.client.Get(context.Background(), key, &found); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return &found
}

func (w *world) ready() bool {
	found := w.database()
	return condition.IsTrue(found.Status.Conditions, condition.Ready) &&
		found.Status.ObservedGeneration == found.Generation
}

// get reads a child, and tells whether it is there.
func (w *world) get(name string, into client.Object) bool {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: space, Name: name}, into)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

// change changes an object over whatever it is now.
func change[T client.Object](w *world, name string, object T, apply func(T)) {
	w.t.Helper()
	w.until("change "+name, func() bool {
		if !w.get(name, object) {
			w.t.Fatalf("%s is not there", name)
		}
		apply(object)
		return w.client.Update(w.t.Context(), object) == nil
	})
}

// changeStatus does the same for a status.
func changeStatus[T client.Object](w *world, name string, object T, apply func(T)) {
	w.t.Helper()
	w.until("change the status of "+name, func() bool {
		if !w.get(name, object) {
			w.t.Fatalf("%s is not there", name)
		}
		apply(object)
		return w.client.Status().Update(w.t.Context(), object) == nil
	})
}

// boot plays the StatefulSet controller, the volume and the kubelet: an instance comes up.
func (w *world) boot(instance, revision string, state corev1.PodStatus) {
	w.t.Helper()
	set := &appsv1.StatefulSet{}
	changeStatus(w, instance, set, func(set *appsv1.StatefulSet) {
		set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, revision
	})
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Namespace, pod.Name = space, instance+"-0"
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.NodeName = "node-of-" + instance
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: &yes,
	}}
	w.create(pod)
	state.PodIP = addressOf(instance)
	changeStatus(w, pod.Name, &corev1.Pod{}, func(pod *corev1.Pod) { pod.Status = state })
	changeStatus(w, instance, &corev1.PersistentVolumeClaim{}, func(claim *corev1.PersistentVolumeClaim) {
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	})
}

// addressOf is where the pod of an instance of cities is.
func addressOf(instance string) string { return "10.0.0." + strings.TrimPrefix(instance, "cities-") }

func (w *world) ask(_ context.Context, agent service.Agent) (wire.Report, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	report, found := w.reports[agent.Address]
	if !found {
		return wire.Report{}, errors.New("connection refused")
	}
	return report, nil
}

func (w *world) tell(_ context.Context, _ service.Agent, request wire.Switchover) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.told = append(w.told, request)
	if w.refusal != "" {
		return &act.RefusedError{Why: w.refusal}
	}
	return nil
}

// settings are those that are stored.
func (w *world) settings() wire.Settings {
	w.t.Helper()
	var stored corev1.ConfigMap
	w.get("cities-settings", &stored)
	settings, err := wire.DecodeSettings([]byte(stored.Data[wire.KeySettings]))
	if err != nil {
		w.t.Fatal(err)
	}
	return settings
}

// lead plays the agents: they have agreed on a primary, which is the first, and on members, which are all, and the
// write address leads to it. Every agent has taken over the settings as they are now.
func (w *world) lead(term int32, members ...string) {
	w.t.Helper()
	record := wire.LeaseRecord{
		DatabaseUID: string(w.database().UID), Term: int64(term), Timeline: int(term), W: min(len(members), 2),
		Initialised: true, SystemIdentifier: "7001",
	}
	w.lock.Lock()
	clear(w.reports)
	for _, member := range members {
		record.Members = append(record.Members, wire.Member{Name: member, Incarnation: "of-" + member})
		w.reports[addressOf(member)] = wire.Report{
			Version: 1, DatabaseUID: record.DatabaseUID, Instance: member, State: wire.StateRunning,
			Role: wire.RoleReplica, SystemIdentifier: "7001", ServerVersion: "17.6", SettingsHash: w.settings().Hash(),
			Term: record.Term, Holder: members[0], Serving: true, Streams: true,
		}
	}
	primary := w.reports[addressOf(members[0])]
	primary.Role, primary.Streams = wire.RolePrimary, false
	w.reports[addressOf(members[0])] = primary
	w.lock.Unlock()
	text, err := record.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	// Nobody renews it, so it is long: a lease of seconds ends in the middle of a test on a busy machine.
	holder, duration := record.Members[0].String(), int32(200)
	change(w, "cities-primary", &coordinationv1.Lease{}, func(lease *coordinationv1.Lease) {
		lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &holder, &term
		lease.Spec.LeaseDurationSeconds = &duration
		lease.Annotations[wire.AnnotationRecord] = text
	})
	change(w, "cities-rw", &discoveryv1.EndpointSlice{}, func(slice *discoveryv1.EndpointSlice) {
		slice.Annotations[wire.AnnotationTerm] = strconv.Itoa(int(term))
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{addressOf(members[0])}}}
	})
}

// three makes a database of three instances, of which the first leads at term 1, and waits until it is ready.
func (w *world) three() []string {
	w.t.Helper()
	w.create(&v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "cities"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 3, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), Class: "fast"},
		},
	})
	members := []string{"cities-1", "cities-2", "cities-3"}
	w.passUntil("everything is made", func() bool {
		return !slices.ContainsFunc(members, func(name string) bool {
			return !w.get(name, &appsv1.StatefulSet{}) || !w.get(name, &corev1.PersistentVolumeClaim{})
		})
	})
	for _, name := range members {
		w.boot(name, "r1", running)
	}
	w.lead(1, members...)
	w.passUntil("it is ready", w.ready)
	return members
}
