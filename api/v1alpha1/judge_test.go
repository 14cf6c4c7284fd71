package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// maxCRDBytes keeps a definition small enough for plain `kubectl apply`, which stores it once more in an annotation of
// at most 256 KiB, with much room to grow.
const maxCRDBytes = 96 << 10

// judge answers as the API server would: it defaults, prunes and validates with the API server's own code, without
// starting one. The generated files are what it judges by, so a stale one shows here too.
type judge struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func newJudge(t *testing.T, plural string) judge {
	t.Helper()
	crd := readCRD(t, plural)
	var props apiextensions.JSONSchemaProps
	external := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external, &props, nil)
	if err != nil {
		t.Fatalf("convert the schema of %s: %v", plural, err)
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		t.Fatalf("the schema of %s is not structural: %v", plural, err)
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		t.Fatalf("build the validator of %s: %v", plural, err)
	}
	return judge{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

func readCRD(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "deploy", "crds", "meridian.dev_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(content) > maxCRDBytes {
		t.Errorf("the definition of %s has %d bytes, at most %d", plural, len(content), maxCRDBytes)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, crd); err != nil {
		t.Fatalf("parse the definition of %s: %v", plural, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	return crd
}

// admit fills in defaults and returns the object with every reason to refuse it. An empty old means that it is created.
func (j judge) admit(t *testing.T, old, manifest string) (object map[string]any, refusals []string) {
	t.Helper()
	object = j.read(t, manifest)
	var before any // must stay an untyped nil for a create
	if old != "" {
		before = j.read(t, old)
	}
	for _, err := range validation.ValidateCustomResource(nil, object, j.schema) {
		refusals = append(refusals, err.Error())
	}
	for _, err := range listtype.ValidateListSetsAndMaps(nil, j.structural, object) {
		refusals = append(refusals, err.Error())
	}
	errs, _ := j.rules.Validate(t.Context(), nil, j.structural, object, before, celconfig.RuntimeCELCostBudget)
	for _, err := range errs {
		refusals = append(refusals, err.Error())
	}
	return object, refusals
}

func (j judge) read(t *testing.T, manifest string) map[string]any {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatalf("parse %q: %v", manifest, err)
	}
	object := map[string]any{}
	// Unlike the standard library, this one reads whole numbers as integers, as the API server does.
	if err := json.Unmarshal(content, &object); err != nil {
		t.Fatalf("parse %q: %v", manifest, err)
	}
	if object["metadata"] == nil {
		object["metadata"] = map[string]any{"name": "tiles"}
	}
	pruning.Prune(object, j.structural, true)
	defaulting.Default(object, j.structural)
	return object
}

// TestDefinitionsAreValid asks the API server's code whether it would take the definitions, with the cost of each rule.
func TestDefinitionsAreValid(t *testing.T) {
	for _, plural := range []string{"geodatabases", "geocaches"} {
		t.Run(plural, func(t *testing.T) {
			crd := readCRD(t, plural)
			internal := &apiextensions.CustomResourceDefinition{}
			convert := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition
			if err := convert(crd, internal, nil); err != nil {
				t.Fatal(err)
			}
			for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
				// What is stored is filled in by the API server when it takes the definition.
				if !strings.HasPrefix(err.Field, "status.storedVersions") {
					t.Error(err)
				}
			}
		})
	}
}
