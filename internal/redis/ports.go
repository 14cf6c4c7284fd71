package redis

import (
	"context"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Mounts are the objects of the operator that are mounted into the pod.
type Mounts interface {
	// Settings reads the settings that are mounted now.
	Settings() (wire.CacheSettings, error)
	// Certificate identifies the certificate that is mounted, and the copy that the server reads.
	Certificate() Certificate
	// InstallCertificate makes that copy, if what is mounted still has this identity.
	InstallCertificate(identity string) error
	// Password reads the password of the application.
	Password() (string, error)
}

// Runner is the process of the server.
type Runner interface {
	Look() Process
	Start(StartServer) error
	// Stop ends the server within a bound.
	Stop(ctx context.Context) error
	// KillLeftover kills what lives of a server that has ended.
	KillLeftover() error
}

// Link is what is said to the server in its own protocol, over its local socket.
type Link interface {
	// Server reads what the server says of itself, of these parameters, and of an application with this password.
	Server(ctx context.Context, parameters []string, password string) Server
	// Fixed are the parameters that a server has refused to change while it runs, sorted.
	Fixed() []string
	// Presented identifies the certificate that the server shows to whoever connects.
	Presented(ctx context.Context) (string, error)
	LoadCertificate(ctx context.Context, identity string) error
	SetMemory(ctx context.Context, bytes int64) error
	SetPolicy(ctx context.Context, policy string) error
	// SetParameter remembers a refusal by the server, which is not an error: the server is as it was.
	SetParameter(ctx context.Context, parameter wire.Parameter) error
	ResetParameter(ctx context.Context, name string) error
	OpenDoor(ctx context.Context, password string) error
	ReturnMemory(ctx context.Context) error
}

// Room is the container.
type Room interface {
	// Limit is its memory in bytes, 0 if it has no limit or it is not known.
	Limit() int64
}

// Clock tells the time.
type Clock interface {
	Now() time.Time
}
