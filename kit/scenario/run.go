package scenario

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The flag is registered once for the whole test binary. A package that has
// golden files of another kind asks Updating instead of adding a flag.
var updating = flag.Bool("update", false, "write what comes out into the golden files")

// Updating reports whether the test was started with -update.
func Updating() bool { return *updating }

// Run plays every scenario whose file matches the pattern, each as a subtest that
// is named after its file. With -update it writes what came out into the files.
// It fails when no file matches.
func Run(t *testing.T, pattern string, function func(in Files) (out Files)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatalf("find scenarios %s: %v", pattern, err)
	}
	if len(paths) == 0 {
		t.Fatalf("no scenario matches %s: a run that shows nothing is not valid", pattern)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		t.Run(name, func(t *testing.T) {
			t.Helper()
			runFile(t, path, function)
		})
	}
}

func runFile(t *testing.T, path string, function func(in Files) (out Files)) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read the scenario: %v", err)
	}
	result := Play(before, function)
	for _, problem := range result.Problems {
		t.Errorf("%s: %s", path, problem)
	}
	if result.Updated != nil && Updating() {
		writeFile(t, path, before, result.Updated)
		return
	}
	for _, difference := range result.Differences {
		t.Errorf("%s: %s", path, difference)
	}
	if len(result.Differences) > 0 {
		t.Logf("if this is right, run the test again with -update and read what changes in %s", path)
	}
}

func writeFile(t *testing.T, path string, before, after []byte) {
	t.Helper()
	if bytes.Equal(before, after) {
		return
	}
	if err := os.WriteFile(path, after, 0o644); err != nil {
		t.Errorf("update the scenario: %v", err)
		return
	}
	t.Logf("updated %s", path)
}
