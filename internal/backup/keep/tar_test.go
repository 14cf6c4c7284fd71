package keep_test

import (
	"archive/tar"
	"io"
)

type tarWriter struct{ *tar.Writer }

func newTar(to io.Writer) tarWriter { return tarWriter{tar.NewWriter(to)} }

func (w tarWriter) add(name, content string) {
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600}); err != nil {
		panic(err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		panic(err)
	}
}

func (w tarWriter) close() {
	if err := w.Close(); err != nil {
		panic(err)
	}
}
