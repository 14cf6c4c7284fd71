// Package observe reads once per pass everything that the plan needs, and interprets it. What cannot be read is a fact
// of the Snapshot, not a failed pass. It writes nothing. Start reading at Observer.Look.
package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// calm is how long what was seen inside the application's database counts as true when nothing gives cause to doubt
// it: looking costs a connection to that database.
const calm = 30 * time.Second

// Observer reads for one instance. It is for one goroutine, but for what is told to it.
type Observer struct {
	Instance string
	// Database is the name of the GeoDatabase that this pod was made for.
	Database string
	// Runtime is the folder of the socket. Listen and Port are where the server listens, if not as usual.
	Runtime, Listen string
	Port            uint16
	Ports           postgres.Ports

	programs postgres.Programs
	inside   inside
	reached  time.Time // When the server was started that has answered last.
	last     postgres.Snapshot
	barrier  barrier
	leading  leading
	foreign  foreign
	end      end
	short    short
	silent   silent
	places   places
	ran      ran
	place    end

	mutex     sync.Mutex
	upstream  postgres.Upstream
	led       led
	positions postgres.Positions
	promotion promotion
	trouble   trouble
	rewinding string
	marked    time.Time
	ahead     ahead
	asking    asking
}

// ran is the copy that a start of the server was seen to run on.
type ran struct{ start, incarnation string }

// asking is since when which start has asked to give its place away, and for what.
type asking struct {
	start, token string
	since, last  time.Time
}

// ahead is where the sender was when it last told, by timeline.
type ahead struct {
	timeline int
	lsn      uint64
}

// inside is what was seen in the application's database, and for which question.
type inside struct {
	application postgres.Application
	at          time.Time
	settings    string
	logins      postgres.Logins
}

// leading is where the recovery of a primary had ended, by its start, and in which process, and since when it leads.
type leading struct {
	since     time.Time
	start     string
	process   string
	recovered uint64
}

// end is how far the copy has come while no server runs, for the end of which server.
type end struct {
	key      string
	position *tenure.Position
}

// promotion is how far the copy had come before, of which start, and to which timeline it is.
type promotion struct {
	start    string
	reached  tenure.Position
	timeline int
}

// led is since when an upstream has told that it leads in a term.
type led struct {
	of    wire.Member
	term  int64
	since time.Time
}

// trouble is why the copy shall not lead in a term.
type trouble struct {
	term int64
	text string
}

// Told is what the loop knows before a pass.
type Told struct {
	Stopping bool
	Standing tenure.Standing
	// Fenced is the highest serial number that was fenced.
	Fenced uint64
	Jobs   []postgres.Job
	// Places are how far other members have come.
	Places []tenure.Place
}

// Look makes the snapshot of a pass.
func (o *Observer) Look(ctx context.Context, told Told) postgres.Snapshot {
	snapshot := postgres.Snapshot{
		Now: o.Ports.Clock.Now(), Instance: o.Instance, Database: o.Database, Runtime: o.Runtime, Listen: o.Listen,
		Port: o.Port, Stopping: told.Stopping, Standing: told.Standing, Fenced: told.Fenced, Jobs: told.Jobs,
		Places: told.Places,
	}
	snapshot.Process = o.Ports.Runner.Look()
	if o.Ports.Repository != nil {
		snapshot.Repository = o.Ports.Repository(told.Standing)
	}
	if told.Stopping {
		// Nothing may hold up a pod that ends, so whose it is, is known from before.
		snapshot.Settings, snapshot.Volume, snapshot.Data = o.last.Settings, o.last.Volume, o.last.Data
		return snapshot
	}
	snapshot.Settings = o.settings()
	snapshot.Volume, snapshot.Data = o.Ports.Disk.Look(ctx)
	snapshot.Volume.Claim = o.claim(snapshot.Volume.Record)
	if o.programs.Major == 0 {
		o.programs = o.Ports.Disk.Programs(ctx)
	}
	snapshot.Programs = o.programs
	snapshot.Certificate = o.Ports.Mounts.Certificate()
	if snapshot.Volume.Problem == "" && snapshot.Data.Presence == postgres.DataPresent {
		files, err := o.Ports.Disk.Files(append(render.Names(), render.UpstreamFile))
		if err != nil {
			snapshot.Volume.Problem = fmt.Sprintf("read the configuration: %v", err)
		}
		snapshot.Files = files
	}
	if snapshot.Process.Running {
		snapshot.Server = o.Ports.SQL.Server(ctx)
	}
	if snapshot.Server.Reachable {
		o.reached = snapshot.Process.Started
	}
	answered := !o.reached.IsZero() && o.reached.Equal(snapshot.Process.Started)
	snapshot.Process.Reached = snapshot.Process.Reached || answered
	o.lookAtReplication(&snapshot)
	snapshot.Application = o.application(ctx, snapshot)
	o.last = snapshot
	return snapshot
}

// settings refuses those of another database by name: the wrong object is mounted then.
func (o *Observer) settings() postgres.Settings {
	settings, err := o.Ports.Mounts.Settings()
	switch {
	case err != nil:
		return postgres.Settings{Problem: err.Error()}
	case settings.Database != o.Database:
		return postgres.Settings{Problem: fmt.Sprintf("they are of the database %q, and this pod belongs to %q",
			settings.Database, o.Database)}
	}
	return postgres.Settings{Mounted: &settings}
}

func (o *Observer) claim(record *postgres.Record) postgres.Claim {
	switch {
	case o.Ports.Claim == nil:
		return postgres.Claim{}
	case record == nil:
		return o.Ports.Claim("")
	}
	return o.Ports.Claim(record.ClaimUID)
}

// Doubt makes the next pass look into the application's database again.
func (o *Observer) Doubt() { o.inside = inside{} }

func (o *Observer) application(ctx context.Context, snapshot postgres.Snapshot) postgres.Application {
	settings, known := wanted(snapshot)
	if !snapshot.Server.Reachable || !known {
		o.Doubt()
		return postgres.Application{}
	}
	logins, err := o.Ports.Mounts.Logins()
	logins = logins.Named(settings.Application.Owner)
	hash := settings.Hash()
	fresh := o.inside.application.Known && snapshot.Now.Sub(o.inside.at) < calm && !snapshot.Now.Before(o.inside.at)
	// A login that is made ready is waited for: the operator publishes it when it works.
	ready := o.inside.application.Next == nil || o.inside.application.Next.Works
	if fresh && ready && err == nil && o.inside.settings == hash && same(o.inside.logins, logins) {
		return o.inside.application
	}
	seen := o.Ports.SQL.Application(ctx, settings, logins)
	if err != nil {
		seen.NoPassword = err.Error()
	}
	o.inside = inside{application: seen, at: snapshot.Now, settings: hash, logins: logins}
	return seen
}

func same(a, b postgres.Logins) bool {
	return a.Present == b.Present && (a.Next == nil) == (b.Next == nil) && (a.Next == nil || *a.Next == *b.Next)
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
