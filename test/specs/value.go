package specs

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// oddWords are texts that something somewhere might not expect.
var oddWords = []string{
	"", " ", "a", "A", "a b", "a\nb", "a\x00b", "é", "'", `"`, `\`, "$(x)", "{{x}}", "../x", "-", "_", "true", "null",
	"0", "1", "-1", "10s", "0s", "1ns", "-1s", "1000000h", "9999999999999999999", "1Gi", "0.1", "1e3", "1Ki", "8Ei",
	"9E99", "now", "2020-02-30",
	"cities", "kube-system", "postgres", "default", "example.com/x", "meridian.dev/x", strings.Repeat("a", 64),
	strings.Repeat("a", 254), strings.Repeat("a", 1025), strings.Repeat("x", 70_000),
}

// value is one for a field: mostly such that the schema takes it, sometimes nearly so.
func (c *changer) value(field string, schema apiextensionsv1.JSONSchemaProps) any {
	if words := c.kind.words[field]; len(words) > 0 && c.often() {
		return runtime.DeepCopyJSONValue(words[c.random.IntN(len(words))])
	}
	if c.random.IntN(8) == 0 {
		return c.odd()
	}
	if len(schema.Enum) > 0 {
		return strings.Trim(string(schema.Enum[c.random.IntN(len(schema.Enum))].Raw), `"`)
	}
	switch schema.Type {
	case "boolean":
		return c.random.IntN(2) == 0
	case "integer":
		return c.integer(schema)
	case "object":
		return c.whole(field, schema)
	case "array":
		list := []any{}
		for range c.random.IntN(3) {
			list = append(list, c.value(field+"[]", *schema.Items.Schema))
		}
		return list
	default:
		return c.text(schema)
	}
}

// integer lies within the bounds, at them, or one beyond.
func (c *changer) integer(schema apiextensionsv1.JSONSchemaProps) any {
	least, most := int64(-1), int64(1000)
	if schema.Minimum != nil {
		least = int64(*schema.Minimum)
	}
	if schema.Maximum != nil {
		most = int64(*schema.Maximum)
	}
	switch c.random.IntN(8) {
	case 0:
		return least - 1
	case 1:
		return most + 1
	case 2:
		return most
	default:
		return least + c.random.Int64N(min(most-least, 5)+1)
	}
}

// whole is an object with what it must have, and some of what it may.
func (c *changer) whole(field string, schema apiextensionsv1.JSONSchemaProps) any {
	object := map[string]any{}
	if len(schema.Properties) == 0 {
		for range c.random.IntN(3) {
			name, value := c.pair(field+"{}", schema)
			object[name] = value
		}
		return object
	}
	needed := map[string]bool{}
	for _, name := range schema.Required {
		needed[name] = true
	}
	for _, name := range sortedKeys(schema.Properties) {
		if needed[name] || c.seldom() {
			object[name] = c.value(field+"."+name, schema.Properties[name])
		}
	}
	return object
}

// text is as long as may be, a little longer, or one of the odd ones.
func (c *changer) text(schema apiextensionsv1.JSONSchemaProps) any {
	if schema.MaxLength != nil && c.seldom() {
		return strings.Repeat("a", int(*schema.MaxLength)+c.random.IntN(2))
	}
	return oddWords[c.random.IntN(len(oddWords))]
}

// odd is a value of any type.
func (c *changer) odd() any {
	switch c.random.IntN(7) {
	case 0:
		return int64(c.random.IntN(5)) - 2
	case 1:
		return c.random.IntN(2) == 0
	case 2:
		return map[string]any{}
	case 3:
		return []any{}
	case 4:
		return 0.5
	default:
		return oddWords[c.random.IntN(len(oddWords))]
	}
}
