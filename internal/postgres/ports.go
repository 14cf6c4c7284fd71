package postgres

import (
	"context"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Ports are everything that the loop needs of the world.
type Ports struct {
	Clock  Clock
	Mounts Mounts
	Disk   Disk
	Runner Runner
	SQL    SQL
	Copies Copies
	Probe  Probe
	// Claim tells of the claim of the volume what is known by now, at once, to somebody who has recorded this UID. It may
	// be nil: nothing is known then.
	Claim func(recorded string) Claim
	// ReadClaim reads it now.
	ReadClaim func(context.Context) (Claim, error)
	// Go runs what takes long beside the passes; nil for a goroutine.
	Go func(func())
	// Repository tells what is known of the repository of backups under a standing, at once. It may be nil: there is none.
	Repository func(tenure.Standing) Repository
	// Restores makes the first data out of a repository. It may be nil: there is nobody who can.
	Restores Restores
	// Subscribe asks to be told when the server has ended or has spoken of itself. It may be nil.
	Subscribe func(ended func())
}

// Clock tells the time.
type Clock interface {
	Now() time.Time
}

// Mounts are the objects of the operator that are mounted into the pod.
type Mounts interface {
	// Settings reads the settings that are mounted now.
	Settings() (wire.Settings, error)
	// Certificate identifies the certificate that is mounted, and the copy that PostgreSQL reads.
	Certificate() Certificate
	// InstallCertificate makes that copy, if what is mounted still has this identity.
	InstallCertificate(identity string) error
	// LendKey puts a key and its certificate where the server reads it to take the log from another, under this name, and
	// takes back every other one.
	LendKey(name string) error
	// TakeKeysBack removes them all: from then on nothing new is let in by another server.
	TakeKeysBack() error
	// Logins reads the credentials of the application.
	Logins() (Logins, error)
}

// Logins are the credentials that are mounted.
type Logins struct {
	// Present is the login that applications are told of, Next the one that they are told of next, nil if none is made
	// ready.
	Present Login
	Next    *Login
}

// Login is a name with a password.
type Login struct {
	Name, Password string
	// Rotation tells later credentials from earlier ones.
	Rotation int64
}

// Named reads a name that is none of the two logins as that of the owner: so it was before there were two.
func (l Logins) Named(owner string) Logins {
	if l.Present.Name != wire.OtherLogin {
		l.Present.Name = owner
	}
	if l.Next != nil && l.Next.Name != wire.LoginAfter(l.Present.Name, owner) {
		l.Next = nil
	}
	return l
}

// Latest is the login with the latest credentials.
func (l Logins) Latest() Login {
	if l.Next != nil {
		return *l.Next
	}
	return l.Present
}

// Disk is the volume.
type Disk interface {
	// Look reads the facts about the volume and the data directory.
	Look(ctx context.Context) (Volume, Data)
	// Files reads the configuration files that have these names.
	Files(names []string) ([]File, error)
	// Lock takes the lock of the volume and keeps it for the rest of this process.
	Lock() error
	// WriteRecord replaces the record. When it returns, the record outlives a loss of power.
	WriteRecord(Record) error
	// Initialise makes a data directory beside its place, removing an unfinished one, and moves it there.
	Initialise(ctx context.Context, how Initialise) error
	// WriteFile replaces a configuration file.
	WriteFile(Content) error
	// TightenMode closes the data directory to others.
	TightenMode() error
	// RemovePIDFile removes postmaster.pid.
	RemovePIDFile() error
	// Programs tells about PostgreSQL's programs.
	Programs(ctx context.Context) Programs
	// Position finds how far the copy has come by its log (I3). Nobody may write to the log meanwhile. What lies before
	// from is known to be sound. It may be called from any goroutine.
	Position(from uint64) (tenure.Position, error)
	// Received tells up to where a receiver has flushed the log of a timeline, so that Position need not read that.
	Received(flushed tenure.Position)
	// Upstream writes the file that says whom the server follows. It may be called from any goroutine.
	Upstream(text string) error
	// Standby makes the next start one of a replica, or of a primary. It removes placeholders of timelines that lead
	// nowhere.
	Standby(replica bool) error
	// Reserve takes the numbers of missing timelines below this one, so that a promotion gets exactly it (T1).
	Reserve(timeline int) error
	// Withdraw removes what a promotion to this timeline left that was broken off before its first record, and earlier
	// timelines that come from this copy's and do not begin where it ends.
	Withdraw(timeline int) error
	// History reads the history of a timeline, which must be there.
	History(timeline int) (History, error)
	// SpendReserve gives up what is held back on the volume, KeepReserve holds it back.
	SpendReserve() error
	KeepReserve() error
	// Marked returns the record, and whether a server that runs is, or would start as, a replica. It may be called from
	// any goroutine.
	Marked() (record *Record, replica bool, err error)
}

// Copies makes copies of another server's data. Its methods take long, and may run beside everything but each other.
type Copies interface {
	// Ask asks another server about itself.
	Ask(ctx context.Context, source Source) (Upstream, error)
	// Positions asks a primary how far the replicas are that stream from it.
	Positions(ctx context.Context, source Source) (Positions, error)
	// Gone asks a primary to stream the WAL from the segment of a position on. It returns the end of that segment if the
	// primary has removed it, 0 if it has it.
	Gone(ctx context.Context, source Source, from tenure.Position) (uint64, error)
	// Discard removes the data directory.
	Discard(ctx context.Context) error
	// Clone copies the data of another server beside the place and moves it there. It tells how many bytes are done and
	// how many there are, from any goroutine.
	Clone(ctx context.Context, source Source, progress func(done, total int64)) error
	// Rewind makes the data fit that of another server.
	Rewind(ctx context.Context, source Source) error
}

// Restores makes data directories out of a repository of backups.
type Restores interface {
	// Restore makes one beside its place and moves it there. It demands the lock and an empty place, removes what an
	// earlier try has left, and tells how far it has come from any goroutine.
	Restore(ctx context.Context, how Restore, told func(RestoreProgress)) error
}

// RestoreProgress is how far a restore has come.
type RestoreProgress struct {
	// Done and Total are bytes of the base backup.
	Done, Total int64
	// Step is what is being done, one sentence, with why it waits if it does.
	Step string
}

// RestoreError says why a restore cannot go on by itself: what is asked for, the mounted keys or the repository must
// change. Every other error is of something that may pass.
type RestoreError struct {
	Err error
	// Outside says that the target lies outside of what can be reached.
	Outside bool
}

func (e *RestoreError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *RestoreError) Unwrap() error { return e.Err }

// Source is another server.
type Source struct {
	// Host is the name in its certificate, Address where it is, empty to look the name up.
	Host, Address string
	Port          uint16
	// Instance is who copies.
	Instance string
	// Slot is the place in the log that is kept there for the copy, from before it begins.
	Slot string
	// Timeline is the one that it leads on, or is about to: 0 if it is no primary. A question waits a moment for it.
	Timeline int
}

// NotYetError says that a source has not let anybody in to copy it: nothing was copied, and no copy is damaged.
type NotYetError struct{ Err error }

func (e *NotYetError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *NotYetError) Unwrap() error { return e.Err }

// Probe writes a little, again and again, to a server that leads, in a goroutine of its own.
type Probe interface {
	// Watch says whether there is a server that must be able to write, and by which start.
	Watch(start string)
	// Hung says that it did not for several seconds.
	Hung() bool
}

// Runner is the process of the server.
type Runner interface {
	Look() Process
	// Start starts the server, and remembers the mark of its configuration and the token that it was started by. As what,
	// says the data directory.
	Start(mark, restart string) error
	// Stop ends the server within a bound, whatever sessions are open. A bound of 0 is the usual one.
	Stop(ctx context.Context, within time.Duration) error
	// KillLeftover kills what lives of a server that has ended.
	KillLeftover() error
	// Reload makes the server read its configuration again.
	Reload() error
	// Promote makes a replica a primary.
	Promote() error
	// EndReceiver ends what takes the log of another server, and returns nil only when it is proven to be gone.
	EndReceiver(ctx context.Context) error
	// EndEntering ends sessions that are about to be let in by rules of access that may be old, and returns nil only when
	// they are proven to be gone.
	EndEntering(ctx context.Context) error
	// Kill ends every process at once.
	Kill() error
}

// SQL is what is said to the server over its local socket.
type SQL interface {
	// Server reads what the server says of itself.
	Server(ctx context.Context) Server
	// Application reads what exists for the application.
	Application(ctx context.Context, wanted wire.Settings, logins Logins) Application
	// CreateRole makes the owner's role. The server only ever sees the SCRAM verifier.
	CreateRole(ctx context.Context, login Login) error
	// SetLogin lets a login in with its password, and notes its rotation. One that is not the owner is made, and is the
	// owner in all that it does.
	SetLogin(ctx context.Context, login Login, owner string) error
	CreateDatabase(ctx context.Context, name, owner string) error
	// CreateAgents makes the roles by which the agents of the database reach each other's servers.
	CreateAgents(ctx context.Context) error
	// KeepPlaces makes, advances and removes slots.
	KeepPlaces(ctx context.Context, how KeepPlaces) error
	// EndSessions ends those of applications; EndSenders those with these numbers.
	EndSessions(ctx context.Context) error
	// Drain ends those of applications, waits until they are gone, and flushes what they have written. It returns the end
	// of that. It may run beside everything else.
	Drain(ctx context.Context) (uint64, error)
	EndSenders(ctx context.Context, numbers []int) error
	Checkpoint(ctx context.Context) error
	// LeaveSegment begins another segment of the log.
	LeaveSegment(ctx context.Context) error
	CreateExtension(ctx context.Context, database, name string) error
	UpdateExtension(ctx context.Context, database, name, to string) error
	// GrantExtension lets everybody read what an extension has brought.
	GrantExtension(ctx context.Context, database, name string) error
	// NoteLibraries notes the versions of libraries that a database is written with, in the database itself.
	NoteLibraries(ctx context.Context, database, versions string) error
}
