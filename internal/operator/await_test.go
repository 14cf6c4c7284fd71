package operator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// TestAwaitServer has an API server that comes late: refused connections and errors of its own are waited for, with a
// process that is alive and not ready; a refusal is an answer.
func TestAwaitServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	codes := make(chan int, 2)
	codes <- http.StatusServiceUnavailable
	codes <- http.StatusForbidden
	late := &httptest.Server{Config: &http.Server{Handler: http.HandlerFunc(
		func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(<-codes) })}}
	probes := freeAddress(t)
	done := make(chan error, 1)
	go func() {
		done <- awaitServer(t.Context(), &rest.Config{Host: "http://" + address}, probes, logr.Discard())
	}()
	awaitCode(t, "http://"+probes+"/healthz", http.StatusOK)
	awaitCode(t, "http://"+probes+"/readyz", http.StatusServiceUnavailable)
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	if late.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	late.Start()
	defer late.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(codes) > 0 {
		t.Error("an error of the API server was taken for an answer")
	}
	if listener, err := net.Listen("tcp", probes); err != nil {
		t.Errorf("the manager cannot answer the probes: %v", err)
	} else {
		_ = listener.Close()
	}
}

// TestAwaitServerEnds ends with the process.
func TestAwaitServerEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := awaitServer(ctx, &rest.Config{Host: "http://" + freeAddress(t)}, "0", logr.Discard()); err == nil {
		t.Error("no error although nobody has answered")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func awaitCode(t *testing.T, address string, want int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		response, err := http.Get(address)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == want {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer %d: %v", address, want, err)
		}
	}
}

// TestAwaitRights has an API server that has just started: it knows of no rights yet, and then of all.
func TestAwaitRights(t *testing.T) {
	missing := errors.New("not permitted")
	for name, test := range map[string]struct {
		fails int
		want  error
		after time.Duration
	}{
		"at once":     {0, nil, 0},
		"a bit later": {3, nil, 3 * time.Second},
		"never":       {1000, missing, rightsPatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, asked := time.Now(), 0
				err := awaitRights(t.Context(), logr.Discard(), rightsPatience, func(context.Context) error {
					if asked++; asked > test.fails {
						return nil
					}
					return missing
				})
				if took := time.Since(began); !errors.Is(err, test.want) || took != test.after {
					t.Errorf("answered %v after %s, want %v after %s", err, took, test.want, test.after)
				}
			})
		})
	}
}
