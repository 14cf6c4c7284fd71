package apply

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Change is one field of a child that differs from what is wanted.
type Change struct {
	// Path is readable, like spec.template.spec.containers[name=main].image.
	Path string
	// From and To are the values as JSON, cut when long, empty for absence. Values of Secrets are left out.
	From, To string
}

func (c Change) String() string {
	from, to := c.From, c.To
	if from == "" {
		from = "absent"
	}
	if to == "" {
		to = "absent"
	}
	return fmt.Sprintf("%s: %s → %s", c.Path, from, to)
}

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	From  string `json:"from,omitempty"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// MarshalJSON keeps values like false and 0, which omitempty would drop, and leaves the value out where none belongs.
func (o operation) MarshalJSON() ([]byte, error) {
	if o.Op == "remove" || o.Op == "move" {
		type bare operation
		return json.Marshal(bare(o))
	}
	return json.Marshal(map[string]any{"op": o.Op, "path": o.Path, "value": o.Value})
}

// path leads to a field of an object.
type path []step

// step is a field by name, or an entry of a list by index and key.
type step struct {
	name  string
	entry bool
	index int
	key   string
}

func (p path) field(name string) path { return p.with(step{name: name}) }

func (p path) entry(index int, key string) path {
	return p.with(step{entry: true, index: index, key: key})
}

// with copies, because siblings share the beginning of their paths.
func (p path) with(next step) path { return append(p[:len(p):len(p)], next) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes the path as a JSON pointer (RFC 6901).
func (p path) pointer() string {
	var out strings.Builder
	for _, step := range p {
		out.WriteByte('/')
		if step.entry {
			out.WriteString(strconv.Itoa(step.index))
			continue
		}
		out.WriteString(pointerEscapes.Replace(step.name))
	}
	return out.String()
}

func (p path) String() string {
	var out strings.Builder
	for i, step := range p {
		switch {
		case step.entry:
			out.WriteString("[" + step.key + "]")
		case strings.ContainsAny(step.name, "./[]"):
			out.WriteString("[" + strconv.Quote(step.name) + "]")
		default:
			if i > 0 {
				out.WriteByte('.')
			}
			out.WriteString(step.name)
		}
	}
	return out.String()
}

// longestValue is how much of a value is shown, in characters.
const longestValue = 120

// show renders a value for people.
func (c *comparison) show(at path, value any) string {
	if value == nil {
		return ""
	}
	if c.secret && len(at) > 0 && at[0].name == "data" {
		return "(hidden)"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("(a %T)", value)
	}
	if shown := []rune(string(text)); len(shown) > longestValue {
		return string(shown[:longestValue]) + "…"
	}
	return string(text)
}
