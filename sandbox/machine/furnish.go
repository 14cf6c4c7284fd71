package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// furnish gives the machine its view of the file system. The host's root stays underneath; what a machine writes to
// is hidden behind empty file systems or shown from the machine's own folder. All of it ends with the mount
// namespace.
func furnish(spec Spec) error {
	// Sources are opened first: an empty file system may come to lie above them, and an open folder can still be bound.
	keep, err := openPath(spec.Keep)
	if err != nil {
		return err
	}
	sources := make([]string, len(spec.Binds))
	for i, bind := range spec.Binds {
		if sources[i], err = openPath(bind.Source); err != nil {
			return err
		}
	}
	// Slaves: nothing of the machine reaches the host, but what the host unmounts does not stay busy in here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host: %w", err)
	}
	if err := mountKernel(); err != nil {
		return err
	}
	for _, target := range spec.Tmpfs {
		if err := mount("tmpfs", target, "tmpfs", 0, "mode=755"); err != nil {
			return err
		}
	}
	if err := bindTo(keep, spec.Keep); err != nil {
		return err
	}
	for i, bind := range spec.Binds {
		if err := bindTo(sources[i], bind.Target); err != nil {
			return err
		}
	}
	if err := coverValues(spec); err != nil {
		return err
	}
	// Containers and volume mounts travel between the kubelet and containerd through shared mounts.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	return nil
}

// mountKernel shows the machine's own processes, network devices and control groups.
func mountKernel() error {
	trees, err := hierarchies() // Read before /sys is covered.
	if err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if len(trees) == 1 && trees[0].fstype == "cgroup2" {
		return mountUnified()
	}
	if err := mount("tmpfs", cgroupMount, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, tree := range trees {
		if err := os.MkdirAll(tree.path, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", tree.path, err)
		}
		if err := mount("cgroup", tree.path, tree.fstype, 0, tree.options); err != nil {
			return err
		}
	}
	return nil
}

// mountUnified shows the machine's group as the root of version 2. Such a root may hand controllers down only while
// it holds no process itself, so the init moves into a group below.
func mountUnified() error {
	if err := mount("cgroup2", cgroupMount, "cgroup2", 0, ""); err != nil {
		return err
	}
	own := filepath.Join(cgroupMount, "init")
	if err := os.MkdirAll(own, 0o755); err != nil {
		return fmt.Errorf("make the init's control group: %w", err)
	}
	if err := os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0o600); err != nil {
		return fmt.Errorf("enter the init's control group: %w", err)
	}
	return delegate(cgroupMount)
}

// coverValues puts files of the machine's own over values of the kernel that a namespace does not separate.
func coverValues(spec Spec) error {
	for name, value := range spec.Values {
		file := filepath.Join(spec.Dir, ValueFile(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("make folder for values: %w", err)
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("write value of %s: %w", name, err)
		}
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
			continue // This kernel does not have the value, so nobody can change it.
		}
		if err := mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// openPath opens a file or folder as a place only and returns a path that names it whatever is mounted later.
func openPath(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}

// bindTo binds source over target. A folder is made where an empty file system lies; a file has to be there, or it is
// left out, as making it would be a change of the host.
func bindTo(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("look at the source of %s: %w", target, err)
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if _, statErr := os.Stat(target); errors.Is(statErr, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make mount point %s: %w", target, err)
	}
	return mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

func mount(source, target, fstype string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, fstype, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", fstype, target, err)
	}
	return nil
}
