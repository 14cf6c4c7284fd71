//go:build cluster

package pgmodel_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
)

// proxy leads connections on to a server, unless it is told not to.
type proxy struct {
	path   string
	target func() string

	mutex    sync.Mutex
	moved    *sync.Cond
	cut      bool
	stalled  map[bool]bool // By direction: true is towards whoever has connected.
	listener net.Listener
	open     map[net.Conn]bool
}

func newProxy(path string, target func() string) (*proxy, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, err
	}
	p := &proxy{path: path, target: target, listener: listener, open: map[net.Conn]bool{}, stalled: map[bool]bool{}}
	p.moved = sync.NewCond(&p.mutex)
	go p.serve()
	return p, nil
}

func (p *proxy) serve() {
	for {
		connection, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.lead(connection)
	}
}

func (p *proxy) lead(from net.Conn) {
	p.mutex.Lock()
	cut := p.cut
	p.open[from] = true
	p.mutex.Unlock()
	defer p.close(from)
	if cut {
		return
	}
	to, err := net.Dial("unix", p.target())
	if err != nil {
		return
	}
	p.mutex.Lock()
	p.open[to] = true
	p.mutex.Unlock()
	defer p.close(to)
	var both sync.WaitGroup
	both.Go(func() { p.copy(to, from, false) })
	both.Go(func() { p.copy(from, to, true) })
	both.Wait()
}

// flows waits until a direction gets through: what ends before that is not heard of.
func (p *proxy) flows(towards bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for p.stalled[towards] && !p.cut {
		p.moved.Wait()
	}
}

// copy ends with whoever is copied from, of which the other hears as soon as something gets through.
func (p *proxy) copy(to, from net.Conn, towards bool) {
	defer p.close(to)
	defer p.flows(towards)
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		p.flows(towards)
		if count > 0 {
			if _, err := to.Write(buffer[:count]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) close(connection net.Conn) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.open, connection)
	_ = connection.Close()
}

// set changes what gets through. A cut ends what is open.
func (p *proxy) set(cut bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.cut = cut
	clear(p.stalled)
	if cut {
		for connection := range p.open {
			_ = connection.Close()
		}
	}
	p.moved.Broadcast()
}

// stall lets nothing through in one direction.
func (p *proxy) stall(towards bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stalled[towards] = true
}
