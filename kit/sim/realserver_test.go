//go:build cluster

package sim_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// startRealServer starts etcd and kube-apiserver alone on loopback, with the programs that `bin/sandbox parts` builds.
func startRealServer(t *testing.T) *rest.Config {
	t.Helper()
	output, err := exec.Command(filepath.Join("..", "..", "bin", "sandbox"), "parts").Output()
	if err != nil {
		t.Fatalf("find the programs of Kubernetes: %v", err)
	}
	programs, folder := strings.TrimSpace(string(output)), t.TempDir()
	store, peer, secure := "http://"+freeAddress(t), "http://"+freeAddress(t), freeAddress(t)
	_, port, _ := net.SplitHostPort(secure)
	key := writeKey(t, folder)
	tokens := filepath.Join(folder, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("fidelity,admin,admin,\"system:masters\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	startProgram(t, folder, filepath.Join(programs, "etcd"), "--data-dir", filepath.Join(folder, "etcd"),
		"--unsafe-no-fsync", "--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	startProgram(t, folder, filepath.Join(programs, "kube-apiserver"), "--etcd-servers", store,
		"--bind-address", "127.0.0.1", "--secure-port", port, "--cert-dir", folder, "--token-auth-file", tokens,
		"--authorization-mode", "RBAC", "--service-account-issuer", "https://alone.invalid",
		"--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
		"--endpoint-reconciler-type", "none",
		"--watch-cache=false", "--enable-priority-and-fairness=false", "--profiling=false")
	config := &rest.Config{
		Host: "https://" + secure, BearerToken: "fidelity", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // its certificate is made at the start, on loopback
	}
	awaitReady(t, config, folder)
	return config
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func writeKey(t *testing.T, folder string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "key.pem")
	content := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startProgram runs a program until the test ends; what was started last ends first.
func startProgram(t *testing.T, folder, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(folder, filepath.Base(program)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = log.Close()
	})
}

func awaitReady(t *testing.T, config *rest.Config, folder string) {
	t.Helper()
	caller, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := caller.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	content, _ := os.ReadFile(filepath.Join(folder, "kube-apiserver.log"))
	t.Fatalf("the API server is not ready:\n%s", content[max(0, len(content)-4000):])
}
