package admit

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
)

const classField = "spec.storage.class"

func refuseUnknownClass(database *v1alpha1.GeoDatabase, facts Facts) []Problem {
	if facts.Classes == nil || len(facts.Claims) > 0 {
		return nil
	}
	if _, found := facts.class(database.Spec.Storage.Class); found {
		return nil
	}
	names := make([]string, 0, len(facts.Classes))
	for _, class := range facts.Classes {
		names = append(names, class.Name)
	}
	slices.Sort(names)
	choice := ", and there is no class at all; ask the administrator of the cluster for one"
	if len(names) > 0 {
		choice = "; choose one of " + strings.Join(names, ", ")
	}
	if database.Spec.Storage.Class == "" {
		return []Problem{{classField, "the cluster has no default storage class" + choice}}
	}
	return []Problem{{classField, fmt.Sprintf("there is no storage class %q%s", database.Spec.Storage.Class, choice)}}
}

// class finds a class by name, or the default class for an empty name.
func (f Facts) class(name string) (StorageClass, bool) {
	at := slices.IndexFunc(f.Classes, func(class StorageClass) bool {
		return class.Name == name || name == "" && class.Default
	})
	if at < 0 {
		return StorageClass{}, false
	}
	return f.Classes[at], true
}

// refuseImpossibleSizes holds the spec against the claims that are there. The rules of the schema see only the spec
// before the change; a database that was deleted and created again meets the claims that were kept for it.
func refuseImpossibleSizes(database *v1alpha1.GeoDatabase, facts Facts) []Problem {
	var problems []Problem
	for _, claim := range facts.Claims {
		field, size := wantedSize(database, claim.WAL)
		if size == nil {
			continue
		}
		switch size.Cmp(claim.Size) {
		case -1:
			if database.Spec.Storage.AutoGrow != nil && !claim.WAL {
				continue // It has grown by itself, and what the claims have is what is in force.
			}
			problems = append(problems, Problem{field, fmt.Sprintf("the claim %s has %s already, and a volume cannot shrink; "+
				"ask for at least that", claim.Name, claim.Size.String())})
		case 1:
			if class, found := facts.class(claim.Class); found && !class.Expandable {
				problems = append(problems, cannotGrow(field, class, claim.Size))
			}
		}
	}
	return problems
}

// refuseAutoGrowOfFixedClass judges by the classes of the claims, or, before there are any, by that of the spec.
func refuseAutoGrowOfFixedClass(database *v1alpha1.GeoDatabase, facts Facts) []Problem {
	if database.Spec.Storage.AutoGrow == nil {
		return nil
	}
	names := []string{database.Spec.Storage.Class}
	if len(facts.Claims) > 0 {
		names = nil
		for _, claim := range facts.Claims {
			names = append(names, claim.Class)
		}
	}
	for _, name := range names {
		if class, found := facts.class(name); found && !class.Expandable {
			return []Problem{{"spec.storage.autoGrow", fmt.Sprintf("the storage class %s does not allow volumes to grow; "+
				"remove the field, or let the administrator set allowVolumeExpansion on the class", class.Name)}}
		}
	}
	return nil
}

func wantedSize(database *v1alpha1.GeoDatabase, wal bool) (field string, size *resource.Quantity) {
	if wal {
		return "spec.storage.walSize", database.Spec.Storage.WALSize
	}
	return "spec.storage.size", &database.Spec.Storage.Size
}

func cannotGrow(field string, class StorageClass, size resource.Quantity) Problem {
	return Problem{field,
		fmt.Sprintf("the storage class %s does not allow volumes to grow; keep %s, or let the administrator "+
			"set allowVolumeExpansion on the class", class.Name, size.String())}
}

// refuseGrowthOfFixedClass answers where the claims are not known. It judges by a class that the spec names: without a
// name, the claims may be in the class that was the default when they were made.
func refuseGrowthOfFixedClass(database, old *v1alpha1.GeoDatabase, facts Facts) []Problem {
	class, found := facts.class(database.Spec.Storage.Class)
	if !found || class.Expandable || len(facts.Claims) > 0 || database.Spec.Storage.Class == "" {
		return nil
	}
	var problems []Problem
	for _, wal := range []bool{false, true} {
		field, size := wantedSize(database, wal)
		_, before := wantedSize(old, wal)
		if size != nil && before != nil && size.Cmp(*before) > 0 {
			problems = append(problems, cannotGrow(field, class, *before))
		}
	}
	return problems
}
