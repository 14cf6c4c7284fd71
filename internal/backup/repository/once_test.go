package repository_test

import (
	"context"
	"errors"
	"io"
	"testing"

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
