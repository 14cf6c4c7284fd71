package webhook

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serve starts a server within the bounds and returns its address.
func serve(t *testing.T, within bounds, handler http.Handler) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := within.server(handler)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(within.listener(listener)) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return connection
}

const head = "POST /validate/geodatabase HTTP/1.1\r\nHost: webhook\r\nContent-Length: %d\r\n\r\n"

// A pod that begins a request and never ends it is not waited for.
func TestSlowRequestsEnd(t *testing.T) {
	within := usualBounds
	within.read = 200 * time.Millisecond
	address := serve(t, within, Handler(nil))
	for name, begun := range map[string]string{
		"headers": "POST /validate/geodatabase HTTP/1.1\r\nHost: a\r\n",
		"body":    fmt.Sprintf(head, 1000) + "{",
	} {
		t.Run(name, func(t *testing.T) {
			connection := dial(t, address)
			if _, err := io.WriteString(connection, begun); err != nil {
				t.Fatal(err)
			}
			// Without a limit this fails by the deadline of the connection.
			if _, err := io.Copy(io.Discard, connection); errors.Is(err, net.ErrClosed) || isTimeout(err) {
				t.Errorf("the server waits for ever: %v", err)
			}
		})
	}
}

func isTimeout(err error) bool {
	failed, ok := errors.AsType[net.Error](err)
	return ok && failed.Timeout()
}

// One address cannot take all connections, and those beyond its share are closed at once.
func TestConnectionsAreBounded(t *testing.T) {
	within := usualBounds
	within.ofOne = 2
	address := serve(t, within, Handler(nil))
	first, _, third := dial(t, address), dial(t, address), dial(t, address)
	if _, err := third.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a third connection is kept: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	// The place of a connection that has ended is free again, as soon as the server has noticed.
	for deadline := time.Now().Add(time.Minute); ; {
		connection := dial(t, address)
		_, _ = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if answer, err := http.ReadResponse(bufio.NewReader(connection), nil); err == nil {
			_ = answer.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no place becomes free")
		}
	}
}

// Who comes while all places are taken is told to come again.
func TestReviewsAreBounded(t *testing.T) {
	within := usualBounds
	within.reviews, within.wait = 1, time.Millisecond
	inside, leave := make(chan struct{}), make(chan struct{})
	address := serve(t, within, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside <- struct{}{}
		<-leave
	}))
	status := make(chan int, 1)
	call := func() {
		answer, err := http.Post("http://"+address, "application/json", strings.NewReader("{}")) //nolint:noctx // A test.
		if err != nil {
			status <- 0
			return
		}
		_ = answer.Body.Close()
		status <- answer.StatusCode
	}
	go call()
	<-inside
	go call()
	if got := <-status; got != http.StatusServiceUnavailable {
		t.Errorf("the second review is answered by %d", got)
	}
	close(leave)
	if got := <-status; got != http.StatusOK {
		t.Errorf("the first review is answered by %d", got)
	}
}

// A body that is longer than any review is not read to its end.
func TestLongReviewsAreRefused(t *testing.T) {
	address := serve(t, usualBounds, Handler(nil))
	connection := dial(t, address)
	if _, err := io.WriteString(connection, fmt.Sprintf(head, int64(1)<<40)); err != nil {
		t.Fatal(err)
	}
	go func() {
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for {
			if _, err := connection.Write(chunk); err != nil {
				return
			}
		}
	}()
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // A test.
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("a terabyte is answered by %d", answer.StatusCode)
	}
}
