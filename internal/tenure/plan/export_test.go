package plan

// Invariants are the ids of all of them.
func Invariants() []string {
	var ids []string
	for _, invariant := range invariants {
		ids = append(ids, invariant.id)
	}
	return ids
}

// Same says whether two standings are the same.
var Same = same
