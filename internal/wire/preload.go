package wire

import "slices"

// preloaded are the extensions whose library, which has the same name, must be loaded when the server starts. A library
// that is loaded so has all rights of the server: a name gets here by review, and never from settings.
var preloaded = []string{"pg_stat_statements", "pgaudit"}

// libraries are those of preloaded that work by their library alone. Event triggers of pgaudit would make each change
// of a schema fail once its library is not loaded any more, such as after its name was taken out of the spec.
var libraries = []string{"pgaudit"}

// LibraryAlone says that an extension is loaded, and not created in any database.
func LibraryAlone(extension string) bool { return slices.Contains(libraries, extension) }

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
