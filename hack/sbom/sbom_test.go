package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const status = `Package: libgeos-c1v5
Status: install ok installed
Maintainer: Debian GIS Project <pkg-grass-devel@lists.alioth.debian.org>
Architecture: amd64
Version: 3.13.1-1
Description: geometry engine
 Package: not-this

Package: removed
Status: deinstall ok config-files
Version: 1
Architecture: all

Package: adduser
Status: install ok installed
Architecture: all
Version: 3.152
`

func tarOf(t *testing.T, files map[string]string) string {
	t.Helper()
	var text bytes.Buffer
	writer := tar.NewWriter(&text)
	for name, content := range files {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestImage finds the installed packages in a layer of an image, and no others.
func TestImage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "postgis-17-0123456789abcdef.tar")
	image := tarOf(t, map[string]string{"blobs/sha256/a": tarOf(t, map[string]string{"var/lib/dpkg/status": status})})
	if err := os.WriteFile(file, []byte(image), 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := inspect(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []part{
		{Name: "adduser", Version: "3.152", URL: "pkg:deb/debian/adduser@3.152?arch=all"},
		{
			Name: "libgeos-c1v5", Version: "3.13.1-1", URL: "pkg:deb/debian/libgeos-c1v5@3.13.1-1?arch=amd64",
			Supplier: "Debian GIS Project <pkg-grass-devel@lists.alioth.debian.org>",
		},
	}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if got := title(file); got != "postgis-17" {
		t.Errorf("the image is called %s", got)
	}
}

// TestProgram looks into the program of this test.
func TestProgram(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := inspect(program)
	if err != nil {
		t.Fatal(err)
	}
	text, err := document("test", parts, time.Unix(0, 0).UTC())
	if err != nil {
		t.Fatal(err)
	}
	var read spdxDocument
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Packages) != len(parts)+1 || len(read.Relationships) != len(parts)+1 || read.Version != "SPDX-2.3" {
		t.Errorf("%d packages and %d relationships for %d parts", len(read.Packages), len(read.Relationships), len(parts))
	}
	// A program of tests does not tell of its modules, but always of Go.
	if !strings.Contains(string(text), `"pkg:golang/stdlib@`) {
		t.Errorf("Go itself is missing:\n%s", text)
	}
}

// TestAgain writes the documents of one image twice: by the same moment they are the same bytes, whatever the order of
// files in the image.
func TestAgain(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1763424000")
	written := map[string]bool{}
	for range 8 {
		folder := t.TempDir()
		file := filepath.Join(folder, "postgis-17.tar")
		image := tarOf(t, map[string]string{"a": tarOf(t, map[string]string{
			"var/lib/dpkg/status": status, "var/lib/dpkg/status.d/more": "Package: more\nVersion: 1\n",
		})})
		if err := os.WriteFile(file, []byte(image), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{file}, folder, false, io.Discard); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "postgis-17.spdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `"created": "2025-11-18T00:00:00Z"`) {
			t.Fatalf("the moment is missing:\n%s", text)
		}
		written[string(text)] = true
	}
	if len(written) != 1 {
		t.Errorf("%d different documents of one image", len(written))
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := run(nil, t.TempDir(), false, io.Discard); err == nil {
		t.Error("yesterday was taken for a moment")
	}
}

func TestNothingIsNoBill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty.tar")
	if err := os.WriteFile(file, []byte(tarOf(t, nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect(file); !errors.Is(err, errEmpty) {
		t.Errorf("an image with nothing in it: %v", err)
	}
}
