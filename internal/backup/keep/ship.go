package keep

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/ship"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/postgres/wal"
	"meridian.dev/meridian/internal/wire"
)

// shipping is what is known of shipping.
type shipping struct {
	// office is whose shipping it was, confirmed up to where the repository has the log, holds why nothing is shipped.
	office    string
	confirmed backup.LSN
	holds     []plan.Hold
	// until is the moment up to which everything that was flushed here is in the repository.
	until   time.Time
	samples []sample
	// complete says that nothing was left to ship, newest which timeline the repository knew of then.
	complete bool
	newest   int
}

// sample says how far the log was at a moment.
type sample struct {
	at      time.Time
	flushed backup.LSN
}

// mostSamples bounds them; half of them are dropped then.
const mostSamples = 512

// note remembers how far the log is now, for how old that is which was not shipped yet.
func (s *shipping) note(now time.Time, at Copy) {
	if !at.Leads {
		s.samples = nil
		return
	}
	if last := len(s.samples) - 1; last < 0 || s.samples[last].flushed < at.Flushed {
		s.samples = append(s.samples, sample{now, at.Flushed})
	}
	if len(s.samples) > mostSamples {
		kept := s.samples[:0]
		for index, found := range s.samples {
			if index%2 == 0 {
				kept = append(kept, found)
			}
		}
		s.samples = kept
	}
}

// confirm drops the samples that are in the repository.
func (s *shipping) confirm(lsn backup.LSN) {
	for len(s.samples) > 0 && s.samples[0].flushed <= lsn {
		s.samples = s.samples[1:]
	}
}

// behind is for how long the oldest log has waited that is not in the repository.
func (s *shipping) behind(now time.Time) time.Duration {
	if len(s.samples) == 0 {
		return 0
	}
	return now.Sub(s.samples[0].at)
}

// mostAtOnce is how many objects a pass of shipping writes.
const mostAtOnce = 16

// ship ships once.
func (k *Keeper) ship(ctx context.Context, settings wire.BackupSettings, now Copy) error {
	size, err := wal.SegmentSize(k.Folder)
	if err != nil {
		return err
	}
	owner := k.owner(settings, now, size)
	history, err := wal.ReadHistory(k.Folder, now.Timeline)
	if err != nil {
		return err
	}
	opened, err := k.Open(settings.Repository, root(settings))
	if err != nil {
		return err
	}
	if purpose := fmt.Sprintf("%s %+v %s", opened.Root, owner, describe(settings.Repository)); k.shipsFor != purpose {
		k.shipper, k.shipsFor, k.contacted = nil, purpose, ""
	}
	if now.Leads && k.contacted != k.shipsFor {
		if err := store.Contact(ctx, opened.Store, opened.Root+"contact/"+strings.ToLower(rand.Text())); err != nil {
			return err
		}
		k.contacted = k.shipsFor
	}
	if k.shipper != nil && !now.Leads && k.shipper.Newest() < now.Line {
		k.shipper.Forget() // Another has begun a timeline, and what this one has to fill in is seen from its history.
	}
	if k.shipper == nil {
		k.shipper = &ship.Shipper{Most: mostAtOnce, Progress: func() { k.move(partShip) }, Now: k.Now}
	}
	k.shipper.Repository, k.shipper.Log = opened, ship.Folder{Path: k.Folder, Owner: owner}
	begun := k.Now()
	result, err := k.shipper.Pass(ctx, plan.Facts{
		Owner: owner, Term: now.Term, Leads: now.Leads, Instance: k.Instance, History: history, Flushed: now.Flushed,
	})
	if err != nil {
		k.shipper.Forget() // What is remembered may be wrong: a listing tells.
	}
	k.shipped(now, result, begun, err)
	return err
}

// shipped notes what came of a pass.
func (k *Keeper) shipped(now Copy, result ship.Result, begun time.Time, err error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	office := plan.Office(now.Leads, now.Term)
	if k.shipping.office != office {
		k.shipping = shipping{office: office, samples: k.shipping.samples}
	}
	k.shipping.confirmed = max(k.shipping.confirmed, result.Confirmed)
	k.shipping.confirm(k.shipping.confirmed)
	if err != nil {
		return
	}
	k.shipping.holds, k.shipping.complete = result.Holds, !result.More && len(result.Holds) == 0
	k.shipping.newest = result.Newest
	if result.Confirmed >= now.Flushed && len(result.Holds) == 0 {
		k.shipping.until = begun
	}
	if stored := k.reading.stored; result.Gaps > 0 && stored != nil {
		stored.Stale = true
	}
}

func (k *Keeper) owner(settings wire.BackupSettings, now Copy, size uint64) backup.Owner {
	owner := backup.Owner{
		DatabaseUID: settings.DatabaseUID, Namespace: settings.Namespace, Name: settings.Database,
		SystemIdentifier: now.SystemIdentifier, SegmentSize: size, Major: now.Major,
	}
	if k.Application != nil {
		owner.Application, owner.ApplicationOwner = k.Application()
	}
	return owner
}

// describe tells one repository from another. It has no secret: the settings have none.
func describe(repository wire.Repository) string {
	switch {
	case repository.S3 != nil:
		return fmt.Sprintf("s3 %+v", *repository.S3)
	case repository.GCS != nil:
		return fmt.Sprintf("gcs %+v", *repository.GCS)
	case repository.Azure != nil:
		return fmt.Sprintf("azure %+v", *repository.Azure)
	}
	return fmt.Sprintf("claim %+v", repository.Claim)
}

// Confirmed is up to where the repository has the log of the primary of a term, 0 while that is not known here. Wanted
// says that there is a repository.
func (k *Keeper) Confirmed(term int64) (wanted bool, lsn uint64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.settings == nil || k.shipping.office != plan.Office(true, term) {
		return k.settings != nil, 0
	}
	return true, uint64(k.shipping.confirmed)
}

// returnPatience is how long the removal of a copy waits until what it alone may have is shipped, and awayPatience the
// same while the repository does not answer: writes may wait for the copy meanwhile.
const (
	returnPatience = 2 * time.Minute
	awayPatience   = 15 * time.Second
)

// Unshipped says that this instance, which follows the primary of a term on a timeline, has not looked yet whether the
// repository lacks log that it has, or has not shipped it yet (K4). Whoever is about to remove the copy waits for that,
// but not for ever. Where the fork is, is known only when the repository has the history of the new timeline.
func (k *Keeper) Unshipped(term int64, timeline int) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.settings == nil {
		return false
	}
	if k.asked.term != term {
		k.asked.term, k.asked.at = term, k.Now()
	}
	looked := k.shipping.office == plan.Office(false, term) && k.shipping.complete && k.shipping.newest >= timeline
	patience := returnPatience
	if ship := k.works[partShip]; ship != nil &&
		(ship.Failures > 0 || ship.Running && k.Now().Sub(ship.moved) > awayPatience) {
		patience = awayPatience
	}
	return !looked && k.Now().Sub(k.asked.at) < patience
}
