// Package door keeps the port of a server that has ended, and leads whoever still comes there on to another one. Start
// reading at Door.Usher.
package door

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// ledPatience is how long the other side may take to accept whoever is led on.
	ledPatience = time.Second
	// mostLed is how many are led on at a time. Others are refused.
	mostLed = 1000
)

// Door is the port of the server when that has ended. It implements tenure.Door.
type Door struct {
	// Life ends it, and with it whoever was led on.
	Life context.Context
	// Address is where the server listened, empty for everywhere, and Port where; it is the same on other machines.
	Address string
	Port    int
	Log     logr.Logger

	mutex sync.Mutex
	to    string
	open  bool
}

// Usher implements tenure.Door.
func (d *Door) Usher(to string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.to = net.JoinHostPort(to, strconv.Itoa(d.Port))
	if d.open {
		return
	}
	listener, err := new(net.ListenConfig).Listen(d.Life, "tcp", net.JoinHostPort(d.Address, strconv.Itoa(d.Port)))
	if err != nil {
		// Nobody is led on then, which costs those who come a second.
		d.Log.Info("cannot lead anybody on", "problem", err.Error())
		return
	}
	d.open = true
	context.AfterFunc(d.Life, func() { _ = listener.Close() })
	go d.accept(listener)
}

func (d *Door) accept(listener net.Listener) {
	places := make(chan struct{}, mostLed)
	for {
		caller, err := listener.Accept()
		if err != nil {
			return
		}
		select {
		case places <- struct{}{}:
			go func() {
				defer func() { <-places }()
				d.lead(caller)
			}()
		default:
			_ = caller.Close()
		}
	}
}

// lead passes on what either side says, as it is: who is who, they find out between themselves.
func (d *Door) lead(caller net.Conn) {
	defer func() { _ = caller.Close() }()
	d.mutex.Lock()
	to := d.to
	d.mutex.Unlock()
	ctx, cancel := context.WithTimeout(d.Life, ledPatience)
	defer cancel()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	defer context.AfterFunc(d.Life, func() { _, _ = caller.Close(), server.Close() })()
	ended := make(chan struct{}, 2)
	pass := func(from, into net.Conn) {
		_, _ = io.Copy(into, from)
		// The other direction may have something to say yet.
		if half, ok := into.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
		ended <- struct{}{}
	}
	go pass(caller, server)
	go pass(server, caller)
	<-ended
	<-ended
}
