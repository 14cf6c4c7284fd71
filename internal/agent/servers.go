package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// silence is how long the loop may be without a pass before the agent counts as dead. It is longer than a pass may
// take, so that a slow server or a large extension never gets the pod killed.
const silence = 10 * time.Minute

// servers tell about the instance. They only ever read what the loop has shown last.
type servers struct {
	state  func() (controller.State, bool)
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
	s.serve(probe, s.probes())
	s.serve(tls.NewListener(report, secure), s.reports())
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
	return mux
}

// alive says that the agent is, and nothing about PostgreSQL: a restart of the pod repairs nothing that the agent
// could not.
func (s *servers) alive() bool {
	last := s.begun
	if state, ok := s.state(); ok {
		last = state.At
	}
	return s.now().Sub(last) < silence
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

func (s *servers) reports() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathReport, func(out http.ResponseWriter, _ *http.Request) {
		state, ok := s.state()
		if !ok {
			http.Error(out, "there is no report yet", http.StatusServiceUnavailable)
			return
		}
		document, err := state.Report.Encode()
		if err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write(document)
	})
	return mux
}
