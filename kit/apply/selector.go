package apply

import (
	"maps"
	"slices"
)

// labelSelectors are the fields that choose objects by their labels: as a map of labels, like that of a Service, or as
// a structure of labels and expressions. Two are not among them, because expressions are added to them by right: to the
// labelSelector of affinity and of spreading by the API server itself, and to the namespaceSelector of webhooks by
// clusters that keep their own namespaces out.
var labelSelectors = []string{"selector", "podSelector"}

// closed reports whether the map of that name is ours alone. In a selector an entry that somebody has added is not an
// addition: it is one more condition, and may leave nothing selected.
func closed(name string, want map[string]any) bool {
	switch {
	case name == "matchLabels":
		return true
	case !slices.Contains(labelSelectors, name):
		return false
	}
	for key, value := range want {
		_, label := value.(string)
		if !label && key != "matchLabels" && key != "matchExpressions" {
			return false // It only has the name: a structure of another kind.
		}
	}
	return true
}

// surplus removes from a closed map what is not wanted. What was wanted before has been removed already.
func (c *comparison) surplus(at path, want, have map[string]any, last *fields) {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, wanted := want[name]; !wanted && have[name] != nil && last.child(name) == nil {
			c.remove(at.field(name), have[name])
		}
	}
}

// hasSurplus is the same question without an answer in detail.
func hasSurplus(name string, want, have any) bool {
	wanted, ok := want.(map[string]any)
	found, also := have.(map[string]any)
	if !ok || !also || !closed(name, wanted) {
		return false
	}
	for key, value := range found {
		if _, known := wanted[key]; !known && value != nil {
			return true
		}
	}
	return false
}
