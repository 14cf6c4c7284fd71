package extension

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/wire"
)

// Preloadable are the libraries that the server can be told to load at its start: a missing one would keep it from
// starting. They lie beside the programs, in a place that differs between distributions.
func Preloadable(environment []string) []string {
	var found []string
	for _, name := range wire.Preloadable() {
		for _, setting := range environment {
			folders, isPath := strings.CutPrefix(setting, "PATH=")
			if isPath && slices.ContainsFunc(filepath.SplitList(folders), func(folder string) bool {
				return hasLibrary(folder, name)
			}) {
				found = append(found, name)
			}
		}
	}
	return found
}

func hasLibrary(programs, name string) bool {
	server, err := filepath.EvalSymlinks(filepath.Join(programs, "postgres"))
	if err != nil {
		return false
	}
	for _, folder := range []string{"lib", "lib/postgresql"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(server), "..", folder, name+".so")); err == nil {
			return true
		}
	}
	return false
}
