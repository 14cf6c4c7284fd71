//go:build cluster

package test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/sandbox/parts"
)

var (
	binary = flag.String("sandbox", "../../bin/sandbox", "the sandbox's command")
	images = flag.String("images", "../../images", "folder with the recipes of images")
	minor  = flag.String("kubernetes", parts.DefaultKubernetes, "version of Kubernetes to test on")
	keep   = flag.Bool("keep", false, "leave the sandbox up at the end, for tests that come after these")
	// found tells that the sandbox was up before: then it is somebody's, and tests do not end it.
	found bool
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	for _, path := range []*string{binary, images} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		*path = absolute
	}
	found = exec.Command(*binary, "status").Run() == nil
	before = host()
	start := up()
	start.Stdout, start.Stderr = os.Stdout, os.Stderr // It may have to build for minutes, and says so.
	if err := start.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "start the sandbox:", err)
		return 1
	}
	if !found && !*keep {
		defer func() {
			if output, err := exec.Command(*binary, "down").CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "end the sandbox: %v\n%s", err, output)
			}
		}()
	}
	// Those of an earlier run, on a sandbox that was left up, are not as a test expects them.
	earlier := exec.Command(*binary, "kubectl", "delete", "namespace", shared, "--ignore-not-found")
	if output, err := earlier.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "delete the servers of an earlier run: %v\n%s", err, output)
		return 1
	}
	failed := m.Run()
	if found || *keep {
		_ = exec.Command(*binary, "kubectl", "delete", "namespace", shared, "--wait=false", "--ignore-not-found").Run()
	}
	return failed
}

// up is the command that brings the sandbox up, with its kubeconfig in a place of the test's own.
func up() *exec.Cmd {
	target := filepath.Join(os.TempDir(), "meridian-sandbox-test", "kubeconfig")
	return exec.Command(*binary, "up", "--images", *images, "--kubeconfig", target, "--kubernetes", *minor)
}

// sandbox runs the sandbox's command and fails the test if it fails.
func sandbox(t *testing.T, args ...string) string {
	t.Helper()
	return must(t, exec.Command(*binary, args...))
}

// kubectl runs kubectl through the sandbox's command.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return sandbox(t, append([]string{"kubectl"}, args...)...)
}

// tryKubectl runs kubectl for at most ten seconds and returns what it printed and whether it failed.
func tryKubectl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	output, err := exec.CommandContext(ctx, *binary, append([]string{"kubectl"}, args...)...).CombinedOutput()
	return string(output), err
}

func must(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, &stdout, &stderr)
	}
	return strings.TrimSpace(stdout.String())
}

// eventually asks until there is no objection. The limit is for a machine that hangs, not a measure of speed.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(250 * time.Millisecond) {
		if err = ask(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// namespace makes a namespace that enforces the restricted level and goes with the test.
func namespace(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	kubectl(t, "delete", "namespace", name, "--ignore-not-found")
	kubectl(t, "create", "namespace", name)
	kubectl(t, "label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
	t.Cleanup(func() { kubectl(t, "delete", "namespace", name, "--wait=false", "--ignore-not-found") })
	return name
}

// apply applies a manifest to a namespace.
func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	cmd := exec.Command(*binary, "kubectl", "-n", namespace, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	must(t, cmd)
}

// postgres starts three servers, in a namespace that goes with the test.
func postgres(t *testing.T) string {
	t.Helper()
	ns := namespace(t)
	startServers(t, ns)
	return ns
}

// shared is the namespace of the servers that tests have in common which do them no lasting harm.
const shared = "shared-servers"

// servers are those that tests have in common. Each test finds them well, whatever the one before has done.
func servers(t *testing.T) string {
	t.Helper()
	if _, err := tryKubectl(t, "get", "namespace", shared); err != nil {
		kubectl(t, "create", "namespace", shared)
		kubectl(t, "label", "namespace", shared, "pod-security.kubernetes.io/enforce=restricted")
	}
	startServers(t, shared)
	eventually(t, "all servers answer", func() error {
		for _, pod := range []string{"pg-0", "pg-1", "pg-2"} {
			if output, err := sql(t, shared, pod, "/tmp", "select 1"); err != nil {
				return fmt.Errorf("%s: %w: %s", pod, err, output)
			}
		}
		return nil
	})
	return shared
}

func startServers(t *testing.T, ns string) {
	t.Helper()
	content, err := os.ReadFile("testdata/postgres.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, ns, string(content))
	kubectl(t, "-n", ns, "rollout", "status", "statefulset/pg", "--timeout=180s")
}

// sql runs a statement in a pod, as a client of the given host.
func sql(t *testing.T, ns, pod, host, statement string) (string, error) {
	t.Helper()
	output, err := tryKubectl(t, "-n", ns, "exec", pod, "--",
		"timeout", "3", "psql", "-h", host, "-U", "postgres", "-At", "-c", statement)
	return strings.TrimSpace(output), err
}

// podOn returns the pod of the servers that runs on the node, and its address.
func podOn(t *testing.T, ns, node string) (name, address string) {
	t.Helper()
	found := kubectl(t, "-n", ns, "get", "pods", "-l", "app=pg", "--field-selector", "spec.nodeName="+node,
		"-o", "jsonpath={.items[0].metadata.name} {.items[0].status.podIP}")
	name, address, _ = strings.Cut(found, " ")
	return name, address
}
