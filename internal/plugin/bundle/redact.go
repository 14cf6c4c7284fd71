// Package bundle packs what is known about a database into one file that can be sent to somebody else: nothing in it is
// a secret. Secrets are not read in the first place; what may hold one by accident, such as an environment variable or
// a line of a log, is redacted.
//
// It is pure but for the writer that it is given. Start reading at Writer.
package bundle

import (
	"encoding/json"
	"fmt"
	"regexp"

	"sigs.k8s.io/yaml"
)

const redacted = "REDACTED"

var (
	// secretName tells the names of fields and variables whose value nobody else shall see.
	secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|pgpass|^token$|[-_]token$|secret[-_]?key$|` +
		`private[-_]?key$|access[-_]?key|credential)`)
	// uriPassword is that of an address with a user, keyPassword one that follows its name.
	uriPassword = regexp.MustCompile(`(://[^/\s:@]*:)[^@\s/]+@`)
	keyPassword = regexp.MustCompile(
		`(?i)((?:password|passwd|requirepass|masterauth|token)["']?\s*[=:]\s*["']?)[^\s"',;}]+`)
	sqlPassword = regexp.MustCompile(`(?i)(password\s+)'[^']*'`)
	bearer      = regexp.MustCompile(`(?i)(bearer\s+)[A-Za-z0-9._~+/=-]{8,}`)
	privateKey  = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----`)
	scram       = regexp.MustCompile(`SCRAM-SHA-256\$[^\s"']+`)
)

// Text redacts what looks like a secret in any text.
func Text(text string) string {
	text = privateKey.ReplaceAllString(text, redacted)
	text = uriPassword.ReplaceAllString(text, "${1}"+redacted+"@")
	text = sqlPassword.ReplaceAllString(text, "${1}'"+redacted+"'")
	text = keyPassword.ReplaceAllString(text, "${1}"+redacted)
	text = bearer.ReplaceAllString(text, "${1}"+redacted)
	return scram.ReplaceAllString(text, redacted)
}

// YAML is an object as text, without secrets, and without what only the API server needs.
func YAML(object any) (string, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	var tree any
	if err := json.Unmarshal(content, &tree); err != nil {
		return "", fmt.Errorf("decode: %w", err)
	}
	text, err := yaml.Marshal(clean(tree))
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return Text(string(text)), nil
}

// dropped is noise, or repeats the object as it was applied, secrets included.
var dropped = []string{"managedFields", "kubectl.kubernetes.io/last-applied-configuration"}

func clean(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for _, name := range dropped {
			delete(tree, name)
		}
		// A variable of a container: its name says what its value is.
		if name, ok := tree["name"].(string); ok && secretName.MatchString(name) && tree["value"] != nil {
			tree["value"] = redacted
		}
		for key, value := range tree {
			if _, isText := value.(string); isText && secretName.MatchString(key) {
				tree[key] = redacted
				continue
			}
			tree[key] = clean(value)
		}
	case []any:
		for index, value := range tree {
			tree[index] = clean(value)
		}
	}
	return tree
}
