package agent

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/metrics"
	tenures "meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/tenure/status"
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

// voice tells about an instance: probes for the kubelet, the report for whoever has a certificate of the same
// authority. It only ever reads what the loop has shown last.
type voice struct {
	state func() (told, bool)
	now   func() time.Time
	log   logr.Logger

	// tenure shows the other loop, and flush takes a request to empty the cache.
	tenure func() (shown tenures.Shown, ago time.Duration, ok bool)
	flush  func(id string)

	begun time.Time
	// http serves with the bounds, and the silence about failed handshakes, of every agent.
	http servers
}

// silent is how long the loop of a cache may be without a pass before the agent counts as dead. A pass has a limit of
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
	v.http.serve(plain, withFigures(mux, metrics.Cache(v.report)))
	mux = http.NewServeMux()
	mux.Handle("GET "+wire.PathReport, only(http.HandlerFunc(v.answerReport), instanceName, operatorName))
	mux.Handle("POST "+wire.PathPeer, only(http.HandlerFunc(v.http.answerPeer), instanceName))
	mux.Handle("POST "+wire.PathSwitchover, only(http.HandlerFunc(v.http.answerSwitchover), operatorName))
	mux.Handle("POST "+wire.PathFlush, only(http.HandlerFunc(v.answerFlush), operatorName))
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

// answerFlush takes the request: whether it was carried out is in the report.
func (v *voice) answerFlush(out http.ResponseWriter, in *http.Request) {
	var wish wire.Flush
	decoder := json.NewDecoder(http.MaxBytesReader(out, in.Body, largestMessage))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wish); err != nil || wish.ID == "" {
		http.Error(out, "this is no request to empty a cache", http.StatusBadRequest)
		return
	}
	v.flush(wish.ID)
	out.WriteHeader(http.StatusAccepted)
}

// voice tells about both loops of the cache.
func (w *cacheWorld) voice(log logr.Logger) *voice {
	made := &voice{now: w.ages.Now, log: log, tenure: w.shown, flush: w.instance.Ask}
	made.http.peers = w.peers
	made.state = func() (told, bool) {
		state, ok := w.instance.State()
		return told{at: state.At, ready: state.Ready, report: func() ([]byte, error) {
			return w.complete(state.Report).Encode()
		}}, ok
	}
	return made
}

// complete adds to the report of the server what the agents have agreed on.
func (w *cacheWorld) complete(report wire.CacheReport) wire.CacheReport {
	shown, _, ok := w.shown()
	if !ok {
		return report
	}
	return status.CompleteCache(report, shown.Snapshot, shown.Plan)
}
