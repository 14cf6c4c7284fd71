package controller_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	"meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
	"meridian.dev/meridian/kit/sim"
)

var towns = types.NamespacedName{Namespace: "gis", Name: "towns"}

// stage is one wish of the user, which the next follows when it is fulfilled.
type stage struct {
	instances int32
	// want are the instances that there are in the end.
	want []string
}

// story is a life: three instances, five, and two again, with the claims of those that leave deleted.
var story = []stage{
	{3, []string{"towns-1", "towns-2", "towns-3"}},
	{5, []string{"towns-1", "towns-2", "towns-3", "towns-4", "towns-5"}},
	{2, []string{"towns-1", "towns-2"}},
}

// TestCrashAtAWrite lives the story again and again. Each time the operator crashes at another of its writes, or that
// write meets a conflict, or is carried out and answered with a timeout; its successor begins with caches that are
// behind. That is done at a sample of the writes, and at each of them with MERIDIAN_TEST_CRASHES=all. At no time does
// anything go that is counted on, and in the end there is exactly what was wished, under names that each were used
// once.
func TestCrashAtAWrite(t *testing.T) {
	log.SetLogger(logr.Discard())
	// Each fault meets one write in so many, each at others; all of them take minutes.
	step := 17
	if os.Getenv("MERIDIAN_TEST_CRASHES") == "all" {
		step = 1
	}
	for place, fault := range []sim.Verdict{sim.CrashBefore, sim.CrashAfter, sim.Applied, sim.Conflicted} {
		t.Run(fault.String(), func(t *testing.T) {
			reached := 0
			for number := 1 + 4*place; ; number += step {
				town := newTown(t, number, fault)
				town.live()
				if !town.hit {
					break
				}
				reached = number
			}
			// The children of five instances, and a status for each step, at least.
			if reached < 40 {
				t.Errorf("only %d writes were met: the test has not seen the whole life", reached)
			}
		})
	}
}

// town is a Kubernetes in memory with one database. The test plays the controllers of the cluster and the agents.
type town struct {
	t      *testing.T
	server *sim.Server
	clock  *sim.Clock
	admin  client.Client
	// operator is the present life of the operator, loop its loop.
	operator *sim.Process
	loop     *controller.Loop
	// The write with this number meets the fault, once.
	number, writes int
	fault          sim.Verdict
	hit            bool
	// made are the instances that the operator has ever made.
	made  []string
	lease types.UID
	// told is what the agent of the holder was asked, refusal what it says to that.
	told    []wire.Switchover
	refusal string
	// yields has the agents hand over when they are asked; answered counts what they were asked.
	yields   bool
	answered int
	// dead is an instance whose agent does not answer.
	dead string
	// agent is the image that the operator brings along, bad are images that cannot be pulled.
	agent string
	bad   []string
	// births counts the pods that each instance has had, moves the changes of the primary, servers what each server was
	// started with, starts how often.
	births  map[string]int
	moves   int
	servers map[string]started
	starts  map[string]int
	// ahead is how far the operator's clock is ahead of everybody else's.
	ahead time.Duration
}

// started is what a server was started with.
type started struct{ token, connections string }

// customKinds compiles the schemas, which takes longer than most of a story.
var customKinds = sync.OnceValues(func() ([]sim.Kind, error) {
	var kinds []sim.Kind
	for _, name := range []string{"geodatabases", "geocaches"} {
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
	return kinds, nil
})

// rendered is shared by all towns, which want the same again and again.
var rendered = apply.NewMemo(4096)

func newTown(t *testing.T, number int, fault sim.Verdict, adjust ...func(*v1alpha1.GeoDatabase)) *town {
	t.Helper()
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	custom, err := customKinds()
	if err != nil {
		t.Fatal(err)
	}
	w := &town{
		t: t, clock: &sim.Clock{}, number: number, fault: fault, agent: "meridian:1", births: map[string]int{},
		servers: map[string]started{}, starts: map[string]int{},
	}
	w.server, err = sim.New(sim.Options{Scheme: kinds, Kinds: append(sim.BuiltIn(), custom...), Now: w.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := w.server.Start(sim.Life{Name: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	w.admin = admin.Live()
	w.create(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "disk", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: "example.com/disk",
	})
	made := &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: towns.Namespace, Name: towns.Name},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 3, Durability: v1alpha1.DurabilityStrict,
			Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), Reclaim: v1alpha1.ReclaimDelete},
		},
	}
	for _, one := range adjust {
		one(made)
	}
	w.create(made)
	w.start(kinds, 0)
	return w
}

// start begins a life of the operator, with caches that stand at a version of the past.
func (w *town) start(kinds *runtime.Scheme, at uint64) {
	w.t.Helper()
	secrets := corev1.SchemeGroupVersion.WithKind("Secret")
	process, err := w.server.Start(sim.Life{Name: "operator", Hook: w.decide, Cache: sim.CacheOptions{
		Uncached: []schema.GroupVersionKind{secrets}, At: at,
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	author := apply.Author{
		Scheme: kinds, Prefix: database.AnnotationPrefix, Manager: database.FieldManager, Memo: rendered,
	}
	refusals := &observe.Refusals{}
	w.operator = process
	now := func() time.Time { return w.clock.Now().Add(w.ahead) }
	w.loop, err = controller.New(loop.Config{
		Name: "towns", Client: process.Client(), Live: process.Live(), Now: now,
		Tracker: expect.New(process.Cache(), kinds, expect.Options{Now: now}),
	}, observe.Observer{
		Live: process.Live(), Author: author, Now: now, Ask: w.ask,
		AskTime:      func(context.Context) (time.Time, error) { return w.clock.Now(), nil },
		Images:       database.Images{Agent: w.agent, Server: "postgis"},
		Installation: "home/operator", LostAfter: 5 * time.Minute, Refusals: refusals,
	}, act.Actor{
		Client: process.Client(), Live: process.Live(), Author: author, Random: rand.Reader, Now: now,
		Tell: w.tell, Refused: refusals.Note,
	}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
}

// decide lets the chosen write meet its fault, and looks at what every delete would take.
func (w *town) decide(call sim.Call) sim.Verdict {
	if !call.Verb.Writes() {
		return sim.Done
	}
	instance := call.Kind.Kind == "StatefulSet" || call.Kind.Kind == "PersistentVolumeClaim"
	if instance && call.Verb == sim.Delete && w.database().DeletionTimestamp == nil && w.countsOn(call.Key.Name) {
		w.t.Fatalf("%s: it is counted on", call)
	}
	if call.Kind.Kind == "Pod" && call.Verb == sim.Delete && w.database().DeletionTimestamp == nil {
		w.mayEnd(call.Key.Name)
	}
	if call.Kind.Kind == "StatefulSet" && call.Verb == sim.Create && !slices.Contains(w.made, call.Key.Name) {
		w.made = append(w.made, call.Key.Name)
	}
	if w.writes++; w.writes == w.number {
		w.hit = true
		return w.fault
	}
	return sim.Done
}

// countsOn says that the lease or the settings name an instance.
func (w *town) countsOn(instance string) bool {
	record, _ := w.record()
	member := slices.ContainsFunc(record.Members, func(member wire.Member) bool { return member.Name == instance })
	return member || slices.Contains(w.settings().Instances, instance)
}

// live lives the story.
func (w *town) live() {
	w.t.Helper()
	for _, stage := range story {
		w.change(&v1alpha1.GeoDatabase{}, towns.Name, func(object client.Object) {
			object.(*v1alpha1.GeoDatabase).Spec.Instances = stage.instances
		})
		w.until(fmt.Sprintf("there are %d", stage.instances), func() bool {
			return w.ready() && slices.Equal(w.instances(), stage.want)
		})
		w.checkOnce()
	}
	if want := story[1].want; !slices.Equal(slices.Sorted(slices.Values(w.made)), want) {
		w.t.Fatalf("instances that were ever made: %v, want %v", w.made, want)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := w.admin.List(w.t.Context(), &claims); err != nil || len(claims.Items) != 2 {
		w.t.Fatalf("%d claims are left, want 2: %v", len(claims.Items), err)
	}
	if err := w.admin.Delete(w.t.Context(), w.database()); err != nil {
		w.t.Fatal(err)
	}
	w.until("everything is gone", func() bool {
		return w.database().UID == "" && !w.get(database.LeaseName(towns.Name), &coordinationv1.Lease{})
	})
}

// checkOnce looks at what may exist once only.
func (w *town) checkOnce() {
	w.t.Helper()
	var lease coordinationv1.Lease
	w.get(database.LeaseName(towns.Name), &lease)
	if w.lease == "" {
		w.lease = lease.UID
	}
	if lease.UID != w.lease || w.settings().LeaseUID != string(w.lease) {
		w.t.Fatalf("the lease was %s, is %s, and is named %s", w.lease, lease.UID, w.settings().LeaseUID)
	}
}

// until runs passes, with caches that follow now and then, until something is so.
func (w *town) until(what string, done func() bool) {
	w.t.Helper()
	for round := 0; !done(); round++ {
		if round > 400 {
			w.t.Fatalf("write %d met %s: %s: not within 400 passes; made %v; status %+v", w.number, w.fault, what,
				w.made, w.database().Status)
		}
		w.round(round)
	}
}

// rounds lets time pass.
func (w *town) rounds(number int) {
	w.t.Helper()
	for round := range number {
		w.round(round)
	}
}

// round is a pass of the operator, and a step of everybody else.
func (w *town) round(number int) {
	w.t.Helper()
	if w.operator.Crashed() {
		// Its successor is behind by a few writes.
		w.start(w.admin.Scheme(), max(w.server.Version(), 6)-5)
	}
	_, _ = w.loop.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: towns})
	if number%3 == 2 {
		w.operator.Cache().CatchUp()
	}
	w.clock.Advance(time.Second)
	w.play()
}

func (w *town) ready() bool {
	found := w.database()
	return condition.IsTrue(found.Status.Conditions, condition.Ready) &&
		found.Status.ObservedGeneration == found.Generation
}
