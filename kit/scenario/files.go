package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Files is a set of named text files. The zero value is empty and ready to use.
//
// The methods that read end the play when they cannot: their errors need no
// handling in the function under test, which stays a line per file.
type Files struct {
	text   map[string]string
	read   map[string]bool
	broken error // The first failure of a Set method, reported by Play.
}

// refusal carries an error from a reading method out of the function under test.
type refusal struct{ err error }

// Names returns the names of all files, sorted.
func (f Files) Names() []string { return slices.Sorted(maps.Keys(f.text)) }

// Has reports whether there is a file of that name. It does not count as reading.
func (f Files) Has(name string) bool {
	_, found := f.text[name]
	return found
}

// Text returns the text of a file.
func (f Files) Text(name string) string {
	text, found := f.text[name]
	if !found {
		f.Fail(fmt.Errorf("the scenario has no file %q, only %q", name, f.Names()))
	}
	if f.read != nil {
		f.read[name] = true
	}
	return text
}

// YAML decodes a file of one YAML document. A field that into does not have, that
// is there twice, or that is spelt in other letters, ends the play.
func (f Files) YAML(name string, into any) {
	if err := decodeYAML(f.Text(name), into); err != nil {
		f.Fail(fmt.Errorf("decode %s: %w", name, err))
	}
}

// JSON decodes a file of one JSON document, as strictly as YAML does.
func (f Files) JSON(name string, into any) {
	if err := decode([]byte(f.Text(name)), into); err != nil {
		f.Fail(fmt.Errorf("decode %s: %w", name, err))
	}
}

// Fail ends the play with an error. The function under test may call it instead
// of a method of testing.T, whose subtest it does not have at hand.
func (f Files) Fail(err error) { panic(refusal{err}) }

// SetText adds a file. A missing line end at its end is added, because the format
// of a scenario cannot do without.
func (f *Files) SetText(name, text string) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if f.Has(name) {
		f.spoil(fmt.Errorf("the file %q is set twice", name))
	}
	if f.text == nil {
		f.text = map[string]string{}
	}
	f.text[name] = text
}

// SetYAML adds a file of YAML documents, one for each value.
func (f *Files) SetYAML(name string, values ...any) {
	var documents []string
	for _, value := range values {
		document, err := yaml.Marshal(value)
		if err != nil {
			f.spoil(fmt.Errorf("encode %s: %w", name, err))
		}
		documents = append(documents, string(document))
	}
	f.SetText(name, strings.Join(documents, "---\n"))
}

// spoil remembers the first thing that went wrong while files were set.
func (f *Files) spoil(err error) {
	if f.broken == nil {
		f.broken = err
	}
}

// decodeYAML refuses what the YAML decoder would pass over in silence: a file of
// nothing, and every document after the first.
func decodeYAML(text string, into any) error {
	begun := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		marker := line == "---" || strings.HasPrefix(line, "--- ")
		if marker && begun {
			return errors.New("there is more than one document")
		}
		begun = begun || line != "" && !marker && !strings.HasPrefix(line, "#")
	}
	if !begun {
		return errors.New("the file is empty: write {} for a document without fields")
	}
	document, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	return decode(document, into)
}

// decode is strict about fields and about their spelling, which the decoder of
// the standard library is not: it takes "Replicas" for "replicas".
func decode(document []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(document, into)
	return errors.Join(append(strict, err)...)
}
