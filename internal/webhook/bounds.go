package webhook

import (
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// bounds keep those who are not the API server from costing the operator much: every pod of the cluster may reach the
// port, because nobody can say by which address the API server comes. Who uses the bounds up stops the webhook, which
// is a courtesy, and nothing else.
type bounds struct {
	// connections are those that are open at once, ofOne those of one address; streams those that share a connection.
	connections, ofOne, streams int
	// reviews are those that are read and judged at once; each may take some 20 MiB. wait is how long another one waits.
	reviews int
	wait    time.Duration
	// read is how long a request may take to arrive, write how long its answer may take after that.
	read, write time.Duration
}

// usualBounds leave room for several API servers behind one address, and more than they ever use: they share a
// connection, and give up after patience.
var usualBounds = bounds{
	connections: 128, ofOne: 32, streams: 32, reviews: 4, wait: time.Second, read: 5 * time.Second,
	write: 10 * time.Second,
}

// server is the HTTP server within the bounds.
func (b bounds) server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           b.queue(handler),
		ReadHeaderTimeout: b.read, ReadTimeout: b.read, WriteTimeout: b.write, MaxHeaderBytes: 16 << 10,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: b.streams},
	}
}

// queue lets in as many requests as the bounds allow. One that has waited long enough is told to come again.
func (b bounds) queue(handler http.Handler) http.Handler {
	places := make(chan struct{}, b.reviews)
	return http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		patience := time.NewTimer(b.wait)
		defer patience.Stop()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			handler.ServeHTTP(out, request)
		case <-patience.C:
			http.Error(out, "too many reviews at once; come again", http.StatusServiceUnavailable)
		case <-request.Context().Done():
		}
	})
}

// listener closes connections beyond the bounds at once.
func (b bounds) listener(inner net.Listener) net.Listener {
	return &boundedListener{Listener: inner, bounds: b, open: sets.New[*boundedConnection](), of: map[string]int{}}
}

type boundedListener struct {
	net.Listener

	bounds bounds
	mutex  sync.Mutex
	open   sets.Set[*boundedConnection]
	of     map[string]int
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.admit(accepted); admitted != nil {
			return admitted, nil
		}
		_ = accepted.Close() // There is nothing to tell the other side.
	}
}

// admit returns nil if there are enough connections.
func (l *boundedListener) admit(accepted net.Conn) net.Conn {
	address, _, err := net.SplitHostPort(accepted.RemoteAddr().String())
	if err != nil {
		address = accepted.RemoteAddr().String()
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.open.Len() >= l.bounds.connections || l.of[address] >= l.bounds.ofOne {
		return nil
	}
	admitted := &boundedConnection{Conn: accepted, listener: l, address: address}
	l.open.Insert(admitted)
	l.of[address]++
	return admitted
}

type boundedConnection struct {
	net.Conn

	listener *boundedListener
	address  string
}

// Close implements net.Conn. It may be called twice.
func (c *boundedConnection) Close() error {
	c.listener.mutex.Lock()
	if c.listener.open.Has(c) {
		c.listener.open.Delete(c)
		if c.listener.of[c.address]--; c.listener.of[c.address] == 0 {
			delete(c.listener.of, c.address)
		}
	}
	c.listener.mutex.Unlock()
	return c.Conn.Close()
}
