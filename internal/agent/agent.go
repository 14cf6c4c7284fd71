// Package agent puts together the process that runs as the first one of a database container: the instance loop of
// package postgres, PostgreSQL below it, and the two servers that tell about it. It decides nothing about the
// instance. Start reading at Run.
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
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/act"
	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/postgres/observe"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// Options are what the pod tells the agent.
type Options struct {
	// Database and Instance are names.
	Database, Instance string
	// Volume, Runtime, Settings, App and TLS are folders.
	Volume, Runtime, Settings, App, TLS string
	// ReportAddress and ProbeAddress are where the servers listen.
	ReportAddress, ProbeAddress string
	// Fast and Immediate bound the two ways to stop PostgreSQL. Their sum, and a little, must fit into the grace period
	// of the pod.
	Fast, Immediate time.Duration
	// Path is where PostgreSQL's programs are looked for.
	Path string
	// Log gets structured lines.
	Log io.Writer
}

// Check finds what is missing.
func (o Options) Check() error {
	if o.Database == "" || o.Instance == "" {
		return fmt.Errorf("the environment must name the database (%s) and the instance (%s)",
			wire.EnvDatabase, wire.EnvInstance)
	}
	if o.Fast <= 0 || o.Immediate <= 0 {
		return errors.New("the bounds of a stop must be longer than nothing")
	}
	return nil
}

// Run is the life of the agent. It returns when the pod was told to end and PostgreSQL has stopped.
func Run(ctx context.Context, options Options) error {
	if err := options.Check(); err != nil {
		return err
	}
	handler := slog.NewJSONHandler(options.Log, nil)
	log := logr.FromSlogHandler(handler).WithValues("instance", options.Instance)
	told, forget := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer forget()
	supervisor, err := supervise.New()
	if err != nil {
		return err
	}
	defer supervisor.Close()

	lines := newServerLog(handler.WithAttrs([]slog.Attr{slog.String("instance", options.Instance)}))
	defer lines.flush()
	wake := make(chan struct{}, 1)
	world := connect(options, supervisor, lines.add, wake)
	defer world.link.Close()
	loop := world.loop(options, log, wake)

	shown := &servers{state: loop.State, now: time.Now, log: log}
	if err := shown.listen(options, world.mounts.Material); err != nil {
		return err
	}
	defer shown.close()

	log.Info("starting the agent", "database", options.Database, "pid", os.Getpid())
	// The loop outlives the signal: it is what stops the server.
	err = loop.Run(context.WithoutCancel(ctx), told.Done())
	log.Info("ending the agent")
	return err
}

// world is everything real that the loop stands on.
type world struct {
	disk   *server.Disk
	mounts *server.Mounts
	runner *server.Runner
	link   *server.Link
}

func connect(options Options, supervisor *supervise.Supervisor, lines func([]byte), wake chan<- struct{}) world {
	// Nothing of the pod's environment reaches PostgreSQL by chance.
	env := []string{"PATH=" + options.Path, "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/tmp"}
	disk := &server.Disk{Folder: options.Volume, Supervisor: supervisor, Env: env}
	return world{
		disk: disk,
		mounts: &server.Mounts{
			SettingsFolder: options.Settings, AppFolder: options.App, TLSFolder: options.TLS,
			Installed: filepath.Join(options.Runtime, render.TLSFolder),
		},
		runner: &server.Runner{
			Supervisor: supervisor, Disk: disk, Env: env, Lines: lines, Fast: options.Fast, Immediate: options.Immediate,
			Ended: func() {
				select {
				case wake <- struct{}{}:
				default: // A pass is due already.
				}
			},
		},
		link: &server.Link{Folder: options.Runtime, Port: wire.PortPostgres},
	}
}

func (w world) loop(options Options, log logr.Logger, wake <-chan struct{}) *controller.Loop {
	return &controller.Loop{
		Observer: &observe.Observer{
			Instance: options.Instance, Database: options.Database, Runtime: options.Runtime, Clock: clock{},
			Mounts: w.mounts, Disk: w.disk, Runner: w.runner, SQL: w.link,
		},
		Actor: &act.Actor{
			Disk: w.disk, Mounts: w.mounts, Runner: w.runner, SQL: w.link,
			Incarnation: func() string { return string(uuid.NewUUID()) },
			Before: func(action postgres.Action) {
				log.Info("carrying out an action", "action", action.Verb(), "why", action.Because())
			},
		},
		Log: log, Wake: wake,
	}
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }
