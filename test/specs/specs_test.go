package specs_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"meridian.dev/meridian/test/specs"
)

func load(t *testing.T, name string, words map[string][]any) *specs.Kind {
	t.Helper()
	kind, err := specs.Load("../../deploy/crds/meridian.dev_"+name+".yaml", words)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// TestEveryFieldIsChanged shows that every field of the schema is reached by changes that come one after another, or
// lies in what was set as a whole, and that the same randomness makes the same changes.
func TestEveryFieldIsChanged(t *testing.T) {
	for name, words := range map[string]map[string][]any{"geodatabases": specs.Database(), "geocaches": specs.Cache()} {
		t.Run(name, func(t *testing.T) {
			kind := load(t, name, words)
			one, other := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
			spec, changed := map[string]any{}, map[string]bool{}
			for range 20_000 {
				before := runtime.DeepCopyJSON(spec)
				next, change := kind.Change(one, spec)
				again, same := kind.Change(other, spec)
				if change != same || !reflect.DeepEqual(next, again) {
					t.Fatalf("the same change is %s and %s", change, same)
				}
				if !reflect.DeepEqual(before, spec) {
					t.Fatalf("%s has changed the spec that was given", change)
				}
				changed[change.Field] = true
				note(kind, changed, "spec", next)
				spec = next
			}
			var never []string
			for _, field := range kind.Fields() {
				if !changed[field] && field != "spec" {
					never = append(never, field)
				}
			}
			if len(never) > 0 {
				t.Errorf("never changed: %q", never)
			}
		})
	}
}

// note adds the fields that a value has.
func note(kind *specs.Kind, there map[string]bool, path string, value any) {
	there[path] = true
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if field := path + "." + name; slices.Contains(kind.Fields(), field) {
				note(kind, there, field, inner)
			} else {
				note(kind, there, path+"{}", inner)
			}
		}
	case []any:
		for _, inner := range value {
			note(kind, there, path+"[]", inner)
		}
	}
}

// TestWordsOfNoField refuses words that nothing would ever say.
func TestWordsOfNoField(t *testing.T) {
	_, err := specs.Load("../../deploy/crds/meridian.dev_geocaches.yaml", map[string][]any{"spec.nothing": {"x"}})
	if err == nil {
		t.Error("words for a field that there is not are taken")
	}
	if !slices.Contains(load(t, "geocaches", nil).Fields(), "spec.network.clients[].cidr") {
		t.Error("the fields of the items of lists are not there")
	}
}
