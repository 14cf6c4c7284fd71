package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// generateObjects runs controller-gen, once for each version of the API.
func generateObjects(root, scratch string) error {
	versions, err := filepath.Glob(filepath.Join(root, "api", "v*"))
	if err != nil {
		return err
	}
	for _, folder := range versions {
		version := filepath.Base(folder)
		cmd := exec.Command("go", "tool", "-modfile=hack/tools/go.mod", "controller-gen",
			"paths=./api/"+version,
			"object", "output:object:dir="+filepath.Join(scratch, "api", version),
			"crd", "output:crd:dir="+filepath.Join(scratch, "deploy", "crds"),
		)
		cmd.Dir = root
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("controller-gen for %s: %w\n%s", version, err, output)
		}
	}
	return nil
}
