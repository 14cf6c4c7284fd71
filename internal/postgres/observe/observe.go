// Package observe reads once per pass everything that the plan needs, and interprets it. What cannot be read is a fact
// of the Snapshot, not a failed pass. It writes nothing. Start reading at Observer.Look.
package observe

import (
	"context"
	"fmt"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/wire"
)

// calm is how long what was seen inside the application's database counts as true when nothing gives cause to doubt
// it: looking costs a connection to that database.
const calm = 30 * time.Second

// Observer reads for one instance. It is for one goroutine.
type Observer struct {
	Instance string
	// Database is the name of the GeoDatabase that this pod was made for.
	Database string
	// Runtime is the folder of the socket.
	Runtime string
	Clock   postgres.Clock
	Mounts  postgres.Mounts
	Disk    postgres.Disk
	Runner  postgres.Runner
	SQL     postgres.SQL

	programs postgres.Programs
	inside   inside
	reached  time.Time // When the server was started that has answered last.
	last     postgres.Snapshot
}

// inside is what was seen in the application's database, and for which question.
type inside struct {
	application postgres.Application
	at          time.Time
	settings    string
	password    string
}

// Look makes the snapshot of a pass.
func (o *Observer) Look(ctx context.Context, stopping bool) postgres.Snapshot {
	snapshot := postgres.Snapshot{Now: o.Clock.Now(), Instance: o.Instance, Runtime: o.Runtime, Stopping: stopping}
	snapshot.Process = o.Runner.Look()
	if stopping {
		// Nothing may hold up a pod that ends, so whose it is, is known from before.
		snapshot.Settings, snapshot.Volume, snapshot.Data = o.last.Settings, o.last.Volume, o.last.Data
		return snapshot
	}
	snapshot.Settings = o.settings()
	snapshot.Volume, snapshot.Data = o.Disk.Look(ctx)
	if o.programs.Major == 0 {
		o.programs = o.Disk.Programs(ctx)
	}
	snapshot.Programs = o.programs
	snapshot.Certificate = o.Mounts.Certificate()
	if snapshot.Volume.Problem == "" && snapshot.Data.Presence == postgres.DataPresent {
		files, err := o.Disk.Files(render.Names())
		if err != nil {
			snapshot.Volume.Problem = fmt.Sprintf("read the configuration: %v", err)
		}
		snapshot.Files = files
	}
	if snapshot.Process.Running {
		snapshot.Server = o.SQL.Server(ctx)
	}
	if snapshot.Server.Reachable {
		o.reached = snapshot.Process.Started
	}
	answered := !o.reached.IsZero() && o.reached.Equal(snapshot.Process.Started)
	snapshot.Process.Reached = snapshot.Process.Reached || answered
	snapshot.Application = o.application(ctx, snapshot)
	o.last = snapshot
	return snapshot
}

// settings refuses those of another database by name: the wrong object is mounted then.
func (o *Observer) settings() postgres.Settings {
	settings, err := o.Mounts.Settings()
	switch {
	case err != nil:
		return postgres.Settings{Problem: err.Error()}
	case settings.Database != o.Database:
		return postgres.Settings{Problem: fmt.Sprintf("they are of the database %q, and this pod belongs to %q",
			settings.Database, o.Database)}
	}
	return postgres.Settings{Mounted: &settings}
}

// Doubt makes the next pass look into the application's database again.
func (o *Observer) Doubt() { o.inside = inside{} }

func (o *Observer) application(ctx context.Context, snapshot postgres.Snapshot) postgres.Application {
	settings, known := wanted(snapshot)
	if !snapshot.Server.Reachable || snapshot.Server.Replica || !known {
		o.Doubt()
		return postgres.Application{}
	}
	password, err := o.Mounts.Password()
	hash := settings.Hash()
	fresh := o.inside.application.Known && snapshot.Now.Sub(o.inside.at) < calm && !snapshot.Now.Before(o.inside.at)
	if fresh && err == nil && o.inside.settings == hash && o.inside.password == password {
		return o.inside.application
	}
	seen := o.SQL.Application(ctx, settings, password)
	if err != nil {
		seen.NoPassword = err.Error()
	}
	o.inside = inside{application: seen, at: snapshot.Now, settings: hash, password: password}
	return seen
}

func wanted(snapshot postgres.Snapshot) (wire.Settings, bool) {
	if snapshot.Settings.Mounted != nil {
		return *snapshot.Settings.Mounted, true
	}
	if record := snapshot.Volume.Record; record != nil && record.Settings != nil {
		return *record.Settings, true
	}
	return wire.Settings{}, false
}
