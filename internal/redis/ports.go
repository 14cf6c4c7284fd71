package redis

import (
	"context"
	"errors"
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
	// Passwords reads those that are mounted, and remembers those before for a while.
	Passwords() (Passwords, error)
}

// Runner is the process of the server.
type Runner interface {
	Look() Process
	Start(StartServer) error
	// Stop ends the server within a bound.
	Stop(ctx context.Context) error
	// Kill ends every process of the server at once.
	Kill() error
	// KillLeftover kills what lives of a server that has ended.
	KillLeftover() error
}

// Link is what is said to the server in its own protocol, over its local socket. But for those of Replicas, its methods
// are for one goroutine.
type Link interface {
	Replicas
	// Server reads what the server says of itself, of these parameters, and of who can log in.
	Server(ctx context.Context, parameters []string, logins Logins) Server
	// Fixed are the parameters that a server has refused to change while it runs, sorted.
	Fixed() []string
	// Presented identifies the certificate that the server shows to whoever connects.
	Presented(ctx context.Context) (string, error)
	LoadCertificate(ctx context.Context, identity string) error
	SetMemory(ctx context.Context, bytes int64) error
	// SetWaiting sets how much may wait for a replica.
	SetWaiting(ctx context.Context, bytes int64) error
	SetPolicy(ctx context.Context, policy string) error
	// SetParameter remembers a refusal by the server, which is not an error: the server is as it was.
	SetParameter(ctx context.Context, parameter wire.Parameter) error
	ResetParameter(ctx context.Context, name string) error
	// OpenDoor lets the application in, with these passwords and no others, and with scripts or without.
	OpenDoor(ctx context.Context, logins Logins) error
	// CloseDoor keeps applications out, those that are connected too.
	CloseDoor(ctx context.Context) error
	ReturnMemory(ctx context.Context) error
	// Flush forgets all keys.
	Flush(ctx context.Context) error
	// HearReplicas has the replicas say how far they have come, and returns when one has, or after a moment.
	HearReplicas(ctx context.Context) error
	// End has the server send on what it has written, and end at once.
	End(ctx context.Context) error
	// Far asks the server of another copy how far it has come, and tells that later, from any goroutine. The error is
	// ErrUnasked if that server understands and does not say.
	Far(upstream wire.Member, host string, logins Logins, tell func(offset int64, err error))
}

// ErrUnasked is what a server of before this question says.
var ErrUnasked = errors.New("the server does not say how far it has come")

// Replicas is what is said to the server about whom it follows and who follows it. It may be said from any goroutine.
type Replicas interface {
	// Replication reads it.
	Replication(ctx context.Context) (Replication, error)
	// Follow has the server follow the copy at an address, with a password of replication.
	Follow(ctx context.Context, upstream wire.Member, address, password string) error
	// Detach has it follow nobody and stay a replica.
	Detach(ctx context.Context) error
	// Promote makes it a primary.
	Promote(ctx context.Context) error
	// Admit lets replicas of this copy in that know a password of replication, and no others.
	Admit(ctx context.Context, incarnation string, logins Logins) error
}

// Room is the container.
type Room interface {
	// Limit is its memory in bytes, 0 if it has no limit or it is not known.
	Limit() int64
}

// Names finds the address of an instance by its name.
type Names interface {
	Find(ctx context.Context, instance string) (string, error)
}

// Clock tells the time.
type Clock interface {
	Now() time.Time
}
