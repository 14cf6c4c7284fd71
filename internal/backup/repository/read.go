package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
)

// ErrLost means that the listing shows an object, and its content is not there any more.
var ErrLost = errors.New("it is lost")

// Open gives the content of a sealed object.
func (r *Repository) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := r.Store.Get(ctx, r.Root+name)
	if err != nil {
		return nil, r.lost(ctx, name, err)
	}
	content, err := r.Keys.Open(name, object)
	if err != nil {
		return nil, errors.Join(err, object.Close())
	}
	return &opened{ReadCloser: content, object: object}, nil
}

// lost tells an object that is not there from a store that could not be asked (K6).
func (r *Repository) lost(ctx context.Context, name string, err error) error {
	if !store.Is(err, store.NotFound) {
		return err
	}
	absent, problem := store.IsAbsent(ctx, r.Store, r.Root+name)
	switch {
	case problem != nil:
		return problem
	case absent:
		return fmt.Errorf("read %s: %w", name, ErrLost)
	}
	return &store.Error{Class: store.Away, Doing: "read " + name, Err: errors.New("it is listed, but was not found")}
}

type opened struct {
	io.ReadCloser
	object io.Closer
}

func (o *opened) Close() error { return errors.Join(o.ReadCloser.Close(), o.object.Close()) }

// OpenPart gives the content of a part, whose end tells an error if what is stored is not what was written.
func (r *Repository) OpenPart(ctx context.Context, part backup.Part) (io.ReadCloser, error) {
	object, err := r.Store.Get(ctx, r.Root+part.Name)
	if err != nil {
		return nil, r.lost(ctx, part.Name, err)
	}
	summed := &summed{from: object, hash: sha256.New()}
	content, err := r.Keys.Open(part.Name, summed)
	if err != nil {
		return nil, errors.Join(err, object.Close())
	}
	return &checked{opened: opened{ReadCloser: content, object: object}, part: part, summed: summed}, nil
}

type summed struct {
	from io.Reader
	hash hash.Hash
}

func (s *summed) Read(buffer []byte) (int, error) {
	count, err := s.from.Read(buffer)
	s.hash.Write(buffer[:count])
	return count, err
}

type checked struct {
	opened
	part   backup.Part
	summed *summed
}

func (c *checked) Read(buffer []byte) (int, error) {
	count, err := c.opened.Read(buffer)
	if !errors.Is(err, io.EOF) {
		return count, err
	}
	if _, err := io.Copy(io.Discard, c.summed); err != nil {
		return count, fmt.Errorf("read %s: %w", c.part.Name, err)
	}
	if got := hex.EncodeToString(c.summed.hash.Sum(nil)); got != c.part.SHA256 {
		return count, fmt.Errorf("read %s: %w: its checksum is %s, not %s", c.part.Name, seal.ErrDamaged, got, c.part.SHA256)
	}
	return count, io.EOF
}

// WriteFile writes a file of the log as recovery gets it: as long as a segment, with zeros behind what is valid.
func (r *Repository) WriteFile(ctx context.Context, file backup.File, size uint64, to io.Writer) error {
	limited := &limited{to: to, room: file.Valid}
	if file.Whole != "" {
		if err := r.copy(ctx, file.Whole, 0, size, limited); err != nil {
			return err
		}
	}
	at := uint64(0)
	for _, tail := range file.Tails {
		if err := r.copy(ctx, tail.Name, at-tail.From, tail.To-tail.From, limited); err != nil {
			return err
		}
		at = tail.To
	}
	if limited.room != 0 {
		return fmt.Errorf("read segment %d of timeline %d: %w: %d bytes are missing",
			file.Number, file.Timeline, seal.ErrDamaged, limited.room)
	}
	_, err := io.CopyN(to, zeros{}, int64(size-file.Valid))
	return err
}

// copy copies an object of a known size without its begin.
func (r *Repository) copy(ctx context.Context, name string, skip, size uint64, to io.Writer) error {
	content, err := r.Open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	if _, err := io.CopyN(io.Discard, content, int64(skip)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	count, err := io.Copy(to, content)
	if err != nil {
		return err
	}
	if uint64(count)+skip != size {
		return fmt.Errorf("read %s: %w: it has %d bytes, not %d", name, seal.ErrDamaged, uint64(count)+skip, size)
	}
	return nil
}

// limited passes as many bytes on as there is room for, and drops the rest.
type limited struct {
	to   io.Writer
	room uint64
}

func (l *limited) Write(content []byte) (int, error) {
	pass := content[:min(uint64(len(content)), l.room)]
	if _, err := l.to.Write(pass); err != nil {
		return 0, err
	}
	l.room -= uint64(len(pass))
	return len(content), nil
}

type zeros struct{}

func (zeros) Read(buffer []byte) (int, error) {
	clear(buffer)
	return len(buffer), nil
}
