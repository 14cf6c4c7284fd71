// Package bundle packs what is known about a database into one file that can be sent to somebody else. Everything
// passes through internal/redact, or comes from there.
//
// It is pure but for the writer that it is given. Start reading at Writer.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"meridian.dev/meridian/internal/redact"
)

// Writer packs files. All of them pass through the redaction.
type Writer struct {
	folder string
	now    time.Time
	zip    *gzip.Writer
	tar    *tar.Writer
	names  []string
}

// New begins a bundle whose files lie in a folder of that name.
func New(out io.Writer, folder string, now time.Time) *Writer {
	zip := gzip.NewWriter(out)
	return &Writer{folder: folder, now: now, zip: zip, tar: tar.NewWriter(zip)}
}

// Names are the files so far.
func (w *Writer) Names() []string { return w.names }

// Text adds a file.
func (w *Writer) Text(name, content string) error {
	return w.Redacted(name, redact.Text(content))
}

// Redacted adds a file from which secrets were taken out by whoever made it.
func (w *Writer) Redacted(name, content string) error {
	header := &tar.Header{
		Name: path.Join(w.folder, name), Mode: 0o644, Size: int64(len(content)), ModTime: w.now, Typeflag: tar.TypeReg,
	}
	if err := w.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if _, err := io.WriteString(w.tar, content); err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	w.names = append(w.names, name)
	return nil
}

// Object adds an object as YAML.
func (w *Writer) Object(name string, object any) error {
	content, err := redact.YAML(object)
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return w.Redacted(name, content)
}

// Close ends the bundle.
func (w *Writer) Close() error { return errors.Join(w.tar.Close(), w.zip.Close()) }
