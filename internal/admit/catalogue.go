package admit

import (
	_ "embed" // brings in the catalogues
	"encoding/json"
	"slices"
	"strings"
)

//go:embed catalogue/postgres-15.json
var postgres15 []byte

//go:embed catalogue/postgres-17.json
var postgres17 []byte

// Context is when a changed parameter takes effect.
type Context string

// The contexts of PostgreSQL that a configuration file can serve. The last three differ only in who may change them
// inside a session.
const (
	ContextInternal   Context = "internal"
	ContextPostmaster Context = "postmaster"
	ContextReload     Context = "sighup"
)

// Parameter is what a server says about one of its parameters.
type Parameter struct {
	Name string
	// Type is bool, integer, real, string or enum.
	Type string
	// Unit is what a number without a unit counts, such as 8kB or ms; empty for plain numbers.
	Unit     string
	Min, Max string
	// Choices are the values of an enum.
	Choices []string
	Context Context
}

// Restart tells whether a change takes effect only at the next start of the server.
func (p Parameter) Restart() bool { return p.Context == ContextPostmaster }

// catalogue is what one major version knows.
type catalogue struct {
	parameters map[string]Parameter // by lower-case name: the server does not mind capitals
	prefixes   []string             // the part before the dot of parameters that belong to extensions
	extensions map[string][]string  // what each extension of Meridian's image requires
	timezones  []string             // in lower case
}

// catalogues holds the major versions that Meridian has images for. Another version needs an image of the user's own,
// and its server is the only one that knows its parameters.
var catalogues = map[string]catalogue{"15": decode(postgres15), "17": decode(postgres17)}

func decode(content []byte) catalogue {
	var stored struct {
		Parameters [][7]string `json:"parameters"`
		Extensions [][2]string `json:"extensions"`
		Timezones  []string    `json:"timezones"`
	}
	if err := json.Unmarshal(content, &stored); err != nil {
		panic("decode the embedded catalogue: " + err.Error())
	}
	known := catalogue{parameters: map[string]Parameter{}, extensions: map[string][]string{}}
	for _, row := range stored.Parameters {
		known.parameters[strings.ToLower(row[0])] = Parameter{
			Name: row[0], Type: row[1], Unit: row[2], Min: row[3], Max: row[4],
			Choices: strings.FieldsFunc(row[5], isComma), Context: Context(row[6]),
		}
		if prefix, _, dotted := strings.Cut(row[0], "."); dotted && !slices.Contains(known.prefixes, prefix) {
			known.prefixes = append(known.prefixes, prefix)
		}
	}
	for _, row := range stored.Extensions {
		known.extensions[row[0]] = strings.Fields(row[1])
	}
	for _, zone := range stored.Timezones {
		known.timezones = append(known.timezones, strings.ToLower(zone))
	}
	return known
}

func isComma(r rune) bool { return r == ',' }

// Find returns what the server of that major version says about a parameter.
func Find(major, name string) (Parameter, bool) {
	parameter, found := catalogues[major].parameters[strings.ToLower(name)]
	return parameter, found
}
