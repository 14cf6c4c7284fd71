//go:build cluster

package agent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/lease"
	"meridian.dev/meridian/kit/pki"
)

// cacheVariable makes this test binary be the agent of a cache.
const cacheVariable = "MERIDIAN_TEST_CACHE"

func runCache(document string) int {
	var options agent.CacheOptions
	if err := json.Unmarshal([]byte(document), &options); err != nil {
		panic(err)
	}
	options.Log = os.Stdout
	if err := agent.RunCache(context.Background(), options); err != nil {
		fmt.Printf("{%q: %q}\n", "error", err.Error())
		return 1
	}
	return 0
}

// tiles is a cache of several instances on this machine: a real API server, real agents and real servers.
type tiles struct {
	*rig
	engine   string
	settings wire.CacheSettings
	parts    []*tile
}

// tile is one instance: the folders of a pod and the process in it.
type tile struct {
	*pod
	all *tiles
}

func newTiles(t *testing.T, engine string, instances int) *tiles {
	t.Helper()
	program, err := exec.LookPath(engine + "-server")
	if err != nil {
		t.Skipf("there is no %s-server", engine)
	}
	furnish(t)
	r := &rig{t: t, api: theAPI(t), password: "first-secret", namespace: "c-" + strings.ToLower(rand.Text()[:8])}
	r.folder, err = os.MkdirTemp("", "meridian-tiles-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(r.folder) })
	r.apply(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", r.namespace))
	r.apply("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: tiles-primary}}")
	r.apply(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: tiles}, addressType: IPv4,
  ports: [{name: cache, port: 6379}], endpoints: []}`)
	r.leases = &lease.Client{
		Server: r.server(r.api.Config.Host), Namespace: r.namespace, Name: "tiles-primary",
		Annotation: wire.AnnotationRecord, Duration: time.Second, Now: time.Now,
	}
	made, err := r.leases.Get(context.Background())
	must(t, err)
	r.settings.Initialised = true // There is no operator's part.
	all := &tiles{rig: r, engine: engine, settings: wire.CacheSettings{
		Version: 1, CacheUID: "uid-1", Cache: "tiles", Engine: engine, Memory: 32 << 20, EvictionPolicy: "allkeys-lru",
		LeaseUID: made.UID, LeaseMilliseconds: 4000,
	}}
	all.issue()
	for number := range instances {
		all.settings.Instances = append(all.settings.Instances, fmt.Sprintf("tiles-%d", number+1))
	}
	for number, name := range all.settings.Instances {
		all.add(number, name, filepath.Dir(program))
	}
	all.tell()
	return all
}

func (c *tiles) issue() {
	policy := pki.Policy{
		Name: "tiles", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Backdate: time.Hour,
		Leaves: []pki.Profile{{
			Name: "instance", CommonName: "meridian:instance", Usage: pki.Server | pki.Client,
			DNSNames:  []string{"cities-rw", "tiles", "localhost", "*.tiles-pods." + c.namespace + ".svc"},
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		}, {Name: "operator", CommonName: "meridian:operator", Usage: pki.Client}},
	}
	state, err := pki.Decide(c.state, time.Now(), policy).Apply(c.state, rand.Reader)
	must(c.t, err)
	c.state = state
}

func (c *tiles) add(number int, name, programs string) {
	c.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s-0},
  spec: {containers: [{name: cache, image: none}]}}`, name))
	p := &pod{
		rig: c.rig, name: name, address: fmt.Sprintf("10.77.0.%d", number+1), folder: filepath.Join(c.folder, name),
		programs: programs + ":" + os.Getenv("PATH"), gate: newGate(c.t, c.api.Config.Host),
	}
	for _, name := range []string{"run", "settings", "app", "tls", "api"} {
		must(c.t, os.MkdirAll(filepath.Join(p.folder, name), 0o755))
	}
	own, err := os.Executable()
	must(c.t, err)
	p.binary = own
	p.write("app", wire.KeyPassword, c.password)
	p.write("api", "token", c.api.Config.BearerToken)
	p.write("api", "ca.crt", string(c.api.Config.CAData))
	p.writeTLS()
	c.pods = append(c.pods, p)
	part := &tile{pod: p, all: c}
	c.parts = append(c.parts, part)
	c.t.Cleanup(part.end)
}

// tell writes the settings.
func (c *tiles) tell() {
	document, err := c.settings.Encode()
	must(c.t, err)
	for _, part := range c.parts {
		part.write("settings", wire.KeySettings, string(document))
	}
}

func (c *tiles) start() {
	for _, part := range c.parts {
		part.start()
	}
}

func (p *tile) start() {
	p.t.Helper()
	peers := map[string]string{}
	for _, other := range p.all.parts {
		peers[other.name] = other.address
	}
	host, port, err := net.SplitHostPort(p.gate.listener.Addr().String())
	must(p.t, err)
	options, err := json.Marshal(agent.CacheOptions{
		Cache: "tiles", Port: wire.PortCache, Stop: 5 * time.Second, Groups: "/none", Options: agent.Options{
			Instance: p.name, Namespace: p.namespace, Pod: p.name + "-0", Address: p.address,
			Runtime: p.at("run"), Settings: p.at("settings"), App: p.at("app"), TLS: p.at("tls"),
			ReportAddress: net.JoinHostPort(p.address, agentPort), ProbeAddress: net.JoinHostPort(p.address, probePort),
			Listen: p.address, API: agent.APIOptions{Host: host, Port: port, Folder: p.at("api")}, Peers: peers,
			Path: p.programs,
		},
	})
	must(p.t, err)
	p.command = exec.Command(p.binary)
	p.command.Env = []string{cacheVariable + "=" + string(options)}
	p.command.Dir = p.folder
	output, input := io.Pipe()
	p.command.Stdout, p.command.Stderr = input, input
	must(p.t, p.command.Start())
	p.exited = make(chan error, 1)
	var lines io.Reader = output
	if folder := os.Getenv("MERIDIAN_TEST_LOGS"); folder != "" {
		kept, err := os.OpenFile(filepath.Join(folder, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(p.t, err)
		lines = io.TeeReader(output, kept)
	}
	go p.collect(lines)
	go func(command *exec.Cmd, exited chan<- error) { exited <- command.Wait() }(p.command, p.exited)
}

// end leaves nothing behind.
func (p *tile) end() {
	if p.command != nil {
		_ = p.command.Process.Kill()
		<-p.exited
		p.command = nil
	}
	if pid := p.server(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// server is the process of the server: the one with this pod's configuration file.
func (p *tile) server() int {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		words, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if bytes.Contains(words, []byte(p.engineName()+"-server")) && p.folderOf(pid) {
			return pid
		}
	}
	return 0
}

func (p *tile) engineName() string { return p.all.engine }

func (p *tile) folderOf(pid int) bool {
	folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return err == nil && folder == p.at("run")
}

func (p *tile) told() (wire.CacheReport, error) {
	source := func() (pki.Material, error) { return p.state.Material("operator") }
	config := pki.ClientConfig(&tls.Config{ServerName: "tiles"}, source)
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	caller := &http.Client{Timeout: 3 * time.Second, Transport: transport}
	response, err := caller.Get(p.url(wire.PathReport))
	if err != nil {
		return wire.CacheReport{}, err
	}
	defer func() { _ = response.Body.Close() }()
	document, err := io.ReadAll(response.Body)
	if err != nil {
		return wire.CacheReport{}, err
	}
	return wire.DecodeCacheReport(document)
}

func (c *tiles) await(what string, seen func() bool) time.Duration {
	c.t.Helper()
	begin := time.Now()
	for time.Since(begin) < 40*time.Second {
		if seen() {
			return time.Since(begin).Round(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
	}
	holder, record := c.record()
	var tails []string
	for _, part := range c.parts {
		report, err := part.told()
		tails = append(tails, fmt.Sprintf("--- %s\n%+v, %v\n%s", part.name, report, err, part.tail()))
	}
	c.t.Fatalf("waited in vain for %s; holder %s, record %+v\n%s", what, holder, record, strings.Join(tails, "\n"))
	return 0
}

// primary is the part that holds the lease and lets applications in, or nil.
func (c *tiles) primary() *tile {
	holder, _ := c.record()
	for _, part := range c.parts {
		if part.name != holder.Name || part.command == nil {
			continue
		}
		if report, err := part.told(); err == nil && report.Role == wire.RolePrimary && report.Serving {
			return part
		}
	}
	return nil
}

// whole says that everybody has a copy and is a member.
func (c *tiles) whole() bool {
	_, record := c.record()
	if c.primary() == nil || len(record.Members) != len(c.parts) {
		return false
	}
	for _, part := range c.parts {
		report, err := part.told()
		if err != nil || report.Role == wire.RoleNone || report.Role == wire.RoleReplica && !report.Streams {
			return false
		}
	}
	return true
}

func (p *tile) dial() *redis.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.state.Bundle())
	return redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(p.address, strconv.Itoa(wire.PortCache)), Username: wire.CacheUser, Password: p.password,
		TLSConfig: &tls.Config{RootCAs: pool, ServerName: "tiles"}, MaxRetries: -1, PoolSize: 1, Protocol: 2,
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, DisableIdentity: true,
		DialerRetries: 1,
	})
}

// load writes numbers to the primary, wherever it is, and reads them at every instance. What is read must have been
// written, and never be older than what a reader of the same primary has seen.
type load struct {
	all     *tiles
	stop    chan struct{}
	done    sync.WaitGroup
	written atomic.Int64
	acked   atomic.Int64
	wrong   atomic.Int64
	reads   atomic.Int64
	mutex   sync.Mutex
	last    time.Time
	gap     time.Duration
}

func (c *tiles) load() *load {
	l := &load{all: c, stop: make(chan struct{}), last: time.Now()}
	l.done.Go(l.write)
	for _, part := range c.parts {
		l.done.Go(func() { l.read(part) })
	}
	return l
}

func (l *load) ended() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

func (l *load) write() {
	for number := int64(1); !l.ended(); {
		for _, part := range l.all.parts {
			client := part.dial()
			for !l.ended() {
				l.written.Store(number)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				err := client.Set(ctx, "number", number, 0).Err()
				cancel()
				number++
				if err != nil {
					break
				}
				l.note(number - 1)
				time.Sleep(2 * time.Millisecond)
			}
			_ = client.Close()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (l *load) note(number int64) {
	l.acked.Store(number)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.gap = max(l.gap, time.Since(l.last))
	l.last = time.Now()
}

// reset begins to measure anew, and returns the longest pause before.
func (l *load) reset() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	gap := l.gap
	l.gap, l.last = 0, time.Now()
	return gap.Round(time.Millisecond)
}

func (l *load) read(part *tile) {
	client := part.dial()
	defer func() { _ = client.Close() }()
	for !l.ended() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		value, err := client.Get(ctx, "number").Int64()
		cancel()
		switch {
		case err == nil && (value > l.written.Load() || value < 1):
			l.wrong.Add(1)
		case err == nil:
			l.reads.Add(1)
			time.Sleep(5 * time.Millisecond)
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.done.Wait()
	if l.wrong.Load() > 0 {
		t.Errorf("%d answers that nobody has written", l.wrong.Load())
	}
	t.Logf("%d writes acknowledged, %d reads, %d wrong", l.acked.Load(), l.reads.Load(), l.wrong.Load())
}

func engines(t *testing.T, run func(t *testing.T, engine string)) {
	for _, engine := range []string{"redis", "valkey"} {
		t.Run(engine, func(t *testing.T) { run(t, engine) })
	}
}

// TestCacheFailover takes the primary away in every way that a pod can lose it.
func TestCacheFailover(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		c := newTiles(t, engine, 3)
		c.start()
		t.Logf("a primary after %v", c.await("a primary", func() bool { return c.primary() != nil }))
		t.Logf("three copies after %v", c.await("three copies", c.whole))
		load := c.load()
		time.Sleep(time.Second)
		for name, fault := range map[string]func(*tile){
			"pod deleted":     func(p *tile) { p.stop(); p.start() },
			"server killed":   func(p *tile) { must(t, syscall.Kill(p.server(), syscall.SIGKILL)) },
			"agent killed":    func(p *tile) { p.end(); p.start() },
			"cut off the API": func(p *tile) { p.gate.cut(); time.AfterFunc(9*time.Second, p.gate.mend) },
		} {
			before := c.primary()
			_, record := c.record()
			acked := load.acked.Load()
			load.reset()
			t.Logf("%s of %s", name, before.name)
			fault(before)
			c.await("another primary after "+name, func() bool {
				_, now := c.record()
				return c.primary() != nil && (now.Term > record.Term || name == "cut off the API")
			})
			c.await("writes after "+name, func() bool { return load.acked.Load() > acked+100 })
			if name == "cut off the API" {
				time.Sleep(10 * time.Second)
			}
			if value, err := c.primary().dial().Get(t.Context(), "number").Int64(); err != nil || value <= acked-1000 {
				t.Errorf("%s: the new primary has %d, %v, and %d was acknowledged: it is cold", name, value, err, acked)
			}
			t.Logf("%s: %v without an acknowledged write; three copies again after %v", name, load.reset(),
				c.await("three copies after "+name, c.whole))
		}
		load.end(t)
	})
}

// TestCacheAlone has one instance: what it loses is cold, and never wrong.
func TestCacheAlone(t *testing.T) {
	c := newTiles(t, "redis", 1)
	c.start()
	t.Logf("a primary after %v", c.await("a primary", func() bool { return c.primary() != nil }))
	only := c.parts[0]
	set := func() { must(t, only.dial().Set(t.Context(), "a", "1", 0).Err()) }
	cold := func(what string, begin time.Time) {
		c.await("an answer after "+what, func() bool {
			return errors.Is(only.dial().Get(t.Context(), "a").Err(), redis.Nil)
		})
		t.Logf("%s: cold after %v", what, time.Since(begin).Round(time.Millisecond))
	}
	set()
	begin := time.Now()
	must(t, syscall.Kill(only.server(), syscall.SIGKILL))
	cold("kill -9", begin)
	set()
	begin = time.Now()
	only.stop()
	must(t, os.RemoveAll(only.at("run")))
	must(t, os.Mkdir(only.at("run"), 0o755))
	only.start()
	cold("another pod", begin)
	set()
	only.gate.cut()
	time.Sleep(9 * time.Second)
	if got := only.dial().Get(t.Context(), "a").Val(); got != "1" {
		t.Errorf("without the API server the only instance answers %q", got)
	}
}

// TestCacheParameterOfTheStart has a parameter that servers take over at their start only. Each agent finds that out by
// itself, and no instance is left waiting for another restart.
func TestCacheParameterOfTheStart(t *testing.T) {
	engines(t, func(t *testing.T, engine string) {
		c := newTiles(t, engine, 2)
		c.settings.Parameters = []wire.Parameter{{Name: "databases", Value: "4"}}
		c.tell()
		c.start()
		c.await("two copies", c.whole)
		for _, part := range c.parts {
			report, err := part.told()
			if err != nil || len(report.PendingRestart) > 0 || report.SettingsHash != c.settings.Hash() {
				t.Errorf("%s: %v is pending, settings %q, %v", part.name, report.PendingRestart, report.SettingsHash, err)
			}
		}
	})
}
