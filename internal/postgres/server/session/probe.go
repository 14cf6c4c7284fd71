package session

import (
	"context"
	"sync"
	"time"

	"meridian.dev/meridian/internal/postgres/render"
)

// Probe writes a little each second to a server that leads, as a role that may do nothing else, and as the superuser
// where that is not let in: when applications have taken every place.
type Probe struct {
	Link *Link

	mutex    sync.Mutex
	start    string
	failures int
	stop     context.CancelFunc
}

const (
	probePause    = time.Second
	probePatience = time.Second
	// hungAfter is how many probes in a row must fail.
	hungAfter = 3
	// steppingDown is after how many probes a session of the superuser is given up for one of its own role.
	steppingDown = 30
)

// Watch implements postgres.Probe.
func (p *Probe) Watch(start string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.start == start {
		return
	}
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.start, p.failures = start, 0
	if start == "" {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	link := &Link{Folder: p.Link.Folder, Port: p.Link.Port, Major: p.Link.Major, least: true}
	go func() {
		defer link.Close()
		p.run(ctx, link, start)
	}()
}

func (p *Probe) run(ctx context.Context, link *Link, start string) {
	ticker := time.NewTicker(probePause)
	defer ticker.Stop()
	for count := 1; ; count++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if count%steppingDown == 0 && link.connection != nil && link.connection.Config().User == render.Superuser {
			link.Close()
		}
		err := probe(ctx, link)
		p.mutex.Lock()
		if p.start == start {
			p.failures++
			if err == nil {
				p.failures = 0
			}
		}
		p.mutex.Unlock()
	}
}

// probe waits for the log to be flushed here, and for nobody else.
func probe(ctx context.Context, link *Link) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	connection, err := link.main(ctx)
	if err != nil {
		return err
	}
	if _, err := connection.Exec(ctx, "select pg_logical_emit_message(true, 'meridian', '')"); err != nil {
		link.Close()
		return err
	}
	return nil
}

// Hung implements postgres.Probe.
func (p *Probe) Hung() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.failures >= hungAfter
}

// Close ends the goroutine.
func (p *Probe) Close() { p.Watch("") }
