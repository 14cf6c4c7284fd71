// Package apiserver starts a real etcd and a real kube-apiserver for tests, alone on loopback, in seconds. There are
// no nodes and no controllers: what is tested is what the API server itself does, such as schemas, CEL, defaults,
// admission and rights.
//
// It needs no root. The programs are those of the sandbox: `bin/sandbox parts` builds them once and prints their
// folder.
//
// Start reading at Start. Whoever starts a server stops it; on Linux it also ends with the process that started it.
package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"meridian.dev/meridian/kit/pki"
)

// patience is how long the two may take to start; they need three seconds on an idle machine.
const patience = 2 * time.Minute

// Server is a running API server with its store.
type Server struct {
	// Config is that of an administrator.
	Config *rest.Config
	// Kubeconfig is a file with the same rights, for kubectl.
	Kubeconfig string

	programs string
	folder   string
	running  []process // in the order of their start
}

// process is a program that was started here, and ended by its own process id.
type process struct {
	command *exec.Cmd
	ended   chan error
}

// Start starts etcd and kube-apiserver, and waits until they are ready.
func Start(ctx context.Context) (*Server, error) {
	programs, err := findPrograms(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "apiserver-")
	if err != nil {
		return nil, err
	}
	server := &Server{programs: programs, folder: folder}
	if err := server.start(ctx); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return server, nil
}

func (s *Server) start(ctx context.Context) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	store, peer, secure := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1], ports[2]
	err = s.run("etcd", "--data-dir", s.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", store, "--advertise-client-urls", store,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	if err != nil {
		return err
	}
	bundle, err := s.writeCertificates()
	if err != nil {
		return err
	}
	token := make([]byte, 16)
	_, _ = rand.Read(token) // It never fails.
	s.Config = &rest.Config{
		Host: "https://127.0.0.1:" + secure, BearerToken: hex.EncodeToString(token), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: bundle},
	}
	if err := s.write("tokens.csv", []byte(s.Config.BearerToken+`,admin,admin,"system:masters"`+"\n")); err != nil {
		return err
	}
	if err := s.writeKubeconfig(); err != nil {
		return err
	}
	err = s.run("kube-apiserver", "--etcd-servers", store, "--bind-address", "127.0.0.1", "--secure-port", secure,
		"--tls-cert-file", s.path("tls.crt"), "--tls-private-key-file", s.path("tls.key"),
		"--token-auth-file", s.path("tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://alone.invalid", "--service-account-key-file", s.path("tls.crt"),
		"--service-account-signing-key-file", s.path("tls.key"), "--service-cluster-ip-range", "10.0.0.0/24",
		"--disable-admission-plugins", "ServiceAccount", "--cert-dir", s.folder, "--endpoint-reconciler-type", "none")
	if err != nil {
		return err
	}
	return s.await(ctx)
}

// Stop ends both programs, the API server first, and removes everything that they wrote.
func (s *Server) Stop() error {
	for i := len(s.running) - 1; i >= 0; i-- {
		started := s.running[i]
		_ = started.command.Process.Signal(os.Interrupt) // It may have ended by itself.
		select {
		case <-started.ended:
		case <-time.After(10 * time.Second):
			_ = started.command.Process.Kill()
			<-started.ended
		}
	}
	return os.RemoveAll(s.folder)
}

// Log returns the last lines that a program has written.
func (s *Server) Log(program string) string {
	const count = 20
	content, err := os.ReadFile(s.path(program + ".log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

func (s *Server) path(name string) string { return filepath.Join(s.folder, name) }

func (s *Server) write(name string, content []byte) error {
	return os.WriteFile(s.path(name), content, 0o600)
}

// versionVariable names another version of Kubernetes than the usual one, such as 1.33.
const versionVariable = "MERIDIAN_TEST_KUBERNETES"

// findPrograms asks the sandbox for the folder, and so builds the programs if they are not there.
func findPrograms(ctx context.Context) (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		sandbox := filepath.Join(folder, "bin", "sandbox")
		if _, err := os.Stat(sandbox); err == nil {
			ask := []string{"parts"}
			if version := os.Getenv(versionVariable); version != "" {
				ask = append(ask, "--kubernetes", version)
			}
			output, err := exec.CommandContext(ctx, sandbox, ask...).Output()
			if err != nil {
				return "", fmt.Errorf("build the programs of Kubernetes: %w", err)
			}
			return strings.TrimSpace(string(output)), nil
		}
		if folder == filepath.Dir(folder) {
			return "", errors.New("there is no bin/sandbox above this folder; make it with `make bin/sandbox`")
		}
		folder = filepath.Dir(folder)
	}
}

// freePorts returns ports of loopback that nobody listens on now, no two the same.
func freePorts(count int) ([]string, error) {
	var ports []string
	for range count {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// writeCertificates makes the authority and the certificate of the server, and returns what clients trust.
func (s *Server) writeCertificates() ([]byte, error) {
	policy := pki.Policy{
		Name: "test", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Backdate: time.Hour,
		Leaves: []pki.Profile{{
			Name: "server", CommonName: "kube-apiserver", Usage: pki.Server,
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		}},
	}
	state, err := pki.Decide(pki.State{}, time.Now(), policy).Apply(pki.State{}, rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf, _ := state.Leaf("server")
	certificate, key, err := leaf.Encode()
	if err != nil {
		return nil, err
	}
	return state.Bundle(), errors.Join(s.write("tls.crt", certificate), s.write("tls.key", key))
}

func (s *Server) writeKubeconfig() error {
	s.Kubeconfig = s.path("kubeconfig")
	return clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "alone",
		Contexts: map[string]*clientcmdapi.Context{"alone": {Cluster: "alone", AuthInfo: "admin",
			Namespace: "default"}},
		Clusters: map[string]*clientcmdapi.Cluster{
			"alone": {Server: s.Config.Host, CertificateAuthorityData: s.Config.CAData},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"admin": {Token: s.Config.BearerToken}},
	}, s.Kubeconfig)
}

func (s *Server) run(program string, args ...string) error {
	log, err := os.Create(s.path(program + ".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // The program has a handle of its own.
	// A context would end the store before the API server; Stop keeps the order.
	command := exec.Command(filepath.Join(s.programs, program), args...)
	command.Stdout, command.Stderr, command.SysProcAttr = log, log, endWithParent()
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	started := process{command, make(chan error, 1)}
	go func() { started.ended <- command.Wait() }()
	s.running = append(s.running, started)
	return nil
}

// await waits until the API server says that it is ready.
func (s *Server) await(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Config.Host+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case ended := <-s.running[1].ended:
			s.running[1].ended <- ended // Stop waits for it too.
			return fmt.Errorf("the API server has ended: %w\n%s", ended, s.Log("kube-apiserver"))
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w\n%s", ctx.Err(), s.Log("kube-apiserver"))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kubectl runs kubectl with the input, and returns what it printed both ways and whether it succeeded.
func (s *Server) Kubectl(ctx context.Context, input string, args ...string) (output string, ok bool) {
	command := exec.CommandContext(ctx, filepath.Join(s.programs, "kubectl"),
		append([]string{"--kubeconfig", s.Kubeconfig, "--cache-dir", s.path("kubectl")}, args...)...)
	var printed bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &printed, &printed
	if err := command.Run(); err != nil {
		return printed.String() + err.Error(), false
	}
	return printed.String(), true
}
