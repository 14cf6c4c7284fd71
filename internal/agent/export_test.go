package agent

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/tenure"
	tenures "meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/lease"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/kit/supervise"
)

// Shown is what the loop has shown last.
type Shown = controller.State

// Probe asks both probes, and returns the codes of the answers. The other loop made its last pass so long ago.
func Probe(shown *Shown, now time.Time, ago time.Duration) (live, ready int) {
	probed := &servers{now: func() time.Time { return now }, begun: now, state: func() (Shown, bool) {
		if shown == nil {
			return Shown{}, false
		}
		return *shown, true
	}, tenure: func() (tenures.Shown, time.Duration, bool) { return tenures.Shown{}, ago, true }}
	ask := func(path string) int {
		recorder := httptest.NewRecorder()
		probed.probes().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code
	}
	return ask(wire.PathLive), ask(wire.PathReady)
}

// Start asks the probe for the first answer over a connection, of an agent that began so long ago and becomes ready
// after a while. It returns the code, and how long it took.
func Start(t *testing.T, ago, after time.Duration) (int, time.Duration) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	probed := &servers{now: time.Now, begun: began.Add(-ago), state: func() (Shown, bool) {
		return Shown{At: time.Now(), Ready: time.Since(began) > after}, true
	}}
	probed.serve(listener, probed.probes())
	t.Cleanup(probed.close)
	answer, err := http.Get("http://" + listener.Addr().String() + wire.PathStart)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode, time.Since(began)
}

// NewVolume is the volume in a folder.
func NewVolume(folder string) tenure.Volume { return volume{folder} }

// NewWishes are the wishes in settings.
func NewWishes(read func() (wire.Settings, error)) tenure.Wishes { return &wishes{read: read} }

// Peers lets a test be an agent without anything behind it.
type Peers struct{ *peers }

// NewPeers speaks with agents at the port.
func NewPeers(material pki.Source, port string, events chan<- tenure.Event) Peers {
	host := func(instance string) string { return instance + ".pods" }
	return Peers{newPeers(material, host, port, func(event tenure.Event) { events <- event })}
}

// Listen lets others in.
func (p Peers) Listen(t *testing.T, address string) (at string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	shown := &servers{
		peers: p.peers, log: logr.Discard(), now: time.Now,
		state:  func() (Shown, bool) { return Shown{}, false },
		tenure: func() (tenures.Shown, time.Duration, bool) { return tenures.Shown{}, 0, false },
	}
	secure := pki.ServerConfig(&tls.Config{
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
	}, p.material)
	shown.serve(tls.NewListener(listener, secure), shown.callers())
	return listener.Addr().String(), func() { _ = shown.active[0].Close() }
}

// NewSurroundings are those of the pod cities-1-0 in the namespace here.
func NewSurroundings(
	t *testing.T, options APIOptions, may func(int64) bool, events chan<- tenure.Event,
) tenure.Surroundings {
	t.Helper()
	server, err := options.server()
	if err != nil {
		t.Fatal(err)
	}
	return &surroundings{
		server: server, namespace: "here", pod: "cities-1-0", podUID: "p1", name: "cities-rw", may: may, log: logr.Discard(),
		tell: func(event tenure.Event) { events <- event },
	}
}

// Claims tell of the claim of the volume of the instance cities-1 in the namespace here, whose pod has the UID p1.
type Claims struct {
	Look  func(recorded string) postgres.Claim
	Learn func(context.Context)
	// Due lets the next look read at once.
	Due func()
}

// NewClaims makes them. They count in changed how often there was news.
func NewClaims(t *testing.T, options APIOptions, changed func()) Claims {
	t.Helper()
	server, err := options.server()
	if err != nil {
		t.Fatal(err)
	}
	own := newClaims(server, Options{
		Namespace: "here", Instance: "cities-1", Pod: "cities-1-0", PodUID: "p1",
	}, logr.Discard())
	own.changed = changed
	due := func() {
		own.mutex.Lock()
		defer own.mutex.Unlock()
		own.again = time.Time{}
	}
	return Claims{Look: own.look, Learn: own.learn, Due: due}
}

// NewLeases is the lease of the database cities in the namespace here.
func NewLeases(t *testing.T, options APIOptions, events chan<- tenure.Event) tenure.Leases {
	t.Helper()
	server, err := options.server()
	if err != nil {
		t.Fatal(err)
	}
	return &leases{tell: func(event tenure.Event) { events <- event }, client: &lease.Client{
		Server: server, Namespace: "here", Name: "cities-primary", Annotation: wire.AnnotationRecord,
		Duration: time.Second, Now: time.Now,
	}}
}

// Guard keeps a watchdog of this process.
type Guard struct {
	*guard
	*bootClock
}

// NewGuard starts one. The test binary is the watchdog.
func NewGuard(t *testing.T, changed func()) Guard {
	t.Helper()
	supervisor, err := supervise.New()
	if err != nil {
		t.Fatal(err)
	}
	clock, err := newBootClock()
	if err != nil {
		t.Fatal(err)
	}
	kept := &guard{
		supervisor: supervisor, log: logr.Discard(), changed: changed,
		command: supervise.Command{Path: "/proc/self/exe", Args: []string{watchdogWord}},
	}
	if err := kept.keep(); err != nil {
		t.Fatal(err)
	}
	return Guard{kept, clock}
}

// PID is that of the watchdog.
func (g Guard) PID() int { return g.current().PID() }

// NewAgeClock is the clock by which a copy of a cache grows old.
func NewAgeClock() func() time.Time { return newAgeClock().Now }
