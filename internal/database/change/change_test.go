package change_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database/change"
)

// TestTableIsWhole finds fields of the API that the table does not have, and rows without a field.
func TestTableIsWhole(t *testing.T) {
	var rows []string
	for _, field := range change.Table {
		rows = append(rows, field.Path)
		if len(field.Classes) == 0 || !strings.HasSuffix(field.Does, ".") {
			t.Errorf("%s: a row has a class and a sentence", field.Path)
		}
		for _, class := range field.Classes {
			if change.Classes()[class] == "" {
				t.Errorf("%s: the class %q has no meaning", field.Path, class)
			}
		}
	}
	slices.Sort(rows)
	if diff := cmp.Diff(change.Paths(), rows); diff != "" {
		t.Errorf("the fields of the API and the rows of the table differ (-API +table):\n%s", diff)
	}
}

func spec(t *testing.T, document string) v1alpha1.GeoDatabaseSpec {
	t.Helper()
	var spec v1alpha1.GeoDatabaseSpec
	base := `{"instances":3,"version":"17","profile":"general","storage":{"size":"10Gi","reclaim":"Retain"},
		"resources":{"cpu":"1","memory":"2Gi"},"bootstrap":{"database":"app","owner":"app"}}`
	for _, text := range []string{base, document} {
		if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
	}
	return spec
}

func TestPreview(t *testing.T) {
	facts := change.Facts{Instances: []string{"c-1", "c-2", "c-3"}, Primary: "c-2"}
	roll := func(does string) []string {
		return []string{"c-3 " + does, "c-1 " + does, "c-2 it hands over to a replica", "c-2 " + does}
	}
	each := func(does string) []string { return []string{"c-1 " + does, "c-2 " + does, "c-3 " + does} }
	tests := map[string]struct {
		change  string
		classes string
		want    []string
	}{
		"nothing":     {change: `{}`},
		"an image":    {`{"image":"mine:2"}`, "rolling replacement", roll("its pod is replaced")},
		"a restart":   {`{"restart":"now"}`, "rolling replacement", roll("its pod is replaced")},
		"a parameter": {`{"parameters":{"work_mem":"64MB"}}`, "reload", each("its server reloads work_mem")},
		"a parameter that starts": {
			`{"parameters":{"max_connections":"150"}}`, "rolling restart", roll("its server restarts for max_connections"),
		},
		"an unknown parameter": {`{"parameters":{"no_such":"1"}}`, "refused", nil},
		"a managed parameter":  {`{"parameters":{"fsync":"off"}}`, "refused", nil},
		"a smaller volume":     {`{"storage":{"size":"1Gi"}}`, "refused", nil},
		"a larger volume": {
			`{"storage":{"size":"20Gi"},"parameters":{"max_wal_size":"1GB"}}`, "live, reload", []string{
				"c-1 its volume grows to 20Gi", "c-1 its server reloads max_slot_wal_keep_size, max_wal_size",
				"c-2 its volume grows to 20Gi", "c-2 its server reloads max_slot_wal_keep_size, max_wal_size",
				"c-3 its volume grows to 20Gi", "c-3 its server reloads max_slot_wal_keep_size, max_wal_size",
			},
		},
		"an image and a parameter": {
			`{"image":"mine:2","parameters":{"max_connections":"150"}}`, "rolling replacement, rolling restart",
			roll("its pod is replaced"),
		},
		"a major version": {`{"version":"15"}`, "refused", nil},
		"more instances":  {`{"instances":5}`, "live", []string{" instances go from 3 to 5"}},
		"sleep": {
			`{"hibernated":true}`, "stop and start", []string{" all instances stop, replicas first; volumes stay"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changes, steps := change.Preview(spec(t, `{}`), spec(t, test.change), facts)
			var classes, got []string
			for _, one := range changes {
				classes = append(classes, string(one.Class))
			}
			for _, step := range steps {
				got = append(got, step.Instance+" "+step.Does)
			}
			if strings.Join(classes, ", ") != test.classes {
				t.Errorf("classes %q, want %q", classes, test.classes)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("steps differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPreviewOfOne has nobody to hand over to.
func TestPreviewOfOne(t *testing.T) {
	_, steps := change.Preview(spec(t, `{"instances":1}`), spec(t, `{"instances":1,"image":"mine:2"}`),
		change.Facts{Instances: []string{"c-1"}, Primary: "c-1"})
	if len(steps) != 1 || steps[0].Interrupts == "" {
		t.Errorf("steps %+v", steps)
	}
}
