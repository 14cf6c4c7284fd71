package apply

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// systemMetadata are the fields of metadata that identify an object or belong to the API server. They are no intent.
var systemMetadata = []string{
	"name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink",
}

// treeOf converts an object to maps, slices, strings, booleans and numbers, which are the caller's. The managed fields
// are left out: they are the larger half of many objects, and never part of a comparison.
func treeOf(obj client.Object) (map[string]any, error) {
	if untyped, ok := obj.(runtime.Unstructured); ok {
		return runtime.DeepCopyJSON(untyped.UnstructuredContent()), nil
	}
	shallow := reflect.New(reflect.TypeOf(obj).Elem())
	shallow.Elem().Set(reflect.ValueOf(obj).Elem())
	bare := shallow.Interface().(client.Object)
	bare.SetManagedFields(nil)
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(bare)
	if err != nil {
		return nil, fmt.Errorf("convert a %T: %w", obj, err)
	}
	return tree, nil
}

// trim removes from the tree of an intent what is no intent.
func trim(tree map[string]any) {
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(tree, name)
	}
	metadata := mapIn(tree, "metadata")
	for _, name := range systemMetadata {
		delete(metadata, name)
	}
	dropNulls(tree)
}

func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			if child == nil {
				delete(value, name)
				continue
			}
			dropNulls(child)
		}
	case []any:
		for _, child := range value {
			dropNulls(child)
		}
	}
}

// mapIn returns the map under name, and makes it if there is none.
func mapIn(tree map[string]any, name string) map[string]any {
	if found, ok := tree[name].(map[string]any); ok && found != nil {
		return found
	}
	made := map[string]any{}
	tree[name] = made
	return made
}

// reflectable returns the struct behind a typed object, and nothing for an unstructured one.
func reflectable(obj client.Object) reflect.Value {
	if _, ok := obj.(runtime.Unstructured); ok {
		return reflect.Value{}
	}
	return reflect.Indirect(reflect.ValueOf(obj))
}

// pruneZeroStructs removes from the tree the fields whose Go type is a struct (not a pointer to one) of zero value.
// JSON has no way to omit them, so they appear as {} or, like an unset targetPort, as 0, although nobody meant them.
func pruneZeroStructs(from reflect.Value, tree any) {
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			pruneZeroStructs(from.Elem(), tree)
		}
	case reflect.Slice:
		entries, ok := tree.([]any)
		for i := 0; ok && i < from.Len() && i < len(entries); i++ {
			pruneZeroStructs(from.Index(i), entries[i])
		}
	case reflect.Struct:
		if children, ok := tree.(map[string]any); ok {
			pruneZeroFields(from, children)
		}
	}
}

func pruneZeroFields(from reflect.Value, children map[string]any) {
	for i := range from.NumField() {
		description := from.Type().Field(i)
		if !description.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(description.Tag.Get("json"), ",")
		field := from.Field(i)
		switch {
		case name == "" && description.Anonymous:
			pruneZeroFields(reflect.Indirect(field), children)
		case field.Kind() == reflect.Struct && field.IsZero():
			delete(children, name)
		default:
			pruneZeroStructs(field, children[name])
		}
	}
}

// entryKeys says by which fields the entries of a list are told apart, by the name of the list, as the API server's own
// schemas have it. A list that is not here, or whose entries lack these fields or repeat them, is compared as a whole.
var entryKeys = map[string][][]string{
	"containers":                {{"name"}},
	"initContainers":            {{"name"}},
	"ephemeralContainers":       {{"name"}},
	"env":                       {{"name"}},
	"volumes":                   {{"name"}},
	"volumeMounts":              {{"mountPath"}},
	"volumeDevices":             {{"devicePath"}},
	"imagePullSecrets":          {{"name"}},
	"secrets":                   {{"name"}},
	"resourceClaims":            {{"name"}},
	"hostAliases":               {{"ip"}},
	"topologySpreadConstraints": {{"topologyKey", "whenUnsatisfiable"}},
	"ports":                     {{"containerPort", "protocol"}, {"port", "protocol"}},
	"ownerReferences":           {{"uid"}},
	"webhooks":                  {{"name"}},
	"finalizers":                {{}}, // A set: the entry is its own key.
}

// keyDefaults are the values that the API server gives to key fields that are left out.
var keyDefaults = map[string]string{"protocol": "TCP"}

// openMaps are the maps in which others may have entries beside ours. When such a map leaves the intent, only
// our entries are removed. Any other map is a structure, and is removed with the defaults inside it.
var openMaps = []string{
	"metadata", "labels", "annotations", "data", "binaryData", "nodeSelector", "limits", "requests", "parameters",
}

// unions are the structures whose field "type" says which of their other fields are allowed. When the type changes, the
// defaults of the type before would be refused, so the structure is written as a whole.
var unions = []string{"strategy", "updateStrategy"}

// keysOf returns the key of each entry, or false if the list of that name is not one of told-apart entries.
func keysOf(name string, list []any) ([]string, bool) {
	for _, names := range entryKeys[name] {
		keys := make([]string, 0, len(list))
		for _, entry := range list {
			key, ok := keyOf(entry, names)
			if !ok || slices.Contains(keys, key) {
				break
			}
			keys = append(keys, key)
		}
		if len(keys) == len(list) {
			return keys, true
		}
	}
	return nil, false
}

func keyOf(entry any, names []string) (string, bool) {
	if len(names) == 0 {
		text, ok := entry.(string)
		return text, ok
	}
	children, ok := entry.(map[string]any)
	if !ok {
		return "", false
	}
	parts := make([]string, 0, len(names))
	for _, name := range names {
		value, ok := children[name]
		if !ok {
			fallback, has := keyDefaults[name]
			if !has {
				return "", false
			}
			value = fallback
		}
		parts = append(parts, fmt.Sprintf("%s=%v", name, value))
	}
	return strings.Join(parts, ","), true
}
