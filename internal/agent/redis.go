package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/act"
	"meridian.dev/meridian/internal/redis/controller"
	"meridian.dev/meridian/internal/redis/observe"
	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/redis/server"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// CacheOptions are what the pod tells the agent of a cache.
type CacheOptions struct {
	// Cache and Instance are names.
	Cache, Instance string
	// Runtime, Settings, App and TLS are folders; Groups is where control groups are mounted.
	Runtime, Settings, App, TLS, Groups string
	// Port is where the server listens for applications.
	Port int
	// ReportAddress and ProbeAddress are where the agent listens.
	ReportAddress, ProbeAddress string
	// Stop bounds the stop of the server.
	Stop time.Duration
	// Path is where the server's program is looked for.
	Path string
	// Log gets structured lines.
	Log io.Writer
}

// agentMemory is what the agent of a cache should do with. It is a wish: the kernel has the last word.
const agentMemory = 48 << 20

// Check finds what is missing.
func (o CacheOptions) Check() error {
	switch {
	case o.Cache == "" || o.Instance == "":
		return fmt.Errorf("the environment must name the cache (%s) and the instance (%s)", wire.EnvCache, wire.EnvInstance)
	case o.Stop <= 0:
		return errors.New("the bound of a stop must be longer than nothing")
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

	lines := cacheLog(handler.WithAttrs([]slog.Attr{slog.String("instance", options.Instance)}))
	wake := make(chan struct{}, 1)
	world := connectCache(options, supervisor, lines, wake)
	defer world.link.Close()
	loop := world.loop(options, log, wake)

	// A small heap that is collected often leaves the container to the server.
	debug.SetMemoryLimit(agentMemory)
	shown := &voice{state: func() (told, bool) { return toldBy(loop.State()) }, now: time.Now, log: log}
	if err := shown.listen(options.ProbeAddress, options.ReportAddress, world.mounts.Material); err != nil {
		return err
	}
	defer shown.close()

	log.Info("starting the agent", "cache", options.Cache, "pid", os.Getpid())
	// The loop outlives the signal: it is what stops the server.
	err = loop.Run(context.WithoutCancel(ctx), ending.Done())
	log.Info("ending the agent")
	return err
}

// cacheWorld is everything real that the loop stands on.
type cacheWorld struct {
	mounts *server.Mounts
	runner *server.Runner
	link   *server.Link
	room   *server.Room
}

func connectCache(
	options CacheOptions, supervisor *supervise.Supervisor, lines func([]byte), wake chan<- struct{},
) cacheWorld {
	secret := &server.Secret{}
	runner := &server.Runner{
		Supervisor: supervisor, Runtime: options.Runtime, Port: options.Port, Secret: secret, Lines: lines,
		// Nothing of the pod's environment reaches the server by chance.
		Env: []string{"PATH=" + options.Path, "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/tmp"}, Patience: options.Stop,
		Ended: func() {
			select {
			case wake <- struct{}{}:
			default: // A pass is due already.
			}
		},
	}
	return cacheWorld{
		mounts: &server.Mounts{
			SettingsFolder: options.Settings, AppFolder: options.App, TLSFolder: options.TLS,
			Installed: filepath.Join(options.Runtime, render.TLSFolder),
		},
		runner: runner, room: &server.Room{Folder: options.Groups},
		link: &server.Link{Runtime: options.Runtime, Port: options.Port, Secret: secret, Runner: runner},
	}
}

func (w cacheWorld) loop(options CacheOptions, log logr.Logger, wake <-chan struct{}) *controller.Loop {
	return &controller.Loop{
		Observer: &observe.Observer{
			Instance: options.Instance, Cache: options.Cache, Clock: clock{},
			Mounts: w.mounts, Room: w.room, Runner: w.runner, Link: w.link,
		},
		Actor: &act.Actor{
			Mounts: w.mounts, Runner: w.runner, Link: w.link,
			Before: func(action redis.Action) {
				log.Info("carrying out an action", "action", action.Verb(), "why", action.Because())
			},
		},
		Log: log, Wake: wake,
	}
}

func toldBy(state controller.State, ok bool) (told, bool) {
	return told{at: state.At, ready: state.Ready, report: state.Report.Encode}, ok
}

// cacheLog turns the server's log into structured lines.
func cacheLog(handler slog.Handler) func([]byte) {
	handler = handler.WithAttrs([]slog.Attr{slog.String("logger", "server")})
	return func(line []byte) {
		if len(line) == 0 {
			return
		}
		parsed := server.ParseLogLine(line)
		if parsed.Time.IsZero() {
			parsed.Time = time.Now()
		}
		if !handler.Enabled(context.Background(), parsed.Level) {
			return
		}
		// There is nowhere to tell that the log cannot be written.
		_ = handler.Handle(context.Background(), slog.NewRecord(parsed.Time, parsed.Level, parsed.Message, 0))
	}
}
