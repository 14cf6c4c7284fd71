//go:build cluster

package sim_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/kit/sim"
)

var (
	sequences = flag.Int("sequences", 600, "how many random sequences the simulator and a real API server must agree on")
	firstSeed = flag.Uint64("seed", 1, "seed of the first sequence")
	length    = flag.Int("length", 14, "operations per sequence")
)

// exceptions are the known differences. Each is a request that is not made, or a part of an answer that is not
// compared, and has its reason here.
var exceptions = []struct {
	name string
	// skip says that the operation is left out; it gets the object as it is, nil if there is none.
	skip func(o operation, now *unstructured.Unstructured) bool
}{
	{"there is no field ownership, and an object has one form only, so a write that changes nothing else makes no " +
		"version; the real server makes one for the first write to a claim: each is written twice when it is created", nil},
	{"a Service gets no address by itself, nor is one refused because another has it: there is no range of addresses",
		func(o operation, _ *unstructured.Unstructured) bool {
			return o.kind == "Service" && o.change == "address" && o.verb != "patch"
		}},
	{"a Service that does not exist is not found when its status is written; the real one is created",
		func(o operation, now *unstructured.Unstructured) bool {
			return o.kind == "Service" && o.subresource == "status" && now == nil
		}},
	{"who sends another deletionTimestamp changes nothing; on the real server he owns the field from then on",
		func(o operation, now *unstructured.Unstructured) bool {
			return o.change == "deletion" && now != nil && now.GetDeletionTimestamp() != nil
		}},
}

// side is one of the two servers, with what was seen of it: later operations refer to that.
type side struct {
	client    client.Client
	namespace string
	prefix    string
	seen      map[string][]*unstructured.Unstructured
	now       map[string]*unstructured.Unstructured
}

func newSide(to client.Client, namespace, prefix string) *side {
	return &side{to, namespace, prefix, map[string][]*unstructured.Unstructured{},
		map[string]*unstructured.Unstructured{}}
}

// answer is what is compared.
type answer struct {
	Code   int32
	Reason metav1.StatusReason
	// Returned and Stored are objects without what must differ.
	Returned, Stored map[string]any
	// NewVersion and NewUID say what has changed since the object was looked at last.
	NewVersion, NewUID bool
	// ReturnedIsStored says whether the versions of the two are the same.
	ReturnedIsStored bool
	Names            []string
}

// workers share the real server; each has a namespace of its own. They mostly wait for it.
const workers = 8

// glances is how often an object is read again although the answer to a write has shown it already.
const glances = 4

// TestFidelity runs random sequences against the simulator and against a real API server. Every answer, and every
// object after every operation, must be the same.
func TestFidelity(t *testing.T) {
	log.SetLogger(logr.Discard())
	cluster, kinds, definition := prepareReal(t)
	custom, err := sim.FromDefinition(definition, "v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range workers {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%d", i)}}
		if err := cluster.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	runners := make([]*comparison, workers)
	for i := range runners {
		runners[i] = &comparison{
			cluster: cluster, scheme: kinds, kinds: []sim.Kind{custom}, namespace: fmt.Sprintf("w%d", i),
		}
	}
	t.Run("agrees", func(t *testing.T) { agree(t, runners) })
	t.Run("bites", func(t *testing.T) { bite(t, runners[0], custom) })
}

// agree compares as many sequences as were asked for.
func agree(t *testing.T, runners []*comparison) {
	start := time.Now()
	var next, done atomic.Uint64
	var group sync.WaitGroup
	var failed atomic.Int32
	for _, runner := range runners {
		group.Go(func() {
			for failed.Load() < 5 {
				number := next.Add(1) - 1
				if number >= uint64(*sequences) {
					return
				}
				seed := *firstSeed + number
				drawn := draw(rand.New(rand.NewPCG(seed, 0)), *length)
				if difference := runner.run(t, drawn); difference != "" {
					failed.Add(1)
					shrunk, difference := runner.shrink(t, drawn, difference)
					t.Errorf("seed %d (-real +simulated), the shortest that differs:\n%s\n%s",
						seed, describe(shrunk), difference)
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	var operations, refused uint64
	for _, runner := range runners {
		operations, refused = operations+runner.operations, refused+runner.refused
	}
	t.Logf("%d sequences, %d operations (%d refused) in %s: %.0f sequences/s", done.Load(), operations, refused,
		took.Round(time.Millisecond), float64(done.Load())/took.Seconds())
	if refused < operations/20 || refused > operations*2/3 {
		t.Error("the sequences are not a fair sample: hardly anything, or nearly everything, was refused")
	}
}

// mistakes are simulators that are wrong in one point.
var mistakes = map[string]struct {
	kind  string
	wrong func(*sim.Kind)
}{
	"a ConfigMap counts generations":         {"ConfigMap", func(k *sim.Kind) { k.Generation = true }},
	"an update creates a ConfigMap":          {"ConfigMap", func(k *sim.Kind) { k.CreateOnUpdate = true }},
	"an immutable ConfigMap changes":         {"ConfigMap", func(k *sim.Kind) { k.Check = nil }},
	"a Secret has no defaults":               {"Secret", func(k *sim.Kind) { k.Prepare = nil }},
	"an update does not create a Service":    {"Service", func(k *sim.Kind) { k.CreateOnUpdate = false }},
	"a pod is deleted at once":               {"Pod", func(k *sim.Kind) { k.Graceful = false }},
	"a pod changes in any way":               {"Pod", func(k *sim.Kind) { k.Check = nil }},
	"a claim has no rules":                   {"PersistentVolumeClaim", func(k *sim.Kind) { k.Check = nil }},
	"a StatefulSet has no generation":        {"StatefulSet", func(k *sim.Kind) { k.Generation = false }},
	"a StatefulSet has no status of its own": {"StatefulSet", func(k *sim.Kind) { k.Status = false }},
	"a StatefulSet changes in any way":       {"StatefulSet", func(k *sim.Kind) { k.Check = nil }},
	"a Lease is updated blindly":             {"Lease", func(k *sim.Kind) { k.Conditional = false }},
	"a custom resource is updated blindly":   {"GeoDatabase", func(k *sim.Kind) { k.Conditional = false }},
	"a custom resource is not pruned":        {"GeoDatabase", func(k *sim.Kind) { k.Prepare = nil }},
	"a custom resource has no rules":         {"GeoDatabase", func(k *sim.Kind) { k.Check = nil }},
}

// bite shows that the comparison finds mistakes, each within a hundred sequences.
func bite(t *testing.T, runner *comparison, custom sim.Kind) {
	correct := map[string]sim.Kind{"GeoDatabase": custom}
	for _, kind := range sim.BuiltIn() {
		if kind.Group != "events.k8s.io" {
			correct[kind.GroupVersionKind.Kind] = kind
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mistakes)) {
		wrong := correct[mistakes[name].kind]
		mistakes[name].wrong(&wrong)
		mistaken := &comparison{
			cluster: runner.cluster, scheme: runner.scheme, namespace: runner.namespace, kinds: []sim.Kind{custom, wrong},
			runs: runner.runs,
		}
		found := 0
		for seed := uint64(1); seed <= 100 && found == 0; seed++ {
			random := rand.New(rand.NewPCG(seed, 1))
			if mistaken.run(t, drawOf(random, *length, []string{mistakes[name].kind})) != "" {
				found = int(seed)
			}
		}
		runner.runs = mistaken.runs
		if found == 0 {
			t.Errorf("not found: %s", name)
			continue
		}
		t.Logf("found by sequence %d: %s", found, name)
	}
}

func describe(operations []operation) string {
	var lines []string
	for _, each := range operations {
		lines = append(lines, "  "+each.String())
	}
	return strings.Join(lines, "\n")
}

// prepareReal starts the real server with our definition and a class whose volumes can grow.
func prepareReal(t *testing.T) (client.Client, *runtime.Scheme, *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	config := startRealServer(t)
	kinds := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(kinds), apiextensionsv1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join("..", "..", "deploy", "crds", "meridian.dev_geodatabases.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(written, definition); err != nil {
		t.Fatal(err)
	}
	made, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(made.Create(t.Context(), definition.DeepCopy()), made.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "fast"},
		Provisioner: "test.invalid/fast", AllowVolumeExpansion: new(true),
	}))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("meridian.dev/v1alpha1")
		list.SetKind("GeoDatabaseList")
		if err = made.List(t.Context(), list); err == nil {
			return made, kinds, definition
		}
		if time.Now().After(deadline) {
			t.Fatalf("the definition is not served: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// comparison runs sequences on fresh names, so that one leaves nothing behind for the next.
type comparison struct {
	cluster   client.Client
	scheme    *runtime.Scheme
	kinds     []sim.Kind
	namespace string

	runs                uint64
	operations, refused uint64
}

// run returns the first difference, empty if there is none.
func (c *comparison) run(t *testing.T, operations []operation) string {
	t.Helper()
	c.runs++
	server, err := sim.New(sim.Options{Scheme: c.scheme, Kinds: c.kinds})
	if err != nil {
		t.Fatal(err)
	}
	process, err := server.Start(sim.Life{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprintf("q%d-", c.runs)
	original, simulated := newSide(c.cluster, c.namespace, prefix), newSide(process.Live(), c.namespace, prefix)
	last := map[string]int{} // What an object has come to is always looked at.
	for number, each := range operations {
		last[each.kind+each.name] = number
	}
	for number, each := range operations {
		each.look = number%glances == 0 || last[each.kind+each.name] == number
		if excepted(each, original.now[each.kind+each.name]) {
			continue
		}
		want, wantErr := original.do(t, each)
		got, gotErr := simulated.do(t, each)
		c.operations++
		if want.Code != 0 {
			c.refused++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Sprintf("operation %d, %s:\n%s\nreal: %v\nsimulated: %v", number+1, each, diff, wantErr, gotErr)
		}
	}
	return ""
}

func excepted(o operation, now *unstructured.Unstructured) bool {
	for _, each := range exceptions {
		if each.skip != nil && each.skip(o, now) {
			return true
		}
	}
	return false
}

// shrink leaves out one operation after the other as long as there is still a difference.
func (c *comparison) shrink(t *testing.T, operations []operation, difference string) ([]operation, string) {
	t.Helper()
	for i := len(operations) - 1; i >= 0; i-- {
		without := slices.Delete(slices.Clone(operations), i, i+1)
		if found := c.run(t, without); found != "" {
			operations, difference = without, found
		}
	}
	return operations, difference
}

// do carries out one operation and looks at the object afterwards.
func (s *side) do(t *testing.T, o operation) (answer, error) {
	t.Helper()
	if o.verb == "list" {
		return s.list(t, o)
	}
	key := client.ObjectKey{Namespace: s.namespace, Name: s.prefix + o.name}
	history := s.seen[o.kind+o.name]
	before := &unstructured.Unstructured{}
	if len(history) > 0 {
		before = history[len(history)-1]
	}
	sent := s.compose(o, key, history)
	err := s.send(t, o, sent)
	result := answer{}
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			t.Fatalf("%s: %v", o, err)
		}
		result.Code, result.Reason = status.Status().Code, status.Status().Reason
	} else if o.verb != "delete" && o.verb != "scale" {
		result.Returned = content(sent.object)
	}
	if !o.look && err != nil {
		return result, err
	}
	stored, getErr := sent.object, error(nil)
	if o.look || o.dryRun || o.verb == "delete" || o.verb == "scale" || stored.GetDeletionTimestamp() != nil {
		stored = manifest(o.kind)
		getErr = s.client.Get(t.Context(), key, stored)
	}
	delete(s.now, o.kind+o.name)
	switch {
	case getErr == nil:
		s.now[o.kind+o.name] = stored
		result.Stored = content(stored)
		result.NewVersion = stored.GetResourceVersion() != before.GetResourceVersion()
		result.NewUID = stored.GetUID() != before.GetUID()
		result.ReturnedIsStored = err == nil && sent.object.GetResourceVersion() == stored.GetResourceVersion()
		if result.NewVersion {
			s.seen[o.kind+o.name] = append(history, stored)
		}
	case !apierrors.IsNotFound(getErr):
		t.Fatalf("read after %s: %v", o, getErr)
	}
	return result, err
}

// message is a request with its references resolved.
type message struct {
	object       *unstructured.Unstructured
	version, uid string
	patch        client.Patch
}

func (s *side) compose(o operation, key client.ObjectKey, history []*unstructured.Unstructured) message {
	current := manifest(o.kind)
	if len(history) > 0 && o.verb != "create" {
		current = history[len(history)-1].DeepCopy()
	}
	sent := message{version: reference(o.version, history, (*unstructured.Unstructured).GetResourceVersion, "1"),
		uid: reference(o.uid, history, func(of *unstructured.Unstructured) string { return string(of.GetUID()) }, wrongUID)}
	current.SetResourceVersion(sent.version)
	current.SetUID(types.UID(sent.uid))
	current.SetManagedFields(nil)
	current.SetNamespace(key.Namespace)
	current.SetName(key.Name)
	sets := changes[o.kind][o.change]
	if sets == nil {
		sets = changes[""][o.change]
	}
	if o.verb == "create" {
		current.SetLabels(map[string]string{"sequence": strings.TrimSuffix(s.prefix, "-")})
		current.SetAnnotations(map[string]string{"a": "b"})
	}
	if o.verb == "patch" {
		data, kind := patchFor(o, sets, sent.version, sent.uid)
		sent.patch = client.RawPatch(kind, data)
	} else {
		current = change(current, sets)
	}
	sent.object = current
	return sent
}

// reference resolves a name to a value that this server has given out.
func reference(
	name string, history []*unstructured.Unstructured, of func(*unstructured.Unstructured) string, wrong string,
) string {
	switch {
	case name == "current" && len(history) > 0:
		return of(history[len(history)-1])
	case name == "stale" && len(history) > 1:
		return of(history[len(history)-2])
	case name == "wrong":
		return wrong
	}
	return ""
}

func (s *side) send(t *testing.T, o operation, m message) error {
	t.Helper()
	switch {
	case o.verb == "create" && o.dryRun:
		return s.client.Create(t.Context(), m.object, client.DryRunAll)
	case o.verb == "create" && o.kind == "PersistentVolumeClaim": // See the exceptions.
		if err := s.client.Create(t.Context(), m.object); err != nil {
			return err
		}
		return s.client.Update(t.Context(), m.object)
	case o.verb == "create":
		return s.client.Create(t.Context(), m.object)
	case o.verb == "update" && o.subresource == "status":
		return s.client.Status().Update(t.Context(), m.object)
	case o.verb == "update" && o.dryRun:
		return s.client.Update(t.Context(), m.object, client.DryRunAll)
	case o.verb == "update":
		return s.client.Update(t.Context(), m.object)
	case o.verb == "patch" && o.subresource == "status":
		return s.client.Status().Patch(t.Context(), m.object, m.patch)
	case o.verb == "patch" && o.dryRun:
		return s.client.Patch(t.Context(), m.object, m.patch, client.DryRunAll)
	case o.verb == "patch":
		return s.client.Patch(t.Context(), m.object, m.patch)
	case o.verb == "scale":
		scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
			Name: m.object.GetName(), Namespace: m.object.GetNamespace(), ResourceVersion: m.version}}
		scale.Spec.Replicas = 2
		return s.client.SubResource("scale").Update(t.Context(), m.object, client.WithSubResourceBody(scale))
	default:
		return s.client.Delete(t.Context(), m.object, deleteOptions(o, m))
	}
}

func deleteOptions(o operation, m message) *client.DeleteOptions {
	options := &client.DeleteOptions{Preconditions: &metav1.Preconditions{}}
	if m.uid != "" {
		options.Preconditions.UID = new(types.UID(m.uid))
	}
	if m.version != "" {
		options.Preconditions.ResourceVersion = &m.version
	}
	if o.propagation != "" {
		options.PropagationPolicy = new(metav1.DeletionPropagation(o.propagation))
	}
	if o.grace != "" {
		options.GracePeriodSeconds = new(int64)
		_, _ = fmt.Sscan(o.grace, options.GracePeriodSeconds)
	}
	if o.dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return options
}

func (s *side) list(t *testing.T, o operation) (answer, error) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(manifest(o.kind).GetAPIVersion())
	list.SetKind(o.kind + "List")
	options := []client.ListOption{client.InNamespace(s.namespace),
		client.MatchingLabels{"sequence": strings.TrimSuffix(s.prefix, "-")}}
	switch o.change {
	case "field":
		options = append(options, client.MatchingFields{"metadata.name": s.prefix + o.name})
	case "bad-field":
		options = append(options, client.MatchingFields{"spec.wild": "x"})
	}
	result := answer{}
	err := s.client.List(t.Context(), list, options...)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		result.Code, result.Reason = status.Status().Code, status.Status().Reason
	}
	for _, item := range list.Items {
		result.Names = append(result.Names, item.GetName())
	}
	return result, err
}

// content removes what differs between any two servers.
func content(object *unstructured.Unstructured) map[string]any {
	rest := object.DeepCopy().Object
	metadata, _ := rest["metadata"].(map[string]any)
	for _, name := range []string{"managedFields", "uid", "resourceVersion"} {
		delete(metadata, name)
	}
	metadata["creationTimestamp"] = object.GetCreationTimestamp().Year() == 2001 // that is: taken over from the request
	if metadata["deletionTimestamp"] != nil {
		metadata["deletionTimestamp"] = "set"
	}
	return rest
}

// namesOf returns the changes that fit a kind, sorted: the order of a map would make a seed mean nothing.
func namesOf(kind string) []string {
	names := slices.Collect(maps.Keys(changes[""]))
	names = append(names, slices.Collect(maps.Keys(changes[kind]))...)
	slices.Sort(names)
	return names
}
