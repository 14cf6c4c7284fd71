package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupMount is where every Linux distribution has its control groups.
const cgroupMount = "/sys/fs/cgroup"

// groupRoot is the group below which all machines are, in every hierarchy. It is how machines are found again.
const groupRoot = "meridian-sandbox"

// hierarchy is one mounted tree of control groups: one for all controllers in version 2, one for each in version 1.
type hierarchy struct {
	path string
	// options mount the same tree again inside a machine.
	fstype, options string
}

func (h hierarchy) group(machine string) string { return filepath.Join(h.path, groupRoot, machine) }

// unified tells whether the host has cgroup version 2 only.
func unified() bool {
	var stat unix.Statfs_t
	return unix.Statfs(cgroupMount, &stat) == nil && stat.Type == unix.CGROUP2_SUPER_MAGIC
}

// hierarchies lists the trees that a machine joins. On a host with both versions those of version 1 count: there the
// controllers are bound to them.
func hierarchies() ([]hierarchy, error) {
	if unified() {
		return []hierarchy{{path: cgroupMount, fstype: "cgroup2"}}, nil
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	var found []hierarchy
	for line := range strings.Lines(string(mounts)) {
		field := strings.Fields(line)
		if len(field) < 4 || field[2] != "cgroup" || filepath.Dir(field[1]) != cgroupMount {
			continue
		}
		// One that is mounted over another, as in a container, is there twice, and counts once.
		if !slices.ContainsFunc(found, func(tree hierarchy) bool { return tree.path == field[1] }) {
			found = append(found, hierarchy{path: field[1], fstype: "cgroup", options: controllersOf(field[3])})
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no control groups are mounted below " + cgroupMount)
	}
	return found, nil
}

// controllersOf keeps of a mount's options those that name the hierarchy; a named one (systemd) has no controller.
func controllersOf(options string) string {
	var kept []string
	named := false
	for option := range strings.SplitSeq(options, ",") {
		switch {
		case strings.HasPrefix(option, "name="):
			named = true
			kept = append(kept, option)
		case !slices.Contains([]string{"rw", "ro", "relatime", "noatime", "nosuid", "nodev", "noexec", "xattr"}, option):
			kept = append(kept, option)
		}
	}
	if named {
		kept = append([]string{"none"}, kept...)
	}
	return strings.Join(kept, ",")
}

// joinGroup puts a process into the machine's group in every hierarchy, making the group first.
func joinGroup(machine string, pid int) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	for _, tree := range trees {
		group := tree.group(machine)
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
		if err := prepareGroup(tree, group); err != nil {
			return err
		}
		procs := filepath.Join(group, "cgroup.procs")
		if err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0o600); err != nil {
			return fmt.Errorf("join control group %s: %w", group, err)
		}
	}
	return nil
}

// prepareGroup gives a new group what it needs before it may hold a process: in version 1 a cpuset starts with
// neither processors nor memory; in version 2 the controllers must be handed down from the root.
func prepareGroup(tree hierarchy, group string) error {
	if tree.fstype == "cgroup2" {
		return delegate(tree.path, filepath.Dir(group))
	}
	for _, dir := range []string{filepath.Dir(group), group} {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inheritValue(dir, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// inheritValue copies a cpuset's file from its parent when it is still empty. Other hierarchies have no such file.
func inheritValue(dir, file string) error {
	own, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(bytes.TrimSpace(own)) > 0) {
		return nil
	}
	parent, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
	if err != nil {
		return fmt.Errorf("read the parent's %s: %w", file, err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), parent, 0o600); err != nil {
		return fmt.Errorf("set %s of %s: %w", file, dir, err)
	}
	return nil
}

// delegate hands every controller down from each of the groups to its children. A controller that the kernel refuses
// is left out, as it may be bound to a version 1 hierarchy; the kubelet names those that it misses.
func delegate(groups ...string) error {
	for _, group := range groups {
		controllers, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
		if err != nil {
			return fmt.Errorf("read controllers of %s: %w", group, err)
		}
		for _, controller := range strings.Fields(string(controllers)) {
			_ = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0o600)
		}
	}
	return nil
}

// members lists the processes of a machine and of every group below it, in all hierarchies.
func members(machine string) ([]int, error) {
	trees, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, tree := range trees {
		err := filepath.WalkDir(tree.group(machine), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // The group ended while we were looking.
			}
			if err != nil || !entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			if err != nil {
				return nil //nolint:nilerr // The group ended while we were looking.
			}
			for _, field := range strings.Fields(string(content)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list processes of %s: %w", machine, err)
		}
	}
	return pids, nil
}

// removeGroup removes the machine's groups in every hierarchy, the deepest first. A group stays busy for a moment
// after its last process ended, so it is tried until the deadline.
func removeGroup(machine string) error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	for _, tree := range trees {
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			err := removeTree(tree.group(machine))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("remove control group: %w", err)
			}
		}
	}
	return nil
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// Freeze stops every process of the machine without ending any, as a hung host would. It returns when all stand
// still.
func Freeze(machine string) error {
	if err := setFreezer(machine, "FROZEN", "1"); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if Frozen(machine) {
			return nil
		}
	}
	return fmt.Errorf("machine %s does not freeze", machine)
}

// Thaw undoes Freeze.
func Thaw(machine string) error { return setFreezer(machine, "THAWED", "0") }

func setFreezer(machine, v1, v2 string) error {
	file, value := filepath.Join(cgroupMount, "freezer", groupRoot, machine, "freezer.state"), v1
	if unified() {
		file, value = filepath.Join(cgroupMount, groupRoot, machine, "cgroup.freeze"), v2
	}
	if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
		return fmt.Errorf("set the freezer of %s: %w", machine, err)
	}
	return nil
}

// Frozen tells whether the machine is frozen; a machine without a freezer is not.
func Frozen(machine string) bool {
	v1, _ := os.ReadFile(filepath.Join(cgroupMount, "freezer", groupRoot, machine, "freezer.state"))
	v2, _ := os.ReadFile(filepath.Join(cgroupMount, groupRoot, machine, "cgroup.events"))
	return strings.HasPrefix(string(v1), "FROZEN") || strings.Contains(string(v2), "frozen 1")
}

// required are the controllers without which a kubelet does not start or a fault does not work.
var required = []string{"cpu", "cpuset", "memory", "pids"}

// CheckGroups tells what is missing of the host's control groups.
func CheckGroups() error {
	trees, err := hierarchies()
	if err != nil {
		return err
	}
	if !unified() {
		for _, name := range append([]string{"freezer", "devices"}, required...) {
			if !slices.ContainsFunc(trees, func(tree hierarchy) bool {
				return slices.Contains(strings.Split(tree.options, ","), name)
			}) {
				return fmt.Errorf("the control group %s is not mounted below %s", name, cgroupMount)
			}
		}
		return nil
	}
	if err := delegate(cgroupMount); err != nil {
		return err
	}
	enabled, err := os.ReadFile(filepath.Join(cgroupMount, "cgroup.subtree_control"))
	if err != nil {
		return fmt.Errorf("read control groups: %w", err)
	}
	for _, name := range required {
		if !slices.Contains(strings.Fields(string(enabled)), name) {
			return fmt.Errorf("the control group %s cannot be handed to machines: inside a container that is not possible "+
				"while processes are in its root group", name)
		}
	}
	return nil
}
