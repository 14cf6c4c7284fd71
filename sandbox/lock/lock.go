// Package lock keeps two commands from changing the same thing at once, across processes. A lock dies with the
// process that holds it, so a crash never leaves one behind. It says nothing about the state that a crashed holder
// left.
package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// retry is how often a taken lock is tried again: the kernel can wait, but not for a context to end.
const retry = 100 * time.Millisecond

// Lock is a held lock.
type Lock struct{ file *os.File }

// Take waits until it holds the lock on the file at path, which is created if it is missing, or until ctx ends.
func Take(ctx context.Context, path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &Lock{file: file}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock %s is held by another command: %w", path, ctx.Err()), file.Close())
		case <-time.After(retry):
		}
	}
}

// Release gives the lock back. The file stays: removing it would let two holders lock two files of one name.
func (l *Lock) Release() {
	_ = l.file.Close() // Closing is what releases; a failed close of a file never written to has nothing to say.
}
