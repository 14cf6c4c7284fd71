package parts

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"meridian.dev/meridian/sandbox/compile"
	"meridian.dev/meridian/sandbox/lock"
)

// complete is the name of the file that is written last into a built part: a folder without it is not believed.
const complete = ".complete"

// Build makes sure that the part lies built in the cache and returns its folder. The work happens in a folder of its
// own that is renamed when it is done, under a lock, so a crash or a second builder never leaves half a part behind.
func Build(ctx context.Context, cacheDir string, part Part) (dir string, err error) {
	dir = filepath.Join(cacheDir, "parts", part.Key())
	if Built(cacheDir, part) {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	held, err := lock.Take(ctx, dir+".lock")
	if err != nil {
		return "", fmt.Errorf("wait for another build of %s: %w", part.Name, err)
	}
	defer held.Release()
	if Built(cacheDir, part) {
		return dir, nil
	}
	work := dir + ".building"
	if err := os.RemoveAll(work); err != nil {
		return "", fmt.Errorf("clear an unfinished build: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // After a success it no longer exists.
	if err := buildIn(ctx, work, part); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(work, "out"), dir); err != nil {
		return "", fmt.Errorf("put %s into the cache: %w", part.Name, err)
	}
	return dir, nil
}

// Built tells whether the part lies complete in the cache.
func Built(cacheDir string, part Part) bool {
	_, err := os.Stat(filepath.Join(cacheDir, "parts", part.Key(), complete))
	return err == nil
}

func buildIn(ctx context.Context, work string, part Part) error {
	source, out := filepath.Join(work, "source"), filepath.Join(work, "out")
	for _, folder := range []string{source, out} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("make the build folder: %w", err)
		}
	}
	for _, name := range part.files() {
		content, err := sources.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read embedded source: %w", err)
		}
		target := filepath.Join(source, strings.TrimSuffix(path.Base(name), ".txt"))
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return fmt.Errorf("write source of %s: %w", part.Name, err)
		}
	}
	build := compile.Programs{
		Dir: source, Packages: part.packages(), Output: out + "/", Tags: part.tags, LinkFlags: part.ldflags,
	}
	if err := build.Run(ctx); err != nil {
		return fmt.Errorf("build %s %s: %w", part.Name, part.Version, err)
	}
	for _, alias := range part.aliases {
		if err := os.Symlink(part.sortedPrograms()[0], filepath.Join(out, alias)); err != nil {
			return fmt.Errorf("name %s: %w", alias, err)
		}
	}
	return os.WriteFile(filepath.Join(out, complete), nil, 0o600)
}

// packages lists what the programs are built from. Each program has the name of its package, or of its module.
func (p Part) packages() []string {
	var packages []string
	for _, program := range p.sortedPrograms() {
		packages = append(packages, p.programs[program])
	}
	return packages
}

func (p Part) sortedPrograms() []string {
	var names []string
	for name := range p.programs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
