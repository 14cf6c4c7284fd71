package image

import (
	"io"
	"io/fs"
	"time"
)

// SourcesFor lets a test stand in for the machine's file system.
func SourcesFor(root fs.FS, suite, mirror string) ([]string, error) {
	return sourcesFor(root, suite, mirror)
}

// RecipeKey returns the cache key of a Debian recipe.
func RecipeKey(dir, id string) (string, error) {
	read, err := load(dir, id)
	if err != nil {
		return "", err
	}
	return read.key(time.Unix(0, 0))
}

// Packages returns the packages that a recipe names.
func Packages(dir, id string) ([]string, error) {
	read, err := load(dir, id)
	if err != nil {
		return nil, err
	}
	return read.packages, nil
}

// WriteTree makes a layer of a tree's tar file and returns the layer's digest.
func WriteTree(file string, from io.Reader) (string, error) {
	made, err := writeLayer(file, time.Unix(defaultEpoch, 0), func(to *layerWriter) error { return to.copyTree(from) })
	if err != nil {
		return "", err
	}
	return made.digest.String(), nil
}
