//go:build cluster

package test

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"meridian.dev/meridian/sandbox/cluster"
	"meridian.dev/meridian/sandbox/network"
)

func TestNodePowerCycle(t *testing.T) {
	ns := servers(t)
	pod, address := podOn(t, ns, "node3")
	if out, err := sql(t, ns, pod, "/tmp", "create table kept as select 42 as answer"); err != nil {
		t.Fatalf("write: %v: %s", err, out)
	}
	boot := bootOf(t, "node3")
	sandbox(t, "node", "stop", "3")
	t.Cleanup(func() { sandbox(t, "node", "start", "3") })
	if err := dial(net.JoinHostPort(address, "5432")); err == nil {
		t.Error("a pod of a node without power answers")
	}
	if got := stateOf(t, "node3"); got != "off" {
		t.Errorf("status says %q", got)
	}
	survivor, _ := podOn(t, ns, "node1")
	if out, err := sql(t, ns, survivor, "/tmp", "select 1"); err != nil {
		t.Errorf("a pod of another node: %v: %s", err, out)
	}
	sandbox(t, "node", "start", "3")
	eventually(t, "the pod is back with its data", func() error {
		got, err := sql(t, ns, pod, "/tmp", "select answer from kept")
		if err != nil || got != "42" {
			return fmt.Errorf("%q, %w", got, err)
		}
		return nil
	})
	if again := bootOf(t, "node3"); again == boot {
		t.Error("the kubelet did not notice that its node was rebooted")
	}
}

func bootOf(t *testing.T, node string) string {
	t.Helper()
	return kubectl(t, "get", "node", node, "-o", "jsonpath={.status.nodeInfo.bootID}")
}

// TestNodeCuts checks, for each kind of cut, who can still talk to the node. The peer's line of the table is the one
// that matters for databases, the API server's the one that matters for leases, the host's the one that matters for
// tests.
func TestNodeCuts(t *testing.T) {
	ns := servers(t)
	pod, address := podOn(t, ns, "node2")
	peer, peerAddress := podOn(t, ns, "node1")
	t.Cleanup(func() { sandbox(t, "node", "heal", "2") })
	for _, cut := range []struct {
		from                  network.From
		peer, apiServer, host bool
	}{
		{from: network.Peers, apiServer: true, host: true},
		{from: network.API, peer: true, host: true},
		{from: network.All},
	} {
		t.Run(string(cut.from), func(t *testing.T) {
			sandbox(t, "node", "cut", "2", "--from", string(cut.from))
			_, err := sql(t, ns, peer, address, "select 1")
			reached(t, "a pod of a peer", err, cut.peer)
			_, err = sql(t, ns, pod, "/tmp", "select 1")
			reached(t, "the API server", err, cut.apiServer)
			reached(t, "the host", dial(net.JoinHostPort(address, "5432")), cut.host)
			if got := stateOf(t, "node2"); got != "cut" {
				t.Errorf("status says %q", got)
			}
			sandbox(t, "node", "heal", "2")
			eventually(t, "healed", func() error {
				_, here := sql(t, ns, pod, peerAddress, "select 1")
				_, there := sql(t, ns, peer, address, "select 1")
				return errors.Join(here, there)
			})
		})
	}
}

func reached(t *testing.T, who string, err error, want bool) {
	t.Helper()
	if (err == nil) != want {
		t.Errorf("%s reaches the node: %v, want %v (%v)", who, err == nil, want, err)
	}
}

func TestNodeFreeze(t *testing.T) {
	ns := servers(t)
	_, address := podOn(t, ns, "node1")
	pod, _ := podOn(t, ns, "node2")
	t.Cleanup(func() { sandbox(t, "node", "thaw", "1") })
	sandbox(t, "node", "freeze", "1")
	if out, err := sql(t, ns, pod, address, "select 1"); err == nil {
		t.Errorf("a frozen server answers %s", out)
	}
	if got := stateOf(t, "node1"); got != "frozen" {
		t.Errorf("status says %q", got)
	}
	sandbox(t, "node", "thaw", "1")
	eventually(t, "thawed", func() error { _, err := sql(t, ns, pod, address, "select 1"); return err })
}

func TestFrozenNodeCanBePoweredOff(t *testing.T) {
	sandbox(t, "node", "freeze", "3")
	sandbox(t, "node", "stop", "3")
	if got := stateOf(t, "node3"); got != "off" {
		t.Errorf("status says %q", got)
	}
	sandbox(t, "node", "start", "3")
}

func TestAPIServerAway(t *testing.T) {
	ns := servers(t)
	_, address := podOn(t, ns, "node1")
	t.Cleanup(func() { sandbox(t, "apiserver", "start") })
	sandbox(t, "apiserver", "stop")
	if output, err := tryKubectl(t, "get", "nodes"); err == nil {
		t.Errorf("a stopped API server answers %s", output)
	}
	if err := dial(net.JoinHostPort(address, "5432")); err != nil {
		t.Errorf("a pod is gone with the API server: %v", err)
	}
	sandbox(t, "apiserver", "start")
	kubectl(t, "-n", ns, "get", "pods")
}

func TestEtcdRestartKeepsObjects(t *testing.T) {
	ns := namespace(t)
	kubectl(t, "-n", ns, "create", "configmap", "kept")
	sandbox(t, "etcd", "restart")
	kubectl(t, "-n", ns, "get", "configmap", "kept")
}

func TestVolumeFillAndLose(t *testing.T) {
	ns := postgres(t)
	write := []string{"-n", ns, "exec", "pg-1", "--", "bash", "-c", "head -c 1000000 /dev/zero > /data/some"}
	sandbox(t, "volume", "fill", "data-pg-1", "-n", ns)
	if output, err := tryKubectl(t, write...); err == nil || !strings.Contains(output, "No space left") {
		t.Errorf("writing to a full volume: %v: %s", err, output)
	}
	sandbox(t, "volume", "unfill", "data-pg-1", "-n", ns)
	kubectl(t, write...)
	sandbox(t, "volume", "lose", "data-pg-1", "-n", ns)
	if output, err := tryKubectl(t, write...); err == nil {
		t.Errorf("writing to a lost volume worked: %s", output)
	}
	kubectl(t, "-n", ns, "delete", "pod", "pg-1")
	eventually(t, "the lost volume cannot be mounted again", func() error {
		events := kubectl(t, "-n", ns, "get", "events", "--field-selector", "reason=FailedMount",
			"-o", "jsonpath={.items[*].message}")
		if !strings.Contains(events, "is lost") {
			return fmt.Errorf("events: %s", events)
		}
		return nil
	})
}

// TestVolumeHang shows that a write waits while the volume hangs, and is done afterwards.
func TestVolumeHang(t *testing.T) {
	ns := servers(t)
	hang := exec.Command(*binary, "volume", "hang", "data-pg-1", "-n", ns, "--for", "10m")
	if err := hang.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceValue(func() error {
		return errors.Join(hang.Process.Signal(syscall.SIGTERM), hang.Wait())
	})
	t.Cleanup(func() { _ = end() })
	// A process that waits for the disk cannot be ended, so the shell leaves it behind and tells whether it still waits.
	const waits = `{ echo some > /data/hung; } >/dev/null 2>&1 & sleep 1; kill -0 $!`
	eventually(t, "a write waits", func() error {
		output, err := tryKubectl(t, "-n", ns, "exec", "pg-1", "--", "bash", "-c", waits)
		if err != nil {
			return fmt.Errorf("it was done: %w: %s", err, output)
		}
		return nil
	})
	if err := end(); err != nil {
		t.Errorf("the end of the hang: %v", err)
	}
	kubectl(t, "-n", ns, "exec", "pg-1", "--", "bash", "-c", "echo some > /data/hung && sync /data/hung")
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no such node":      {[]string{"node", "stop", "9"}, "there is no node 9: the sandbox has nodes 1 to 3"},
		"not a number":      {[]string{"node", "stop", "one"}, `"one" is no node`},
		"unknown cut":       {[]string{"node", "cut", "1", "--from", "moon"}, "[all api peers]"},
		"no such claim":     {[]string{"volume", "lose", "none"}, `"none" not found`},
		"not in a checkout": {[]string{"up", "--images", "/none"}, "or name the folder of recipes with --images"},
		"no such file":      {[]string{"image", "load", "none.tar"}, "there is no image file none.tar"},
		"other size":        {[]string{"up", "--images", *images, "--nodes", "2"}, "run 'sandbox down' first"},
		"too many nodes":    {[]string{"up", "--images", *images, "--nodes", "99"}, "1 to 9 nodes"},
		"unknown version":   {[]string{"up", "--images", *images, "--kubernetes", "1.7"}, "choose one of 1.36"},
		"init by hand":      {[]string{"machine-init", "/", "join"}, "started by the sandbox only"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := exec.Command(*binary, test.args...).CombinedOutput()
			if err == nil || !strings.Contains(string(output), test.want) {
				t.Errorf("answered %v, %q; want %q in it", err, output, test.want)
			}
		})
	}
}

// stateOf reads a machine's state through the Go API.
func stateOf(t *testing.T, machine string) string {
	t.Helper()
	status, err := cluster.Open().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range status.Machines {
		if one.Name == machine {
			return one.State
		}
	}
	return "unknown"
}
