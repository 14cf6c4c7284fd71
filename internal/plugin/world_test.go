package plugin_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin"
	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/kit/sim"
)

// hidden is a secret that lies about in places where it should not; no output may have it.
const hidden = "hunter2-very-secret"

// world is a cluster in memory with one database in it.
type world struct {
	t      *testing.T
	now    time.Time
	client client.Client // an administrator's
	// forbidden are kinds that the user of the plugin may not read.
	forbidden []string
	// ctx ends the plugin, nil for never.
	ctx context.Context
	// before is called before each call of the plugin.
	before func(sim.Call)
	logs   map[string]string
	// captured and refusal are what a captured program prints, ran are the programs that were started.
	captured []byte
	refusal  error
	ran      [][]string

	stdout, stderr bytes.Buffer
	server         *sim.Server
	plain          kubernetes.Interface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), logs: map[string]string{}}
	kinds, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	options := sim.Options{Scheme: kinds, Now: func() time.Time { return w.now.Add(-time.Hour) }}
	if options.Kinds, err = customKinds(); err != nil {
		t.Fatal(err)
	}
	if w.server, err = sim.New(options); err != nil {
		t.Fatal(err)
	}
	admin, err := w.server.Start(sim.Life{Name: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	w.client = admin.Live()
	w.servePods()
	w.fill()
	return w
}

// customKinds are compiled once: their rules take longer than all the rest.
var customKinds = sync.OnceValues(func() ([]sim.Kind, error) {
	var kinds []sim.Kind
	for _, file := range []string{"geodatabases", "geocaches"} {
		content, err := os.ReadFile("../../deploy/crds/meridian.dev_" + file + ".yaml")
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
	return kinds, nil
})

// servePods answers for the kubelets: logs and figures.
func (w *world) servePods() {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		name := strings.Split(in.URL.Path, "/")
		switch {
		case strings.HasSuffix(in.URL.Path, "/log"):
			fmt.Fprint(out, w.logs[name[len(name)-2]])
		case strings.HasSuffix(in.URL.Path, ":8701/proxy/metrics"):
			fmt.Fprint(out, "# HELP x\nmeridian_volume_used_bytes{a=\"b\"} 1.0e+08\nmeridian_volume_size_bytes 1073741824\n"+
				"meridian_postgres_replication_lag_seconds 0.25\nother 5\n")
		default:
			http.Error(out, "not found", http.StatusNotFound)
		}
	}))
	w.t.Cleanup(server.Close)
	plain, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		w.t.Fatal(err)
	}
	w.plain = plain
}

// fill makes a database that is well, with a cache.
func (w *world) fill() {
	database := &v1alpha1.GeoDatabase{}
	database.Namespace, database.Name = "maps", "cities"
	database.Spec.Storage.Size = resource.MustParse("1Gi")
	w.create(database)
	database.Status = v1alpha1.GeoDatabaseStatus{
		ObservedGeneration: database.Generation, Primary: "cities-1", Term: 3, Replicas: "1/1", Lag: "<1s", Version: "17.6",
		Conditions: w.conditions(),
		Members: []v1alpha1.InstanceStatus{
			{Name: "cities-1", Role: v1alpha1.RolePrimary, Ready: true, Node: "node1"},
			{Name: "cities-2", Role: v1alpha1.RoleReplica, Ready: true, Node: "node2"},
		},
	}
	w.updateStatus(database)
	cache := &v1alpha1.GeoCache{}
	cache.Spec.DatabaseRef.Name, cache.Spec.Replicas = "cities", 1
	cache.Namespace, cache.Name = "maps", "tiles"
	w.create(cache)
	cache.Status = v1alpha1.GeoCacheStatus{
		ObservedGeneration: cache.Generation, Primary: "tiles-1", ReadyReplicas: 1, Conditions: w.conditions(),
	}
	w.updateStatus(cache)
	for _, name := range []string{"cities-1", "cities-2"} {
		w.create(w.pod(name, map[string]string{"meridian.dev/database": "cities", "meridian.dev/instance": name}))
	}
	w.create(w.pod("tiles-1", map[string]string{"meridian.dev/cache": "tiles", "meridian.dev/instance": "tiles-1"}))
	holder, term, seconds, renewed := "cities-1/a", int32(3), int32(10), metav1.NewMicroTime(w.now.Add(-time.Second))
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseTransitions: &term, LeaseDurationSeconds: &seconds, RenewTime: &renewed,
	}}
	lease.Namespace, lease.Name = "maps", "cities-primary"
	w.create(lease)
	w.event("cities", "GeoDatabase", "AsWished", "everything is there")
	w.event("cities-1-0", "Pod", "Pulled", "the image was there")
	w.event("rivers-1-0", "Pod", "Foreign", "of another database")
	w.event("cities-east-1-0", "Pod", "Foreign", "of another database: rivers-1-0")
	w.event("rivers", "GeoDatabase", "Foreign", "another database: rivers-1-0")
	operator := &appsv1.Deployment{}
	operator.Namespace, operator.Name = "meridian-system", "meridian-operator"
	operator.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	operator.Spec.Template.Labels = map[string]string{"a": "b"}
	operator.Spec.Template.Spec.Containers = []corev1.Container{{Name: "operator", Image: "example.com/meridian:1"}}
	w.create(operator)
	operator.Status.ReadyReplicas = 1
	w.updateStatus(operator)
	secret := &corev1.Secret{Data: map[string][]byte{"password": []byte(hidden)}}
	secret.Namespace, secret.Name = "maps", "cities-app"
	secret.Labels = map[string]string{"meridian.dev/database": "cities"}
	w.create(secret)
}

func (w *world) conditions() []metav1.Condition {
	var conditions []metav1.Condition
	for typ, status := range map[string]metav1.ConditionStatus{
		"Ready": "True", "Serving": "True", "Progressing": "False", "Degraded": "False", "Stalled": "False",
	} {
		conditions = append(conditions, metav1.Condition{
			Type: typ, Status: status, Reason: "AsWished", Message: "all is well",
			LastTransitionTime: metav1.NewTime(w.now.Add(-time.Minute)),
		})
	}
	return conditions
}

func (w *world) pod(instance string, labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{
		Name: "database", Image: "example.com/x:1", Env: []corev1.EnvVar{{Name: "PGPASSWORD", Value: hidden}},
	}}}}
	pod.Namespace, pod.Name, pod.Labels = "maps", instance+"-0", labels
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "database", RestartCount: 1}}
	return pod
}

func (w *world) event(name, kind, reason, note string) {
	event := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Namespace: "maps", Kind: kind, Name: name}, Reason: reason, Message: note,
		Type: corev1.EventTypeNormal, LastTimestamp: metav1.NewTime(w.now.Add(-time.Minute)),
	}
	event.Namespace, event.GenerateName = "maps", name+"-"
	w.create(event)
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	wanted := object.DeepCopyObject().(client.Object)
	if err := w.client.Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("create %T: %v", object, err)
	}
	if pod, ok := wanted.(*corev1.Pod); ok {
		object.(*corev1.Pod).Status = pod.Status
		w.updateStatus(object)
	}
}

func (w *world) updateStatus(object client.Object) {
	w.t.Helper()
	if err := w.client.Status().Update(w.t.Context(), object); err != nil {
		w.t.Fatalf("update the status of %T: %v", object, err)
	}
}

// run calls the plugin as a user does. Reading a Secret is a failure, whatever the verb.
func (w *world) run(args ...string) (stdout string, err error) {
	w.t.Helper()
	w.stdout.Reset()
	process, err := w.server.Start(sim.Life{Name: "user", Hook: func(call sim.Call) sim.Verdict {
		if call.Kind.Kind == "Secret" {
			w.t.Errorf("%v: the plugin asks for a Secret: %v", args, call)
		}
		if w.before != nil {
			w.before(call)
		}
		return sim.Done
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	root := plugin.New(plugin.Surroundings{
		In: strings.NewReader(""), Out: &w.stdout, Err: &w.stderr, Version: "v1.2.3",
		Run: func(_ context.Context, name string, args ...string) error {
			w.ran = append(w.ran, append([]string{name}, args...))
			return nil
		},
		Capture: func(_ context.Context, name string, args ...string) ([]byte, error) {
			w.ran = append(w.ran, append([]string{name}, args...))
			return w.captured, w.refusal
		},
		Connect: func() (*cluster.Cluster, string, error) {
			return &cluster.Cluster{
				Client: limited{process.Live(), w}, Plain: w.plain, Home: "meridian-system", Now: w.clock,
			}, "maps", nil
		},
	})
	root.SetArgs(args)
	ctx := w.ctx
	if ctx == nil {
		ctx = w.t.Context()
	}
	err = root.ExecuteContext(ctx)
	if strings.Contains(w.stdout.String(), hidden) {
		w.t.Errorf("%v prints a secret:\n%s", args, w.stdout.String())
	}
	return w.stdout.String(), err
}

// clock moves with every look, so that nobody waits for ever.
func (w *world) clock() time.Time {
	w.now = w.now.Add(300 * time.Millisecond)
	return w.now
}

func (l limited) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	for _, kind := range l.world.forbidden {
		if strings.HasSuffix(fmt.Sprintf("%T", object), "."+kind) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, key.Name, nil)
		}
	}
	return l.Client.Get(ctx, key, object, options...)
}

// limited is a client with few rights.
type limited struct {
	client.Client
	world *world
}

func (l limited) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	for _, kind := range l.world.forbidden {
		if strings.HasSuffix(fmt.Sprintf("%T", list), "."+kind+"List") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", nil)
		}
	}
	return l.Client.List(ctx, list, options...)
}
