package apiserver

import (
	"io"
	"net/http"
	"path"
	"sync"
)

// Lag makes caches late: it holds back what arrives on watches. Nothing of client-go or controller-runtime is replaced.
// It counts passes of whoever reads the caches, not time, so that a slow machine sees as much as a fast one.
type Lag struct {
	mutex sync.Mutex
	// passes is by how many of them everything is late, pass is the one of the moment, and held is what becomes visible
	// with a later one.
	passes, pass int
	held         map[int][]chan struct{}
}

// Set says by how many passes everything is late that arrives from now on.
func (l *Lag) Set(passes int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.passes, l.held = passes, map[int][]chan struct{}{}
}

// Pass begins a pass.
func (l *Lag) Pass() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.pass++
	for _, due := range l.held[l.pass] {
		close(due)
	}
	delete(l.held, l.pass)
}

// due is closed when what arrives now may be seen.
func (l *Lag) due() <-chan struct{} {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	due := make(chan struct{})
	if l.passes == 0 {
		close(due)
		return due
	}
	at := l.pass + l.passes
	l.held[at] = append(l.held[at], due)
	return due
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
	due     <-chan struct{}
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
			held.pieces <- piece{buffer[:count], err, l.due()}
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
		case <-h.rest.due:
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
