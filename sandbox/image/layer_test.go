package image_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"meridian.dev/meridian/sandbox/image"
)

// tree is a tar file as a package installer might leave it, made at the given time.
func tree(t *testing.T, made time.Time) *bytes.Buffer {
	t.Helper()
	var content bytes.Buffer
	writer := tar.NewWriter(&content)
	for _, header := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "./dev/", Mode: 0o755},
		{Typeflag: tar.TypeChar, Name: "./dev/null", Mode: 0o666, Devmajor: 1, Devminor: 3},
		{Typeflag: tar.TypeSymlink, Name: "./dev/fd", Linkname: "/proc/self/fd"},
		{Typeflag: tar.TypeDir, Name: "./tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeDir, Name: "./usr/", Mode: 0o2755, Gid: 50},
		{Typeflag: tar.TypeReg, Name: "./usr/su", Mode: 0o4755, Size: 2, Uid: 7, Uname: "someone"},
		{Typeflag: tar.TypeLink, Name: "./usr/link", Linkname: "./usr/su", Mode: 0o4755},
		{Typeflag: tar.TypeReg, Name: "./usr/ping", Mode: 0o755, Size: 2,
			PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "all"}},
		{Typeflag: tar.TypeFifo, Name: "./usr/pipe", Mode: 0o644},
	} {
		header.ModTime = made
		if err := writer.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, "hi"[:header.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return &content
}

func TestLayerKeepsContentAndNothingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "layer.tar")
	if _, err := image.WriteTree(file, tree(t, time.Now())); err != nil {
		t.Fatal(err)
	}
	layer, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = layer.Close() }()
	var got []string
	for reader := tar.NewReader(layer); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%c %s %s %04o %d:%d %d", header.Typeflag, header.Name, header.Linkname,
			header.Mode, header.Uid, header.Gid, header.ModTime.Year()))
		if len(header.PAXRecords) > 0 || header.Uname != "" {
			t.Errorf("%s still has %v %q", header.Name, header.PAXRecords, header.Uname)
		}
	}
	want := []string{
		"5 dev/  0755 0:0 2026",
		"5 tmp/  1777 0:0 2026",
		"5 usr/  0755 0:0 2026",
		"0 usr/su  0755 0:0 2026",
		"1 usr/link usr/su 0755 0:0 2026",
		"0 usr/ping  0755 0:0 2026",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestLayerIsReproducible(t *testing.T) {
	dir := t.TempDir()
	first, err := image.WriteTree(filepath.Join(dir, "1"), tree(t, time.Unix(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	second, err := image.WriteTree(filepath.Join(dir, "2"), tree(t, time.Unix(2, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("the same tree at another time: %s, then %s", first, second)
	}
}

// TestLayerOfATornTreeFails cuts inside an entry. A cut between two entries looks like an end, and is noticed by the
// exit code of the command that wrote it.
func TestLayerOfATornTreeFails(t *testing.T) {
	half := tree(t, time.Unix(1, 0)).Bytes()[:3000]
	if _, err := image.WriteTree(filepath.Join(t.TempDir(), "layer"), bytes.NewReader(half)); err == nil {
		t.Error("half a tree made a layer")
	}
}

// TestArchiveIsReadByOthers reads an archive with a reader that is not ours.
func TestArchiveIsReadByOthers(t *testing.T) {
	built := fromBinary(t, t.TempDir(), "one")
	read, err := tarball.ImageFromPath(built.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := read.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/tool"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("user %s", config.Config.User)
	}
	layers, err := read.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	id, err := layers[0].DiffID()
	if err != nil {
		t.Fatal(err)
	}
	if id != config.RootFS.DiffIDs[0] {
		t.Errorf("layer %s, but the configuration names %s", id, config.RootFS.DiffIDs[0])
	}
}
