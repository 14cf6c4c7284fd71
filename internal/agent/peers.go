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

	mutex   sync.Mutex
	lines   map[string]*line
	last    uint64                         // The number of the last request that was heard.
	waiting map[uint64]chan wire.PeerReply // Callers that wait for a reply.
	// deciding are those that have asked for a switchover.
	deciding map[uint64]chan wire.SwitchoverReply
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
	// mostWaiting is how many callers are let in at a time.
	mostWaiting = 64
)

func newPeers(material pki.Source, host func(string) string, port string, tell func(tenure.Event)) *peers {
	return &peers{
		material: material, host: host, port: port, tell: tell,
		lines: map[string]*line{}, waiting: map[uint64]chan wire.PeerReply{},
		deciding: map[uint64]chan wire.SwitchoverReply{},
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
func (p *peers) Reply(id uint64, reply wire.PeerReply) {
	p.mutex.Lock()
	caller := p.waiting[id]
	delete(p.waiting, id)
	p.mutex.Unlock()
	if caller != nil {
		caller <- reply // There is room for one.
	}
}

// hear hands a request to the loop and waits for its reply.
func (p *peers) hear(ctx context.Context, request wire.PeerRequest) (wire.PeerReply, error) {
	caller := make(chan wire.PeerReply, 1)
	p.mutex.Lock()
	if len(p.waiting) >= mostWaiting {
		p.mutex.Unlock()
		return wire.PeerReply{}, fmt.Errorf("%d callers wait already", mostWaiting)
	}
	p.last++
	id := p.last
	p.waiting[id] = caller
	p.mutex.Unlock()
	defer func() {
		p.mutex.Lock()
		delete(p.waiting, id)
		p.mutex.Unlock()
	}()
	p.tell(tenure.PeerAsked{Request: tenure.Request{ID: id, PeerRequest: request}})
	select {
	case reply := <-caller:
		return reply, nil
	case <-ctx.Done():
		return wire.PeerReply{}, ctx.Err()
	case <-time.After(fencePatience):
		return wire.PeerReply{}, fmt.Errorf("there was no reply within %s", fencePatience)
	}
}

// Decide implements tenure.Peers.
func (p *peers) Decide(id uint64, reply wire.SwitchoverReply) {
	p.mutex.Lock()
	caller := p.deciding[id]
	delete(p.deciding, id)
	p.mutex.Unlock()
	if caller != nil {
		caller <- reply // There is room for one.
	}
}

// ask hands a wish for another primary to the loop and waits for its verdict.
func (p *peers) ask(ctx context.Context, wish wire.Switchover) (wire.SwitchoverReply, error) {
	caller := make(chan wire.SwitchoverReply, 1)
	p.mutex.Lock()
	p.last++
	id := p.last
	p.deciding[id] = caller
	p.mutex.Unlock()
	defer func() {
		p.mutex.Lock()
		delete(p.deciding, id)
		p.mutex.Unlock()
	}()
	p.tell(tenure.SwitchoverAsked{ID: id, Switchover: wish})
	select {
	case reply := <-caller:
		return reply, nil
	case <-ctx.Done():
		return wire.SwitchoverReply{}, ctx.Err()
	case <-time.After(fencePatience):
		return wire.SwitchoverReply{}, fmt.Errorf("there was no verdict within %s", fencePatience)
	}
}
