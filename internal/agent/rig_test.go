//go:build cluster

package agent_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/call"
	"meridian.dev/meridian/kit/lease"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/test/apiserver"
)

// rig is a database of several instances on this machine: a real API server, real agents and real servers, each with an
// address of its own.
type rig struct {
	t         *testing.T
	api       *apiserver.Server
	namespace string
	folder    string
	settings  wire.Settings
	password  string
	state     pki.State
	pods      []*pod
	leases    *lease.Client
	at        time.Duration // How far in the future certificates are looked at.
	// source is the folder of the repository that is restored from, split says that the log has a volume of its own.
	source string
	split  bool
}

var (
	apiOnce sync.Once
	apiReal *apiserver.Server
	errAPI  error
)

// theAPI is one API server for all tests.
func theAPI(t *testing.T) *apiserver.Server {
	t.Helper()
	apiOnce.Do(func() { apiReal, errAPI = apiserver.Start(context.Background()) })
	must(t, errAPI)
	return apiReal
}

func newRig(t *testing.T, instances int) *rig {
	t.Helper()
	furnish(t)
	r := &rig{t: t, api: theAPI(t), password: "first-secret"}
	r.namespace = "t-" + strings.ToLower(rand.Text()[:8])
	folder, err := os.MkdirTemp("", "meridian-agents-")
	must(t, err)
	must(t, os.Chmod(folder, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	r.folder = folder
	r.apply(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", r.namespace))
	r.apply("{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: cities-primary}}")
	r.apply(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: cities-rw}, addressType: IPv4,
  ports: [{name: postgres, port: 5432}], endpoints: []}`)
	r.leases = r.leaseClient()
	made, err := r.leases.Get(context.Background())
	must(t, err)
	r.settings = wire.Settings{
		Version: 1, DatabaseUID: "uid-1", Database: "cities", Application: wire.Application{Database: "geo", Owner: "geo"},
		Extensions: []string{"cube", "earthdistance"}, Parameters: []wire.Parameter{{Name: "work_mem", Value: "5MB"}},
		LeaseUID: made.UID, Durability: "Strict", LeaseMilliseconds: 4000, MaxReadLagMilliseconds: 10000,
		MaxFailoverLagBytes: 16 << 20,
	}
	for number := range instances {
		r.settings.Instances = append(r.settings.Instances, fmt.Sprintf("cities-%d", number+1))
	}
	r.rotate()
	for number, name := range r.settings.Instances {
		r.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s-0},
  spec: {containers: [{name: database, image: none}]}}`, name))
		r.claim(name)
		r.pods = append(r.pods, r.newPod(number+1, name))
	}
	r.settings.Major = r.pods[0].major()
	r.writeSettings()
	for _, p := range r.pods {
		p.own()
	}
	return r
}

func (r *rig) apply(document string) {
	r.t.Helper()
	args := []string{"apply", "-f", "-"}
	if r.pods != nil || !strings.Contains(document, "kind: Namespace") {
		args = append(args, "--namespace="+r.namespace)
	}
	if output, ok := r.api.Kubectl(context.Background(), document, args...); !ok {
		r.t.Fatalf("apply %s: %s", document, output)
	}
}

func (r *rig) leaseClient() *lease.Client {
	return &lease.Client{
		Server: r.server(r.api.Config.Host), Namespace: r.namespace, Name: "cities-primary",
		Annotation: wire.AnnotationRecord, Duration: time.Second, Now: time.Now,
	}
}

func (r *rig) server(host string) *call.Server {
	return &call.Server{
		URL: host, Token: func() (string, error) { return r.api.Config.BearerToken, nil }, Trust: r.trust,
	}
}

// record is the record of the lease, and who holds it.
func (r *rig) record() (wire.Member, wire.LeaseRecord) {
	read, err := r.leases.Get(context.Background())
	if err != nil || read.Document == "" {
		return wire.Member{}, wire.LeaseRecord{}
	}
	record, err := wire.DecodeLeaseRecord(read.Document)
	must(r.t, err)
	return wire.ParseMember(read.Holder), record
}

func (r *rig) writeSettings() {
	r.t.Helper()
	document, err := r.settings.Encode()
	must(r.t, err)
	for _, p := range r.pods {
		p.write("settings", wire.KeySettings, string(document))
	}
}

// renew issues new leaves as if the old ones were near their end.
func (r *rig) renew() {
	r.t.Helper()
	r.at = 95 * time.Hour
	r.rotate()
}

// rotate issues leaves for everybody.
func (r *rig) rotate() {
	r.t.Helper()
	policy := pki.Policy{
		Name: "cities", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Backdate: 99 * time.Hour,
		Leaves: []pki.Profile{{
			Name: "instance", CommonName: "meridian:instance", Usage: pki.Server | pki.Client,
			DNSNames: []string{
				"cities-rw", "localhost", "*.cities-pods", "*.cities-pods." + r.namespace,
				"*.cities-pods." + r.namespace + ".svc",
			},
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		}, {Name: "operator", CommonName: "meridian:operator", Usage: pki.Client}},
	}
	state, err := pki.Decide(r.state, time.Now().Add(r.at), policy).Apply(r.state, rand.Reader)
	must(r.t, err)
	r.state = state
	for _, p := range r.pods {
		p.writeTLS()
	}
}

func (r *rig) start() {
	r.t.Helper()
	for _, p := range r.pods {
		p.start()
	}
}

// operate is the operator's part: it stores whose data this is, once that is reported.
func (r *rig) operate() {
	if r.settings.Initialised {
		return
	}
	if _, record := r.record(); record.Initialised {
		r.settings.Initialised, r.settings.SystemIdentifier = true, record.SystemIdentifier
		r.writeSettings()
	}
}

// await waits until it is so, and tells how long that took.
func (r *rig) await(what string, seen func() bool) time.Duration {
	r.t.Helper()
	begin := time.Now()
	for time.Since(begin) < 60*time.Second {
		r.operate()
		if seen() {
			return time.Since(begin).Round(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
	}
	holder, record := r.record()
	var tails []string
	for _, p := range r.pods {
		report, err := p.report()
		tails = append(tails, fmt.Sprintf("--- %s\n%+v, %v\n%s", p.name, report, err, p.tail()))
	}
	r.t.Fatalf("waited in vain for %s; holder %s, record %+v\n%s", what, holder, record, strings.Join(tails, "\n"))
	return 0
}

// primary is the pod that holds the lease and lets applications in, or nil.
func (r *rig) primary() *pod {
	holder, _ := r.record()
	for _, p := range r.pods {
		if p.name != holder.Name || p.command == nil {
			continue
		}
		if report, err := p.report(); err == nil && report.Role == wire.RolePrimary && report.Serving {
			return p
		}
	}
	return nil
}

// awaitAll waits until everybody is a member and takes the log, and each write is on most of them.
func (r *rig) awaitAll() time.Duration {
	r.t.Helper()
	return r.await("all members", func() bool {
		_, record := r.record()
		if len(record.Members) != len(r.pods) || record.W != len(r.pods)/2+1 || r.primary() == nil {
			return false
		}
		for _, p := range r.pods {
			report, err := p.report()
			if err != nil || report.Role == wire.RoleReplica && !report.Streams || report.Role == wire.RoleNone {
				return false
			}
		}
		return true
	})
}

// others are all pods but this one.
func (r *rig) others(than *pod) []*pod {
	return slices.DeleteFunc(slices.Clone(r.pods), func(p *pod) bool { return p == than })
}

// gate is a way to the API server that can be cut.
type gate struct {
	listener net.Listener
	target   string

	mutex sync.Mutex
	shut  bool
	open  []net.Conn
}

func newGate(t *testing.T, host string) *gate {
	t.Helper()
	target, err := url.Parse(host)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	g := &gate{listener: listener, target: target.Host}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			incoming, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(incoming)
		}
	}()
	return g
}

// pass carries bytes both ways. Through a shut gate nothing comes, and nobody is told.
func (g *gate) pass(incoming net.Conn) {
	outgoing, err := net.Dial("tcp", g.target)
	if err != nil {
		_ = incoming.Close()
		return
	}
	g.mutex.Lock()
	g.open = append(g.open, incoming, outgoing)
	g.mutex.Unlock()
	carry := func(to, from net.Conn) {
		buffer := make([]byte, 32<<10)
		for {
			size, err := from.Read(buffer)
			g.mutex.Lock()
			shut := g.shut
			g.mutex.Unlock()
			if !shut && size > 0 {
				_, _ = to.Write(buffer[:size])
			}
			if err != nil {
				if errors.Is(err, io.EOF) && !shut {
					_ = to.Close()
				}
				return
			}
		}
	}
	go carry(outgoing, incoming)
	carry(incoming, outgoing)
}

// cut lets nothing through any more; mend makes new connections work, while old ones are gone.
func (g *gate) cut() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.shut = true
}

func (g *gate) mend() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.shut = false
	for _, connection := range g.open {
		_ = connection.Close()
	}
	g.open = nil
}
