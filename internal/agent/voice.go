package agent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	tenures "meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// told is what a loop shows, whatever kind of instance it is about.
type told struct {
	// at is when the pass began that this is from.
	at     time.Time
	ready  bool
	report func() ([]byte, error)
}

// voice tells about an instance, whatever its server is: probes for the kubelet, the report for whoever has a
// certificate of the same authority. It only ever reads what the loop has shown last.
type voice struct {
	state func() (told, bool)
	now   func() time.Time
	log   logr.Logger

	// tenure shows the other loop.
	tenure func() (shown tenures.Shown, ago time.Duration, ok bool)
	// figures are served beside the probes. requests are what the operator may ask for beside the report, each by its
	// method and path.
	figures  prometheus.Collector
	requests map[string]http.HandlerFunc

	begun time.Time
	// http serves with the bounds, and the silence about failed handshakes, of every agent.
	http servers
}

// silent is how long the loop of a server may be without a pass before the agent counts as dead. A pass has a limit of
// half a minute.
const silent = 2 * time.Minute

// listen opens both ports before it returns, so that a port that is taken ends the agent and not only its voice.
func (v *voice) listen(probes, reports string, material pki.Source) error {
	v.begun, v.http.log = v.now(), v.log
	plain, err := net.Listen("tcp", probes)
	if err != nil {
		return fmt.Errorf("listen for probes: %w", err)
	}
	open, err := net.Listen("tcp", reports)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for callers: %w", err), plain.Close())
	}
	secure := pki.ServerConfig(&tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
	}, material)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathLive, v.answerLive)
	mux.HandleFunc("GET "+wire.PathReady, v.answerReady)
	mux.HandleFunc("GET "+wire.PathStart, v.answerStart)
	v.http.serve(plain, withFigures(mux, v.figures))
	mux = http.NewServeMux()
	mux.Handle("GET "+wire.PathReport, only(http.HandlerFunc(v.answerReport), instanceName, operatorName))
	mux.Handle("POST "+wire.PathPeer, only(http.HandlerFunc(v.http.answerPeer), instanceName))
	mux.Handle("POST "+wire.PathSwitchover, only(http.HandlerFunc(v.http.answerSwitchover), operatorName))
	for pattern, request := range v.requests {
		mux.Handle(pattern, only(request, operatorName))
	}
	v.http.serve(tls.NewListener(open, secure), mux)
	return nil
}

func (v *voice) close() { v.http.close() }

// alive says that the agent is, and nothing about the server: a restart of the pod repairs nothing that the agent
// could not.
func (v *voice) alive() bool {
	last := v.begun
	if state, ok := v.state(); ok {
		last = state.at
	}
	if v.now().Sub(last) >= silent {
		return false
	}
	shown, ago, ok := v.tenure()
	return !ok || shown.Snapshot.Stopping || ago < stillness
}

func (v *voice) answerLive(out http.ResponseWriter, _ *http.Request) {
	answer(out, v.alive(), "the loop stands still")
}

func (v *voice) answerReady(out http.ResponseWriter, _ *http.Request) {
	answer(out, v.ready(), "applications are not let in")
}

func (v *voice) ready() bool {
	state, ok := v.state()
	return ok && state.ready && v.alive()
}

// answerStart is that of a database: see servers.answerStart.
func (v *voice) answerStart(out http.ResponseWriter, in *http.Request) {
	awaitStart(out, in, func() bool { return v.ready() || v.now().Sub(v.begun) >= wire.StartPatience })
}

func (v *voice) answerReport(out http.ResponseWriter, _ *http.Request) {
	state, ok := v.state()
	if !ok {
		http.Error(out, "there is no report yet", http.StatusServiceUnavailable)
		return
	}
	write(out, state.report)
}
