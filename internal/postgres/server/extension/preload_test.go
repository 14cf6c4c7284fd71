package extension_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"meridian.dev/meridian/internal/postgres/server/extension"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPreloadable looks for libraries where distributions put them: Debian beside its own folder of programs, to which
// there may be a link, others below lib/postgresql. A server that is told to load a missing one does not start.
func TestPreloadable(t *testing.T) {
	for name, library := range map[string]string{
		"Debian": "lib/pg_stat_statements.so", "others": "lib/postgresql/pg_stat_statements.so", "missing": "lib/plpgsql.so",
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for _, file := range []string{"bin/postgres", library} {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, file)), 0o755))
				must(t, os.WriteFile(filepath.Join(folder, file), nil, 0o755))
			}
			linked := t.TempDir()
			must(t, os.Symlink(filepath.Join(folder, "bin/postgres"), filepath.Join(linked, "postgres")))
			for _, path := range []string{filepath.Join(folder, "bin"), "/nonexistent:" + linked} {
				got := extension.Preloadable([]string{"LC_ALL=C", "PATH=" + path})
				if want := name != "missing"; slices.Contains(got, "pg_stat_statements") != want {
					t.Errorf("%s: got %v", path, got)
				}
			}
		})
	}
}
