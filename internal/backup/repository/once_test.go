package repository_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/store"
)

// silent does each write, and loses the answer.
type silent struct{ store.Store }

func (s silent) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	if err := s.Store.PutIfAbsent(ctx, name, content); err != nil {
		return err
	}
	return &store.Error{Class: store.Away, Doing: "write " + name, Err: errors.New("no answer")}
}

// A record whose answer was lost is found to be there when it is written again; one that somebody else has written is
// not taken for it.
func TestARecordWhoseAnswerWasLostIsThere(t *testing.T) {
	ctx := context.Background()
	r, under := newRepository(t)
	written, trial := backup.Backup{ID: "b1", Timeline: 1, Size: 7}, backup.Verified{Backup: "b1", RestoreMilliseconds: 3}
	for name, put := range map[string]func(different bool) error{
		"a backup": func(different bool) error {
			again := written
			if different {
				again.Size++
			}
			return r.PutBackup(ctx, again)
		},
		"a trial": func(different bool) error {
			again := trial
			if different {
				again.Problem = "bad"
			}
			return r.PutVerified(ctx, "now", again)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.Store = silent{under}
			if err := put(false); !store.Is(err, store.Away) {
				t.Fatalf("the answer is %v", err)
			}
			if err := put(false); err != nil {
				t.Errorf("written again: %v", err)
			}
			if err := put(true); !store.Is(err, store.Exists) {
				t.Errorf("another one of the same name: %v", err)
			}
		})
	}
}

// busy refuses some writes.
type busy struct {
	store.Store
	refuses int
}

func (b *busy) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	if b.refuses--; b.refuses < 0 {
		return b.Store.PutIfAbsent(ctx, name, content)
	}
	_, _ = io.Copy(io.Discard, content)
	return &store.Error{Class: store.Away, Doing: "write " + name, Err: errors.New("the store answered 503")}
}

// noise does not become smaller when it is compressed.
func noise(size int) []byte {
	content := make([]byte, size)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(content)
	return content
}

// A part of a base backup outlives answers that are lost and a server that is busy: what was copied for hours before it
// would be copied again.
func TestAPartOutlivesAnAnswerThatFails(t *testing.T) {
	ctx := context.Background()
	small, large := noise(1000), noise(store.PartSize+1000)
	for name, c := range map[string]struct {
		wrap    func(store.Store) store.Store
		content []byte
		fails   bool
	}{
		"a small one, whose answers are lost": {func(s store.Store) store.Store { return silent{s} }, small, false},
		"a large one, whose answer is lost":   {func(s store.Store) store.Store { return silent{s} }, large, false},
		"a small one, refused for a while":    {func(s store.Store) store.Store { return &busy{s, 3} }, small, false},
		"a small one, refused for ever":       {func(s store.Store) store.Store { return &busy{s, 100} }, small, true},
		"a large one, which was not written":  {func(s store.Store) store.Store { return &busy{s, 1} }, large, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, under := newRepository(t)
			r.Store, r.Pause = c.wrap(under), time.Millisecond
			name := backup.PartName("b1", 1, r.Keys.Suffix())
			sum, err := r.PutPart(ctx, name, bytes.NewReader(c.content))
			if c.fails {
				if !store.Is(err, store.Away) {
					t.Errorf("it ended with %v", err)
				}
				return
			}
			must(t, err)
			reader, err := r.OpenPart(ctx, backup.Part{Name: name, SHA256: sum})
			must(t, err)
			if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, c.content) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})
	}
	r, _ := newRepository(t)
	_, err := r.PutPart(ctx, "base/b1/part", io.MultiReader(bytes.NewReader(small), iotest.ErrReader(io.ErrNoProgress)))
	if !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a copy that broke off ended with %v", err)
	}
}
