package service

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// defaultDuration is that of a lease that does not say how long it lasts.
const defaultDuration = 10 * time.Second

// Pulse knows for each lease when this process last saw it change. The times that holders write are those of their own
// clocks, so they say nothing about here and now; a change that arrives does. It is safe for concurrent use.
type Pulse struct {
	// Label is the one by which a lease names the resource that it belongs to.
	Label string

	lock  sync.Mutex
	beats map[types.NamespacedName]beat
}

type beat struct {
	// of is the resource that the lease belongs to.
	of       types.NamespacedName
	uid      types.UID
	version  string
	at       time.Time
	duration time.Duration
	held     bool
	// told is the last silence that was told.
	told silence
}

// silence is for how long nothing was heard.
type silence int

const (
	// late is longer than a holder that is well lets pass between two renewals: a fifth of the duration.
	late silence = iota + 1
	// ended is the whole duration.
	ended
)

func (b beat) silence(now time.Time) silence {
	switch silent := now.Sub(b.at); {
	case !b.held:
		return 0
	case silent > b.duration:
		return ended
	case silent > b.duration/4:
		return late
	}
	return 0
}

// Beat takes note of a lease. It reports whether a silence of it was told before.
func (p *Pulse) Beat(lease *coordinationv1.Lease, now time.Time) (revived bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.beat(lease, now)
}

func (p *Pulse) beat(lease *coordinationv1.Lease, now time.Time) (revived bool) {
	key := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
	last, known := p.beats[key]
	if known && last.uid == lease.UID && last.version == lease.ResourceVersion {
		return false
	}
	if p.beats == nil {
		p.beats = map[types.NamespacedName]beat{}
	}
	next := beat{uid: lease.UID, version: lease.ResourceVersion, at: now, duration: defaultDuration}
	next.of = types.NamespacedName{Namespace: lease.Namespace, Name: lease.Labels[p.Label]}
	if lease.Spec.LeaseDurationSeconds != nil {
		next.duration = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	next.held = lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	p.beats[key] = next
	return known && last.told > 0
}

// Expired says that the lease was not seen to change for its whole duration.
func (p *Pulse) Expired(lease *coordinationv1.Lease, now time.Time) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.beat(lease, now)
	last := p.beats[types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}]
	return last.silence(now) == ended
}

// Forget drops a lease that is gone.
func (p *Pulse) Forget(key types.NamespacedName) {
	p.lock.Lock()
	defer p.lock.Unlock()
	delete(p.beats, key)
}

// Silent returns the resources whose leases since the last call have become late, or have ended: nothing else tells
// that something does not happen. One that is late ends in most cases no more than a pause, but whoever asks its holder
// knows at once.
func (p *Pulse) Silent(now time.Time) []types.NamespacedName {
	p.lock.Lock()
	defer p.lock.Unlock()
	var silent []types.NamespacedName
	for key, last := range p.beats {
		found := last.silence(now)
		if found <= last.told {
			continue
		}
		last.told = found
		p.beats[key] = last
		if last.of.Name != "" { // Leases of other kinds of resources are in the same store.
			silent = append(silent, last.of)
		}
	}
	return silent
}
