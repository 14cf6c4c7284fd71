package admit

import (
	"fmt"
	"maps"
	"slices"

	"meridian.dev/meridian/api/v1alpha1"
)

// refuseUnknownExtensions judges by Meridian's own images. What is in another image is known there only.
func refuseUnknownExtensions(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	known, found := catalogues[database.Spec.Version]
	if !found || database.Spec.Image != "" {
		return nil
	}
	var problems []Problem
	for i, name := range database.Spec.Extensions {
		if _, found := known.extensions[name]; !found {
			problems = append(problems, Problem{
				Field: fmt.Sprintf("spec.extensions[%d]", i),
				Detail: fmt.Sprintf("Meridian's image of PostgreSQL %s has no extension %q%s; correct or remove it, or set "+
					"spec.image to an image that has it", database.Spec.Version, name,
					suggestion(name, slices.Sorted(maps.Keys(known.extensions)))),
			})
		}
	}
	return problems
}

// Order returns the extensions with everything that they require, each after what it requires, otherwise in the order
// of the alphabet: the same wish gives the same list, however it is written.
func Order(major string, wanted []string) []string {
	known, found := catalogues[major]
	if !found {
		known = catalogues["17"] // The dependencies among PostGIS and its companions are the same everywhere.
	}
	var ordered []string
	var add func(name string, above []string)
	add = func(name string, above []string) {
		if slices.Contains(ordered, name) || slices.Contains(above, name) {
			return
		}
		for _, required := range slices.Sorted(slices.Values(known.extensions[name])) {
			add(required, append(slices.Clone(above), name))
		}
		ordered = append(ordered, name)
	}
	for _, name := range slices.Sorted(slices.Values(wanted)) {
		add(name, nil)
	}
	return ordered
}
