package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/tenure"
	tenures "meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/lease"
	"meridian.dev/meridian/kit/names"
	"meridian.dev/meridian/kit/supervise"
)

// world is both loops and everything real that they stand on.
type world struct {
	real     *server.World
	instance *controller.Loop
	tenure   *tenures.Loop

	clock  *bootClock
	guard  *guard
	leases *leases
	peers  *peers
	events chan tenure.Event
	tell   func(tenure.Event)
	wake   chan struct{} // Asks the loop of package tenure for a pass.
}

// room is for events that have happened during one pass. Whoever has another one waits.
const room = 256

// watchdogWord is the sub-command of this program that is the watchdog.
const watchdogWord = "watchdog"

func connect(
	life context.Context, options Options, supervisor *supervise.Supervisor, lines func([]byte), log logr.Logger,
) (*world, error) {
	w := &world{events: make(chan tenure.Event, room), wake: make(chan struct{}, 1)}
	var err error
	if w.clock, err = newBootClock(); err != nil {
		return nil, err
	}
	// Nothing of the pod's environment reaches PostgreSQL by chance.
	env := []string{"PATH=" + options.Path, "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/tmp"}
	w.real = server.New(server.Place{
		Volume: options.Volume, Runtime: options.Runtime, Settings: options.Settings, App: options.App, TLS: options.TLS,
		Supervisor: supervisor, Env: env, Lines: lines, Fast: options.Fast, Immediate: options.Immediate,
	})
	w.instance = controller.New(w.real.Ports(), controller.Identity{
		Instance: options.Instance, Database: options.Database, Runtime: options.Runtime, Listen: options.Listen,
		Fresh: newID,
	}, log)
	w.guard = &guard{
		supervisor: supervisor, log: log, changed: w.poke,
		// The watchdog has next to nothing to do, and shall need next to nothing for it.
		command: supervise.Command{
			Path: "/proc/self/exe", Args: []string{watchdogWord}, Env: []string{"GOMAXPROCS=1", "GOGC=20"},
			Lines: func(line []byte) { log.Info("hearing the watchdog", "line", string(line)) },
		},
	}
	ports, err := w.ports(life, options, log)
	if err != nil {
		return nil, err
	}
	ports.Fresh = newID
	w.tenure = tenures.New(ports, options.Instance, options.Address, log.WithName("tenure"))
	w.instance.Authority = w.tenure
	return w, w.guard.keep()
}

// newID makes a random id of a copy. It is short, because PostgreSQL cuts the name of a replica, which is that of the
// instance and this, at 63 bytes; of 50 random bits no two copies of one database are the same.
func newID() string { return strings.ToLower(rand.Text()[:10]) }

// ports are those of the loop that decides who the instance is.
func (w *world) ports(life context.Context, options Options, log logr.Logger) (tenure.Ports, error) {
	api, err := options.API.server()
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
	_, port, err := net.SplitHostPort(options.ReportAddress)
	if err != nil {
		return tenure.Ports{}, err
	}
	host := func(instance string) string {
		return fmt.Sprintf("%s-0.%s.%s.svc", instance, child(options.Database, "pods"), options.Namespace)
	}
	w.peers = newPeers(w.real.Mounts.Material, host, port, tell)
	w.peers.known = options.Peers
	wanted := &wishes{read: w.real.Mounts.Settings}
	w.leases = &leases{clock: w.clock, tell: tell, client: &lease.Client{
		Server: api, Namespace: options.Namespace, Name: child(options.Database, "primary"),
		Annotation: wire.AnnotationRecord, Duration: defaultDuration, Now: time.Now,
	}}
	return tenure.Ports{
		Clock: w.clock, Leases: w.leases, Peers: w.peers, Volume: volume{options.Volume}, Watchdog: w.guard,
		Surroundings: &surroundings{
			server: api, namespace: options.Namespace, pod: options.Pod, podUID: options.PodUID,
			name: child(options.Database, "rw"), tell: tell, log: log,
			may: func(term int64) bool { return w.tenure.Leads(term) },
		},
		Wishes: wanted, Server: w.instance,
	}, nil
}

// child names an object of the database as the operator does.
func child(database, role string) string { return names.LetterLabel().Within(52).Child(database, role) }

// poke asks for a pass of the loop of package tenure.
func (w *world) poke() {
	select {
	case w.wake <- struct{}{}:
	default: // One is due already.
	}
}

// run runs both loops. That of package tenure ends first: it gives away what this instance holds. Then the server is
// stopped for good.
func (w *world) run(life context.Context, told <-chan struct{}) error {
	life, end := context.WithCancel(life)
	defer end()
	go w.leases.watch(life)
	go func() {
		for {
			select {
			case <-w.instance.Changed():
				w.poke()
			case <-life.Done():
				return
			}
		}
	}()
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.instance.Run(life, stop) }()
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

func (w *world) servers(log logr.Logger) *servers {
	return &servers{
		state: w.instance.State, now: time.Now, log: log, peers: w.peers,
		ask: func(wish wire.Switchover) { w.tell(tenure.SwitchoverAsked{Switchover: wish}) },
		tenure: func() (tenures.Shown, time.Duration, bool) {
			shown, ok := w.tenure.Shown()
			return shown, w.clock.Now().Since(shown.Snapshot.Now), ok
		},
	}
}

func (w *world) close() {
	w.guard.close()
	w.real.Close()
}

// Environment reads from the pod what the operator has not said.
func (o *Options) Environment(get func(string) string) {
	o.Database, o.Instance = get(wire.EnvDatabase), get(wire.EnvInstance)
	o.Namespace, o.Pod, o.PodUID = get(wire.EnvPodNamespace), get(wire.EnvPodName), get(wire.EnvPodUID)
	o.Address = get(wire.EnvPodIP)
	o.Path = get("PATH")
	o.API = APIOptions{
		Host: get("KUBERNETES_SERVICE_HOST"), Port: get("KUBERNETES_SERVICE_PORT"),
		Folder: "/var/run/secrets/kubernetes.io/serviceaccount",
	}
}
