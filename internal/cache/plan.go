package cache

import (
	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/service"
)

// Plan is what is to be done now. Without actions and holds the cache is as its spec wishes.
type Plan struct {
	Decided
	// Design is what the children are rendered from.
	Design Design `json:"-"`
}

type (
	// Hold is a named reason to wait.
	Hold = service.Hold
	// Weight is what a hold means for the conditions.
	Weight = service.Weight
)

// The weights.
const (
	Progressing = service.Progressing
	Degraded    = service.Degraded
	Stalled     = service.Stalled
	Paused      = service.Paused
)

// Design is what the children are rendered from: the spec, together with what the world has already fixed. It is a pure
// function of a Snapshot.
type Design struct {
	Identity
	Spec   v1alpha1.GeoCacheSpec
	Images Images
	// LeaseUID is the lease that the settings name. Nothing that reads them is made before.
	LeaseUID string
	// ReplicationAlone is what the settings say of the password of replication.
	ReplicationAlone bool
	// Family is that of the write address, such as IPv4, empty while it has none.
	Family string
	// Instances are the names of the wanted instances, by serial number, and Leaving those that exist beside them.
	Instances, Leaving []string
}

// Memory is the memory for data that the design asks for, in bytes.
func (d Design) Memory() int64 {
	if d.Spec.Memory == nil {
		return 0
	}
	return d.Spec.Memory.Value()
}
