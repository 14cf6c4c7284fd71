package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestControllersOf(t *testing.T) {
	for options, want := range map[string]string{
		"rw,relatime,memory":                      "memory",
		"rw,nosuid,nodev,noexec,cpu,cpuacct":      "cpu,cpuacct",
		"rw,relatime,name=systemd":                "none,name=systemd",
		"rw,nosuid,nodev,noexec,xattr,name=extra": "none,name=extra",
	} {
		if got := controllersOf(options); got != want {
			t.Errorf("of %q: %q, want %q", options, got, want)
		}
	}
}

func TestSpecSurvivesItsFile(t *testing.T) {
	spec := Spec{
		Name: "node1", Dir: t.TempDir(), Keep: "/keep", Tmpfs: []string{"/run"}, Binds: []Bind{{Source: "/a", Target: "/b"}},
		Values: map[string]string{"kernel/panic": "1"}, Sysctls: map[string]string{"net/ipv4/ip_forward": "1"},
		Services: []Service{
			{Name: "s", Path: "/s", Args: []string{"-x"}, Env: []string{"A=b"}, Ready: &Check{URL: "u", CA: "c"}},
		},
	}
	if err := spec.save(); err != nil {
		t.Fatal(err)
	}
	got, err := load(spec.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestForeignProcessIsNoMachine gives a machine a process id that lives, but not in the machine's group.
func TestForeignProcessIsNoMachine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pid"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pid := PID("no-such-machine", dir); pid != 0 {
		t.Errorf("process %d is taken for the machine's", pid)
	}
}

func TestInitRefusesToRunByHand(t *testing.T) {
	if err := Init(t.TempDir(), stageJoin); err == nil {
		t.Error("the first process of a machine ran outside of one")
	}
}

func TestDescribe(t *testing.T) {
	for status, want := range map[unix.WaitStatus]string{
		0: "exit code 0", 3 << 8: "exit code 3", unix.WaitStatus(unix.SIGKILL): "signal killed",
	} {
		if got := describe(status); got != want {
			t.Errorf("%v is %q, want %q", status, got, want)
		}
	}
}
