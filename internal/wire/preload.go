package wire

import "slices"

// preloaded are the extensions whose library, which has the same name, must be loaded when the server starts. A library
// that is loaded so has all rights of the server: a name gets here by review, and never from settings.
var preloaded = []string{"pg_stat_statements"}

// Preloaded returns those of the extensions whose library must be loaded when the server starts, each once, sorted.
func Preloaded(extensions []string) []string {
	var libraries []string
	for _, name := range preloaded {
		if slices.Contains(extensions, name) {
			libraries = append(libraries, name)
		}
	}
	return libraries
}

// Preloadable are all extensions of that kind.
func Preloadable() []string { return slices.Clone(preloaded) }
