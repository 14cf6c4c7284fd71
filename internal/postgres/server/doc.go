// Package server is the real world behind the interfaces of package postgres: a volume ([Disk]), mounted objects
// ([Mounts]), PostgreSQL's process ([Runner]) and SQL over its local socket ([session.Link]). It decides nothing.
//
// Every child process is started through one kit/supervise Supervisor, because the agent is process 1 of its
// container and reaps whatever ends there.
//
// Start reading at [Disk.Look].
package server

import (
	"path/filepath"
	"strconv"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server/session"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// Each interface of the loop is met.
var (
	_ postgres.Disk   = (*Disk)(nil)
	_ postgres.Mounts = (*Mounts)(nil)
	_ postgres.Runner = (*Runner)(nil)
	_ postgres.SQL    = (*session.Link)(nil)
	_ postgres.Copies = (*Copies)(nil)
	_ postgres.Probe  = (*session.Probe)(nil)
)

// Place is where everything is.
type Place struct {
	// Volume, Runtime, Settings, App and TLS are folders. Log is another one, empty if the log lies with the data. Host is
	// the name that the certificate of this instance must have, empty for any.
	Volume, Log, Runtime, Settings, App, TLS, Host string
	// Port is PostgreSQL's, 0 for the usual one.
	Port       uint16
	Supervisor *supervise.Supervisor
	// Env is the environment of PostgreSQL and its programs.
	Env []string
	// Lines gets the log of the server.
	Lines func([]byte)
	// Fast and Immediate bound the two ways to stop.
	Fast, Immediate time.Duration
	// Ended is called when the server has ended, from another goroutine.
	Ended func()
}

// World is everything real that the loop stands on.
type World struct {
	Disk   *Disk
	Mounts *Mounts
	Runner *Runner
	Link   *session.Link
	Copies *Copies
	Probe  *session.Probe
}

// New puts it together.
func New(place Place) *World {
	installed := filepath.Join(place.Runtime, render.TLSFolder)
	port := place.Port
	if port == 0 {
		port = wire.PortPostgres
	}
	disk := &Disk{
		Folder: place.Volume, SocketLock: filepath.Join(place.Runtime, ".s.PGSQL."+strconv.Itoa(int(port))+".lock"),
		Supervisor: place.Supervisor, Env: place.Env, Log: place.Log,
	}
	link := func() *session.Link { return &session.Link{Folder: place.Runtime, Port: port, Major: disk.Major} }
	return &World{
		Disk: disk,
		Mounts: &Mounts{
			SettingsFolder: place.Settings, AppFolder: place.App, TLSFolder: place.TLS, Installed: installed, Host: place.Host,
		},
		Runner: &Runner{
			Supervisor: place.Supervisor, Disk: disk, Env: place.Env, Lines: place.Lines, Fast: place.Fast,
			Immediate: place.Immediate, Ended: place.Ended,
		},
		Link: link(),
		Copies: &Copies{
			Supervisor: place.Supervisor, Folder: place.Volume, Env: place.Env, Log: place.Log, Installed: installed,
		},
		Probe: &session.Probe{Link: link()},
	}
}

// Ports returns it as the loop uses it.
func (w *World) Ports() postgres.Ports {
	return postgres.Ports{
		Clock: clock{}, Mounts: w.Mounts, Disk: w.Disk, Runner: w.Runner, SQL: w.Link, Copies: w.Copies, Probe: w.Probe,
		Subscribe: w.Runner.Subscribe,
	}
}

// Close ends what is open.
func (w *World) Close() {
	w.Probe.Close()
	w.Link.Close()
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }
