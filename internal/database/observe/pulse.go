package observe

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
	lock  sync.Mutex
	beats map[types.NamespacedName]beat
}

type beat struct {
	uid      types.UID
	version  string
	at       time.Time
	duration time.Duration
	held     bool
	// told says that the end was told already.
	told bool
}

// Beat takes note of a lease. It reports whether the lease had been silent beyond its end.
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
	if lease.Spec.LeaseDurationSeconds != nil {
		next.duration = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	next.held = lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	p.beats[key] = next
	return known && last.told
}

// Expired says that the lease was not seen to change for its whole duration.
func (p *Pulse) Expired(lease *coordinationv1.Lease, now time.Time) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.beat(lease, now)
	last := p.beats[types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}]
	return last.held && now.Sub(last.at) > last.duration
}

// Forget drops a lease that is gone.
func (p *Pulse) Forget(key types.NamespacedName) {
	p.lock.Lock()
	defer p.lock.Unlock()
	delete(p.beats, key)
}

// Silent returns the leases that have ended since the last call: nothing else tells that something does not happen.
func (p *Pulse) Silent(now time.Time) []types.NamespacedName {
	p.lock.Lock()
	defer p.lock.Unlock()
	var ended []types.NamespacedName
	for key, last := range p.beats {
		if last.held && !last.told && now.Sub(last.at) > last.duration {
			last.told = true
			p.beats[key] = last
			ended = append(ended, key)
		}
	}
	return ended
}
