package admit_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
)

func TestFind(t *testing.T) {
	want := admit.Parameter{
		Name: "shared_buffers", Type: "integer", Unit: "8kB", Min: "16", Max: "1073741823", Choices: []string{},
		Context: admit.ContextPostmaster,
	}
	for _, major := range []string{"15", "17"} {
		got, found := admit.Find(major, "shared_buffers")
		if diff := cmp.Diff(want, got); !found || diff != "" {
			t.Errorf("shared_buffers of %s differs (-want +got):\n%s", major, diff)
		}
		if !got.Restart() {
			t.Errorf("shared_buffers of %s changes without a restart", major)
		}
	}
	if got, found := admit.Find("17", "timezone"); !found || got.Name != "TimeZone" || got.Restart() {
		t.Errorf("timezone is %+v", got)
	}
	if _, found := admit.Find("18", "shared_buffers"); found {
		t.Error("there is no catalogue of version 18, but it has an entry")
	}
}

func TestOrder(t *testing.T) {
	tests := map[string]struct{ wanted, want []string }{
		"nothing":          {nil, nil},
		"with its needs":   {[]string{"postgis_raster"}, []string{"postgis", "postgis_raster"}},
		"needs come first": {[]string{"pgrouting", "cube"}, []string{"cube", "plpgsql", "postgis", "pgrouting"}},
		"deep": {
			[]string{"postgis_tiger_geocoder", "postgis"},
			[]string{"postgis", "fuzzystrmatch", "postgis_tiger_geocoder"},
		},
		"unknown ones stay": {[]string{"zebra", "ape"}, []string{"ape", "zebra"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, admit.Order("17", test.wanted)); diff != "" {
				t.Errorf("order differs (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDatabase holds that no input makes the rules panic, that the answer is always the same, and that an object which
// does not change has no problem.
func FuzzDatabase(f *testing.F) {
	f.Add([]byte(`{"version":"17","parameters":{"work_mem":"1.5e2 MB"},"extensions":["postgis"]}`))
	f.Add([]byte(`{"version":"15","parameters":{"work_mem":"0x"},"resources":{"memory":"1"},"image":"a/b"}`))
	f.Add([]byte(`{"podTemplate":{"spec":{"containers":[{"name":"database","securityContext":{}}],"volumes":[null]}}}`))
	f.Add([]byte(`{"podTemplate":{"spec":[]},"storage":{"size":"1e9","walSize":"1"}}`))
	f.Add([]byte(`{"version":"17","parameters":{"max_connections":"-","shared_buffers":"1e400TB","timezone":""}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		database := &v1alpha1.GeoDatabase{}
		if json.Unmarshal(content, &database.Spec) != nil {
			database.Spec = v1alpha1.GeoDatabaseSpec{
				Version: "17", Image: string(content), Extensions: []string{string(content)},
				Parameters: map[string]v1alpha1.Setting{
					string(content): "1", "work_mem": v1alpha1.Setting(content),
					"seq_page_cost": v1alpha1.Setting(content),
				},
				PodTemplate: &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: content}},
			}
		}
		facts := admit.Facts{Classes: []admit.StorageClass{{Name: "a", Default: true}},
			Claims: []admit.Claim{{Name: "x"}}}
		first := admit.Database(database, nil, facts)
		if diff := cmp.Diff(first, admit.Database(database, nil, facts)); diff != "" {
			t.Errorf("two answers to one question:\n%s", diff)
		}
		if problems := admit.Database(database, database, facts); len(problems) > 0 {
			t.Errorf("no change, but problems: %s", admit.Message(problems))
		}
	})
}

// What a cache may have is known to both servers, is what the schema allows, and is what the guide shows.
func TestAllowedCacheNames(t *testing.T) {
	if !slices.IsSorted(admit.AllowedCacheNames) {
		t.Error("the list is not sorted")
	}
	for _, file := range []string{"catalogue/redis.txt", "catalogue/valkey.txt"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		known := strings.Fields(string(content))
		for _, name := range admit.AllowedCacheNames {
			if !slices.Contains(known, name) {
				t.Errorf("%s does not know %s", file, name)
			}
		}
	}
	definition, err := os.ReadFile("../../deploy/crds/meridian.dev_geocaches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := yaml.YAMLToJSON(definition)
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Join(admit.AllowedCacheNames, "|")
	if count := strings.Count(string(schema), "key.matches('^("+list+")$')"); count != 2 {
		t.Errorf("the schema allows something else: %d rules have the list", count)
	}
	if !strings.Contains(string(schema), "Allowed are "+strings.Join(admit.AllowedCacheNames, ", ")+"'") {
		t.Error("the schema says that something else is allowed")
	}
	guide, err := os.ReadFile("../../docs/guide/caches.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "## Settings of the server")
	section, _, _ = strings.Cut(section, "\n## ")
	var shown []string
	for _, row := range strings.Split(section, "\n") {
		if cells := strings.Split(row, "|"); len(cells) > 2 && strings.Contains(cells[2], "`") {
			for _, name := range strings.Split(cells[2], ",") {
				shown = append(shown, strings.Trim(name, " `"))
			}
		}
	}
	slices.Sort(shown)
	if !slices.Equal(shown, admit.AllowedCacheNames) {
		t.Errorf("the guide shows %v", shown)
	}
}
