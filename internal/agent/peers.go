package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// peers speaks with the other agents of the database. It implements tenure.Peers.
type peers struct {
	material pki.Source
	// host is the name by which an instance is resolved and verified, port where agents listen.
	host func(instance string) string
	port string
	tell func(tenure.Event)
	// known are addresses that need not be resolved, by instance.
	known map[string]string

	mutex sync.Mutex
	lines map[string]*line
	// heard are peers that wait for a reply, wishes those who have asked for a switchover.
	heard  callers[wire.PeerReply]
	wishes callers[wire.SwitchoverReply]
}

// line is the way to one peer. It is thrown away when a message over it fails.
type line struct {
	pool    *http.Transport
	address string // Where it leads, empty if the name is resolved.
}

const (
	// peerPatience bounds a request; fencePatience one that makes the other side prove something first.
	peerPatience  = time.Second
	fencePatience = 3 * time.Second
	// largestMessage is more than any message has.
	largestMessage = 64 << 10
	// mostWaiting is how many callers of a kind are let in at a time.
	mostWaiting = 64
)

func newPeers(material pki.Source, host func(string) string, port string, tell func(tenure.Event)) *peers {
	return &peers{
		material: material, host: host, port: port, tell: tell, lines: map[string]*line{},
	}
}

// Send implements tenure.Peers.
func (p *peers) Send(request wire.PeerRequest, address string, sent tenure.Instant) {
	go func() {
		reply, err := p.send(request, address)
		if err != nil {
			p.tell(tenure.PeerLost{Request: request})
			return
		}
		p.tell(tenure.PeerReplied{Request: request, Reply: reply, Sent: sent})
	}()
}

func (p *peers) send(request wire.PeerRequest, address string) (wire.PeerReply, error) {
	document, err := request.Encode()
	if err != nil {
		return wire.PeerReply{}, err
	}
	patience := peerPatience
	if request.Kind == wire.PeerFence {
		patience = fencePatience
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	to := request.To.Name
	used := p.line(to, address)
	reply, err := p.post(ctx, used.pool, to, document)
	if err != nil {
		p.drop(to, used)
		return wire.PeerReply{}, fmt.Errorf("send %s to %s: %w", request.Kind, to, err)
	}
	return reply, nil
}

func (p *peers) post(ctx context.Context, pool *http.Transport, to string, body []byte) (wire.PeerReply, error) {
	target := "https://" + net.JoinHostPort(p.host(to), p.port) + wire.PathPeer
	message, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return wire.PeerReply{}, err
	}
	message.Header.Set("Content-Type", "application/json")
	response, err := pool.RoundTrip(message)
	if err != nil {
		return wire.PeerReply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, largestMessage))
	if err != nil {
		return wire.PeerReply{}, err
	}
	if response.StatusCode != http.StatusOK {
		return wire.PeerReply{}, fmt.Errorf("code %d: %s", response.StatusCode, bytes.TrimSpace(answer))
	}
	return wire.DecodePeerReply(answer)
}

// line returns the way to a peer, a new one if the peer was heard from elsewhere since.
func (p *peers) line(to, address string) *line {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	known := p.lines[to]
	if known != nil && (address == "" || known.address == "" || known.address == address) {
		return known
	}
	if known != nil {
		known.pool.CloseIdleConnections()
	}
	made := p.open(to, address)
	p.lines[to] = made
	return made
}

func (p *peers) open(to, address string) *line {
	dialer := &net.Dialer{Timeout: peerPatience, KeepAlive: 5 * time.Second}
	made := &line{address: address}
	made.pool = &http.Transport{
		TLSClientConfig:   pki.ClientConfig(&tls.Config{ServerName: p.host(to)}, p.material),
		ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: time.Minute, DisableCompression: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 2 * time.Second},
		DialContext: func(ctx context.Context, network, target string) (net.Conn, error) {
			if address := cmp.Or(address, p.known[to]); address != "" {
				target = net.JoinHostPort(address, p.port)
			}
			return dialer.DialContext(ctx, network, target)
		},
	}
	return made
}

// drop forgets a way that has failed. The next one goes by name if this one went by address, and the other way round: a
// pod that has moved has another address, and a name server may be away.
func (p *peers) drop(to string, failed *line) {
	failed.pool.CloseIdleConnections()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.lines[to] != failed {
		return
	}
	delete(p.lines, to)
	if failed.address != "" {
		p.lines[to] = p.open(to, "")
	}
}

// Reply implements tenure.Peers.
func (p *peers) Reply(id uint64, reply wire.PeerReply) { p.heard.answer(id, reply) }

// hear hands a request to the loop and waits for its reply.
func (p *peers) hear(ctx context.Context, request wire.PeerRequest) (wire.PeerReply, error) {
	return p.heard.wait(ctx, func(id uint64) {
		p.tell(tenure.PeerAsked{Request: tenure.Request{ID: id, PeerRequest: request}})
	})
}

// Decide implements tenure.Peers.
func (p *peers) Decide(id uint64, reply wire.SwitchoverReply) { p.wishes.answer(id, reply) }

// ask hands a wish for another primary to the loop and waits for its verdict.
func (p *peers) ask(ctx context.Context, wish wire.Switchover) (wire.SwitchoverReply, error) {
	return p.wishes.wait(ctx, func(id uint64) { p.tell(tenure.SwitchoverAsked{ID: id, Switchover: wish}) })
}

// callers wait for what the loop says to them.
type callers[T any] struct {
	mutex   sync.Mutex
	last    uint64 // The number of the last one.
	waiting map[uint64]chan T
}

// wait lets one caller in, has the loop told of its number, and waits for the answer.
func (c *callers[T]) wait(ctx context.Context, tell func(id uint64)) (T, error) {
	var none T
	answer := make(chan T, 1)
	c.mutex.Lock()
	if len(c.waiting) >= mostWaiting {
		c.mutex.Unlock()
		return none, fmt.Errorf("%d callers wait already", mostWaiting)
	}
	if c.waiting == nil {
		c.waiting = map[uint64]chan T{}
	}
	c.last++
	id := c.last
	c.waiting[id] = answer
	c.mutex.Unlock()
	defer c.take(id)
	tell(id)
	select {
	case given := <-answer:
		return given, nil
	case <-ctx.Done():
		return none, ctx.Err()
	case <-time.After(fencePatience):
		return none, fmt.Errorf("there was no answer within %s", fencePatience)
	}
}

// answer is for one caller, if it still waits.
func (c *callers[T]) answer(id uint64, given T) {
	if caller := c.take(id); caller != nil {
		caller <- given // There is room for one.
	}
}

// take ends the waiting of a caller. It is nil if nobody waits under that number.
func (c *callers[T]) take(id uint64) chan T {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	caller := c.waiting[id]
	delete(c.waiting, id)
	return caller
}
