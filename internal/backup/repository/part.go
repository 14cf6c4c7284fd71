package repository

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"meridian.dev/meridian/internal/backup/store"
)

// PutPart writes an object of a base backup, and tells the checksum of what is stored. The name is new for each try of
// a backup, so what is found under it is our own. One answer that fails must not end hours of copying: drivers repeat
// what they write in parts, and what is small enough to be held is written again here.
func (r *Repository) PutPart(ctx context.Context, name string, content io.Reader) (sum string, err error) {
	sealed, err := r.Keys.Seal(content)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	held := &held{from: sealed, hash: sha256.New()}
	var reader io.Reader = held
	worth := func(err error) bool { return held.ended && held.small != nil && store.Is(err, store.Away) }
	err = store.Again(ctx, cmp.Or(r.Pause, time.Second), worth, func() error {
		err := r.Store.PutIfAbsent(ctx, r.Root+name, reader)
		reader = bytes.NewReader(held.small)
		return err
	})
	if err != nil && !(held.ended && r.isThere(ctx, name, held.size, err)) {
		return "", err
	}
	return hex.EncodeToString(held.hash.Sum(nil)), nil
}

// isThere says whether an object was written, although an answer about it was lost.
func (r *Repository) isThere(ctx context.Context, name string, size int64, err error) bool {
	if !store.Is(err, store.Exists) && !store.Is(err, store.Away) {
		return false
	}
	found, err := r.Store.Head(ctx, r.Root+name)
	return err == nil && found.Size == size
}

// held passes content on, sums it up, and holds it while it is small.
type held struct {
	from  io.Reader
	hash  hash.Hash
	size  int64
	small []byte // Nil once it is too much.
	ended bool
}

func (h *held) Read(buffer []byte) (int, error) {
	count, err := h.from.Read(buffer)
	h.hash.Write(buffer[:count])
	if h.size += int64(count); h.size > store.PartSize {
		h.small = nil
	} else {
		h.small = append(h.small, buffer[:count]...)
	}
	h.ended = h.ended || errors.Is(err, io.EOF)
	return count, err
}
