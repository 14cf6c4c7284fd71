package postgres

import (
	"context"
	"time"

	"meridian.dev/meridian/internal/wire"
)

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
	// Password reads the password of the application.
	Password() (string, error)
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
}

// Runner is the process of the server.
type Runner interface {
	Look() Process
	// Start starts the server, and remembers the mark of its configuration.
	Start(mark string) error
	// Stop ends the server within a bound, whatever sessions are open.
	Stop(ctx context.Context) error
	// KillLeftover kills what lives of a server that has ended.
	KillLeftover() error
	// Reload makes the server read its configuration again.
	Reload() error
}

// SQL is what is said to the server over its local socket.
type SQL interface {
	// Server reads what the server says of itself.
	Server(ctx context.Context) Server
	// Application reads what exists for the application.
	Application(ctx context.Context, wanted wire.Settings, password string) Application
	// CreateRole makes the role. The server only ever sees the SCRAM verifier.
	CreateRole(ctx context.Context, name, password string) error
	// SetPassword changes the password of a role that exists.
	SetPassword(ctx context.Context, name, password string) error
	CreateDatabase(ctx context.Context, name, owner string) error
	CreateExtension(ctx context.Context, database, name string) error
	UpdateExtension(ctx context.Context, database, name, to string) error
}
