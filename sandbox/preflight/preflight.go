// Package preflight looks, before anything is started, whether this host can run a sandbox, and installs the Debian
// packages that are missing. Each finding is one line that says what is missing and what to do about it.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"meridian.dev/meridian/sandbox/image"
	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
)

// tool is a program that the sandbox calls and the Debian package that has it.
type tool struct{ program, debian string }

// imageTools lists what building images needs, and tools what a sandbox needs, beyond what is built here.
var (
	imageTools = []tool{
		{"mmdebstrap", "mmdebstrap"}, {"/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"},
	}
	tools = append([]tool{
		{"runc", "runc"}, {"/usr/lib/cni/ptp", "containernetworking-plugins"}, {"nft", "nftables"}, {"mkfs.xfs", "xfsprogs"},
		{"xfs_growfs", "xfsprogs"}, {"nsenter", "util-linux"}, {"losetup", "mount"}, {"mount", "mount"}, {"cp", "coreutils"},
	}, imageTools...)
)

// The disk space that a first start takes: sources, compilers' output, parts and images in the caches; nodes and
// volumes in the state.
const (
	needCache = 10 << 30
	needState = 4 << 30
)

// Check looks at everything and returns one error for each thing that is missing: first what only the host's owner
// can give, then packages, which are installed if the host has apt-get. A sandbox that exists has passed all this
// before, so only the quick parts are asked again.
func Check(ctx context.Context, paths Paths, say func(string)) error {
	if err := Root(); err != nil {
		return err
	}
	if err := errors.Join(namespaces(), machine.CheckGroups(), loopDevices(), fileSystem("xfs"), freeAddresses(),
		goTool()); err != nil {
		return err
	}
	if _, err := os.Stat(paths.State); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(space(paths.State, needState), space(paths.Cache, needCache)); err != nil {
			return err
		}
	}
	if err := install(ctx, tools, say); err != nil {
		return err
	}
	return errors.Join(overlay(paths.State), recipes(paths.Recipes))
}

// recipes looks whether images can be built.
func recipes(dir string) error {
	if _, err := image.Recipes(dir); err != nil {
		return fmt.Errorf("%w: run this in a checkout, or name the folder of recipes with --images", err)
	}
	return image.Check(dir)
}

// Paths are the folders that a sandbox is going to use.
type Paths struct{ State, Cache, Recipes string }

// Root tells whether this process may do what a sandbox needs.
func Root() error {
	if os.Geteuid() != 0 {
		return errors.New("this command makes namespaces, mounts and loop devices: run it as root (sudo make sandbox)")
	}
	return nil
}

// ForImages installs the Debian packages that building images needs, for root on a host that has apt-get. Others are
// told by the build what is missing, if an image that wants them is built at all.
func ForImages(ctx context.Context, say func(string)) error {
	if _, err := exec.LookPath("apt-get"); err == nil && os.Geteuid() == 0 {
		return install(ctx, imageTools, say)
	}
	return nil
}

func install(ctx context.Context, tools []tool, say func(string)) error {
	missing := missingPackages(tools)
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing programs, named here by their Debian packages: %s: install them and try again", list)
	}
	say("installing Debian packages: " + list)
	update := exec.CommandContext(ctx, "apt-get", "update", "-qq")
	add := exec.CommandContext(ctx, "apt-get",
		append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)...)
	for _, cmd := range []*exec.Cmd{update, add} {
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("install %s: %w: %s", list, err, lastLine(string(output)))
		}
	}
	if missing := missingPackages(tools); len(missing) > 0 {
		return fmt.Errorf("still missing after installation: %s: install them by hand", strings.Join(missing, " "))
	}
	return nil
}

func missingPackages(tools []tool) []string {
	var missing []string
	for _, tool := range tools {
		if _, err := os.Stat(tool.program); filepath.IsAbs(tool.program) && err == nil {
			continue
		}
		_, err := exec.LookPath(tool.program)
		if err != nil && (len(missing) == 0 || missing[len(missing)-1] != tool.debian) {
			missing = append(missing, tool.debian)
		}
	}
	return missing
}

// namespaces tries what a machine is made of.
func namespaces() error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS |
		unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("this host refuses new namespaces (%w): inside a container, run it with --privileged", err)
	}
	return nil
}

// overlay tries an overlay mount where the nodes are going to have theirs, in a mount namespace that ends with the
// try.
func overlay(stateDir string) error {
	parent := existing(stateDir)
	dir, err := os.MkdirTemp(parent, ".meridian-overlay-")
	if err != nil {
		return fmt.Errorf("cannot write to %s: %w", parent, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return fmt.Errorf("cannot write to %s: %w", dir, err)
		}
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	try := exec.Command("mount", "-t", "overlay", "overlay", "-o", options, filepath.Join(dir, "merged"))
	try.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if output, err := try.CombinedOutput(); err != nil {
		return fmt.Errorf("no overlay mounts on %s (%s): mount an ext4 or XFS file system at %s",
			parent, lastLine(string(output)), stateDir)
	}
	return nil
}

func loopDevices() error {
	control, err := os.Open("/dev/loop-control")
	if err != nil {
		return fmt.Errorf("no loop devices (%w): load the kernel module 'loop'", err)
	}
	return control.Close()
}

// fileSystem tells whether the kernel has the file system, now or as a module.
func fileSystem(name string) error {
	known, err := os.ReadFile("/proc/filesystems")
	if err == nil && strings.Contains(string(known), "\t"+name+"\n") {
		return nil
	}
	if exec.Command("modprobe", name).Run() == nil {
		return nil
	}
	return fmt.Errorf("the kernel has no %s file system: load the kernel module '%s'", name, name)
}

// freeAddresses looks whether the host already uses addresses of the sandbox, other than for the sandbox itself.
func freeAddresses() error {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	own := -1
	if link, err := netlink.LinkByName(network.HostCard); err == nil {
		own = link.Attrs().Index
	}
	for _, route := range routes {
		used, ok := prefix(route.Dst)
		if !ok || used.Bits() == 0 || route.LinkIndex == own || hopsOver(route, own) {
			continue
		}
		for _, ours := range network.Ranges() {
			if ours.Overlaps(used) {
				return fmt.Errorf("this host has a route to %s, which the sandbox needs for %s: remove it first", used, ours)
			}
		}
	}
	return nil
}

func hopsOver(route netlink.Route, own int) bool {
	for _, hop := range route.MultiPath {
		if hop.LinkIndex == own {
			return true
		}
	}
	return false
}

func prefix(dst *net.IPNet) (netip.Prefix, bool) {
	if dst == nil {
		return netip.Prefix{}, false
	}
	parsed, err := netip.ParsePrefix(dst.String())
	return parsed, err == nil
}

func space(dir string, need uint64) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(existing(dir), &stat); err != nil {
		return fmt.Errorf("look at the disk: %w", err)
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < need {
		return fmt.Errorf("%s has %d GiB free and %d are needed: free some, or mount a bigger disk there",
			dir, free>>30, need>>30)
	}
	return nil
}

func goTool() error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("no Go toolchain in PATH: install Go 1.26 or newer, which builds Kubernetes")
	}
	return nil
}

// existing returns the nearest folder above path that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
