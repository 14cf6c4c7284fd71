package lives_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/lives"
	"meridian.dev/meridian/test/specs"
)

var (
	specsFlag  = flag.Int("specs", 12, "specs: how many lives with random changes")
	firstsFlag = flag.Uint64("specs-from", 1, "specs: the seed of the first one")
)

const (
	// changesOfALife are made one after another, each when the world has come to rest, or before that by a swarm.
	changesOfALife = 5
	// annotationBegan bears the spec that a user goes back to.
	annotationBegan = "example.com/began"
)

// schemas of what users write are read once.
var databaseSpecs = sync.OnceValues(func() (*specs.Kind, error) {
	definition := filepath.Join("..", "..", "..", "deploy", "crds", "meridian.dev_geodatabases.yaml")
	return specs.Load(definition, specs.Database())
})

// spelling is one life: a user changes the spec at random, and takes it all back in the end.
type spelling struct {
	kind *specs.Kind
	seed uint64
	mu   sync.Mutex
	// taken and refused are the changes by their text, for the figures: a step may be done more than once.
	taken, refused map[string]bool
}

func (s *spelling) note(into map[string]bool, step int, change specs.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	into[fmt.Sprintf("%d.%d %s", s.seed, step, change)] = true
}

// told are the changes that were taken, in order.
func (s *spelling) told() []string { return slices.Sorted(maps.Keys(s.taken)) }

func readSpec(ctx context.Context, cluster client.Client) (*unstructured.Unstructured, map[string]any, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GeoDatabase"))
	if err := cluster.Get(ctx, lives.Cities, found); err != nil {
		return nil, nil, err
	}
	spec, _, err := unstructured.NestedMap(found.Object, "spec")
	return found, spec, err
}

// begin writes down what the spec is.
func (s *spelling) begin(ctx context.Context, cluster client.Client) error {
	found, spec, err := readSpec(ctx, cluster)
	if err != nil {
		return err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	found.SetAnnotations(map[string]string{annotationBegan: string(text)})
	return cluster.Update(ctx, found)
}

// change makes the change with this number. What is refused changes nothing.
func (s *spelling) change(number int) func(context.Context, client.Client) error {
	return func(ctx context.Context, cluster client.Client) error {
		found, spec, err := readSpec(ctx, cluster)
		if err != nil {
			return err
		}
		changed, change := s.kind.Change(rand.New(rand.NewPCG(s.seed, uint64(number))), spec)
		found.Object["spec"] = changed
		switch err := cluster.Update(ctx, found); {
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			s.note(s.refused, number, change)
			return nil
		case err != nil:
			return err
		}
		s.note(s.taken, number, change)
		return nil
	}
}

// undo takes everything back, but for the sizes of volumes, which never shrink.
func (s *spelling) undo(ctx context.Context, cluster client.Client) error {
	found, spec, err := readSpec(ctx, cluster)
	if err != nil {
		return err
	}
	var began map[string]any
	if err := json.Unmarshal([]byte(found.GetAnnotations()[annotationBegan]), &began); err != nil {
		return err
	}
	for _, size := range []string{"size", "walSize"} {
		if value, there, _ := unstructured.NestedString(spec, "storage", size); there {
			if err := unstructured.SetNestedField(began, value, "storage", size); err != nil {
				return err
			}
		}
	}
	found.Object["spec"] = began
	if err := cluster.Update(ctx, found); err != nil {
		return fmt.Errorf("what was taken cannot be taken back: %w", err)
	}
	return nil
}

// recovered says that the database is as it was asked for.
func recovered(state search.State) error {
	var found v1alpha1.GeoDatabase
	if err := state.Get(context.Background(), lives.Cities, &found); err != nil {
		return err
	}
	if !condition.IsTrue(found.Status.Conditions, condition.Ready) || found.Status.ObservedGeneration != found.Generation {
		return fmt.Errorf("it has not recovered: %+v; waits for %s", found.Status.Conditions, found.Status.WaitingFor)
	}
	return nil
}

// life is that of a database of three.
func (s *spelling) life() (lives.Life, error) {
	all := lives.Lives()
	at := slices.IndexFunc(all, func(life lives.Life) bool { return life.Name == "create three" })
	if at < 0 {
		return lives.Life{}, errors.New("there is no such life")
	}
	life := all[at]
	life.Name = fmt.Sprintf("specs %d", s.seed)
	life.Restarts, life.Moves, life.End = 1000, 1000, recovered
	life.Script = append(slices.Clone(life.Script), search.Step{Name: "write down the spec", Do: s.begin})
	for number := range changesOfALife {
		life.Script = append(life.Script, search.Step{Name: fmt.Sprintf("change %d", number), Do: s.change(number)})
	}
	life.Script = append(life.Script, search.Step{Name: "take it back", Do: s.undo})
	return life, nil
}

// TestSpecs has a user change the spec of a database at random, one change after another, without a fault and with many
// at random: what is promised holds all the time, and whoever takes it all back has the database that they had.
func TestSpecs(t *testing.T) {
	kind, err := databaseSpecs()
	if err != nil {
		t.Fatal(err)
	}
	taken, refused := 0, 0
	for seed := *firstsFlag; seed < *firstsFlag+uint64(*specsFlag); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := &spelling{kind: kind, seed: seed, taken: map[string]bool{}, refused: map[string]bool{}}
			life, err := s.life()
			if err != nil {
				t.Fatal(err)
			}
			scenario, err := life.Scenario(lives.Flaw{})
			if err != nil {
				t.Fatal(err)
			}
			result, err := search.Run(scenario, search.Schedule{}, 2*turns)
			if err == nil && result.Violation == nil {
				result, err = search.Random(scenario, seed, 4*turns)
			}
			if err != nil {
				t.Fatalf("%v: %q", err, s.told())
			}
			if result.Violation != nil {
				t.Errorf("%s after %q\n%s", result.Violation, s.told(), result.Story())
			}
			taken, refused = taken+len(s.taken), refused+len(s.refused)
		})
	}
	t.Logf("%d changes were taken, %d refused", taken, refused)
	if taken < *specsFlag || refused == 0 {
		t.Error("that shows nothing")
	}
}
