package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"meridian.dev/meridian/internal/postgres"
)

// writeDurably replaces a file as a whole. When it returns, the new content outlives a loss of power; when it fails,
// the old one is still there.
func writeDurably(path string, content []byte, mode fs.FileMode) error {
	folder := filepath.Dir(path)
	draft, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*")
	if err != nil {
		return bare(err)
	}
	defer func() { _ = os.Remove(draft.Name()) }()
	_, err = draft.Write(content)
	for _, problem := range []error{err, draft.Chmod(mode), draft.Sync(), draft.Close()} {
		if problem != nil {
			return bare(problem)
		}
	}
	if err := os.Rename(draft.Name(), path); err != nil {
		return bare(err)
	}
	return syncFolder(folder)
}

// bare drops the random name of a draft from an error: it goes into the report, which must not change with each try.
func bare(err error) error {
	if found, ok := errors.AsType[*fs.PathError](err); ok {
		return found.Err
	}
	if found, ok := errors.AsType[*os.LinkError](err); ok {
		return found.Err
	}
	return err
}

// syncFolder makes names in a folder outlive a loss of power.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Lock implements postgres.Disk. The lock belongs to the open file, which PostgreSQL inherits: it is free only when the
// last process of either is gone. That holds between pods of one node, where two could see the same file system;
// between nodes the volume's access mode has to.
func (d *Disk) Lock() error {
	if d.lock != nil {
		return nil
	}
	file, err := os.OpenFile(d.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock the volume: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("lock the volume: %w", err), file.Close())
	}
	d.lock = file
	return nil
}

// lookAtLock asks for a shared lock and lets go of it at once.
func (d *Disk) lookAtLock() (postgres.Lock, error) {
	if d.lock != nil {
		return postgres.LockOurs, nil
	}
	file, err := os.Open(d.path(lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return postgres.LockFree, nil
	}
	if err != nil {
		return "", fmt.Errorf("look at the lock of the volume: %w", err)
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return postgres.LockOthers, nil
	case err != nil:
		return "", fmt.Errorf("look at the lock of the volume: %w", err)
	}
	return postgres.LockFree, nil
}

// LockFile is the locked file, to be handed down to the server, or nil.
func (d *Disk) LockFile() *os.File { return d.lock }

// Unlock gives the lock back, for a process that has more than one volume in its life.
func (d *Disk) Unlock() {
	if d.lock != nil {
		_ = d.lock.Close()
		d.lock = nil
	}
}
