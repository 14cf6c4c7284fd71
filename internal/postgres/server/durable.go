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

// ReserveFile holds room back on a volume, for the time when nothing else is left.
const ReserveFile = "reserve"

// write is writeDurably, with the help of the reserve.
func (d *Disk) write(path string, content []byte) error {
	return WithReserve(d.Folder, func() error { return writeDurably(path, content, 0o600) })
}

// WithReserve writes to a volume. When there is no room for it, the reserve is given up, and it is tried once more.
func WithReserve(folder string, write func() error) error {
	err := write()
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	if os.Remove(filepath.Join(folder, ReserveFile)) != nil {
		return err // There is none, or it does not help.
	}
	return write()
}

// SpendReserve implements postgres.Disk.
func (d *Disk) SpendReserve() error {
	if err := os.Remove(d.path(ReserveFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("give up the reserve: %w", err)
	}
	return nil
}

// KeepReserve implements postgres.Disk. A hole would hold nothing back, so the blocks are taken, by writing where the
// file system cannot do it otherwise.
func (d *Disk) KeepReserve() error {
	file, err := os.OpenFile(d.path(ReserveFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("keep a reserve: %w", err)
	}
	err = syscall.Fallocate(int(file.Fd()), 0, 0, postgres.ReserveSize)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		_, err = file.Write(make([]byte, postgres.ReserveSize))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("keep a reserve: %w", err), d.SpendReserve())
	}
	return nil
}

// room looks at the volume, and at that of the log if it has its own. What cannot be told is no room of size 0.
func (d *Disk) room() postgres.Room {
	var room postgres.Room
	var data, log syscall.Statfs_t
	if syscall.Statfs(d.Folder, &data) != nil {
		return room
	}
	room.Size, room.Free = data.Blocks*uint64(data.Bsize), data.Bavail*uint64(data.Bsize)
	var facts syscall.Stat_t
	if syscall.Stat(d.path(ReserveFile), &facts) == nil {
		room.Reserve = uint64(facts.Blocks) * 512
	}
	own := syscall.Statfs(filepath.Join(d.Data(), "pg_wal"), &log) == nil && log.Fsid != data.Fsid
	if own {
		room.LogSize, room.LogFree = log.Blocks*uint64(log.Bsize), log.Bavail*uint64(log.Bsize)
	}
	return room
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
