package image

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer is a tar file on disk, used as it is: compressing costs more time than a local import ever gets back.
type layer struct {
	file   string
	digest v1.Hash
	size   int64
}

var _ v1.Layer = (*layer)(nil)

// Digest returns the hash of the layer as it is stored.
func (l *layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID returns the hash of the layer's tar file, which is the same here.
func (l *layer) DiffID() (v1.Hash, error) { return l.digest, nil }

// Compressed returns the layer as it is stored.
func (l *layer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

// Uncompressed returns the layer's tar file.
func (l *layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.file) }

// Size returns the size of the layer as it is stored.
func (l *layer) Size() (int64, error) { return l.size, nil }

// MediaType says that the layer is a plain tar file.
func (l *layer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }

// layerWriter writes entries that say nothing about when, where and by whom they were written: all of them belong to
// root, have one time, and no set-uid bit, device or extended attribute is among them.
type layerWriter struct {
	tar   *tar.Writer
	epoch time.Time
}

// writeLayer makes a layer in a new file, with the content that fill writes.
func writeLayer(file string, epoch time.Time, fill func(*layerWriter) error) (made *layer, err error) {
	target, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	sum, buffer := sha256.New(), bufio.NewWriterSize(target, 1<<20)
	writer := &layerWriter{tar: tar.NewWriter(io.MultiWriter(buffer, sum)), epoch: epoch}
	if err := fill(writer); err != nil {
		return nil, fmt.Errorf("fill a layer: %w", err)
	}
	if err := errors.Join(writer.tar.Close(), buffer.Flush()); err != nil {
		return nil, fmt.Errorf("finish a layer: %w", err)
	}
	info, err := target.Stat()
	if err != nil {
		return nil, fmt.Errorf("finish a layer: %w", err)
	}
	return &layer{file: file, digest: hashOf(sum), size: info.Size()}, nil
}

func hashOf(sum hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
}

// copyTree copies a tar file of a whole tree. It keeps the order, since a hard link has to come after its target;
// mmdebstrap sorts by name. The content of /dev is left to the container runtime.
func (w *layerWriter) copyTree(from io.Reader) error {
	reader := tar.NewReader(from)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the tree: %w", err)
		}
		header.Name = strings.TrimPrefix(path.Clean(header.Name), "/")
		kinds := []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink}
		if header.Name == "." || strings.HasPrefix(header.Name, "dev/") || !slices.Contains(kinds, header.Typeflag) {
			continue
		}
		if err := w.write(header, reader); err != nil {
			return err
		}
	}
}

// addFile copies one file of the machine into the layer, with the folders above it.
func (w *layerWriter) addFile(from, as string) (err error) {
	as = strings.TrimPrefix(path.Clean(as), "/")
	for i, c := range as {
		if c == '/' {
			if err := w.write(&tar.Header{Typeflag: tar.TypeDir, Name: as[:i], Mode: 0o755}, nil); err != nil {
				return err
			}
		}
	}
	file, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("add a file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("add a file: %w", err)
	}
	return w.write(&tar.Header{Typeflag: tar.TypeReg, Name: as, Mode: 0o755, Size: info.Size()}, file)
}

func (w *layerWriter) write(from *tar.Header, content io.Reader) error {
	header := &tar.Header{
		Typeflag: from.Typeflag,
		Name:     from.Name,
		Linkname: from.Linkname,
		Size:     from.Size,
		Mode:     from.Mode & int64(fs.ModePerm),
		ModTime:  w.epoch,
	}
	switch from.Typeflag {
	case tar.TypeDir:
		header.Name += "/"
		header.Mode |= from.Mode & 0o1000 // The sticky bit is what keeps a shared /tmp apart.
	case tar.TypeLink:
		header.Linkname = path.Clean(from.Linkname)
	}
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s: %w", header.Name, err)
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	if _, err := io.Copy(w.tar, content); err != nil {
		return fmt.Errorf("write %s: %w", header.Name, err)
	}
	return nil
}
