package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/metrics"
	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/act"
	"meridian.dev/meridian/internal/redis/controller"
	"meridian.dev/meridian/internal/redis/observe"
	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/redis/server"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/status"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// CacheOptions are what the pod tells the agent of a cache. Of Options, Database and Volume are not used.
type CacheOptions struct {
	Options
	// Cache is its name.
	Cache string
	// Groups is where control groups are mounted.
	Groups string
	// Port is where the server listens for applications.
	Port int
	// Stop bounds the stop of the server.
	Stop time.Duration
}

// agentMemory is what the agent of a cache should do with. It is a wish: the kernel has the last word.
const agentMemory = 48 << 20

// Check finds what is missing.
func (o CacheOptions) Check() error {
	switch {
	case o.Cache == "" || o.Instance == "":
		return fmt.Errorf("the environment must name the cache (%s) and the instance (%s)", wire.EnvCache, wire.EnvInstance)
	case o.Namespace == "" || o.Pod == "" || o.Address == "":
		return fmt.Errorf("the environment must name the pod (%s), its namespace (%s) and its address (%s)",
			wire.EnvPodName, wire.EnvPodNamespace, wire.EnvPodIP)
	case o.Stop <= 0:
		return errors.New("the bound of a stop must be positive")
	}
	return nil
}

// RunCache is the life of the agent of a cache. It returns when the pod was told to end and the server has stopped.
func RunCache(ctx context.Context, options CacheOptions) error {
	if err := options.Check(); err != nil {
		return err
	}
	handler := slog.NewJSONHandler(options.Log, nil)
	log := logr.FromSlogHandler(handler).WithValues("instance", options.Instance)
	ending, forget := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer forget()
	supervisor, err := supervise.New()
	if err != nil {
		return err
	}
	defer supervisor.Close()

	// The life of everything below outlasts the signal: what is told to end has something to do first.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	lines := server.Log(handler.WithAttrs([]slog.Attr{slog.String("instance", options.Instance)}))
	world, err := connectCache(life, options, supervisor, lines, log)
	if err != nil {
		return err
	}
	defer world.close()

	// A small heap that is collected often leaves the container to the server.
	debug.SetMemoryLimit(agentMemory)
	shown := world.voice(log)
	if err := shown.listen(options.ProbeAddress, options.ReportAddress, world.mounts.Material); err != nil {
		return err
	}
	defer shown.close()
	slim()

	log.Info("starting the agent", "cache", options.Cache, "pid", os.Getpid())
	err = world.run(life, ending.Done())
	log.Info("ending the agent")
	return err
}

// cacheWorld is both loops of a cache's agent and everything real that they stand on.
type cacheWorld struct {
	*tenancy
	instance *controller.Loop
	mounts   *server.Mounts
	link     *server.Link
	ages     *ageClock
}

func connectCache(
	life context.Context, options CacheOptions, supervisor *supervise.Supervisor, lines func([]byte), log logr.Logger,
) (*cacheWorld, error) {
	w := &cacheWorld{mounts: &server.Mounts{
		SettingsFolder: options.Settings, AppFolder: options.App, TLSFolder: options.TLS,
		Installed: filepath.Join(options.Runtime, render.TLSFolder),
	}}
	secret := &server.Secret{}
	runner := &server.Runner{
		Supervisor: supervisor, Runtime: options.Runtime, Port: options.Port, Secret: secret, Lines: lines,
		// Nothing of the pod's environment reaches the server by chance.
		Env: []string{"PATH=" + options.Path, "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/tmp"}, Patience: options.Stop,
		Ended: func() { w.instance.Wake() }, Instance: options.Instance, Fresh: newID, Listen: options.Listen,
	}
	w.link = &server.Link{Runtime: options.Runtime, Port: options.Port, Secret: secret, Runner: runner}
	w.ages = newAgeClock()
	at := seat{
		Options: options.Options, owner: options.Cache, route: options.Cache, supervisor: supervisor, port: options.Port,
		material: w.mounts.Material, wishes: wishesOf(w.mounts.Settings),
		looked: func() (time.Duration, bool) { state, ok := w.instance.State(); return w.ages.Now().Sub(state.At), ok },
		// A primary that hands over waits for the answer: the last look at the server may be a quarter of a second old.
		asked: func() { w.instance.Wake() },
	}
	// Nothing of a cache outlives its pod, nor does what it knows of the lease: the next pod has another copy.
	at.Volume = options.Runtime
	track := &observe.Track{}
	w.instance = controller.New(&observe.Observer{
		Instance: options.Instance, Cache: options.Cache, Clock: w.ages, Mounts: w.mounts, Track: track,
		Room: &server.Room{Folder: options.Groups}, Runner: runner, Link: w.link,
	}, &act.Actor{
		Mounts: w.mounts, Runner: runner, Link: w.link, Memory: track, Clock: w.ages, Names: finder{at},
		Before: func(action redis.Action) {
			log.Info("carrying out an action", "action", action.Verb(), "why", action.Because())
		},
	}, log)
	at.body = w.instance
	var err error
	if w.tenancy, err = newTenancy(life, at, log); err != nil {
		return nil, err
	}
	w.instance.Actor.Authority = w.tenure
	return w, w.guard.keep()
}

func (w *cacheWorld) close() {
	w.guard.close()
	w.link.Close()
}

// finder finds instances by the name of their pod.
type finder struct{ at seat }

// Find implements redis.Names.
func (f finder) Find(ctx context.Context, instance string) (string, error) {
	if known := f.at.Peers[instance]; known != "" {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, f.at.host(instance))
	if err != nil {
		return "", err
	}
	return addresses[0], nil
}

// wishesOf are those in the settings of a cache. Data in memory waits for no other instance.
func wishesOf(read func() (wire.CacheSettings, error)) *wishes {
	worded := func(settings wire.CacheSettings) wire.Settings {
		return wire.Settings{
			DatabaseUID: settings.CacheUID, LeaseUID: settings.LeaseUID, Instances: settings.Instances,
			LeaseMilliseconds: settings.LeaseMilliseconds, Durability: string(tenure.Async),
		}
	}
	return &wishes{volatile: true, settings: worded(wire.CacheSettings{}), read: func() (wire.Settings, error) {
		settings, err := read()
		return worded(settings), err
	}}
}

// voice tells about both loops of the cache.
func (w *cacheWorld) voice(log logr.Logger) *voice {
	made := &voice{
		now: w.ages.Now, log: log, tenure: w.shown, figures: metrics.Cache(w.report),
		requests: map[string]http.HandlerFunc{"POST " + wire.PathFlush: w.answerFlush},
	}
	made.http.peers = w.peers
	made.state = func() (told, bool) {
		state, ok := w.instance.State()
		return told{at: state.At, ready: state.Ready, report: func() ([]byte, error) {
			return w.complete(state.Report).Encode()
		}}, ok
	}
	return made
}

// report is what both loops have shown last.
func (w *cacheWorld) report() (wire.CacheReport, bool) {
	state, ok := w.instance.State()
	if !ok {
		return wire.CacheReport{}, false
	}
	report := w.complete(state.Report).Canonical()
	return report, report.Check() == nil
}

// complete adds to the report of the server what the agents have agreed on.
func (w *cacheWorld) complete(report wire.CacheReport) wire.CacheReport {
	shown, _, ok := w.shown()
	if !ok {
		return report
	}
	return status.CompleteCache(report, shown.Snapshot, shown.Plan)
}

// answerFlush takes the request: whether it was carried out is in the report.
func (w *cacheWorld) answerFlush(out http.ResponseWriter, in *http.Request) {
	var wish wire.Flush
	decoder := json.NewDecoder(http.MaxBytesReader(out, in.Body, largestMessage))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wish); err != nil || wish.ID == "" {
		http.Error(out, "this is no request to empty a cache", http.StatusBadRequest)
		return
	}
	w.instance.Ask(wish.ID)
	out.WriteHeader(http.StatusAccepted)
}
