package apply

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nameManagers adds to each change who owns the field now, except for ourselves. It is a courtesy of the report: the
// comparison itself does not rest on managedFields, which caches often strip.
func (c *comparison) nameManagers(live client.Object, ourselves string) {
	for _, entry := range live.GetManagedFields() {
		if entry.FieldsV1 == nil || entry.Manager == ourselves {
			continue
		}
		var owned map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err != nil {
			continue
		}
		for i := range c.changes {
			change := &c.changes[i]
			if owns(owned, change.at) && !slices.Contains(change.By, entry.Manager) {
				change.By = append(change.By, entry.Manager)
				slices.Sort(change.By)
			}
		}
	}
}

// owns follows the path through a set of fields in the format FieldsV1. Ownership of a list as a whole covers
// what is inside it.
func owns(owned map[string]any, at path) bool {
	for _, step := range at {
		next, ok := owned["f:"+step.name].(map[string]any)
		if step.entry {
			next, ok = entryOf(owned, step.key)
		}
		if !ok {
			return false
		}
		if len(next) == 0 {
			return true
		}
		owned = next
	}
	return true
}

// entryOf finds the entry of a list, which FieldsV1 names k:{"name":"main"} or v:"value".
func entryOf(owned map[string]any, key string) (map[string]any, bool) {
	for name, value := range owned {
		children, ok := value.(map[string]any)
		if !ok {
			continue
		}
		if text, isKey := strings.CutPrefix(name, "k:"); isKey && sameKey(text, key) {
			return children, true
		}
		if text, isValue := strings.CutPrefix(name, "v:"); isValue && text == fmt.Sprintf("%q", key) {
			return children, true
		}
	}
	return nil, false
}

// sameKey compares the JSON of a key with our way of writing it.
func sameKey(text, key string) bool {
	var values map[string]any
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		return false
	}
	parts := make([]string, 0, len(values))
	for name, value := range values {
		parts = append(parts, fmt.Sprintf("%s=%v", name, value))
	}
	slices.Sort(parts)
	ours := strings.Split(key, ",")
	slices.Sort(ours)
	return slices.Equal(parts, ours)
}
