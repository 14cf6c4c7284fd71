package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

var errEmpty = errors.New("there is neither a Go program nor a list of Debian packages in it")

// largestProgram is how much of a file in an image is read to see whether it is a Go program.
const largestProgram = 512 << 20

// keyOf is what the sandbox adds to the names of image files.
var keyOf = regexp.MustCompile(`-[0-9a-f]{16}$`)

// title is the name of a file without what changes at each build.
func title(file string) string {
	return keyOf.ReplaceAllString(strings.TrimSuffix(filepath.Base(file), ".tar"), "")
}

// inspect finds the parts of a program, or of an image: a file of tar that holds its layers as files of tar.
func inspect(file string) ([]part, error) {
	if info, err := buildinfo.ReadFile(file); err == nil {
		return sorted(modules(info)), nil
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close() //nolint:errcheck // It was only read.
	parts, err := inspectTar(opened, true)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, errEmpty
	}
	return sorted(parts), nil
}

// inspectTar goes through an image, and through its layers.
func inspectTar(content io.Reader, image bool) ([]part, error) {
	var parts []part
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		found, err := inspectFile(header, bufio.NewReaderSize(reader, 1024), image)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", header.Name, err)
		}
		parts = append(parts, found...)
	}
}

func inspectFile(header *tar.Header, content *bufio.Reader, image bool) ([]part, error) {
	start, _ := content.Peek(512)
	name := path.Clean("/" + header.Name)
	switch {
	case image && len(start) == 512 && bytes.HasPrefix(start[257:], []byte("ustar")):
		return inspectTar(content, false)
	case name == "/var/lib/dpkg/status" || strings.HasPrefix(name, "/var/lib/dpkg/status.d/"):
		return packages(content)
	case bytes.HasPrefix(start, []byte("\x7fELF")) && header.Mode&0o111 != 0 && header.Size <= largestProgram:
		program, err := io.ReadAll(content)
		if err != nil {
			return nil, err
		}
		if info, err := buildinfo.Read(bytes.NewReader(program)); err == nil {
			return modules(info), nil
		}
	}
	return nil, nil
}

// modules are those that a Go program is made of, the language's own among them.
func modules(info *buildinfo.BuildInfo) []part {
	goModule := func(name, version string) part {
		return part{Name: name, Version: version, URL: "pkg:golang/" + name + "@" + version}
	}
	parts := []part{goModule("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dependency := range append([]*debug.Module{&info.Main}, info.Deps...) {
		for dependency.Replace != nil {
			dependency = dependency.Replace
		}
		parts = append(parts, goModule(dependency.Path, dependency.Version))
	}
	return parts
}

// packages reads the list that dpkg keeps: paragraphs of fields, with an empty line between two.
func packages(content io.Reader) ([]part, error) {
	var parts []part
	fields := map[string]string{}
	end := func() {
		if strings.HasSuffix(fields["Status"], " installed") || fields["Status"] == "" && fields["Package"] != "" {
			parts = append(parts, part{
				Name: fields["Package"], Version: fields["Version"], Supplier: fields["Maintainer"],
				URL: "pkg:deb/debian/" + fields["Package"] + "@" + fields["Version"] + "?arch=" + fields["Architecture"],
			})
		}
		clear(fields)
	}
	lines := bufio.NewScanner(content)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			end()
			continue
		}
		if name, value, found := strings.Cut(line, ": "); found && !strings.HasPrefix(line, " ") {
			fields[name] = value
		}
	}
	end()
	return parts, lines.Err()
}
