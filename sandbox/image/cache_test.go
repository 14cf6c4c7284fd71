package image_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"meridian.dev/meridian/sandbox/image"
)

// fromBinary makes an image of a file with this content.
func fromBinary(t *testing.T, cacheDir, content string) image.Built {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	writeFile(t, program, content)
	built, err := image.FromBinary(context.Background(), image.Options{CacheDir: cacheDir},
		image.Binary{Name: "tool", Tag: "dev", File: program})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestFromBinaryBuildsOnlyWhatChanged(t *testing.T) {
	dir := t.TempDir()
	first := fromBinary(t, dir, "one")
	again := fromBinary(t, dir, "one")
	other := fromBinary(t, dir, "two")
	if first.Cached || !again.Cached || other.Cached {
		t.Errorf("cached: first %t, again %t, other %t", first.Cached, again.Cached, other.Cached)
	}
	if first.Path != again.Path || first.Digest != again.Digest {
		t.Errorf("same input, but %+v and %+v", first, again)
	}
	if first.Path == other.Path || first.Digest == other.Digest {
		t.Errorf("another input, but %+v and %+v", first, other)
	}
	if want := "localhost/meridian/tool:dev"; first.Ref != want {
		t.Errorf("reference %s, want %s", first.Ref, want)
	}
}

func TestFromBinaryKeyFollowsSettings(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	writeFile(t, program, "one")
	seen := map[string]string{}
	for name, binary := range map[string]image.Binary{
		"plain":     {Name: "tool", Tag: "dev", File: program},
		"other tag": {Name: "tool", Tag: "v1", File: program},
		"root":      {Name: "tool", Tag: "dev", File: program, User: "0:0"},
	} {
		built, err := image.FromBinary(context.Background(), image.Options{CacheDir: dir}, binary)
		if err != nil {
			t.Fatal(err)
		}
		if same, ok := seen[built.Path]; ok {
			t.Errorf("%s and %s share %s", name, same, built.Path)
		}
		seen[built.Path] = name
	}
}

func TestEpochIsAnInput(t *testing.T) {
	dir := t.TempDir()
	before := fromBinary(t, dir, "one")
	t.Setenv(image.EpochVariable, "1000000000")
	after := fromBinary(t, dir, "one")
	if before.Digest == after.Digest {
		t.Error("another time for all files, but the same image")
	}
}

func TestImagesAreReproducible(t *testing.T) {
	var archives []string
	for range 2 {
		built := fromBinary(t, t.TempDir(), "one")
		content, err := os.ReadFile(built.Path)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, built.Digest+string(content))
	}
	if archives[0] != archives[1] {
		t.Error("the same input gave two different archives")
	}
}

func TestUnfinishedBuildsAreNotBelieved(t *testing.T) {
	tests := map[string]func(t *testing.T, built image.Built){
		"work folder left behind": func(t *testing.T, built image.Built) {
			writeFile(t, filepath.Join(filepath.Dir(built.Path), "tool.building", "archive.tar"), "half")
			if err := os.Remove(built.Path); err != nil {
				t.Fatal(err)
			}
		},
		"no archive under the name": func(t *testing.T, built image.Built) { writeFile(t, built.Path, "half") },
		"empty file":                func(t *testing.T, built image.Built) { writeFile(t, built.Path, "") },
	}
	for name, breakIt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := fromBinary(t, dir, "one")
			breakIt(t, first)
			again := fromBinary(t, dir, "one")
			if again.Cached || again.Digest != first.Digest {
				t.Errorf("got %+v, want a new build of %s", again, first.Digest)
			}
			if names := listing(t, dir, "*.building"); len(names) > 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

func TestOldVersionsArePruned(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"one", "two", "three", "four"} {
		fromBinary(t, dir, content)
	}
	if names := listing(t, dir, "*.tar"); len(names) != 2 {
		t.Errorf("%d versions left, want 2: %v", len(names), names)
	}
	if !fromBinary(t, dir, "four").Cached {
		t.Error("the newest version is gone")
	}
}

func TestTwoBuildersAtOnce(t *testing.T) {
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	writeFile(t, program, strings.Repeat("x", 1<<20))
	var group sync.WaitGroup
	results := make([]image.Built, 4)
	for i := range results {
		group.Go(func() {
			built, err := image.FromBinary(context.Background(), image.Options{CacheDir: dir},
				image.Binary{Name: "tool", Tag: "dev", File: program})
			if err != nil {
				t.Error(err)
			}
			results[i] = built
		})
	}
	group.Wait()
	fresh := 0
	for _, built := range results {
		if !built.Cached {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d builders built, want 1", fresh)
	}
}

func listing(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}
