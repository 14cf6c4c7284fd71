//go:build cluster

package agent_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/internal/backup/begin"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/kit/watchdog"
)

// agentVariable makes this test binary be an agent: PostgreSQL does not run as root, so the agent needs a process of
// its own, with another user.
const agentVariable = "MERIDIAN_TEST_AGENT"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "watchdog" {
		pid, err := watchdog.ParseArguments(os.Args[2:])
		if err == nil {
			err = watchdog.Serve(pid)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 5 && os.Args[1] == begin.FetchCommand {
		os.Exit(restore.Fetch(os.Args[2], os.Args[3], os.Args[4]))
	}
	if document := os.Getenv(cacheVariable); document != "" {
		os.Exit(runCache(document))
	}
	text := os.Getenv(agentVariable)
	if text == "" {
		if os.Getuid() == 0 && os.Getenv(networkVariable) == "" {
			os.Exit(inNetwork())
		}
		code := m.Run()
		if apiReal != nil {
			_ = apiReal.Stop()
		}
		os.Exit(code)
	}
	var options agent.Options
	if err := json.Unmarshal([]byte(text), &options); err != nil {
		panic(err)
	}
	options.Log = os.Stdout
	if err := agent.Run(context.Background(), options); err != nil {
		fmt.Printf("{%q: %q}\n", "error", err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// networkVariable says that this process has a network of its own.
const networkVariable = "MERIDIAN_TEST_NETWORK"

// inNetwork runs the tests once more in a network of their own: each instance has an address there that an
// EndpointSlice accepts, which it does not of loopback, and the usual ports are free.
func inNetwork() int {
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Args[0] = os.Args[0]
	command.Env = append(os.Environ(), networkVariable+"=own")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := command.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// furnish gives the network its addresses.
func furnish(t *testing.T) {
	t.Helper()
	if os.Getenv(networkVariable) == "" {
		t.Skip("the network of the instances can only be made by root")
	}
	for _, words := range []string{
		"link set lo up", "addr replace 10.77.0.100/24 dev lo", "route replace default dev lo src 10.77.0.100",
	} {
		if output, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", words, err, output)
		}
	}
}

const (
	agentPort = "18700"
	probePort = "18701"
)

// pod is the folders of a pod and the process in it.
type pod struct {
	*rig
	name     string
	address  string
	folder   string
	binary   string
	programs string // Where PostgreSQL's programs are looked for.
	uid, gid int
	gate     *gate
	command  *exec.Cmd
	exited   chan error

	mutex sync.Mutex
	log   []string
}

func (r *rig) newPod(number int, name string) *pod {
	r.t.Helper()
	p := &pod{
		rig: r, name: name, address: fmt.Sprintf("10.77.0.%d", number), folder: filepath.Join(r.folder, name),
		uid: os.Getuid(), gid: os.Getgid(), programs: os.Getenv("PATH"), gate: newGate(r.t, r.api.Config.Host),
	}
	if p.uid == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			r.t.Fatalf("PostgreSQL does not run as root, and there is no user postgres: %v", err)
		}
		p.uid, _ = strconv.Atoi(account.Uid)
		p.gid, _ = strconv.Atoi(account.Gid)
	}
	p.findPrograms()
	must(r.t, os.Mkdir(p.folder, 0o755))
	for _, name := range []string{"volume", "log", "run", "settings", "app", "tls", "api"} {
		must(r.t, os.Mkdir(filepath.Join(p.folder, name), 0o755))
	}
	p.binary = filepath.Join(p.folder, "agent")
	own, err := os.Executable()
	must(r.t, err)
	must(r.t, os.Link(own, p.binary))
	p.write("app", wire.KeyPassword, r.password)
	p.write("api", "token", r.api.Config.BearerToken)
	p.write("api", "ca.crt", string(r.api.Config.CAData))
	p.writeTLS()
	r.t.Cleanup(p.kill)
	if folder := os.Getenv("MERIDIAN_TEST_LOGS"); folder != "" {
		r.t.Cleanup(func() {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			_ = os.WriteFile(filepath.Join(folder, p.name+".log"), []byte(strings.Join(p.log, "\n")), 0o600)
		})
	}
	return p
}

// trust is what clients of the API server verify it against.
func (r *rig) trust() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.api.Config.CAData)
	return pool, nil
}

// findPrograms looks where Debian keeps them, if they are not in the path.
func (p *pod) findPrograms() {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_controldata")
	if len(found) > 0 {
		p.programs = filepath.Dir(found[len(found)-1]) + ":" + p.programs
	}
}

func (p *pod) major() int {
	command := exec.Command("postgres", "--version")
	for _, folder := range filepath.SplitList(p.programs) {
		if candidate := filepath.Join(folder, "postgres"); exists(candidate) {
			command.Path = candidate
			break
		}
	}
	output, err := command.Output()
	must(p.t, err)
	var major int
	_, err = fmt.Sscanf(string(output), "postgres (PostgreSQL) %d", &major)
	must(p.t, err)
	return major
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (p *pod) at(parts ...string) string {
	return filepath.Join(append([]string{p.folder}, parts...)...)
}

func (p *pod) write(folder, name, content string) {
	p.t.Helper()
	draft := p.at(folder, "."+name)
	must(p.t, os.WriteFile(draft, []byte(content), 0o644))
	must(p.t, os.Rename(draft, p.at(folder, name)))
}

func (p *pod) writeTLS() {
	p.t.Helper()
	leaf, _ := p.state.Leaf("instance")
	certificate, key, err := leaf.Encode()
	must(p.t, err)
	p.write("tls", wire.KeyCertificate, string(certificate))
	p.write("tls", wire.KeyPrivateKey, string(key))
	p.write("tls", wire.KeyAuthority, string(p.state.Bundle()))
}

func (p *pod) own() {
	p.t.Helper()
	must(p.t, filepath.Walk(p.folder, func(path string, _ os.FileInfo, err error) error {
		if path == p.binary {
			return err
		}
		return errors.Join(err, os.Lchown(path, p.uid, p.gid))
	}))
}

func (p *pod) start() {
	p.t.Helper()
	peers := map[string]string{}
	for _, other := range p.pods {
		peers[other.name] = other.address
	}
	host, port, err := net.SplitHostPort(p.gate.listener.Addr().String())
	must(p.t, err)
	options, err := json.Marshal(agent.Options{
		Database: "cities", Instance: p.name, Namespace: p.namespace, Pod: p.name + "-0", Address: p.address,
		Volume: p.at("volume"), Runtime: p.at("run"), Settings: p.at("settings"), App: p.at("app"), TLS: p.at("tls"),
		ReportAddress: net.JoinHostPort(p.address, agentPort), ProbeAddress: net.JoinHostPort(p.address, probePort),
		Listen: p.address, API: agent.APIOptions{Host: host, Port: port, Folder: p.at("api")}, Peers: peers,
		Fast: 10 * time.Second, Immediate: 5 * time.Second, Path: p.programs,
		BackupClaim: filepath.Join(p.rig.folder, repositoryFolder), Backup: p.at("app"),
		RestoreClaim: p.source, Restore: p.at("app"), LogVolume: p.logVolume(),
	})
	must(p.t, err)
	p.command = exec.Command(p.binary)
	p.command.Env = []string{agentVariable + "=" + string(options)}
	p.command.Dir = p.folder
	p.command.SysProcAttr = p.credential()
	output, input := io.Pipe()
	p.command.Stdout, p.command.Stderr = input, input
	must(p.t, p.command.Start())
	p.exited = make(chan error, 1)
	go p.collect(output)
	go func(command *exec.Cmd, exited chan<- error) { exited <- command.Wait() }(p.command, p.exited)
}

// logVolume is the folder of a volume for the log, if there is one.
func (p *pod) logVolume() string {
	if !p.split {
		return ""
	}
	return p.at("log")
}

func (p *pod) collect(output io.Reader) {
	decoder := json.NewDecoder(output)
	for {
		var line json.RawMessage
		if err := decoder.Decode(&line); err != nil {
			_, _ = io.Copy(io.Discard, output)
			return
		}
		p.mutex.Lock()
		p.log = append(p.log, string(line))
		p.mutex.Unlock()
	}
}

// logged counts the lines that contain the text.
func (p *pod) logged(text string) int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	count := 0
	for _, line := range p.log {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

func (p *pod) tail() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return strings.Join(p.log[max(0, len(p.log)-40):], "\n")
}

// stop is what the kubelet does. It returns how long the agent took.
func (p *pod) stop() time.Duration {
	p.t.Helper()
	begin := time.Now()
	must(p.t, p.command.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.exited:
		p.command = nil
		must(p.t, err)
	case <-time.After(60 * time.Second):
		p.t.Fatalf("the agent does not end\n%s", p.tail())
	}
	return time.Since(begin).Round(time.Millisecond)
}

// crash is kill -9 of the agent. The watchdog leaves nothing behind.
func (p *pod) crash() {
	p.t.Helper()
	must(p.t, p.command.Process.Kill())
	<-p.exited
	p.command = nil
	begin := time.Now()
	for p.postmaster() != 0 {
		if time.Since(begin) > 5*time.Second {
			p.t.Fatalf("the server outlives its agent")
		}
		time.Sleep(time.Millisecond)
	}
}

// kill leaves nothing behind, also when the test has failed.
func (p *pod) kill() {
	if p.command != nil {
		_ = p.command.Process.Signal(syscall.SIGCONT)
		_ = p.command.Process.Kill()
		<-p.exited
		p.command = nil
	}
	for range 500 {
		if p.postmaster() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	if pid := p.postmaster(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// postmaster is the number of the server that runs on this volume, or 0.
func (p *pod) postmaster() int {
	content, err := os.ReadFile(p.at("volume", "pgdata", "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, _ := strconv.Atoi(first)
	if link, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || !strings.HasSuffix(link, "/postgres") {
		return 0
	}
	return pid
}

func (p *pod) client(leaf string) *http.Client {
	source := func() (pki.Material, error) { return p.state.Material(leaf) }
	config := pki.ClientConfig(&tls.Config{ServerName: "cities-rw"}, source)
	if leaf == "" {
		config.GetClientCertificate = nil
		config.VerifyConnection = nil
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	return &http.Client{Timeout: 3 * time.Second, Transport: transport}
}

func (p *pod) url(path string) string {
	return "https://" + net.JoinHostPort(p.address, agentPort) + path
}

func (p *pod) report() (wire.Report, error) {
	response, err := p.client("operator").Get(p.url(wire.PathReport))
	if err != nil {
		return wire.Report{}, err
	}
	defer func() { _ = response.Body.Close() }()
	document, err := io.ReadAll(response.Body)
	if err != nil {
		return wire.Report{}, err
	}
	return wire.DecodeReport(document)
}

func (p *pod) probe(path string) int {
	response, err := http.Get("http://" + net.JoinHostPort(p.address, probePort) + path)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

// dial is an application: TLS with the name and the authority verified.
func (p *pod) dial() (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=geo dbname=geo sslmode=require connect_timeout=3", p.address, wire.PortPostgres))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.state.Bundle())
	config.Password, config.Fallbacks = p.password, nil
	config.TLSConfig = &tls.Config{RootCAs: pool, ServerName: "cities-rw"}
	return pgx.ConnectConfig(context.Background(), config)
}

// query runs a statement as the application does, and returns its one text.
func (p *pod) query(statement string) (string, error) {
	connection, err := p.dial()
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var text string
	err = connection.QueryRow(ctx, statement).Scan(&text)
	return text, err
}

// credential is the user that the agent runs as.
func (p *pod) credential() *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.gid)}}
}

// resident is the memory of a process in KiB: all of it, and the part that is its own.
func resident(pid int) (all, own int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &all)
		_, _ = fmt.Sscanf(line, "RssAnon: %d kB", &own)
	}
	return all, own
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
