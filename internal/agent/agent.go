// Package agent puts together the process that runs as the first one of a database container: the loop of package
// tenure, which decides who the instance is, the loop of package postgres, which makes the server that, the watchdog
// that ends the server in time, and the servers that tell about it and let peers in. It decides nothing about the
// instance. Start reading at Run.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres/journal"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// Options are what the pod tells the agent.
type Options struct {
	// Database and Instance are names, Namespace and Pod where they are.
	Database, Instance, Namespace, Pod, PodUID string
	// Address is where other instances and applications reach this one.
	Address string
	// Volume, Runtime, Settings, App and TLS are folders. LogVolume is another one, empty if the log lies with the data.
	Volume, LogVolume, Runtime, Settings, App, TLS string
	// Backup and Restore have credentials and keys of the repository of backups and of the one that the first data comes
	// from, BackupClaim and RestoreClaim are where these are mounted, if they are on a claim.
	Backup, Restore, BackupClaim, RestoreClaim string
	// ReportAddress and ProbeAddress are where the servers of the agent listen. All agents of a database have the same
	// port. Listen is where PostgreSQL does, empty for everywhere.
	ReportAddress, ProbeAddress, Listen string
	// API is the API server.
	API APIOptions
	// Peers are addresses of instances that are known beforehand, by name. Others are resolved.
	Peers map[string]string
	// Fast and Immediate bound the two ways to stop PostgreSQL. Their sum, and a little, must fit into the grace period
	// of the pod.
	Fast, Immediate time.Duration
	// Path is where PostgreSQL's programs are looked for.
	Path string
	// Log gets structured lines.
	Log io.Writer `json:"-"`
}

// Check finds what is missing.
func (o Options) Check() error {
	if o.Database == "" || o.Instance == "" {
		return fmt.Errorf("the environment must name the database (%s) and the instance (%s)",
			wire.EnvDatabase, wire.EnvInstance)
	}
	if o.Namespace == "" || o.Pod == "" || o.Address == "" {
		return fmt.Errorf("the environment must name the pod (%s), its namespace (%s) and its address (%s)",
			wire.EnvPodName, wire.EnvPodNamespace, wire.EnvPodIP)
	}
	if _, _, err := net.SplitHostPort(o.ReportAddress); err != nil {
		return fmt.Errorf("the address of the report: %w", err)
	}
	if o.Fast <= 0 || o.Immediate <= 0 {
		return errors.New("the bounds of a stop must be positive")
	}
	return nil
}

// slim gives back what only the start has needed: the agent shares its memory with a server that can use it. Collecting
// garbage twice as often costs an agent next to nothing.
func slim() {
	debug.SetGCPercent(50)
	debug.FreeOSMemory()
	_ = supervise.Shed() // Without it the agent is larger, and not worse.
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
	lines := journal.NewLog(handler.WithAttrs([]slog.Attr{slog.String("instance", options.Instance)}))
	defer lines.Flush()

	// The life of everything below outlasts the signal: what is told to end has something to do first.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	world, err := connect(life, options, supervisor, lines.Add, log)
	if err != nil {
		return err
	}
	defer world.close()
	shown := world.servers(log)
	if err := shown.listen(options, world.real.Mounts.Material); err != nil {
		return err
	}
	defer shown.close()
	slim()

	log.Info("starting the agent", "database", options.Database, "pid", os.Getpid())
	err = world.run(life, told.Done())
	log.Info("ending the agent")
	return err
}
