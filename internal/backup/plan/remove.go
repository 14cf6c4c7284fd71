package plan

import (
	"cmp"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/backup"
)

// Remove tells the objects of a base backup that somebody wants deleted, in their order; its log stays for retention.
// What the promised window needs, or the number that is to be kept, is refused (K5). It is judged as if
// retention had done its work: two who delete at a time must not each rely on what the other takes away.
func Remove(catalogue *backup.Catalogue, policy Policy, id string) (names []string, refused []Violation) {
	kept := Without(catalogue, Retain(catalogue, policy))
	for _, object := range catalogue.Objects {
		if object.Key.ID == id && (object.Key.Kind == backup.KindBackup || object.Key.Kind == backup.KindBase) {
			names = append(names, object.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
	if kept.Backup(id) == nil {
		return names, nil // Retention is about to delete it itself.
	}
	return names, CheckDeletes(kept, policy, names)
}

// rank sorts the object that makes a backup exist before the rest of it.
func rank(name string) int {
	if strings.HasSuffix(name, "/backup.json") {
		return 0
	}
	return 1
}
