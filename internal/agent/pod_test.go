//go:build cluster

package agent_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
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
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// agentVariable makes this test binary be an agent: PostgreSQL does not run as root, so the agent needs a process of
// its own, with another user.
const agentVariable = "MERIDIAN_TEST_AGENT"

func TestMain(m *testing.M) {
	text := os.Getenv(agentVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var options agent.Options
	if err := json.Unmarshal([]byte(text), &options); err != nil {
		panic(err)
	}
	options.Log = os.Stdout
	if err := agent.Run(context.Background(), options); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

const (
	reportPort = 18700
	probePort  = 18701
)

// pod is the folders of a pod and the process in it.
type pod struct {
	t        *testing.T
	folder   string
	binary   string
	path     string
	uid, gid int
	settings wire.Settings
	password string
	state    pki.State
	command  *exec.Cmd
	exited   chan error

	mutex sync.Mutex
	log   []string
}

func newPod(t *testing.T) *pod {
	t.Helper()
	folder, err := os.MkdirTemp("", "meridian-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	p := &pod{t: t, folder: folder, uid: os.Getuid(), gid: os.Getgid(), password: "first-secret", path: os.Getenv("PATH")}
	if p.uid == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			t.Fatalf("PostgreSQL does not run as root, and there is no user postgres: %v", err)
		}
		p.uid, _ = strconv.Atoi(account.Uid)
		p.gid, _ = strconv.Atoi(account.Gid)
	}
	p.findPrograms()
	for _, name := range []string{"volume", "run", "settings", "app", "tls"} {
		must(t, os.Mkdir(filepath.Join(folder, name), 0o755))
	}
	p.binary = filepath.Join(folder, "agent")
	own, err := os.Executable()
	must(t, err)
	must(t, agent.Install(own, p.binary))
	p.settings = wire.Settings{
		Version: 1, DatabaseUID: "uid-1", Database: "cities", Major: p.major(),
		Application: wire.Application{Database: "geo", Owner: "geo"},
		Extensions:  []string{"cube", "earthdistance"},
		Parameters:  []wire.Parameter{{Name: "work_mem", Value: "5MB"}},
	}
	p.writeSettings()
	p.write("app", wire.KeyPassword, p.password)
	p.rotate("first")
	p.own()
	t.Cleanup(p.kill)
	return p
}

// findPrograms looks where Debian keeps them, if they are not in the path.
func (p *pod) findPrograms() {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_controldata")
	if len(found) > 0 {
		p.path = filepath.Dir(found[len(found)-1]) + ":" + p.path
	}
}

func (p *pod) major() int {
	command := exec.Command("postgres", "--version")
	for _, folder := range filepath.SplitList(p.path) {
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

func (p *pod) writeSettings() {
	p.t.Helper()
	document, err := p.settings.Encode()
	must(p.t, err)
	p.write("settings", wire.KeySettings, string(document))
}

// rotate issues new leaves, named by the common name.
func (p *pod) rotate(name string) {
	p.t.Helper()
	policy := pki.Policy{
		Name: "cities", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Leaves: []pki.Profile{{
			Name: "instance", CommonName: name, DNSNames: []string{"cities-rw"},
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Usage: pki.Server | pki.Client,
		}},
	}
	state, err := pki.Decide(p.state, time.Now(), policy).Apply(p.state, rand.Reader)
	must(p.t, err)
	p.state = state
	leaf, _ := state.Leaf("instance")
	certificate, key, err := leaf.Encode()
	must(p.t, err)
	p.write("tls", wire.KeyCertificate, string(certificate))
	p.write("tls", wire.KeyPrivateKey, string(key))
	p.write("tls", wire.KeyAuthority, string(state.Bundle()))
}

func (p *pod) own() {
	p.t.Helper()
	must(p.t, filepath.Walk(p.folder, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, p.uid, p.gid))
	}))
}

func (p *pod) start() {
	p.t.Helper()
	options, err := json.Marshal(agent.Options{
		Database: "cities", Instance: "cities-1",
		Volume: p.at("volume"), Runtime: p.at("run"), Settings: p.at("settings"), App: p.at("app"), TLS: p.at("tls"),
		ReportAddress: fmt.Sprintf("127.0.0.1:%d", reportPort), ProbeAddress: fmt.Sprintf("127.0.0.1:%d", probePort),
		Fast: 10 * time.Second, Immediate: 5 * time.Second, Path: p.path,
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

// stop is what the kubelet does. It returns how long the agent took.
func (p *pod) stop() time.Duration {
	p.t.Helper()
	begin := time.Now()
	must(p.t, p.command.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.exited:
		must(p.t, err)
	case <-time.After(30 * time.Second):
		p.fail("the agent does not end")
	}
	p.command = nil
	return time.Since(begin)
}

// kill leaves nothing behind, also when the test has failed.
func (p *pod) kill() {
	if p.command != nil {
		_ = p.command.Process.Kill()
		<-p.exited
		p.command = nil
	}
	if pid := p.postmaster(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGQUIT)
		for range 200 {
			if syscall.Kill(pid, 0) != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
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

func (p *pod) fail(format string, args ...any) {
	p.t.Helper()
	p.mutex.Lock()
	tail := p.log[max(0, len(p.log)-40):]
	p.mutex.Unlock()
	p.t.Fatalf("%s\nend of the log:\n%s", fmt.Sprintf(format, args...), strings.Join(tail, "\n"))
}

func (p *pod) await(what string, seen func() bool) time.Duration {
	p.t.Helper()
	begin := time.Now()
	for time.Since(begin) < 30*time.Second {
		if seen() {
			return time.Since(begin)
		}
		time.Sleep(10 * time.Millisecond)
	}
	report, err := p.report()
	p.fail("waited in vain for %s; report %+v, %v", what, report, err)
	return 0
}

func (p *pod) client(material bool) *http.Client {
	source := func() (pki.Material, error) { return p.state.Material("instance") }
	config := pki.ClientConfig(&tls.Config{ServerName: "127.0.0.1"}, source)
	if !material {
		config.GetClientCertificate = nil
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	return &http.Client{Timeout: 3 * time.Second, Transport: transport}
}

func (p *pod) report() (wire.Report, error) {
	response, err := p.client(true).Get(fmt.Sprintf("https://127.0.0.1:%d%s", reportPort, wire.PathReport))
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
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", probePort, path))
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

func (p *pod) awaitReport(what string, seen func(wire.Report) bool) time.Duration {
	p.t.Helper()
	return p.await(what, func() bool {
		report, err := p.report()
		return err == nil && seen(report)
	})
}

// record is the operator's part: it stores whose data this is, once that is reported.
func (p *pod) record() {
	p.t.Helper()
	p.awaitReport("the identity of the data", func(r wire.Report) bool {
		p.settings.SystemIdentifier = r.SystemIdentifier
		return r.SystemIdentifier != ""
	})
	p.settings.Initialised = true
	p.writeSettings()
}

func (p *pod) awaitReady() time.Duration {
	p.t.Helper()
	if !p.settings.Initialised {
		p.record()
	}
	return p.await("readiness", func() bool { return p.probe(wire.PathReady) == http.StatusOK })
}

// dial is an application: TLS with the name and the authority verified.
func (p *pod) dial(name, password, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=127.0.0.1 port=%d user=%s dbname=%s sslmode=require connect_timeout=3", wire.PortPostgres, name, database))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.state.Bundle())
	config.Password, config.Fallbacks = password, nil
	config.TLSConfig = &tls.Config{RootCAs: pool, ServerName: "cities-rw"}
	return pgx.ConnectConfig(context.Background(), config)
}

func (p *pod) query(statement string) string {
	p.t.Helper()
	connection, err := p.dial("geo", p.password, "geo")
	if err != nil {
		p.fail("connect: %v", err)
	}
	defer func() { _ = connection.Close(context.Background()) }()
	var text string
	if err := connection.QueryRow(context.Background(), statement).Scan(&text); err != nil {
		p.fail("%s: %v", statement, err)
	}
	return text
}

// superuser is somebody inside the container.
func (p *pod) superuser(statement string) error {
	command := exec.Command("psql", "-h", p.at("run"), "-U", "postgres", "-d", "postgres", "-c", statement)
	command.SysProcAttr, command.Dir = p.credential(), p.folder
	return command.Run()
}

// credential is the user that the agent runs as.
func (p *pod) credential() *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.gid)}}
}

func (p *pod) execute(statement string) {
	p.t.Helper()
	connection, err := p.dial("geo", p.password, "geo")
	if err != nil {
		p.fail("connect: %v", err)
	}
	defer func() { _ = connection.Close(context.Background()) }()
	if _, err := connection.Exec(context.Background(), statement); err != nil {
		p.fail("%s: %v", statement, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
