//go:build cluster

package api_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/test/specs"
)

var (
	changesFlag = flag.Int("changes", 250, "specs: how many random changes of each kind")
	seedFlag    = flag.Uint64("seed", 1, "specs: the first seed")
)

// perObject is how many changes an object sees: each object has a seed of its own.
const perObject = 50

// oneWay are fields whose new value may be refused on the way back, by what the documents say of them.
var oneWay = []string{
	"spec.storage.size",    // a volume never shrinks
	"spec.storage.walSize", // nor does that of the log
}

// specHistory is what was done to one object.
type specHistory struct {
	kind             *specs.Kind
	random           *rand.Rand
	stored           *unstructured.Unstructured
	told             []string
	accepted, undone int
	byWebhook        int
	refused          map[string]int
}

// TestSpecs changes objects at random, one change after another, as the schema says or nearly so. The API server with
// its rules and the webhook take a change, or refuse it by the name of a field and change nothing; what was taken can
// be taken back.
func TestSpecs(t *testing.T) {
	t.Parallel()
	installed := newInstallation(t)
	failClosed(t, installed.namespace)
	installed.startReplica(t)
	alone := newNamespace(t)
	for name, words := range map[string]map[string][]any{geoDatabase: specs.Database(), geoCache: specs.Cache()} {
		t.Run(name, func(t *testing.T) {
			kind, err := specs.Load(filepath.Join(crds, "meridian.dev_"+strings.ToLower(name)+"s.yaml"), words)
			if err != nil {
				t.Fatal(err)
			}
			accepted, undone, byWebhook, refused := 0, 0, 0, map[string]int{}
			for seed := *seedFlag; seed < *seedFlag+uint64(*changesFlag/perObject); seed++ {
				h := &specHistory{kind: kind, random: rand.New(rand.NewPCG(seed, 0)), refused: refused}
				namespace := installed.namespace
				if seed%3 == 0 { // No webhook is asked there: the rules of the schema stand alone.
					namespace = alone
				}
				h.live(t, namespace, seed)
				byWebhook += h.byWebhook
				accepted, undone = accepted+h.accepted, undone+h.undone
			}
			sum := 0
			for _, count := range refused {
				sum += count
			}
			t.Logf("%d changes taken, %d of them taken back, %d refused by the names of %d fields, %d by the webhook",
				accepted, undone, sum, len(refused), byWebhook)
			if byWebhook == 0 || accepted < *changesFlag/10 || sum < *changesFlag/10 || undone == 0 || len(refused) < 5 {
				t.Error("that shows nothing")
			}
		})
	}
}

func (h *specHistory) live(t *testing.T, namespace string, seed uint64) {
	t.Helper()
	manifest := "spec: {storage: {size: 1Gi}}"
	if h.kind.Name == geoCache {
		manifest = cacheSpec("")
	}
	h.stored = object(t, h.kind.Name, namespace, manifest)
	h.stored.SetName(fmt.Sprintf("cities-%d", seed))
	if err := cluster.Create(t.Context(), h.stored); err != nil {
		t.Fatal(err)
	}
	for range perObject {
		before := h.spec()
		changed, change := h.kind.Change(h.random, before)
		if h.random.IntN(5) == 0 {
			var second specs.Change
			changed, second = h.kind.Change(h.random, changed)
			change.Text += ", and " + second.String()
		}
		h.told = append(h.told, change.String())
		if !h.try(t, seed, changed) {
			if refusal := h.told[len(h.told)-1]; !names(refusal, change) {
				t.Errorf("seed %d: the refusal is about something else: %s", seed, h.story())
			}
			continue
		}
		h.accepted++
		if h.random.IntN(3) > 0 {
			continue
		}
		h.told = append(h.told, "and back again")
		if refusals := len(h.told); h.try(t, seed, before) {
			h.undone++
		} else if !h.mayStay(h.told[refusals]) {
			t.Errorf("seed %d: what was taken cannot be taken back: %s", seed, h.story())
		}
	}
}

// mayStay tells whether a refusal is about a field that only goes one way.
func (h *specHistory) mayStay(refusal string) bool {
	return slices.ContainsFunc(oneWay, func(field string) bool { return strings.Contains(refusal, field) })
}

func (h *specHistory) spec() map[string]any {
	spec, _, _ := unstructured.NestedMap(h.stored.Object, "spec")
	return spec
}

var fieldName = regexp.MustCompile(`\bspec(\.[A-Za-z]+|\[[^\]]*\])*`)

// try sends a spec. What is refused names a field, and is as it was.
func (h *specHistory) try(t *testing.T, seed uint64, spec map[string]any) (taken bool) {
	t.Helper()
	wanted := h.stored.DeepCopy()
	wanted.Object["spec"] = runtime.DeepCopyJSON(spec)
	err := cluster.Update(t.Context(), wanted)
	if err == nil {
		h.stored = wanted
		h.decode(t, seed)
		return true
	}
	h.told = append(h.told, "refused: "+cut(err.Error()))
	var status apierrors.APIStatus
	field := fieldName.FindString(err.Error())
	if !errors.As(err, &status) || !(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)) || field == "" {
		t.Errorf("seed %d: refused as %s, by the field %q: %s", seed, apierrors.ReasonForError(err), field, h.story())
	}
	h.refused[field]++
	if strings.Contains(err.Error(), "admission webhook") {
		h.byWebhook++
	}
	now := h.stored.DeepCopy()
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil ||
		now.GetResourceVersion() != h.stored.GetResourceVersion() {
		t.Errorf("seed %d: it was refused and is not as it was: %v: %s", seed, err, h.story())
	}
	return false
}

// decode reads what was taken as the operator does. One object that it cannot read would hide all others from it.
func (h *specHistory) decode(t *testing.T, seed uint64) {
	t.Helper()
	content, err := json.Marshal(h.stored.Object)
	var typed any = &v1alpha1.GeoDatabase{}
	if h.kind.Name == geoCache {
		typed = &v1alpha1.GeoCache{}
	}
	if err := errors.Join(err, json.Unmarshal(content, typed)); err != nil {
		t.Errorf("seed %d: what was taken cannot be read: %v: %s", seed, err, h.story())
	}
}

// story is what was done last, and the spec as it was before that.
func (h *specHistory) story() string {
	content, err := yaml.Marshal(h.spec())
	if err != nil {
		return err.Error()
	}
	return strings.Join(h.told[max(0, len(h.told)-4):], "\n  ") + "\nspec:\n" + cut(string(content))
}

// names tells whether a refusal is about one of the fields that were changed, as far as the part of the spec goes:
// rules that hold two fields against each other name the one that is easier to repair.
func names(refusal string, change specs.Change) bool {
	for _, field := range fieldName.FindAllString(change.String(), -1) {
		part := strings.SplitN(strings.TrimPrefix(field, "spec."), ".", 2)[0]
		if strings.Contains(refusal, "spec."+strings.TrimSuffix(part, "[]")) {
			return true
		}
	}
	return false
}

func cut(text string) string { return text[:min(len(text), 1500)] }
