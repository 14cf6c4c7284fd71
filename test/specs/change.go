package specs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Change is one that a user could make.
type Change struct {
	// Field is the path of the field in the schema.
	Field string
	// Text says what is done to it.
	Text string
}

func (c Change) String() string { return c.Field + " " + c.Text }

// changer makes one change.
type changer struct {
	kind   *Kind
	random *rand.Rand
	done   Change
}

// Change returns a spec with one field changed, and says which. The same randomness makes the same change.
func (k *Kind) Change(random *rand.Rand, spec map[string]any) (map[string]any, Change) {
	c := &changer{kind: k, random: random}
	changed := runtime.DeepCopyJSON(spec)
	for c.done.Field == "" {
		c.object("spec", k.spec, changed)
	}
	return changed, c.done
}

func (c *changer) did(field, format string, args ...any) {
	c.done = Change{Field: field, Text: fmt.Sprintf(format, args...)}
}

// object changes one property of an object.
func (c *changer) object(path string, schema apiextensionsv1.JSONSchemaProps, object map[string]any) {
	names := sortedKeys(schema.Properties)
	if len(names) == 0 {
		c.entry(path, schema, object)
		return
	}
	name := names[c.random.IntN(len(names))]
	field, property := path+"."+name, schema.Properties[name]
	value, there := object[name]
	switch inner := value.(type) {
	case map[string]any:
		if property.Type == "object" && c.often() {
			c.object(field, property, inner)
			return
		}
	case []any:
		if property.Type == "array" && c.often() {
			object[name] = c.list(field, property, inner)
			return
		}
	}
	if there && c.seldom() {
		delete(object, name)
		c.did(field, "is removed")
		return
	}
	object[name] = c.value(field, property)
	c.did(field, "is %s", told(object[name]))
}

// entry changes one entry of a map, or adds one.
func (c *changer) entry(path string, schema apiextensionsv1.JSONSchemaProps, object map[string]any) {
	field := path + "{}"
	names := slices.Sorted(maps.Keys(object))
	if len(names) > 0 && c.seldom() {
		name := names[c.random.IntN(len(names))]
		delete(object, name)
		c.did(field, "%s is removed", name)
		return
	}
	name, value := c.pair(field, schema)
	object[name] = value
	c.did(field, "%s is %s", name, told(value))
}

// pair is a name and a value for a map.
func (c *changer) pair(field string, schema apiextensionsv1.JSONSchemaProps) (string, any) {
	if pairs := c.kind.words[field]; len(pairs) > 0 && c.often() {
		chosen := pairs[c.random.IntN(len(pairs))].(map[string]any)
		names := slices.Sorted(maps.Keys(chosen))
		name := names[c.random.IntN(len(names))]
		return name, runtime.DeepCopyJSONValue(chosen[name])
	}
	name := oddWords[c.random.IntN(len(oddWords))]
	if schema.AdditionalProperties == nil || schema.AdditionalProperties.Schema == nil {
		return name, c.odd()
	}
	return name, c.value(field, *schema.AdditionalProperties.Schema)
}

// list changes one item of a list, adds one, takes one away, or writes one twice.
func (c *changer) list(path string, schema apiextensionsv1.JSONSchemaProps, list []any) []any {
	field := path + "[]"
	if len(list) == 0 || c.seldom() {
		added := c.value(field, *schema.Items.Schema)
		c.did(field, "%s is added", told(added))
		return append(list, added)
	}
	at := c.random.IntN(len(list))
	if inner, isObject := list[at].(map[string]any); isObject && schema.Items.Schema.Type == "object" && c.often() {
		c.object(field, *schema.Items.Schema, inner)
		return list
	}
	switch c.random.IntN(3) {
	case 0:
		c.did(field, "%s is removed", told(list[at]))
		return slices.Delete(list, at, at+1)
	case 1:
		c.did(field, "%s is there twice", told(list[at]))
		return append(list, runtime.DeepCopyJSONValue(list[at]))
	default:
		list[at] = c.value(field, *schema.Items.Schema)
		c.did(field, "is %s", told(list[at]))
		return list
	}
}

func (c *changer) often() bool  { return c.random.IntN(4) > 0 }
func (c *changer) seldom() bool { return c.random.IntN(4) == 0 }

// told is a value as a person would write it, cut where it becomes long.
func told(value any) string {
	const most = 80
	text := fmt.Sprintf("%v", value)
	if _, isText := value.(string); isText {
		text = fmt.Sprintf("%q", value)
	}
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
	}
	return text
}

func sortedKeys[T any](from map[string]T) []string { return slices.Sorted(maps.Keys(from)) }
