package apiserver

import (
	"io"
	"net/http"
	"path"
	"sync"
	"time"
)

// Lag makes caches late: it holds back what arrives on watches. Nothing of client-go or controller-runtime is replaced.
type Lag struct {
	mutex sync.Mutex
	late  time.Duration
}

// Set says how late everything is that arrives from now on.
func (l *Lag) Set(late time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.late = late
}

func (l *Lag) now() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.late
}

// Wrap delays the watches of children. Those of the owners are on time: a process that does not know of an owner does
// nothing, and would show nothing.
func (l *Lag) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		owners := path.Base(request.URL.Path) == "geodatabases"
		if err != nil || request.URL.Query().Get("watch") != "true" || owners {
			return response, err
		}
		response.Body = l.hold(response.Body)
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// piece is what was read from a connection at once, and when it may be seen.
type piece struct {
	content []byte
	err     error
	due     time.Time
}

// heldBody hands on a stream, each piece when it is due.
type heldBody struct {
	from   io.ReadCloser
	pieces chan piece
	rest   piece
	closed chan struct{}
	once   sync.Once
}

func (l *Lag) hold(body io.ReadCloser) io.ReadCloser {
	held := &heldBody{from: body, pieces: make(chan piece, 1<<16), closed: make(chan struct{})}
	go func() {
		for {
			buffer := make([]byte, 4096)
			count, err := body.Read(buffer)
			held.pieces <- piece{buffer[:count], err, time.Now().Add(l.now())}
			if err != nil {
				return
			}
		}
	}()
	return held
}

func (h *heldBody) Read(into []byte) (int, error) {
	for len(h.rest.content) == 0 {
		if h.rest.err != nil {
			return 0, h.rest.err
		}
		select {
		case h.rest = <-h.pieces:
		case <-h.closed:
			return 0, io.ErrClosedPipe
		}
		select {
		case <-time.After(time.Until(h.rest.due)):
		case <-h.closed:
			return 0, io.ErrClosedPipe
		}
	}
	count := copy(into, h.rest.content)
	h.rest.content = h.rest.content[count:]
	return count, nil
}

func (h *heldBody) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.from.Close()
}
