// Package recall takes a snapshot of a database the way the operator does, with the rights of whoever asks, and plays
// it again later and elsewhere: the same rules, the same invariants, the same words. A snapshot that somebody sends
// becomes a test that way.
//
// It changes nothing and reads no Secret. What could not be read, and what had to be assumed for it, is part of the
// story. Start reading at Source.Take, which makes a Story, and at Play, which decides on one.
package recall

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/internal/database"
)

// FileName is that of the story inside of a bundle.
const FileName = "replay.txtar"

// The files of a story.
const (
	seenFile    = "seen.yaml"
	assumedFile = "assumed.txt"
	unreadFile  = "unread.txt"
)

// Story is what the operator would have seen, as far as the one who looked may know it.
type Story struct {
	// Seen has no secret in it any more.
	Seen database.Snapshot
	// Assumed is what nobody but the operator knows, Unread what this person may not read, one sentence each.
	Assumed, Unread []string
}

// Encode is the story as a scenario of internal/database/plan.
func (s Story) Encode() (string, error) {
	seen, err := yaml.Marshal(s.Seen)
	if err != nil {
		return "", fmt.Errorf("encode the snapshot: %w", err)
	}
	archive := txtar.Archive{
		Comment: fmt.Appendf(nil, "The database %s/%s as somebody saw it at %s.\n\n", s.Seen.Namespace, s.Seen.Name,
			s.Seen.Now.UTC().Format("2006-01-02 15:04:05")),
		Files: []txtar.File{{Name: seenFile, Data: seen}},
	}
	for _, part := range []struct {
		name  string
		lines []string
	}{{assumedFile, s.Assumed}, {unreadFile, s.Unread}} {
		if len(part.lines) > 0 {
			text := strings.Join(part.lines, "\n") + "\n"
			archive.Files = append(archive.Files, txtar.File{Name: part.name, Data: []byte(text)})
		}
	}
	return string(txtar.Format(&archive)), nil
}

// Decode reads a story. A field that this version does not know is an error: it would decide on half of the facts.
func Decode(document []byte) (Story, error) {
	var story Story
	found := false
	for _, file := range txtar.Parse(document).Files {
		switch file.Name {
		case seenFile:
			found = true
			if err := yaml.UnmarshalStrict(file.Data, &story.Seen); err != nil {
				return Story{}, fmt.Errorf("decode %s: %w", seenFile, err)
			}
		case assumedFile:
			story.Assumed = lines(file.Data)
		case unreadFile:
			story.Unread = lines(file.Data)
		}
	}
	if !found || story.Seen.Name == "" {
		return Story{}, fmt.Errorf("there is no snapshot of a database in it: %s is missing or empty", seenFile)
	}
	return story, nil
}

func lines(data []byte) []string {
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// most is more than any snapshot has: a file from somebody else must not fill the memory.
const most = 64 << 20

// Open finds the story in a bundle that `kubectl meridian snapshot` has written, or reads the story itself.
func Open(file io.Reader) (Story, error) {
	content, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return Story{}, fmt.Errorf("read the bundle: %w", err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return Decode(content)
	}
	for reader := tar.NewReader(zip); ; {
		header, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return Story{}, fmt.Errorf("there is no %s in the bundle: the version that wrote it is too old", FileName)
		case err != nil:
			return Story{}, fmt.Errorf("read the bundle: %w", err)
		case path.Base(header.Name) != FileName:
			continue
		}
		document, err := io.ReadAll(io.LimitReader(reader, most))
		if err != nil {
			return Story{}, fmt.Errorf("read the bundle: %w", err)
		}
		return Decode(document)
	}
}
