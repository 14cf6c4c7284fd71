package machine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Verb is what can be asked of a service.
type Verb string

const (
	// Hold kills the service and keeps it down.
	Hold Verb = "hold"
	// Release starts a held service again.
	Release Verb = "release"
	// Kill ends the service, which then starts again.
	Kill Verb = "kill"
)

// serve answers on the control socket for as long as the machine lives.
func serve(listener net.Listener, crew *crew) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /services", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(crew.list()) // The asker sees a broken answer himself.
	})
	verbs := map[Verb]func(Service){Hold: crew.hold, Release: crew.release, Kill: crew.kill}
	mux.HandleFunc("POST /services/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		do, known := verbs[Verb(r.PathValue("verb"))]
		for _, service := range crew.spec.Services {
			if known && service.Name == r.PathValue("name") {
				do(service)
				return
			}
		}
		http.NotFound(w, r)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	return fmt.Errorf("serve the control socket: %w", server.Serve(listener))
}

// Services asks the machine in dir for the state of its services.
func Services(ctx context.Context, dir string) ([]State, error) {
	body, err := ask(ctx, dir, http.MethodGet, "/services")
	if err != nil {
		return nil, err
	}
	var states []State
	if err := json.Unmarshal(body, &states); err != nil {
		return nil, fmt.Errorf("decode the state of services: %w", err)
	}
	return states, nil
}

// Tell has the machine in dir do something to one of its services.
func Tell(ctx context.Context, dir, service string, verb Verb) error {
	_, err := ask(ctx, dir, http.MethodPost, "/services/"+service+"/"+string(verb))
	return err
}

func ask(ctx context.Context, dir, method, path string) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "control.sock"))
		},
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://machine"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask machine: %w", err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask machine %s: %w", filepath.Base(dir), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	if err != nil {
		return nil, fmt.Errorf("ask machine %s for %s: %w", filepath.Base(dir), path, err)
	}
	return body, nil
}

// passes asks once, briefly.
func (c Check) passes() bool {
	if c.Socket != "" {
		conn, err := net.DialTimeout("unix", c.Socket, time.Second)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return false
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Transport: transport, Timeout: 2 * time.Second}
	response, err := client.Get(c.URL) //nolint:noctx // The client has a time-out.
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
