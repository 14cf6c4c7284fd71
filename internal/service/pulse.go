package service

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultDuration is that of a lease that does not say how long it lasts.
const defaultDuration = 10 * time.Second

// Pulse knows for each lease when this process last saw it change. The times that holders write are those of their own
// clocks, so they say nothing about here and now; a change that arrives does. A cache that was refused for a while may
// be a minute old, so [Pulse.Refresh] asks the API server before a lease counts as expired. It is safe for concurrent
// use.
type Pulse struct {
	// Label is the one by which a lease names the resource that it belongs to.
	Label string

	lock  sync.Mutex
	beats map[types.NamespacedName]beat
}

type beat struct {
	// of is the resource that the lease belongs to.
	of      types.NamespacedName
	uid     types.UID
	version string
	// instead is the version that a cache showed when this one was read live.
	instead  string
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

// Beat takes note of a lease that a cache shows. It reports whether a silence of it was told before.
func (p *Pulse) Beat(lease *coordinationv1.Lease, now time.Time) (revived bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.beat(lease, now)
}

func (p *Pulse) beat(lease *coordinationv1.Lease, now time.Time) (revived bool) {
	last, known := p.beats[client.ObjectKeyFromObject(lease)]
	if known && (last.shows(lease) || last.isPast(lease)) {
		return false
	}
	p.note(lease, now)
	return known && last.told > 0
}

// shows says that this is the lease that was seen last.
func (b beat) shows(lease *coordinationv1.Lease) bool {
	return b.uid == lease.UID && b.version == lease.ResourceVersion
}

// isPast says that a newer version was seen before, or another one in its place: what shows this one is behind.
func (b beat) isPast(lease *coordinationv1.Lease) bool {
	if b.instead != "" && b.instead == lease.ResourceVersion {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, b.version)
	return err == nil && order < 0
}

// note takes a lease for what there is now.
func (p *Pulse) note(lease *coordinationv1.Lease, now time.Time) {
	if p.beats == nil {
		p.beats = map[types.NamespacedName]beat{}
	}
	next := beat{uid: lease.UID, version: lease.ResourceVersion, at: now, duration: defaultDuration}
	next.of = types.NamespacedName{Namespace: lease.Namespace, Name: lease.Labels[p.Label]}
	if lease.Spec.LeaseDurationSeconds != nil {
		next.duration = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	next.held = lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	p.beats[client.ObjectKeyFromObject(lease)] = next
}

// Refresh puts the lease as it is now in the place of one that a cache has shown, if that cannot be believed: it seems
// to have expired, or another one was read in its place before. It reports whether the lease is still there. The clock
// is asked after the read, which a pass may have begun long before. Nil believes all.
func (p *Pulse) Refresh(
	ctx context.Context, live client.Reader, lease *coordinationv1.Lease, clock func() time.Time,
) (found bool, err error) {
	if p == nil {
		return true, nil
	}
	seen, doubted := p.doubts(lease, clock())
	if !doubted {
		return true, nil
	}
	key := client.ObjectKeyFromObject(lease)
	var fresh coordinationv1.Lease
	switch err := live.Get(ctx, key, &fresh); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get Lease %s: %w", key.Name, err)
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	// Whatever its version is: versions go back where the store of the cluster was put back. What a cache has shown
	// while it was read is newer.
	if p.beats[key].version == seen && !p.beats[key].shows(&fresh) {
		p.note(&fresh, clock())
	}
	if last := p.beats[key]; last.shows(&fresh) && !last.shows(lease) {
		last.instead = lease.ResourceVersion
		p.beats[key] = last
	}
	fresh.DeepCopyInto(lease)
	return true, nil
}

// doubts says whether a lease of a cache cannot be believed, and which version was seen last.
func (p *Pulse) doubts(lease *coordinationv1.Lease, now time.Time) (seen string, doubted bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.beat(lease, now)
	last := p.beats[client.ObjectKeyFromObject(lease)]
	return last.version, last.isPast(lease) || last.silence(now) == ended
}

// Expired says that the lease was not seen to change for its whole duration. [Pulse.Refresh] comes before.
func (p *Pulse) Expired(lease *coordinationv1.Lease, now time.Time) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.beat(lease, now)
	return p.beats[client.ObjectKeyFromObject(lease)].silence(now) == ended
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
