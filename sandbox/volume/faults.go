package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filler is the file that takes a volume's free space.
const filler = ".sandbox-filler"

// Fill takes all free space of the volume, as a runaway log would. The node, whose init is pid, has to have it
// mounted.
func (s Store) Fill(node, volume string, pid int) error {
	root, err := s.mountOf(node, volume, pid)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(root, filler), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open filler: %w", err)
	}
	defer func() { _ = file.Close() }()
	at := int64(0)
	for size := int64(1 << 30); size >= 4096; size /= 2 { // Reserving is quick and as good as writing.
		for err = nil; err == nil; at += size {
			err = unix.Fallocate(int(file.Fd()), 0, at, size)
		}
		at -= size // The last one did not fit.
		if !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("fill volume %s: %w", volume, err)
		}
	}
	return nil
}

// Unfill takes back what Fill wrote.
func (s Store) Unfill(node, volume string, pid int) error {
	root, err := s.mountOf(node, volume, pid)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(root, filler)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove filler: %w", err)
	}
	return nil
}

// Lose takes the disk away for good. Where it is mounted, every access fails from now on; it cannot be mounted again.
func (s Store) Lose(node, volume string, pid int) error {
	if root, err := s.mountOf(node, volume, pid); err == nil {
		if err := shutdown(root); err != nil {
			return fmt.Errorf("shut volume %s down: %w", volume, err)
		}
	}
	return s.Delete(node, volume)
}

// Hang lets every write to the volume wait until ctx ends, as a disk does that has stopped answering. Reads of what is
// in memory go on. The node, whose init is pid, has to have it mounted.
func (s Store) Hang(ctx context.Context, node, volume string, pid int) error {
	root, err := s.mountOf(node, volume, pid)
	if err != nil {
		return err
	}
	dir, err := os.Open(root)
	if err != nil {
		return fmt.Errorf("open volume %s: %w", volume, err)
	}
	defer func() { _ = dir.Close() }()
	if err := freeze(dir, fiFreeze); err != nil {
		return fmt.Errorf("freeze volume %s: %w", volume, err)
	}
	<-ctx.Done()
	if err := freeze(dir, fiThaw); err != nil {
		return fmt.Errorf("thaw volume %s: %w", volume, err)
	}
	return nil
}

// The requests of Linux that stop and resume the writes of a file system.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

func freeze(dir *os.File, request uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), request, 0); errno != 0 {
		return errno
	}
	return nil
}

// mountOf returns a path to the mounted volume that works from the host, through the node's own view.
func (s Store) mountOf(node, volume string, pid int) (string, error) {
	if pid == 0 {
		return "", fmt.Errorf("%s is off", node)
	}
	device, err := deviceOf(s.File(node, volume))
	if err != nil {
		return "", fmt.Errorf("volume %s is not mounted on %s: %w", volume, node, err)
	}
	mounts, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "mounts"))
	if err != nil {
		return "", fmt.Errorf("read mounts of %s: %w", node, err)
	}
	for line := range strings.Lines(string(mounts)) {
		if field := strings.Fields(line); len(field) > 1 && field[0] == device {
			return filepath.Join("/proc", strconv.Itoa(pid), "root", field[1]), nil
		}
	}
	return "", fmt.Errorf("volume %s is not mounted on %s", volume, node)
}

// The request and the flag of XFS that stop a file system without writing its log, as a vanished disk would.
const (
	xfsGoingDown  = 0x8004587d
	xfsNoLogFlush = uint32(2)
)

func shutdown(root string) error {
	dir, err := os.Open(root)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	flag := xfsNoLogFlush
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), xfsGoingDown,
		uintptr(unsafe.Pointer(&flag)))
	if errno != 0 {
		return errno
	}
	return nil
}
