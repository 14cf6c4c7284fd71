//go:build cluster

package test

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/sandbox/cluster"
	"meridian.dev/meridian/sandbox/image"
)

func TestNodesAreReady(t *testing.T) {
	ready := kubectl(t, "get", "nodes", "-o",
		`jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`)
	if want := "node1=True node2=True node3=True"; ready != want {
		t.Errorf("nodes are %q, want %q", ready, want)
	}
}

func TestUpAgainChangesNothing(t *testing.T) {
	before := kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.bootID}")
	must(t, up())
	if after := kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.bootID}"); before != after {
		t.Errorf("nodes were booted again: %s, then %s", before, after)
	}
}

// TestNoMachineBelievesRedirects: a redirect of a node that was powered off would lead packets astray for minutes.
func TestNoMachineBelievesRedirects(t *testing.T) {
	for _, machine := range []string{"control", "node1", "node2", "node3"} {
		pid, err := os.ReadFile(filepath.Join(cluster.Dir, "machines", machine, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		settings := must(t, exec.Command("nsenter", "--net", "--target", string(pid), "sh", "-c",
			"cd /proc/sys/net/ipv4/conf && grep . all/*_redirects default/*_redirects eth0/*_redirects"))
		for _, device := range []string{"all", "default", "eth0"} {
			for _, setting := range []string{"accept_redirects", "send_redirects"} {
				if want := device + "/" + setting + ":0"; !strings.Contains(settings, want) {
					t.Errorf("%s: not %s in:\n%s", machine, want, settings)
				}
			}
		}
	}
}

// TestMachinesForgetWhatNobodyAnswers: a connection from a port that was used before would be led to where the one
// before got no answer, for two minutes.
func TestMachinesForgetWhatNobodyAnswers(t *testing.T) {
	for _, machine := range []string{"control", "node1", "node2", "node3"} {
		pid, err := os.ReadFile(filepath.Join(cluster.Dir, "machines", machine, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		seconds := must(t, exec.Command("nsenter", "--net", "--target", string(pid), "cat",
			"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_syn_sent"))
		if strings.TrimSpace(seconds) != "5" {
			t.Errorf("%s remembers it for %s s", machine, strings.TrimSpace(seconds))
		}
	}
}

// TestPostgresAnswersEverywhere: names and routes follow within seconds after a pod is ready, as on every cluster: the
// controller of EndpointSlices writes them late if it is busy, and name servers keep "no such name" for 5 s. From the
// moment on at which they are there, everyone is answered.
func TestPostgresAnswersEverywhere(t *testing.T) {
	ns := servers(t)
	service := kubectl(t, "-n", ns, "get", "service", "pg-any", "-o", "jsonpath={.spec.clusterIP}")
	for from := range 3 {
		for to := range 3 {
			answers(t, ns, fmt.Sprintf("pg-%d", from), fmt.Sprintf("pg-%d.pg.%s.svc.cluster.local", to, ns))
		}
		answers(t, ns, fmt.Sprintf("pg-%d", from), "pg-any")
	}
	for range 12 { // Each connection may take another node.
		if err := dial(net.JoinHostPort(service, "5432")); err != nil {
			t.Errorf("the host connects to the service: %v", err)
		}
	}
}

// answers waits until a pod is answered by a server of the name.
func answers(t *testing.T, ns, from, host string) {
	t.Helper()
	eventually(t, from+" asks "+host, func() error {
		got, err := sql(t, ns, from, host, "select pg_is_in_recovery()")
		if err == nil && got != "f" {
			err = fmt.Errorf("the answer is %q", got)
		}
		return err
	})
}

func TestPostGISFromOurImage(t *testing.T) {
	ns := servers(t)
	for _, extension := range []string{"postgis", "postgis_raster", "pgrouting"} {
		if out, err := sql(t, ns, "pg-0", "/tmp", "create extension "+extension); err != nil {
			t.Errorf("create extension %s: %v: %s", extension, err, out)
		}
	}
	// Berlin to Paris, by PostGIS's spheroid.
	got, err := sql(t, ns, "pg-0", "/tmp",
		"select round(ST_Distance('POINT(13.405 52.52)'::geography, 'POINT(2.3522 48.8566)'::geography)/1000)")
	if err != nil || got != "880" {
		t.Errorf("distance is %q km, %v; want 880", got, err)
	}
}

func TestClaimGrowsWhileInUse(t *testing.T) {
	ns := servers(t)
	if size := diskSize(t, ns); size > 1<<30 {
		t.Fatalf("the file system begins with %d bytes", size)
	}
	restarts := []string{"-n", ns, "get", "pod", "pg-0", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"}
	before := kubectl(t, restarts...)
	kubectl(t, "-n", ns, "patch", "pvc", "data-pg-0", "-p", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	eventually(t, "df shows 2 GiB", func() error {
		if size := diskSize(t, ns); size < 1900<<20 {
			return fmt.Errorf("the file system has %d bytes", size)
		}
		return nil
	})
	eventually(t, "the claim tells its size", func() error {
		got := kubectl(t, "-n", ns, "get", "pvc", "data-pg-0", "-o", "jsonpath={.status.capacity.storage}")
		if got != "2Gi" {
			return fmt.Errorf("capacity is %s", got)
		}
		return nil
	})
	if after := kubectl(t, restarts...); after != before {
		t.Errorf("the pod was restarted: %s times before, and %s after", before, after)
	}
}

func diskSize(t *testing.T, ns string) int64 {
	t.Helper()
	output := kubectl(t, "-n", ns, "exec", "pg-0", "--", "df", "-B1", "--output=size", "/data")
	fields := strings.Fields(output)
	size, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
	if err != nil {
		t.Fatalf("df printed %q", output)
	}
	return size
}

func TestVolumeIsDeletedWithItsClaim(t *testing.T) {
	ns := postgres(t)
	volume := kubectl(t, "-n", ns, "get", "pvc", "data-pg-1", "-o", "jsonpath={.spec.volumeName}")
	kubectl(t, "-n", ns, "delete", "statefulset", "pg")
	kubectl(t, "-n", ns, "delete", "pvc", "data-pg-1")
	eventually(t, "the volume is gone", func() error {
		if output, err := tryKubectl(t, "get", "pv", volume); err == nil {
			return fmt.Errorf("still there: %s", output)
		}
		return nil
	})
	files, err := filepath.Glob(filepath.Join("/var/lib/meridian-sandbox/volumes/*", volume+".img"))
	if err != nil || len(files) > 0 {
		t.Errorf("disks are left: %v, %v", files, err)
	}
}

func TestLogsAndPortForward(t *testing.T) {
	ns := servers(t)
	if logs := kubectl(t, "-n", ns, "logs", "pg-0"); !strings.Contains(logs, "ready to accept connections") {
		t.Errorf("logs are %q", logs)
	}
	forward := exec.Command(*binary, "kubectl", "-n", ns, "port-forward", "pg-0", "25432:5432")
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forward.Process.Kill(); _ = forward.Wait() })
	eventually(t, "a connection through the forwarded port", func() error { return dial("127.0.0.1:25432") })
}

func TestPodSecurityRefuses(t *testing.T) {
	ns := namespace(t)
	output, err := tryKubectl(t, "-n", ns, "run", "bad", "--image=localhost/meridian/redis:8", "--privileged")
	if err == nil || !strings.Contains(output, "restricted") {
		t.Errorf("a privileged pod was answered with %v: %s", err, output)
	}
}

func TestWebhookInAPod(t *testing.T) {
	ns := namespace(t)
	ref := loadWebhook(t)
	cert, key := selfSigned(t, "webhook."+ns+".svc")
	content, err := os.ReadFile("testdata/webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.StdEncoding.EncodeToString
	fill := strings.NewReplacer("CERT", encode(cert), "KEY", encode(key), "IMAGE", ref, "NAMESPACE", ns)
	t.Cleanup(func() { kubectl(t, "delete", "validatingwebhookconfiguration", "sandbox-test", "--ignore-not-found") })
	apply(t, ns, fill.Replace(string(content)))
	kubectl(t, "-n", ns, "rollout", "status", "deployment/webhook", "--timeout=120s")
	eventually(t, "the webhook is asked and agrees", func() error {
		output, err := tryKubectl(t, "-n", ns, "create", "configmap", "allowed")
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
	output, err := tryKubectl(t, "-n", ns, "create", "configmap", "refused")
	if err == nil || !strings.Contains(output, "the test's webhook says no") {
		t.Errorf("the webhook's refusal was answered with %v: %s", err, output)
	}
}

// loadWebhook builds the webhook, makes an image of it and loads it, as somebody with an image of their own would.
func loadWebhook(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "webhook")
	build := exec.Command("go", "build", "-o", program, "./webhook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	must(t, build)
	built, err := image.FromBinary(t.Context(), image.Options{CacheDir: t.TempDir()},
		image.Binary{Name: "webhook", Tag: "test", File: program})
	if err != nil {
		t.Fatal(err)
	}
	sandbox(t, "image", "load", built.Path)
	return built.Ref
}

func dial(address string) error {
	conn, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}
