package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/door"
	"meridian.dev/meridian/internal/tenure"
	tenures "meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/lease"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/kit/supervise"
)

// body is the loop of a server, of whatever kind: it obeys the loop of package tenure.
type body interface {
	tenure.Server
	// Changed has a token whenever there are new facts.
	Changed() <-chan struct{}
	// Run makes passes until it is told to stop and the server has ended.
	Run(ctx context.Context, told <-chan struct{}) error
}

// seat is what a tenancy is made of.
type seat struct {
	Options
	// owner is the database or the cache, and route its write address.
	owner, route string
	supervisor   *supervise.Supervisor
	material     pki.Source
	wishes       tenure.Wishes
	body         body
	// looked is how long ago the facts of the body were read.
	looked func() (time.Duration, bool)
	// port is where the server listens for applications.
	port int
	// asked is told when another instance asks how far the copy here has come, nil if nobody has to be.
	asked func()
}

// tenancy is the loop that decides who the instance is, and everything real that it stands on, whatever the server is.
type tenancy struct {
	body   body
	tenure *tenures.Loop
	clock  *bootClock
	guard  *guard
	leases *leases
	peers  *peers
	// surroundings are where others find this instance.
	surroundings *surroundings
	events       chan tenure.Event
	tell         func(tenure.Event)
	wake         chan struct{} // Asks the loop of package tenure for a pass.
}

// room is for events that have happened during one pass. Whoever has another one waits.
const room = 256

// watchdogWord is the sub-command of this program that is the watchdog.
const watchdogWord = "watchdog"

// newTenancy puts it together. The guard is not kept yet.
func newTenancy(life context.Context, at seat, log logr.Logger) (*tenancy, error) {
	w := &tenancy{body: at.body, events: make(chan tenure.Event, room), wake: make(chan struct{}, 1)}
	var err error
	if w.clock, err = newBootClock(); err != nil {
		return nil, err
	}
	w.guard = &guard{
		supervisor: at.supervisor, log: log, changed: w.poke,
		// The watchdog has next to nothing to do, and shall need next to nothing for it.
		command: supervise.Command{
			Path: "/proc/self/exe", Args: []string{watchdogWord}, Env: []string{"GOMAXPROCS=1", "GOGC=20"},
			Lines: func(line []byte) { log.Info("watchdog output", "line", string(line)) },
		},
	}
	ports, err := w.ports(life, at, log)
	if err != nil {
		return nil, err
	}
	ports.Fresh = newID
	w.tenure = tenures.New(ports, at.Instance, at.Address, log.WithName("tenure"))
	return w, nil
}

// ports are those of the loop that decides who the instance is.
func (w *tenancy) ports(life context.Context, at seat, log logr.Logger) (tenure.Ports, error) {
	api, err := at.API.server()
	if err != nil {
		return tenure.Ports{}, err
	}
	tell := func(event tenure.Event) {
		select {
		case w.events <- event:
		case <-life.Done():
		}
	}
	w.tell = tell
	_, port, err := net.SplitHostPort(at.ReportAddress)
	if err != nil {
		return tenure.Ports{}, err
	}
	w.peers = newPeers(at.material, at.host, port, func(event tenure.Event) {
		if peer, ok := event.(tenure.PeerAsked); ok && peer.Request.Kind == wire.PeerPlace && at.asked != nil {
			at.asked()
		}
		tell(event)
	})
	w.peers.known = at.Peers
	w.leases = &leases{clock: w.clock, tell: tell, client: &lease.Client{
		Server: api, Namespace: at.Namespace, Name: child(at.owner, "primary"),
		Annotation: wire.AnnotationRecord, Duration: defaultDuration, Now: time.Now,
	}}
	w.surroundings = &surroundings{
		server: api, namespace: at.Namespace, pod: at.Pod, podUID: at.PodUID, name: at.route, tell: tell, log: log,
		may: func(term int64) bool { return w.tenure.Leads(term) },
	}
	return tenure.Ports{
		Clock: w.clock, Leases: w.leases, Peers: w.peers, Volume: volume{at.Volume}, Watchdog: w.guard,
		Surroundings: w.surroundings, Door: &door.Door{Life: life, Address: at.Listen, Port: at.port, Log: log},
		Wishes: at.wishes, Server: dated{at.body, at.looked, w.clock},
	}, nil
}

// poke asks for a pass of the loop of package tenure.
func (w *tenancy) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // One is due already.
	}
}

// run runs both loops. That of package tenure ends first: it gives away what this instance holds. Then the server is
// stopped for good.
func (w *tenancy) run(life context.Context, told <-chan struct{}) error {
	life, end := context.WithCancel(life)
	defer end()
	go w.leases.watch(life)
	go w.surroundings.watch(life)
	go func() {
		for {
			select {
			case <-w.body.Changed():
				w.poke()
			case <-life.Done():
				return
			}
		}
	}()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.body.Run(life, stop) }()
	gone := make(chan error, 1)
	go func() { gone <- w.tenure.Run(life, told, w.wake, w.events) }()
	select {
	case err := <-gone:
		close(stop)
		return errors.Join(err, <-ended)
	case err := <-ended:
		// A server without its loop is in nobody's hand.
		return errors.Join(errors.New("the loop of the server has ended"), err)
	}
}

// host is the name by which an instance is resolved and verified.
func (s seat) host(instance string) string { return hostOf(s.owner, instance, s.Namespace) }

func hostOf(owner, instance, namespace string) string {
	return fmt.Sprintf("%s-0.%s.%s.svc", instance, child(owner, "pods"), namespace)
}

// shown is what the loop has shown last, and how long ago that was.
func (w *tenancy) shown() (tenures.Shown, time.Duration, bool) {
	shown, ok := w.tenure.Shown()
	return shown, w.clock.Now().Since(shown.Snapshot.Now), ok
}

// dated are the facts of the server with when they were read, on the clock of deadlines.
type dated struct {
	tenure.Server
	looked func() (time.Duration, bool)
	clock  tenure.Clock
}

// Facts implements tenure.Server.
func (d dated) Facts() tenure.Engine {
	facts := d.Server.Facts()
	if age, ok := d.looked(); ok && facts.Known && facts.At == 0 {
		facts.At = d.clock.Now().Add(-age)
	}
	return facts
}
