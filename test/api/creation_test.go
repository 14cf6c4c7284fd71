//go:build cluster

package api_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/api/v1alpha1"
	nouns "meridian.dev/meridian/internal/database"
	databaseloop "meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/kit/expect"
)

// late is by how many passes caches are behind: more than it takes to make a database several times over.
const late = 20

// TestNoSecondChild is the accident called the infinite creation loop, on a real API server with late caches: a
// controller does not see what it has created, and creates it again, as often as it looks.
//
// Two controllers go through it: the real loop of databases, and the plainest one that there is, which generates the
// names of its children. Each is killed while it creates, is followed by a process whose memory is empty and whose
// caches are seconds behind, and that one by a third when everything has been made.
//
// With kit/expect there is never a second child, and not even a second attempt. Without it, which the test shows too,
// so that its green says something:
//
//   - the plain controller fills the namespace;
//   - the loop of databases asks for the same children again and again. A second child does not appear even then: their
//     names are fixed, and the API server refuses the second of a name. That is the other layer of protection, and it
//     is one for creates only.
func TestNoSecondChild(t *testing.T) {
	t.Parallel()
	for name, tracked := range map[string]bool{"own writes remembered": true, "nothing remembered": false} {
		t.Run("database, "+name, func(t *testing.T) {
			t.Parallel()
			checkDatabase(t, tracked)
		})
		t.Run("generated names, "+name, func(t *testing.T) {
			t.Parallel()
			checkGenerated(t, tracked)
		})
	}
}

// startLives starts three processes before there is anything to see. What happens from then on reaches the caches of
// each when it is half through.
func startLives(t *testing.T, namespace string, tracked bool, sent *creates) [3]*process {
	t.Helper()
	lives := [3]*process{
		startProcess(t, namespace, late, tracked, sent),
		startProcess(t, namespace, late, tracked, sent),
		startProcess(t, namespace, late, tracked, sent),
	}
	lives[0].survives.Store(2)
	return lives
}

// runPasses runs passes without a pause, until the process dies or for longer than its caches are late. What a pass
// returns is not the point: refusals are part of life.
func runPasses(t *testing.T, life *process, reconciler reconcile.Reconciler, key client.ObjectKey, look func()) {
	t.Helper()
	var last error
	for pass := 0; pass < 2*late && !life.dead(); pass++ {
		life.lag.Pass()
		_, last = reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		look()
	}
	if last != nil && !life.dead() {
		t.Errorf("the last pass ended with %v", last)
	}
}

func checkDatabase(t *testing.T, tracked bool) {
	namespace, sent := newNamespace(t), newCreates()
	lives := startLives(t, namespace, tracked, sent)
	if err := cluster.Create(t.Context(), &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cities"},
		Spec:       v1alpha1.GeoDatabaseSpec{Instances: 3, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}},
	}); err != nil {
		t.Fatal(err)
	}
	seen := &family{namespace: namespace, known: map[string]types.UID{}}
	for number, life := range lives {
		seen.behind = 0
		runPasses(t, life, life.databases(t), client.ObjectKey{Namespace: namespace, Name: "cities"},
			func() { seen.look(t, life) })
		if number > 0 && seen.behind < 5 {
			t.Errorf("the caches were behind in %d passes only: the test has shown nothing", seen.behind)
		}
	}
	asked, taken := sent.counts()
	t.Logf("asked for %v, made %v", asked, taken)
	for _, kind := range []string{"services", "configmaps", "persistentvolumeclaims", "statefulsets", "secrets"} {
		if taken[kind] == 0 {
			t.Errorf("no %s were made: the test has shown nothing", kind)
		}
	}
	again := total(asked) - total(taken)
	switch {
	case len(seen.known) != total(taken):
		t.Errorf("%d children were made, and %d are there", total(taken), len(seen.known))
	case tracked && again > 0:
		t.Errorf("children were asked for a second time: %v, made %v", asked, taken)
	case !tracked && again < 2*len(seen.known):
		t.Errorf("with nothing remembered only %d creates were repeated: these caches do not lead to the accident, "+
			"so that the other half of this test shows nothing", again)
	}
}

// family is the children that were ever seen in a namespace.
type family struct {
	namespace string
	known     map[string]types.UID
	// behind is how often the caches of a process showed less than there was.
	behind int
}

// look compares what is there with what was there before: no child goes, becomes another, or has a second.
func (c *family) look(t *testing.T, life *process) {
	t.Helper()
	shown := c.find(t, life.part.GetCache(), databaseloop.Cached()[1:])
	there := c.find(t, cluster, databaseloop.Cached()[1:])
	if len(shown) < len(there) {
		c.behind++
	}
	maps.Copy(there, c.find(t, cluster, databaseloop.Live()))
	for name, uid := range there {
		if before, known := c.known[name]; known && before != uid {
			t.Fatalf("%s was %s and is %s", name, before, uid)
		}
		c.known[name] = uid
	}
	if len(there) != len(c.known) {
		t.Fatalf("there were %v, and there are %v", slices.Sorted(maps.Keys(c.known)), slices.Sorted(maps.Keys(there)))
	}
}

// find lists the children of the database by kind and name.
func (c *family) find(t *testing.T, reader client.Reader, kinds []client.Object) map[string]types.UID {
	t.Helper()
	found := map[string]types.UID{}
	for _, kind := range kinds {
		name, err := apiutil.GVKForObject(kind, cluster.Scheme())
		if err != nil {
			t.Fatal(err)
		}
		// Typed lists: the cache has no others of these kinds, and would begin to watch anew for them.
		list, err := cluster.Scheme().New(name.GroupVersion().WithKind(name.Kind + "List"))
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.List(t.Context(), list.(client.ObjectList), client.InNamespace(c.namespace)); err != nil {
			t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			child := item.(client.Object)
			if child.GetLabels()[nouns.LabelDatabase] != "" {
				found[name.Kind+" "+child.GetName()] = child.GetUID()
			}
			return nil
		})
	}
	return found
}

func total(counts map[string]int) int {
	sum := 0
	for kind, count := range counts {
		if kind != "events" {
			sum += count
		}
	}
	return sum
}

// wished is how many children the plain controller is asked for.
const wished = 3

// plain keeps as many Services as wished, under names that the API server makes up. Without a tracker it is the
// reconciler that everybody writes first.
type plain struct {
	client  client.Client
	live    client.Reader
	tracker *expect.Tracker
}

func (p plain) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var owner v1alpha1.GeoDatabase
	if err := p.client.Get(ctx, request.NamespacedName, &owner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var reader client.Reader = p.client
	if p.tracker != nil {
		switch p.tracker.Check(expect.OwnerOf(&owner)).Answer {
		case expect.Wait:
			return reconcile.Result{}, nil
		case expect.ReadLive:
			reader = expect.NewWitness(p.live, p.client.Scheme())
		case expect.ReadCache:
		}
	}
	var present corev1.ServiceList
	if err := reader.List(ctx, &present, client.InNamespace(owner.Namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("list the children: %w", err)
	}
	if witness, ok := reader.(*expect.Witness); ok {
		p.tracker.Confirm(expect.OwnerOf(&owner), witness.Saw()...)
	}
	for range wished - len(present.Items) {
		child := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, GenerateName: owner.Name + "-"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if err := p.client.Create(ctx, child); err != nil {
			return reconcile.Result{}, fmt.Errorf("create a child: %w", err)
		}
		if p.tracker != nil {
			p.tracker.Wrote(expect.OwnerOf(&owner), child)
		}
	}
	return reconcile.Result{}, nil
}

func checkGenerated(t *testing.T, tracked bool) {
	namespace, sent := newNamespace(t), newCreates()
	lives := startLives(t, namespace, tracked, sent)
	if err := cluster.Create(t.Context(), &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "roads"},
		Spec:       v1alpha1.GeoDatabaseSpec{Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}},
	}); err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, life := range lives {
		controller := plain{client: life.part.GetClient(), live: life.part.GetAPIReader(), tracker: life.tracker}
		runPasses(t, life, controller, client.ObjectKey{Namespace: namespace, Name: "roads"}, func() {
			var present corev1.ServiceList
			if err := cluster.List(t.Context(), &present, client.InNamespace(namespace)); err != nil {
				t.Fatal(err)
			}
			most = max(most, len(present.Items))
			if most > 10*wished {
				life.survives.Store(1) // It has shown what it does; the API server has other guests.
			}
		})
	}
	t.Logf("%d wished, %d there", wished, most)
	switch {
	case tracked && most != wished:
		t.Errorf("%d children are wished, and there were %d", wished, most)
	case !tracked && most <= 10*wished:
		t.Errorf("with nothing remembered there were only %d children: these caches do not lead to the accident, "+
			"so that the other half of this test shows nothing", most)
	}
}
