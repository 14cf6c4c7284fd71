package sim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// FromDefinition makes a kind of one version of a custom resource definition. Defaults, pruning, schema and CEL rules
// are carried out by the code of the real API server.
func FromDefinition(definition *apiextensionsv1.CustomResourceDefinition, version string) (Kind, error) {
	defined := definition.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(defined)
	place := slices.IndexFunc(defined.Spec.Versions, func(each apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return each.Name == version
	})
	if place < 0 || defined.Spec.Versions[place].Schema == nil {
		return Kind{}, fmt.Errorf("definition %s has no version %q with a schema", defined.Name, version)
	}
	judge, err := newJudge(defined.Spec.Versions[place].Schema.OpenAPIV3Schema)
	if err != nil {
		return Kind{}, fmt.Errorf("definition %s: %w", defined.Name, err)
	}
	kind := Kind{
		GroupVersionKind: schema.GroupVersionKind{
			Group: defined.Spec.Group, Version: version, Kind: defined.Spec.Names.Kind,
		},
		Plural:  defined.Spec.Names.Plural,
		Cluster: defined.Spec.Scope == apiextensionsv1.ClusterScoped,
		Custom:  true, Generation: true, Conditional: true,
		Prepare: judge.prepare, Check: judge.check,
	}
	for _, selectable := range defined.Spec.Versions[place].SelectableFields {
		kind.Fields = append(kind.Fields, selectable.JSONPath[1:])
	}
	if parts := defined.Spec.Versions[place].Subresources; parts != nil {
		kind.Status = parts.Status != nil
		if parts.Scale != nil {
			kind.Scale = ScalePaths{Replicas: parts.Scale.SpecReplicasPath, StatusReplicas: parts.Scale.StatusReplicasPath}
			if parts.Scale.LabelSelectorPath != nil {
				kind.Scale.Selector = *parts.Scale.LabelSelectorPath
			}
		}
	}
	return kind, nil
}

// judge knows the schema of a custom resource.
type judge struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator // nil if there are none

	// known are verdicts that were given before: a search asks about the same objects thousands of times.
	mu    sync.Mutex
	known map[[sha256.Size]byte]field.ErrorList
}

// mostVerdicts are kept. When there are more, all are forgotten.
const mostVerdicts = 4096

func newJudge(external *apiextensionsv1.JSONSchemaProps) (*judge, error) {
	var props apiextensions.JSONSchemaProps
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external, &props, nil)
	if err != nil {
		return nil, fmt.Errorf("convert the schema: %w", err)
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("the schema is not structural: %w", err)
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("make the validator: %w", err)
	}
	return &judge{
		structural: structural, schema: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
		known: map[[sha256.Size]byte]field.ErrorList{},
	}, nil
}

func (j *judge) prepare(object, _ map[string]any) {
	pruning.Prune(object, j.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, j.structural)
	defaulting.Default(object, j.structural)
}

func (j *judge) check(object, old map[string]any) field.ErrorList {
	content, err := json.Marshal([]any{judged(object), judged(old)})
	if err != nil {
		return j.validate(object, old)
	}
	key := sha256.Sum256(content)
	j.mu.Lock()
	defer j.mu.Unlock()
	errs, known := j.known[key]
	if !known {
		errs = j.validate(object, old)
		if len(j.known) >= mostVerdicts {
			clear(j.known)
		}
		j.known[key] = errs
	}
	return slices.Clip(errs)
}

// judged is what schemas and rules see: of the metadata that is the name alone.
func judged(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	seen := maps.Clone(object)
	metadata, _ := object["metadata"].(map[string]any)
	seen["metadata"] = map[string]any{"name": metadata["name"], "generateName": metadata["generateName"]}
	return seen
}

func (j *judge) validate(object, old map[string]any) field.ErrorList {
	var before any // must stay an untyped nil for a create
	var errs field.ErrorList
	if old == nil {
		errs = validation.ValidateCustomResource(nil, object, j.schema)
	} else {
		before = old
		errs = validation.ValidateCustomResourceUpdate(nil, object, old, j.schema)
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, j.structural, object)...)
	if j.rules == nil || len(errs) > 0 {
		return errs
	}
	found, _ := j.rules.Validate(context.Background(), nil, j.structural, object, before, celconfig.RuntimeCELCostBudget)
	return append(errs, found...)
}
