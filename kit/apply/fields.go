package apply

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fields is the set of fields that an intent had, as a tree without values. A map or a list of told-apart entries has
// children; a list that counts as a whole has the digest of what we wanted of it; anything else has neither.
type fields struct {
	children map[string]*fields
	digest   string
}

// fieldsOf returns the fields of a canonical tree.
func fieldsOf(value any) *fields {
	switch value := value.(type) {
	case map[string]any:
		found := &fields{children: make(map[string]*fields, len(value))}
		for name, child := range value {
			found.children[name] = fieldsOfNamed(name, child)
		}
		return found
	default:
		return &fields{}
	}
}

func fieldsOfNamed(name string, value any) *fields {
	list, ok := value.([]any)
	if !ok {
		return fieldsOf(value)
	}
	keys, ok := keysOf(name, list)
	if !ok {
		return &fields{digest: digest(list)}
	}
	found := &fields{children: make(map[string]*fields, len(list))}
	for i, key := range keys {
		found.children[key] = fieldsOf(list[i])
	}
	return found
}

// digest is short because it is only ever compared with the digest of the same field of the same object.
func digest(list []any) string {
	canonical, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("encode a canonical list: %v", err))
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:8])
}

// child returns the field of that name, nil if there was none. It accepts a nil receiver.
func (f *fields) child(name string) *fields {
	if f == nil {
		return nil
	}
	return f.children[name]
}

// MarshalJSON writes children as an object, a digest as a string and anything else as 1, to stay small.
func (f *fields) MarshalJSON() ([]byte, error) { return f.appendJSON(nil), nil }

// appendJSON writes the whole tree at once: an encoder would read again at every level what the level below has made.
func (f *fields) appendJSON(out []byte) []byte {
	switch {
	case f.children != nil:
		out = append(out, '{')
		for i, name := range slices.Sorted(maps.Keys(f.children)) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendText(out, name), ':')
			out = f.children[name].appendJSON(out)
		}
		return append(out, '}')
	case f.digest != "":
		return appendText(out, f.digest)
	default:
		return append(out, '1')
	}
}

func appendText(out []byte, text string) []byte {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("encode a text: %v", err)) // There is a way to write every text.
	}
	return append(out, encoded...)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (f *fields) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) > 0 && data[0] == '{':
		return json.Unmarshal(data, &f.children)
	case len(data) > 0 && data[0] == '"':
		return json.Unmarshal(data, &f.digest)
	default:
		return nil
	}
}

// writtenTo returns the record of the intent that was written to a live object last. One that is missing, spoilt or of
// another version counts as empty: then nothing is known to be ours alone, so nothing is removed.
func (w Intent) writtenTo(live client.Object) record {
	text := live.GetAnnotations()[w.author.intentKey()]
	if text == w.encoded {
		return w.record // The usual case needs no parsing.
	}
	var found record
	if err := json.Unmarshal([]byte(text), &found); err != nil || found.Version != recordVersion {
		return record{}
	}
	return found
}
