package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations of an index by which containerd and other tools find the name of an image.
const (
	containerdName = "io.containerd.image.name"
	ociRefName     = "org.opencontainers.image.ref.name"
)

// indexFile is where an archive says what it holds.
const indexFile = "index.json"

// settings are the parts of an image's configuration that the project uses.
type settings struct {
	ref        string
	user       string
	env        map[string]string
	workdir    string
	entrypoint []string
}

// assemble makes an image of one layer.
func assemble(content *layer, with settings, epoch time.Time) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	config := &v1.ConfigFile{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Created:      v1.Time{Time: epoch},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       with.user,
			WorkingDir: with.workdir,
			Entrypoint: with.entrypoint,
		},
	}
	for key, value := range with.env {
		config.Config.Env = append(config.Config.Env, key+"="+value)
	}
	slices.Sort(config.Config.Env)
	image, err := mutate.ConfigFile(base, config)
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:     content,
		MediaType: types.OCIUncompressedLayer,
		History:   v1.History{Created: v1.Time{Time: epoch}},
	})
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	return image, nil
}

// archiveWriter writes an OCI layout as a tar file. A manifest in Docker's form points at the same blobs, so that
// `docker load` reads the file too.
type archiveWriter struct {
	tar   *tar.Writer
	epoch time.Time
}

// writeArchive writes the image under its reference. The index comes first, so that reading it later is cheap.
func writeArchive(to io.Writer, image v1.Image, ref string, epoch time.Time) error {
	index, legacy, err := describe(image, ref)
	if err != nil {
		return err
	}
	manifest, manifestErr := image.RawManifest()
	config, configErr := image.RawConfigFile()
	manifestHash, manifestHashErr := image.Digest()
	configHash, configHashErr := image.ConfigName()
	layers, layersErr := image.Layers()
	if err := errors.Join(manifestErr, configErr, manifestHashErr, configHashErr, layersErr); err != nil {
		return fmt.Errorf("compute the image: %w", err)
	}
	w := &archiveWriter{tar: tar.NewWriter(to), epoch: epoch}
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{indexFile, index},
		{"manifest.json", legacy},
		{blobPath(manifestHash), manifest},
		{blobPath(configHash), config},
	} {
		if err := w.add(file.name, int64(len(file.content)), strings.NewReader(string(file.content))); err != nil {
			return err
		}
	}
	for _, each := range layers {
		if err := w.addLayer(each); err != nil {
			return err
		}
	}
	if err := w.tar.Close(); err != nil {
		return fmt.Errorf("finish the archive: %w", err)
	}
	return nil
}

// describe returns the OCI index and the manifest in Docker's form.
func describe(image v1.Image, ref string) (index, legacy []byte, err error) {
	digest, digestErr := image.Digest()
	size, sizeErr := image.Size()
	manifest, manifestErr := image.Manifest()
	if err := errors.Join(digestErr, sizeErr, manifestErr); err != nil {
		return nil, nil, fmt.Errorf("compute the image: %w", err)
	}
	_, tag, _ := strings.Cut(ref, ":")
	index, err = json.Marshal(v1.IndexManifest{
		SchemaVersion: 2,
		MediaType:     types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType:   types.OCIManifestSchema1,
			Digest:      digest,
			Size:        size,
			Platform:    &v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
			Annotations: map[string]string{containerdName: ref, ociRefName: tag},
		}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encode the index: %w", err)
	}
	var layers []string
	for _, each := range manifest.Layers {
		layers = append(layers, blobPath(each.Digest))
	}
	legacy, err = json.Marshal([]map[string]any{{
		"Config": blobPath(manifest.Config.Digest), "RepoTags": []string{ref}, "Layers": layers,
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("encode the manifest: %w", err)
	}
	return index, legacy, nil
}

func (w *archiveWriter) addLayer(from v1.Layer) (err error) {
	digest, digestErr := from.Digest()
	size, sizeErr := from.Size()
	content, contentErr := from.Compressed()
	if err := errors.Join(digestErr, sizeErr, contentErr); err != nil {
		return fmt.Errorf("open a layer: %w", err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return w.add(blobPath(digest), size, content)
}

func (w *archiveWriter) add(name string, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: w.epoch}
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := io.Copy(w.tar, content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// readIndex returns the reference and the digest of the image in an archive.
func readIndex(file string) (ref, digest string, err error) {
	archive, err := os.Open(file)
	if err != nil {
		return "", "", fmt.Errorf("open the archive: %w", err)
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if err != nil {
			return "", "", fmt.Errorf("find the index of %s: %w", file, err)
		}
		if header.Name != indexFile {
			continue
		}
		var index v1.IndexManifest
		if err := json.NewDecoder(reader).Decode(&index); err != nil {
			return "", "", fmt.Errorf("read the index of %s: %w", file, err)
		}
		if len(index.Manifests) != 1 {
			return "", "", fmt.Errorf("read the index of %s: %d images instead of one", file, len(index.Manifests))
		}
		only := index.Manifests[0]
		return only.Annotations[containerdName], only.Digest.String(), nil
	}
}
