package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"meridian.dev/meridian/internal/admit"
)

// lists stand in a marker by a word, because a line with all their names could not be read: as a pattern, and as words.
// Who needs the markers reads them through it.
var lists = strings.NewReplacer(
	"{allowed}", strings.Join(admit.AllowedCacheNames, "|"),
	"{allowed list}", strings.Join(admit.AllowedCacheNames, ", "),
	"{refused}", strings.Join(admit.RefusedNames, "|"),
)

// generateObjects runs controller-gen, once for each version of the API, on a copy in which the lists are written out.
func generateObjects(root, scratch string) error {
	versions, err := filepath.Glob(filepath.Join(root, "api", "v*"))
	if err != nil {
		return err
	}
	for _, folder := range versions {
		if err := generateVersion(root, scratch, folder); err != nil {
			return err
		}
	}
	return nil
}

func generateVersion(root, scratch, folder string) error {
	version := filepath.Base(folder)
	// It must lie in the module: controller-gen looks up what it imports.
	written, err := os.MkdirTemp(root, ".gen-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(written) }()
	if err := writeOut(folder, filepath.Join(written, version)); err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", "-modfile=hack/tools/go.mod", "controller-gen",
		"paths=./"+filepath.Base(written)+"/"+version,
		"object", "output:object:dir="+filepath.Join(scratch, "api", version),
		"crd", "output:crd:dir="+filepath.Join(scratch, "deploy", "crds"),
	)
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("controller-gen for %s: %w\n%s", version, err, output)
	}
	return nil
}

// writeOut copies the types of a version, and writes the lists out.
func writeOut(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := lists.Replace(string(content))
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
