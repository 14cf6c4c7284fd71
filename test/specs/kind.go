package specs

import (
	"fmt"
	"os"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Kind is a kind of object whose specs can be changed.
type Kind struct {
	Name string
	spec apiextensionsv1.JSONSchemaProps
	// words are values that are worth trying, by the path of the field in the schema: patterns alone would hardly ever be
	// met by chance.
	words  map[string][]any
	fields []string
}

// Load reads the definition of a kind. Words are added to those that fit every field of a type.
func Load(file string, words map[string][]any) (*Kind, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(content, &definition); err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	if len(definition.Spec.Versions) == 0 || definition.Spec.Versions[0].Schema == nil {
		return nil, fmt.Errorf("%s has no version with a schema", file)
	}
	made := &Kind{
		Name: definition.Spec.Names.Kind, spec: definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"],
		words: words,
	}
	made.fields = fieldsOf(made.spec)
	for field := range words {
		if !slices.Contains(made.fields, field) {
			return nil, fmt.Errorf("there are words for %s, which %s does not have", field, made.Name)
		}
	}
	return made, nil
}

// Fields are the paths of all fields in the schema: [] stands for any item of a list, {} for any entry of a map.
func (k *Kind) Fields() []string { return k.fields }

func fieldsOf(spec apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	var walk func(path string, schema apiextensionsv1.JSONSchemaProps)
	walk = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		found = append(found, path)
		for _, name := range sortedKeys(schema.Properties) {
			walk(path+"."+name, schema.Properties[name])
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			walk(path+"[]", *schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			walk(path+"{}", *schema.AdditionalProperties.Schema)
		}
	}
	walk("spec", spec)
	return found
}
