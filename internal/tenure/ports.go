package tenure

import (
	"context"

	"meridian.dev/meridian/internal/wire"
)

// The ports are what the loop stands on. None of them makes a pass wait for the network: what takes long is begun by a
// call and ends in an [Event], which the port hands to the loop at some later moment. So the same loop runs against
// real servers, and in one thread against a simulated world.

// Clock is the clock of deadlines.
type Clock interface {
	// Now is the moment, and Boot the boot that it counts from.
	Now() Instant
	Boot() string
	// Jumps are the times at which the wall clock was seen to jump forward against this one, oldest first: the machine may
	// have stood still, this clock with it (C1).
	Jumps() Jumps
}

// Leases is the lease at the API server.
type Leases interface {
	// Read begins a consistent read. It ends in LeaseRead.
	Read(began Instant)
	// Write begins a conditional write. It ends in LeaseWritten. There is never more than one under way.
	Write(write Write)
	// Get is a consistent read that the caller waits for. It is not for the loop itself.
	Get(ctx context.Context) (View, error)
}

// Peers are the other agents of the database.
type Peers interface {
	// Send begins a request to the instance, at the address if one is known. It ends in PeerReplied or PeerLost.
	Send(request wire.PeerRequest, address string, sent Instant)
	// Reply answers a request that was heard. Nobody may be waiting for it any more.
	Reply(id uint64, reply wire.PeerReply)
	// Decide answers somebody who has asked for a switchover.
	Decide(id uint64, reply wire.SwitchoverReply)
}

// Volume keeps what must outlive the agent.
type Volume interface {
	// Load returns what is stored, and the empty Stored if nothing ever was.
	Load() (Stored, error)
	// Store returns when it is on the volume for good.
	Store(stored Stored) error
}

// Watchdog is the process that ends the server at the deadline.
type Watchdog interface {
	Look() Guard
	// Arm returns when the watchdog has understood.
	Arm(until Instant) error
}

// Surroundings are the objects of the API server that tell others where this instance is.
type Surroundings interface {
	// ReadRoute begins to look where the write address leads, WriteRoute to make it lead somewhere unless a later term
	// has. They end in RouteSeen.
	ReadRoute()
	WriteRoute(address string, term int64)
	// WriteLabels begins to label the own pod, and to annotate it with a wire.CutOff, or none, and with how full its
	// volume is, 0 for nothing worth telling. It ends in Labelled.
	WriteLabels(role string, read bool, cut string, use int)
	// ReadCuts begins to read the same annotation of the pods of other instances. It ends in CutsSeen.
	ReadCuts(instances []string)
}

// Door is the port of the server when that has ended for good.
type Door interface {
	// Usher leads whoever comes on to the same port there, from now on and for as long as the agent lives. It returns at
	// once, and whoever cannot be led on is refused.
	Usher(to string)
}

// Wishes are what the operator wants.
type Wishes interface {
	// Look returns the UID of the database with the policy. Both stay what they were when they cannot be read any more.
	Look() (databaseUID string, policy Policy)
}

// Ports are all of them.
type Ports struct {
	Clock        Clock
	Leases       Leases
	Peers        Peers
	Volume       Volume
	Watchdog     Watchdog
	Surroundings Surroundings
	Door         Door
	Wishes       Wishes
	Server       Server
	// Fresh returns a random id, another one each time.
	Fresh func() string
}
