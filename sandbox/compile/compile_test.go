package compile

import (
	"context"
	"debug/buildinfo"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMakefileBuildsAlike finds a flag that is in one of the two places only: everything would be compiled twice.
func TestMakefileBuildsAlike(t *testing.T) {
	content, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var flags string
	for line := range strings.Lines(string(content)) {
		if value, found := strings.CutPrefix(line, "BUILD_FLAGS := "); found {
			flags, _, _ = strings.Cut(value, "#")
		}
	}
	if diff := cmp.Diff(Flags, strings.Fields(flags)); diff != "" {
		t.Error(diff)
	}
}

func TestProgramsAreBuiltAsSaid(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":         "module example.org/tools\n\ngo 1.26\n",
		"one/main.go":    "package main\n\nvar stamp string\n\nfunc main() { println(stamp) }\n",
		"two/main.go":    "package main\n\nfunc main() {}\n",
		"broken/main.go": "package main\n\nfunc main() { missing() }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-race") // Of the caller, and not heeded.
	programs := Programs{
		Dir: dir, Packages: []string{"./one", "./two"}, Output: filepath.Join(dir, "out") + "/",
		LinkFlags: "-X main.stamp=x", Tags: "a,b",
	}
	if err := programs.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		info, err := buildinfo.ReadFile(filepath.Join(dir, "out", name))
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		for _, setting := range info.Settings {
			settings[setting.Key] = setting.Value
		}
		want := map[string]string{
			"-gcflags": "all=-dwarf=false", "-trimpath": "true", "-tags": "a,b", "CGO_ENABLED": "0", "GOOS": "linux",
		}
		for key, value := range want {
			if settings[key] != value {
				t.Errorf("%s: %s is %q, want %q", name, key, settings[key], value)
			}
		}
		if settings["-race"] != "" {
			t.Errorf("%s is built with the flags of the caller", name)
		}
	}
	broken := Programs{Dir: dir, Packages: []string{"./broken"}, Output: filepath.Join(dir, "out") + "/"}
	if err := broken.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "undefined: missing") {
		t.Errorf("a program that does not compile: %v", err)
	}
}

func TestLastLines(t *testing.T) {
	if diff := cmp.Diff("b\nc", lastLines("a\nb\nc\n", 2)); diff != "" {
		t.Error(diff)
	}
}
