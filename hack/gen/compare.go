package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// change is one file that differs from what was generated.
type change struct {
	verb    string // create, update or remove
	path    string // below the root
	target  string // where it lies
	content []byte // nothing for remove
}

func (c change) apply() error {
	if c.verb == "remove" {
		return os.Remove(c.target)
	}
	if err := os.MkdirAll(filepath.Dir(c.target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(c.target, c.content, 0o644)
}

// compare finds what must happen below root so that it equals scratch, in the order of the paths.
func compare(root, scratch string, owned []string) ([]change, error) {
	var changes []change
	made := map[string]bool{}
	err := filepath.WalkDir(scratch, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path, err := filepath.Rel(scratch, name)
		if err != nil {
			return err
		}
		made[path] = true
		found, err := compareFile(root, name, path)
		changes = append(changes, found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	left, err := leftovers(root, owned, made)
	changes = append(changes, left...)
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.path, b.path) })
	return changes, err
}

func compareFile(root, generated, path string) ([]change, error) {
	want, err := os.ReadFile(generated)
	if err != nil {
		return nil, err
	}
	next := change{verb: "update", path: path, target: filepath.Join(root, path), content: want}
	have, err := os.ReadFile(next.target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		next.verb = "create"
		return []change{next}, nil
	case err != nil:
		return nil, err
	case bytes.Equal(have, want):
		return nil, nil
	}
	return []change{next}, nil
}

func leftovers(root string, owned []string, made map[string]bool) ([]change, error) {
	var changes []change
	for _, pattern := range owned {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			path, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			if !made[path] {
				changes = append(changes, change{verb: "remove", path: path, target: name})
			}
		}
	}
	return changes, nil
}
