package apply

import "slices"

// grants are the lists, by kind, that say who may do what. An entry that somebody adds to one lets more in, so that
// they are ours alone, as selectors are.
var grants = map[string][]string{
	"ClusterRole":        {"rules"},
	"ClusterRoleBinding": {"subjects"},
	"NetworkPolicy":      {"ingress", "egress", "policyTypes"},
	"Role":               {"rules"},
	"RoleBinding":        {"subjects"},
}

// isGrant reports whether the list at that place is one of them.
func (c *comparison) isGrant(at path) bool {
	return slices.Contains(grants[c.kind], at[len(at)-1].name)
}

// exactly reports whether have says the same as want, entry by entry, and nothing more but for what the API server
// fills in by itself.
func exactly(want, have any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		for name, value := range have {
			if _, wanted := want[name]; !wanted && value != nil && !empty(value) && name != "protocol" {
				return false
			}
		}
		for name, value := range want {
			if !ok || !exactly(value, have[name]) && !(have[name] == nil && empty(value)) {
				return false
			}
		}
		return ok
	case []any:
		have, ok := have.([]any)
		return ok && slices.EqualFunc(want, have, exactly)
	default:
		return equal(want, have)
	}
}
