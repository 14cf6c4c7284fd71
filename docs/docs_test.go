package docs_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/docs"
	"meridian.dev/meridian/internal/plugin"
	"meridian.dev/meridian/kit/sim"
)

func TestPages(t *testing.T) {
	for _, name := range []string{"LeaseLost", "MeridianNotServing"} {
		if page, err := docs.Page(name); err != nil || !strings.HasPrefix(page, "# "+name+"\n") {
			t.Errorf("the page %s: %v", name, err)
		}
	}
	if len(docs.Reasons()) < 50 || len(docs.Alerts()) < 15 {
		t.Errorf("%d reasons and %d alerts", len(docs.Reasons()), len(docs.Alerts()))
	}
}

// definitions are the custom resources, as their files have them.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	files, err := filepath.Glob("../deploy/crds/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("definitions: %v, %v", files, err)
	}
	for _, file := range files {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(read(t, file), &definition); err != nil {
			t.Fatal(err)
		}
		found[definition.Spec.Names.Kind] = &definition
	}
	return found
}

func newServer(t *testing.T) client.Client {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	options := sim.Options{Scheme: kinds}
	for _, definition := range definitions(t) {
		kind, err := sim.FromDefinition(definition, "v1alpha1")
		if err != nil {
			t.Fatal(err)
		}
		options.Kinds = append(options.Kinds, kind)
	}
	server, err := sim.New(options)
	if err != nil {
		t.Fatal(err)
	}
	process, err := server.Start(sim.Life{Name: "user"})
	if err != nil {
		t.Fatal(err)
	}
	return process.Live()
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func objects(t *testing.T, content []byte) []*unstructured.Unstructured {
	t.Helper()
	var found []*unstructured.Unstructured
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		text, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		if err := object.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		object.SetNamespace("maps")
		found = append(found, object)
	}
	return found
}

// TestSamples creates every sample with the schema and the rules of the definitions, and finds fields that would be
// dropped in silence.
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("../deploy/samples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("samples: %v, %v", files, err)
	}
	for _, file := range files {
		server := newServer(t)
		for _, object := range objects(t, read(t, file)) {
			wanted := object.DeepCopy()
			if err := server.Create(t.Context(), object); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			for _, lost := range missing("spec", wanted.Object["spec"], object.Object["spec"]) {
				t.Errorf("%s: %s is not a field", file, lost)
			}
		}
	}
}

// missing are paths that are in one tree and not in the other.
func missing(path string, wanted, stored any) []string {
	tree, isTree := wanted.(map[string]any)
	if !isTree {
		return nil
	}
	other, _ := stored.(map[string]any)
	var lost []string
	for key, value := range tree {
		if _, found := other[key]; !found {
			lost = append(lost, path+"."+key)
			continue
		}
		lost = append(lost, missing(path+"."+key, value, other[key])...)
	}
	return lost
}

// TestEveryField holds the sample of that name against the definitions. Some fields exclude each other, so the sample
// has several objects of a kind, and each field is in one of them.
func TestEveryField(t *testing.T) {
	all := map[string]any{}
	for _, object := range objects(t, read(t, "../deploy/samples/every-field.yaml")) {
		all[object.GetKind()] = merged(all[object.GetKind()], object.Object["spec"])
	}
	for kind, definition := range definitions(t) {
		schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		for _, lost := range unused("spec", schema, all[kind]) {
			t.Errorf("%s: the sample lacks %s", kind, lost)
		}
	}
}

// merged has what is in one tree or in the other.
func merged(one, other any) any {
	tree, isTree := one.(map[string]any)
	more, areTwo := other.(map[string]any)
	if !isTree || !areTwo {
		return other
	}
	for key, value := range more {
		tree[key] = merged(tree[key], value)
	}
	return tree
}

func unused(path string, schema apiextensionsv1.JSONSchemaProps, value any) []string {
	var lost []string
	fields, _ := value.(map[string]any)
	for name, inner := range schema.Properties {
		found, has := fields[name]
		switch {
		case !has:
			lost = append(lost, path+"."+name)
		case name == "namespaces" || name == "pods": // Selectors are those of Kubernetes.
		case inner.Type == "object":
			lost = append(lost, unused(path+"."+name, inner, found)...)
		}
	}
	return lost
}

var (
	link  = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	verbs = regexp.MustCompile(`kubectl meridian (?:-n \S+ )?([a-z]+)`)
)

// TestGuide follows every link in the documents, and looks for verbs of the plugin that do not exist.
func TestGuide(t *testing.T) {
	var known []string
	for _, verb := range plugin.New(plugin.Surroundings{}).Commands() {
		known = append(known, verb.Name())
	}
	files, err := filepath.Glob("guide/*.md")
	if err != nil || len(files) < 8 {
		t.Fatalf("guide: %v, %v", files, err)
	}
	pages, err := filepath.Glob("runbook/alerts/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(append(files, pages...), "demo.md", "../README.md") {
		text := string(read(t, file))
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), found[1])); err != nil {
				t.Errorf("%s points to %s, which does not exist", file, found[1])
			}
		}
		for _, found := range verbs.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(known, found[1]) {
				t.Errorf("%s: kubectl meridian has no verb %s", file, found[1])
			}
		}
	}
}

var testName = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")

// TestTableOfBackups looks for the tests that the table of cases names.
func TestTableOfBackups(t *testing.T) {
	written := map[string]bool{}
	for _, pattern := range []string{"../test/*/*_test.go", "../internal/*/*_test.go", "../internal/backup/*/*_test.go",
		"../internal/database/*/*_test.go",
		"../internal/backup/*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(read(t, file), -1) {
				written[string(found[1])] = true
			}
		}
	}
	named := testName.FindAllSubmatch(read(t, "../test/backup/README.md"), -1)
	if len(named) < 30 {
		t.Errorf("the table names %d tests", len(named))
	}
	for _, found := range named {
		if !written[string(found[1])] {
			t.Errorf("there is no %s", found[1])
		}
	}
}
