package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/metrics"
	"meridian.dev/meridian/internal/postgres/controller"
	tenures "meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// silence is how long the loop may be without a pass before the agent counts as dead. It is longer than a pass may
// take, so that a slow server or a large extension never gets the pod killed.
const silence = 10 * time.Minute

// stillness is the same for the loop that decides who the instance is. What it waits for is bounded by seconds.
const stillness = time.Minute

// servers tell about the instance, and let those in that have something to say to it. They only ever read what the
// loops have shown last.
type servers struct {
	state func() (controller.State, bool)
	// tenure shows the other loop, and how long ago its last pass was. It is nil if there is none.
	tenure func() (shown tenures.Shown, ago time.Duration, ok bool)
	// backup tells about backups.
	backup func() *wire.BackupReport
	peers  *peers
	now    func() time.Time
	log    logr.Logger
	begun  time.Time
	active []*http.Server
}

// listen opens both ports before it returns, so that a port that is taken ends the agent and not only its voice.
func (s *servers) listen(options Options, material pki.Source) error {
	s.begun = s.now()
	probe, err := net.Listen("tcp", options.ProbeAddress)
	if err != nil {
		return fmt.Errorf("listen for probes: %w", err)
	}
	report, err := net.Listen("tcp", options.ReportAddress)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for callers: %w", err), probe.Close())
	}
	secure := pki.ServerConfig(&tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
	}, material)
	s.serve(probe, withFigures(s.probes(), metrics.Instance(s.report),
		metrics.Statistics(options.Runtime, wire.PortPostgres)))
	s.serve(tls.NewListener(report, secure), s.callers())
	return nil
}

func (s *servers) serve(listener net.Listener, handler http.Handler) {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		// A handshake that fails is the caller's news; a line for each would fill the log.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.active = append(s.active, server)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error(err, "serving", "address", listener.Addr().String())
		}
	}()
}

func (s *servers) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, server := range s.active {
		_ = server.Shutdown(ctx)
	}
}

func (s *servers) probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathLive, func(out http.ResponseWriter, _ *http.Request) {
		answer(out, s.alive(), "the loop stands still")
	})
	mux.HandleFunc("GET "+wire.PathReady, func(out http.ResponseWriter, _ *http.Request) {
		answer(out, s.ready(), "the instance does not accept connections")
	})
	mux.HandleFunc("GET "+wire.PathStart, s.answerStart)
	mux.HandleFunc("GET "+wire.PathReport, s.answerPublicReport)
	return mux
}

// glance is how often is looked whether an instance has become ready.
const glance = 50 * time.Millisecond

// answerStart keeps the kubelet waiting until the instance is ready for the first time, and no longer than it may take
// to make one: after that the other probes tell how it is.
func (s *servers) answerStart(out http.ResponseWriter, in *http.Request) {
	awaitStart(out, in, func() bool { return s.ready() || s.now().Sub(s.begun) >= wire.StartPatience })
}

func awaitStart(out http.ResponseWriter, in *http.Request, over func() bool) {
	// Other answers are given at once, and the server ends whoever takes longer.
	deadline, call := time.Now().Add(2*wire.StartPatience), http.NewResponseController(out)
	_ = errors.Join(call.SetReadDeadline(deadline), call.SetWriteDeadline(deadline))
	clock := time.NewTicker(glance)
	defer clock.Stop()
	for !over() {
		select {
		case <-in.Context().Done():
			return
		case <-clock.C:
		}
	}
	answer(out, true, "")
}

// alive says that both loops of the agent are, and nothing about PostgreSQL or the API server: a restart of the pod
// repairs nothing that the agent could not.
func (s *servers) alive() bool {
	last := s.begun
	if state, ok := s.state(); ok {
		last = state.At
	}
	if s.now().Sub(last) >= silence {
		return false
	}
	if s.tenure == nil {
		return true
	}
	shown, ago, ok := s.tenure()
	return !ok || shown.Snapshot.Stopping || ago < stillness
}

// ready goes by the last pass, however long the present one takes: what is slow is a step inside the server, such as
// the update of an extension, and applications need not suffer for it. A server that ends wakes the loop.
func (s *servers) ready() bool {
	state, ok := s.state()
	return ok && state.Ready && s.alive()
}

func answer(out http.ResponseWriter, well bool, otherwise string) {
	if !well {
		http.Error(out, otherwise, http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintln(out, "ok")
}

// The common names of those that are let in.
const (
	instanceName = "meridian:instance"
	operatorName = "meridian:operator"
)

// callers is what is open to those with a certificate of the database's own authority, each path to some of them.
func (s *servers) callers() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+wire.PathReport, only(http.HandlerFunc(s.answerReport), instanceName, operatorName))
	if s.tenure != nil {
		mux.Handle("POST "+wire.PathPeer, only(http.HandlerFunc(s.answerPeer), instanceName))
		mux.Handle("POST "+wire.PathSwitchover, only(http.HandlerFunc(s.answerSwitchover), operatorName))
	}
	return mux
}

// only lets in those whose certificate has one of the names. That it is of the own authority was verified before.
func only(handler http.Handler, names ...string) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.TLS == nil || len(in.TLS.PeerCertificates) == 0 ||
			!slices.Contains(names, in.TLS.PeerCertificates[0].Subject.CommonName) {
			http.Error(out, "this certificate may not call this path", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(out, in)
	})
}

func (s *servers) answerReport(out http.ResponseWriter, _ *http.Request) {
	report, ok := s.report()
	if !ok {
		http.Error(out, "there is no report yet", http.StatusServiceUnavailable)
		return
	}
	write(out, report.Encode)
}

// answerPublicReport tells those without a certificate what the figures tell too, so that a person can take a snapshot
// with the rights to look at pods.
func (s *servers) answerPublicReport(out http.ResponseWriter, _ *http.Request) {
	report, ok := s.report()
	if !ok {
		http.Error(out, "there is no report yet", http.StatusServiceUnavailable)
		return
	}
	write(out, report.Public().Encode)
}

func (s *servers) answerPeer(out http.ResponseWriter, in *http.Request) {
	document, err := io.ReadAll(http.MaxBytesReader(out, in.Body, largestMessage))
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	request, err := wire.DecodePeerRequest(document)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	// Who speaks is said by the certificate: an instance speaks for itself alone.
	if err := in.TLS.PeerCertificates[0].VerifyHostname(s.peers.host(request.From.Name)); err != nil {
		http.Error(out, "this certificate is not that of "+request.From.Name, http.StatusForbidden)
		return
	}
	reply, err := s.peers.hear(in.Context(), request)
	if err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	write(out, reply.Encode)
}

func (s *servers) answerSwitchover(out http.ResponseWriter, in *http.Request) {
	var wish wire.Switchover
	decoder := json.NewDecoder(http.MaxBytesReader(out, in.Body, largestMessage))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wish); err != nil || wish.ID == "" {
		http.Error(out, "this is no request for a switchover", http.StatusBadRequest)
		return
	}
	reply, err := s.peers.ask(in.Context(), wish)
	if err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	document, err := reply.Encode()
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	switch {
	case reply.Accepted:
		out.WriteHeader(http.StatusAccepted)
	case reply.Later:
		out.WriteHeader(http.StatusServiceUnavailable)
	default:
		out.WriteHeader(http.StatusConflict)
	}
	_, _ = out.Write(document)
}

func write(out http.ResponseWriter, encode func() ([]byte, error)) {
	document, err := encode()
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_, _ = out.Write(document)
}
