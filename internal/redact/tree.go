package redact

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/kind"
)

// YAML is an object as text, without secrets, and without what only the API server needs.
func YAML(object any) (string, error) {
	tree, err := Tree(object)
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return Text(string(text)), nil
}

// Tree is an object as JSON has it, without secrets.
func Tree(object any) (any, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return document(content)
}

func document(content []byte) (any, error) {
	var tree any
	if err := json.Unmarshal(content, &tree); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return clean(tree), nil
}

// secretName tells the names of fields below which nothing stays.
var secretName = regexp.MustCompile(`(?i)` + telling + `$`)

// dropped is noise, or repeats the object as it was applied, secrets included.
var dropped = []string{"managedFields", "kubectl.kubernetes.io/last-applied-configuration"}

// ownContainers are made by Meridian: their commands and arguments are known and hold no secret.
var ownContainers = func() []string {
	names := []string{"install", "operator"}
	for _, one := range kind.All {
		names = append(names, one.Container)
	}
	return names
}()

func clean(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for _, name := range dropped {
			delete(tree, name)
		}
		for key, value := range tree {
			tree[key] = field(tree, key, value)
		}
	case []any:
		for index, value := range tree {
			tree[index] = clean(value)
		}
	case string:
		return Text(tree)
	}
	return tree
}

// field is what stays of a field, wherever it is, given the object that it belongs to. What is not named here stays if
// it does not look like a secret.
func field(of map[string]any, key string, value any) any {
	name, _ := of["name"].(string)
	_, class := of["provisioner"]
	switch {
	case key == "annotations":
		return only(value, harmlessAnnotation)
	case key == "data":
		return configuration(value)
	case key == "env" || key == "httpHeaders":
		return values(value)
	case key == "parameters" && !class:
		return parameters(value)
	case slices.Contains(references, key):
		return reference(value)
	case (key == "command" || key == "args") && slices.Contains(ownContainers, name):
		return clean(value)
	case slices.Contains(opaque, key), key == "value" && secretName.MatchString(name),
		secretName.MatchString(key) && !plain(value):
		return withoutValues(value)
	}
	return clean(value)
}

// opaque are fields that may hold anything.
var opaque = []string{"stringData", "binaryData", "command", "args", "volumeAttributes", "options", "parameters"}

// references are fields that name a Secret, or where one shall be, and hold none.
var references = []string{"secret", "secrets", "imagePullSecrets", "serviceAccountToken"}

// referring are the fields of such a reference.
var referring = []string{
	"secretName", "name", "namespace", "key", "path", "items", "optional", "mode", "defaultMode", "audience",
	"expirationSeconds",
}

// reference keeps what says which Secret it is.
func reference(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			switch {
			case !slices.Contains(referring, key):
				tree[key] = withoutValues(value)
			case key == "items":
				tree[key] = reference(value)
			}
		}
		return tree
	case []any:
		for index, value := range tree {
			tree[index] = reference(value)
		}
		return tree
	}
	return withoutValues(tree)
}

// plain is what cannot be a secret, whatever it is called.
func plain(value any) bool {
	switch value.(type) {
	case bool, nil:
		return true
	}
	return false
}

// withoutValues keeps the shape of a tree: names stay, values do not.
func withoutValues(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			tree[key] = withoutValues(value)
		}
		return tree
	case []any:
		for index, value := range tree {
			tree[index] = withoutValues(value)
		}
		return tree
	case nil, bool:
		return tree
	case float64:
		return 0.0 // A number stays one, so that what is left can still be read as the object that it was.
	}
	return word
}

// only keeps those values of a map whose names are known.
func only(tree any, known func(name string) bool) any {
	named, ok := tree.(map[string]any)
	if !ok {
		return withoutValues(tree)
	}
	for _, name := range dropped {
		delete(named, name)
	}
	for name, value := range named {
		if known(name) {
			named[name] = clean(value)
		} else {
			named[name] = withoutValues(value)
		}
	}
	return named
}

// harmlessAnnotation tells those that Kubernetes and Meridian write. One of these repeats what a user has given.
func harmlessAnnotation(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "meridian.dev" && name != "meridian.dev/metadata" ||
		strings.HasSuffix(domain, ".kubernetes.io") || domain == "kubernetes.io"
}

// values are those of a list of names and values; where a value comes from may be known.
func values(tree any) any {
	list, ok := tree.([]any)
	if !ok {
		return withoutValues(tree)
	}
	for index, entry := range list {
		pair, ok := entry.(map[string]any)
		if !ok {
			list[index] = withoutValues(entry)
			continue
		}
		for key, value := range pair {
			switch key {
			case "name":
			case "valueFrom":
				pair[key] = clean(value)
			default:
				pair[key] = withoutValues(value)
			}
		}
	}
	return list
}

// configuration is the content of a ConfigMap: only the settings of an instance are known.
func configuration(tree any) any {
	named, ok := tree.(map[string]any)
	if !ok {
		return withoutValues(tree)
	}
	for name, value := range named {
		text, isText := value.(string)
		named[name] = withoutValues(value)
		if name != "settings.json" || !isText {
			continue
		}
		inside, err := document([]byte(text))
		if err != nil {
			continue
		}
		if content, err := json.Marshal(inside); err == nil {
			named[name] = string(content)
		}
	}
	return named
}

// parameters are those of PostgreSQL, as a map or as a list. One that the server does not have may be anything.
func parameters(tree any) any {
	list, ok := tree.([]any)
	if !ok {
		return only(tree, Parameter)
	}
	for index, entry := range list {
		pair, _ := entry.(map[string]any)
		if name, _ := pair["name"].(string); Parameter(name) {
			list[index] = clean(entry)
			continue
		}
		for key, value := range pair {
			if key != "name" && key != "state" {
				pair[key] = withoutValues(value)
			}
		}
	}
	return list
}

// Parameter says that a parameter is one of PostgreSQL's own, whose value tells no secret.
func Parameter(name string) bool {
	for _, major := range []string{"15", "17"} {
		if _, found := admit.Find(major, name); found {
			return !strings.Contains(name, "command") && !strings.Contains(name, "conninfo")
		}
	}
	return false
}
