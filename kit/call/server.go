package call

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// Server is an API server.
type Server struct {
	// URL is such as https://10.0.0.1:443.
	URL string
	// Token returns the token to present, for each call; nil for none.
	Token func() (string, error)
	// Trust returns what the server is verified against, for each fresh connection.
	Trust func() (*x509.CertPool, error)
	// Timeout bounds a call, 2 seconds if it is 0.
	Timeout time.Duration
	// Agent is how the calls name their maker.
	Agent string

	calls, streams connections
}

// Request is what to ask.
type Request struct {
	Method string
	// Path begins with a slash and may have a query.
	Path string
	// Type is that of the body, application/json if it is empty.
	Type string
	Body []byte
}

const (
	// largest is what an answer may have: the server's own limit for an object is below it.
	largest = 4 << 20
	// silence is how long a connection may be without a sign of life before it is asked for one, and how long the answer
	// may take.
	silence = 5 * time.Second
)

// connections is one pool, which is thrown away when a call over it fails: what follows must not wait for a connection
// that is dead and does not know it.
type connections struct {
	mutex sync.Mutex
	pool  *http.Transport
}

func (c *connections) get(server *Server) (*http.Transport, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pool != nil {
		return c.pool, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if server.Trust != nil {
		trust, err := server.Trust()
		if err != nil {
			return nil, fmt.Errorf("read what to trust: %w", err)
		}
		config.RootCAs = trust
	}
	c.pool = &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: 90 * time.Second,
		DialContext:        (&net.Dialer{Timeout: server.timeout(), KeepAlive: silence}).DialContext,
		HTTP2:              &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence},
		DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	return c.pool, nil
}

// drop throws away the pool that failed, unless that has happened already.
func (c *connections) drop(failed *http.Transport) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.pool == failed {
		c.pool = nil
	}
	failed.CloseIdleConnections()
}

func (s *Server) timeout() time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	return 2 * time.Second
}

// Do makes one call and returns the body of the answer. An error has an outcome.
func (s *Server) Do(ctx context.Context, request Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	response, err := s.send(ctx, &s.calls, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, largest))
	if err != nil {
		s.forget(&s.calls)
		return nil, &Error{Outcome: Unknown, Code: response.StatusCode, Cause: fmt.Errorf("read the answer: %w", err)}
	}
	if response.StatusCode >= 300 {
		failed := refusal(response.StatusCode, body)
		if failed.Outcome == Unknown {
			s.forget(&s.calls)
		}
		return nil, failed
	}
	return body, nil
}

// Stream begins a call whose answer does not end, such as a watch. The bound is for its beginning only: a connection
// that dies shows as an end of the stream.
func (s *Server) Stream(ctx context.Context, request Request) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(s.timeout(), cancel)
	response, err := s.send(ctx, &s.streams, request)
	began := timer.Stop()
	if err != nil {
		cancel()
		return nil, err
	}
	if !began {
		_ = response.Body.Close()
		return nil, &Error{Outcome: Unknown, Cause: context.DeadlineExceeded}
	}
	if response.StatusCode >= 300 {
		body, _ := io.ReadAll(io.LimitReader(response.Body, largest)) // The code alone is enough.
		_ = response.Body.Close()
		cancel()
		return nil, refusal(response.StatusCode, body)
	}
	return &stream{body: response.Body, end: func() { cancel(); s.forget(&s.streams) }}, nil
}

// stream closes what it came over: the next one gets a fresh connection.
type stream struct {
	body io.ReadCloser
	end  func()
}

func (s *stream) Read(into []byte) (int, error) { return s.body.Read(into) }

func (s *stream) Close() error {
	s.end()
	return s.body.Close()
}

func (s *Server) send(ctx context.Context, over *connections, request Request) (*http.Response, error) {
	never := func(err error) error { return &Error{Outcome: Refused, Cause: fmt.Errorf("it was not sent: %w", err)} }
	message, err := s.message(ctx, request)
	if err != nil {
		return nil, never(err)
	}
	pool, err := over.get(s)
	if err != nil {
		return nil, never(err)
	}
	connected := make(chan struct{}, 16)
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		select {
		case connected <- struct{}{}:
		default: // One sign is enough.
		}
	}}
	response, err := pool.RoundTrip(message.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err == nil {
		return response, nil
	}
	over.drop(pool)
	select {
	case <-connected:
		return nil, &Error{Outcome: Unknown, Cause: err}
	default:
		return nil, never(err)
	}
}

func (s *Server) message(ctx context.Context, request Request) (*http.Request, error) {
	message, err := http.NewRequestWithContext(ctx, request.Method, s.URL+request.Path, bytes.NewReader(request.Body))
	if err != nil {
		return nil, err
	}
	message.Header.Set("Accept", "application/json")
	message.Header.Set("User-Agent", s.Agent)
	if len(request.Body) > 0 {
		kind := request.Type
		if kind == "" {
			kind = "application/json"
		}
		message.Header.Set("Content-Type", kind)
	}
	if s.Token == nil {
		return message, nil
	}
	token, err := s.Token()
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	if token == "" {
		return nil, errors.New("read the token: it is empty")
	}
	message.Header.Set("Authorization", "Bearer "+token)
	return message, nil
}

func (s *Server) forget(over *connections) {
	over.mutex.Lock()
	pool := over.pool
	over.mutex.Unlock()
	if pool != nil {
		over.drop(pool)
	}
}

// Close lets go of connections that nobody uses now.
func (s *Server) Close() {
	s.forget(&s.calls)
	s.forget(&s.streams)
}
