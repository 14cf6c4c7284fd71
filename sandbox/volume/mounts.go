package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// run runs a tool whose output matters only when it fails.
func run(name string, args ...string) error {
	if output, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// mounted tells whether something is mounted exactly at path.
func mounted(path string) bool {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(mounts)) {
		if field := strings.Fields(line); len(field) > 1 && field[1] == path {
			return true
		}
	}
	return false
}

// unmount unmounts path, as often as something is mounted there, and removes the then empty folder. It never removes
// content: should something still be mounted, that would be the volume's data.
func unmount(path string) error {
	for {
		err := unix.Unmount(path, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// deviceOf finds the loop device that has the file attached. It compares files, not names: a machine may see the same
// file under another path than the process that attached it.
func deviceOf(file string) (string, error) {
	want, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("look at volume: %w", err)
	}
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return "", fmt.Errorf("list loop devices: %w", err)
	}
	for _, name := range backing {
		content, err := os.ReadFile(name)
		if err != nil {
			continue // Detached while we were looking.
		}
		if got, err := os.Stat(strings.TrimSpace(string(content))); err == nil && os.SameFile(want, got) {
			return "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(name))), nil
		}
	}
	return "", fmt.Errorf("no loop device has %s attached", file)
}
