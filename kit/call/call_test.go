package call_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"meridian.dev/meridian/kit/call"
)

// begin starts a server, and counts the connections that are made to it.
func begin(t *testing.T, handler http.HandlerFunc) (*call.Server, *atomic.Int64) {
	t.Helper()
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	trust := x509.NewCertPool()
	trust.AddCert(server.Certificate())
	return &call.Server{
		URL: server.URL, Timeout: 500 * time.Millisecond, Agent: "test",
		Token: func() (string, error) { return "secret", nil },
		Trust: func() (*x509.CertPool, error) { return trust, nil },
	}, &connections
}

func get(server *call.Server) ([]byte, error) {
	return server.Do(context.Background(), call.Request{Method: http.MethodGet, Path: "/x"})
}

func TestDone(t *testing.T) {
	server, _ := begin(t, func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		_, _ = out.Write([]byte(in.Method + in.URL.String() + in.Header.Get("Authorization") +
			in.Header.Get("Content-Type") + in.Header.Get("User-Agent") + string(body)))
	})
	body, err := server.Do(context.Background(), call.Request{
		Method: http.MethodPatch, Path: "/x?y=z", Type: "application/merge-patch+json", Body: []byte("{}"),
	})
	if want := "PATCH/x?y=zBearer secretapplication/merge-patch+jsontest{}"; string(body) != want || err != nil {
		t.Errorf("%s, %v; want %s", body, err, want)
	}
	if call.OutcomeOf(err) != call.Done {
		t.Errorf("outcome %s", call.OutcomeOf(err))
	}
}

// Each code is either the server's word that nothing was done, or it is not.
func TestOutcomes(t *testing.T) {
	for code, want := range map[int]call.Outcome{
		400: call.Refused, 401: call.Refused, 403: call.Refused, 404: call.Refused, 409: call.Refused, 410: call.Refused,
		422: call.Refused, 429: call.Refused, 408: call.Unknown, 500: call.Unknown, 502: call.Unknown, 503: call.Unknown,
		504: call.Unknown,
	} {
		server, _ := begin(t, func(out http.ResponseWriter, _ *http.Request) {
			out.WriteHeader(code)
			_, _ = out.Write([]byte(`{"reason":"Why","message":"because"}`))
		})
		_, err := get(server)
		var failed *call.Error
		if !errors.As(err, &failed) || failed.Outcome != want || call.CodeOf(err) != code || failed.Reason != "Why" ||
			!strings.Contains(err.Error(), "because") {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// What was never sent was certainly not done.
func TestNeverSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := &call.Server{URL: "https://" + listener.Addr().String(), Timeout: 500 * time.Millisecond}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	tokenless, _ := begin(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	tokenless.Token = func() (string, error) { return "", nil }
	distrusted, _ := begin(t, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	distrusted.Trust = func() (*x509.CertPool, error) { return x509.NewCertPool(), nil }
	for name, server := range map[string]*call.Server{"nobody": nobody, "token": tokenless, "trust": distrusted} {
		if _, err := get(server); call.OutcomeOf(err) != call.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that does not answer has perhaps done it, and the next call does not wait behind that one.
func TestTimeoutAndAFreshConnection(t *testing.T) {
	var calls atomic.Int64
	hang := make(chan struct{})
	defer close(hang)
	server, connections := begin(t, func(_ http.ResponseWriter, in *http.Request) {
		if calls.Add(1) == 2 {
			select {
			case <-hang:
			case <-in.Context().Done():
			}
		}
	})
	if _, err := get(server); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := get(server); call.OutcomeOf(err) != call.Unknown {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("given up after %s", took)
	}
	before := connections.Load()
	if _, err := get(server); err != nil {
		t.Error(err)
	}
	if _, err := get(server); err != nil {
		t.Error(err)
	}
	if made := connections.Load() - before; made != 1 {
		t.Errorf("%d connections were made after the failure, want 1", made)
	}
}

func TestCutConnection(t *testing.T) {
	server, _ := begin(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := get(server); call.OutcomeOf(err) != call.Unknown {
		t.Errorf("%v", err)
	}
}

// A stream outlives the bound of a call, and ends with its context.
func TestStream(t *testing.T) {
	server, _ := begin(t, func(out http.ResponseWriter, in *http.Request) {
		for range 4 {
			_, _ = out.Write([]byte("x"))
			_ = http.NewResponseController(out).Flush()
			time.Sleep(200 * time.Millisecond)
		}
		<-in.Context().Done()
	})
	ctx, cancel := context.WithCancel(context.Background())
	body, err := server.Stream(ctx, call.Request{Method: http.MethodGet, Path: "/x"})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, cancel)
	content, err := io.ReadAll(body)
	if string(content) != "xxxx" || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", content, err)
	}
	_ = body.Close()
	silent, _ := begin(t, func(_ http.ResponseWriter, in *http.Request) { <-in.Context().Done() })
	if _, err := silent.Stream(context.Background(), call.Request{Method: http.MethodGet, Path: "/x"}); err == nil {
		t.Error("a stream that never began has begun")
	}
	refusing, _ := begin(t, func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusForbidden) })
	_, err = refusing.Stream(context.Background(), call.Request{Path: "/x"})
	if call.CodeOf(err) != http.StatusForbidden {
		t.Errorf("%v", err)
	}
}
