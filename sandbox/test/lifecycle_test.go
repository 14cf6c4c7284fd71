//go:build cluster

package test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"meridian.dev/meridian/sandbox/cluster"
)

// The tests of this file end the sandbox, so they need one that the tests have started. They come last: files are
// run in the order of their names.
func ownSandbox(t *testing.T) {
	t.Helper()
	if found {
		t.Skip("the sandbox was up before the tests and is not theirs to end: run 'sandbox down' first")
	}
}

// TestKillEverythingThenUp ends all processes of the sandbox at once, as a crash of the host would.
func TestKillEverythingThenUp(t *testing.T) {
	ownSandbox(t)
	kubectl(t, "create", "configmap", "survivor")
	all := sandboxProcesses(t)
	if len(all) < 10 {
		t.Fatalf("only %d processes of the sandbox are found", len(all))
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	eventually(t, "all processes end", func() error {
		if left := sandboxProcesses(t); len(left) > 0 {
			return fmt.Errorf("processes %v", left)
		}
		return nil
	})
	must(t, up())
	kubectl(t, "get", "configmap", "survivor")
}

// TestDownLeavesNothing compares the host before the first start with the host after the end.
func TestDownLeavesNothing(t *testing.T) {
	ownSandbox(t)
	ns := servers(t) // With mounted volumes and running containers.
	sandbox(t, "node", "cut", "1", "--from", "api")
	sandbox(t, "node", "freeze", "2")
	sandbox(t, "down")
	nothingLeft(t)
	must(t, up())
	if output, err := tryKubectl(t, "get", "namespace", ns); err == nil {
		t.Errorf("the new sandbox has objects of the old one: %s", output)
	}
}

// crashes are the moments at which TestCrashHalfwayUp kills the starting command: -crashes=all tries each.
var (
	crashes = flag.String("crashes", "short", "how often the start of the sandbox is broken off: short or all")
	moments = map[string][]time.Duration{
		"short": {800 * time.Millisecond, 4 * time.Second},
		"all": {
			200 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond, 2400 * time.Millisecond,
			4 * time.Second, 6 * time.Second, 8 * time.Second,
		},
	}
)

// TestCrashHalfwayUp kills the starting command at different moments. From each, down must leave nothing, and from
// the last one up must complete what was begun. Which step a moment hits does not matter: there are more than
// enough.
func TestCrashHalfwayUp(t *testing.T) {
	ownSandbox(t)
	if len(moments[*crashes]) == 0 {
		t.Fatalf("-crashes=%s is neither short nor all", *crashes)
	}
	for _, moment := range moments[*crashes] {
		sandbox(t, "down")
		crashUp(t, moment)
		sandbox(t, "down")
		nothingLeft(t)
	}
	crashUp(t, 3*time.Second)
	must(t, up())
	kubectl(t, "get", "nodes")
}

func crashUp(t *testing.T, after time.Duration) {
	t.Helper()
	cmd := up()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestClearRefusalWithoutRoot runs the command as nobody: one line, and nothing has changed.
func TestClearRefusalWithoutRoot(t *testing.T) {
	dir, err := os.MkdirTemp("", "sandbox-as-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "sandbox")
	content, err := os.ReadFile(*binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, content, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied, "up")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	output, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "run it as root") || strings.Count(string(output), "\n") != 1 {
		t.Errorf("answered %v: %s", err, output)
	}
}

func nothingLeft(t *testing.T) {
	t.Helper()
	if left := sandboxProcesses(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if diff := cmp.Diff(before, host()); diff != "" {
		t.Errorf("the host is not as it was before (-before +now):\n%s", diff)
	}
}

// sandboxProcesses finds the processes that run one of the sandbox's programs.
func sandboxProcesses(t *testing.T) []int {
	t.Helper()
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, link := range programs {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, cluster.Dir) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(link, "/proc/%d/exe", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// before is what the host was like before the first start.
var before map[string][]string

// host lists everything that a sandbox could leave behind, but for processes and the namespaces that live by them.
func host() map[string][]string {
	state := map[string][]string{
		"loop devices": lines("losetup", "--all"),
		"nft tables":   lines("nft", "list", "tables"),
		"groups":       groups(),
		"mounts":       mounts(),
		"folders":      folders(),
	}
	links, _ := netlink.LinkList()
	for _, link := range links {
		state["network devices"] = append(state["network devices"], link.Attrs().Name)
	}
	routes, _ := netlink.RouteList(nil, netlink.FAMILY_V4)
	for _, route := range routes {
		state["routes"] = append(state["routes"], route.String())
	}
	return state
}

func lines(name string, args ...string) []string {
	output, _ := exec.Command(name, args...).Output() // A tool that is not there yet has nothing to list.
	return strings.Fields(string(output))
}

func groups() []string {
	var found []string
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.Contains(path, "sandbox") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// mounts lists those that could be the sandbox's.
func mounts() []string {
	content, _ := os.ReadFile("/proc/self/mounts")
	return slices.DeleteFunc(strings.Split(string(content), "\n"), func(line string) bool {
		return !regexp.MustCompile("meridian|kubelet|containerd|overlay|/dev/loop|netns").MatchString(line)
	})
}

// folders are those that the programs of a node use by default and that must never appear on the host itself.
func folders() []string {
	var found []string
	for _, path := range []string{
		cluster.Dir, "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/etc/cni", "/opt/cni",
		"/opt/containerd", "/run/containerd", "/usr/libexec/kubernetes", "/var/log/pods", "/var/log/containers",
	} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			found = append(found, path)
		}
	}
	return found
}
