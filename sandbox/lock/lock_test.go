package lock_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"meridian.dev/meridian/sandbox/lock"
)

func TestOnlyOneHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := lock.Take(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := lock.Take(ended, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second holder got %v", err)
	}
	taken := make(chan error)
	go func() {
		second, err := lock.Take(context.Background(), path)
		if err == nil {
			second.Release()
		}
		taken <- err
	}()
	first.Release()
	if err := <-taken; err != nil {
		t.Errorf("the released lock cannot be taken: %v", err)
	}
}
