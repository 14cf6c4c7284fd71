package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/plugin/bundle"
)

// hidden must not be found in any output.
const hidden = "hunter2-very-secret"

func TestWriter(t *testing.T) {
	var file bytes.Buffer
	writer := bundle.New(&file, "cities", time.Unix(0, 0))
	if err := writer.Text("logs/a.log", "password="+hidden); err != nil {
		t.Fatal(err)
	}
	if err := writer.Object("objects/a.yaml", map[string]any{"b": 1}); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	got := unpack(t, &file)
	want := map[string]string{"cities/logs/a.log": "password=REDACTED", "cities/objects/a.yaml": "b: 1\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func unpack(t *testing.T, file io.Reader) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(zip); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}
