package draft

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Holder says that the lease names this very copy.
func (d *Draft) Holder() bool {
	return d.Lease.Exists && d.Lease.Record != nil && d.Self().Incarnation != "" && d.Lease.Holder == d.Self() &&
		d.Lost() == ""
}

// Record is the one to go by: the lease's, or, while that cannot be read or is lost, the one that was acted upon last.
func (d *Draft) Record() *wire.LeaseRecord {
	if d.Lost() == "" && d.Lease.Exists && d.Lease.Record != nil && d.Outdoes(d.Lease.Record) {
		return d.Lease.Record
	}
	return d.Stored.LastRecord
}

// Expired says that nobody has renewed the lease for as long as it lasts by the own clock, or that nobody holds it.
func (d *Draft) Expired() bool {
	return d.Lease.Exists && (d.Lease.Holder == (wire.Member{}) || d.Now.Since(d.Lease.Changed) >= d.Lasts())
}

// Lasts is how long a holder must be silent until the lease has ended for the others.
func (d *Draft) Lasts() time.Duration { return d.Duration() - d.Policy.Head(d.Duration()) }

// Duration is how long the lease and promises last: as the holder has written, or as the own settings say, if that is
// longer. Settings reach the instances one after the other.
func (d *Draft) Duration() time.Duration { return max(d.Policy.Duration, d.Lease.Duration) }

// Overtaken says that a later term than this one was seen which this instance has not written anew itself.
func (d *Draft) Overtaken(term int64) bool {
	anew := d.Stored.Anew
	return d.Stored.MaxTerm > term && (anew == nil || anew.Term != d.Stored.MaxTerm)
}

// ShowsAnew says that the lease shows what this instance has written anew as its holder, before it has heard of that.
func (d *Draft) ShowsAnew() bool {
	anew := d.Stored.Anew
	return anew != nil && d.Lease.Term == anew.Term && d.Lease.Holder == d.Self() &&
		slices.Contains(anew.Leases, d.Lease.UID)
}

// Concerned says that the lease is about whoever leads here: it is the one that this volume obeys, or says that it has
// taken its place. A foreign one ends nobody.
func (d *Draft) Concerned() bool {
	if !d.Lease.Exists || d.Stored.LeaseUID == "" || d.Lease.UID == d.Stored.LeaseUID {
		return d.Lease.Exists
	}
	return d.Lease.Record != nil && slices.Contains(d.Lease.Record.Succeeds, d.Stored.LeaseUID)
}

// Bound says that a promise keeps this instance from answering and standing.
func (d *Draft) Bound() bool {
	return d.Stored.Promise != nil && (d.Stored.Promise.Boot != d.Boot || d.Now < d.Stored.Promise.Until)
}

// NothingInDoubt says that no write of this agent, nor of one that lived here before, can still be done: the lease has
// another version than they demanded, for sure, or an own write has given it the present one (E5).
func (d *Draft) NothingInDoubt() bool {
	if len(d.Doubts) > 0 || d.Write != nil {
		return false
	}
	another := d.Stored.NextVersion != "" && d.Stored.NextVersion != d.Lease.Version
	return d.Ours() || d.Lease.Read > 0 && another
}

// Outdoes says that the record of the lease is at least as new as the one on the volume. A watch that has just begun
// may show an old one of the same term, which the holder must not go by.
func (d *Draft) Outdoes(record *wire.LeaseRecord) bool {
	last := d.Stored.LastRecord
	return !d.Holder() || last == nil || record.Term > last.Term || d.SeenForSure()
}

// Ours says that the present version of the lease comes from an own write.
func (d *Draft) Ours() bool { return d.Right.Term > 0 && d.Right.Term == d.Lease.Term && d.Holder() }

// SeenForSure says that the present version comes from a consistent read or an own write, and not from a watch.
func (d *Draft) SeenForSure() bool { return d.Lease.Read > 0 || d.Ours() }

// Outlived says that a record which this holder has begun to write did not stay: it was never written, or the lease was
// put back to before it. Whoever has seen it takes the one that is there for an old one, so it is written once more, as
// a later one.
func (d *Draft) Outlived() bool {
	next, there := d.Stored.NextRecord, d.Lease.Record
	return next != nil && there != nil && d.Lease.Holder.Name == d.Name && next.Term == d.Lease.Term &&
		next.Revision > there.Revision && d.Lost() == "" && d.NothingInDoubt()
}

// offered is how long the lease shall last. A shorter one comes in steps (C1): the others go by it as soon as they see
// it, and the watchdog by the last renewal that is known to have arrived until it hears of this one, however long the
// agent stands still in between. Whole seconds are what a lease can say.
func (d *Draft) offered() time.Duration {
	if d.Right.Term == 0 {
		return d.Policy.Duration
	}
	left := d.Right.Renewed.Add(d.Right.Duration).Since(d.Now)
	return max(d.Policy.Duration, (left + time.Second - 1).Truncate(time.Second))
}

// Revision is the highest of any record that is known.
func (d *Draft) Revision() int64 {
	var highest int64
	for _, record := range d.Records() {
		highest = max(highest, record.Revision)
	}
	if d.Lease.Record != nil {
		highest = max(highest, d.Lease.Record.Revision)
	}
	return highest
}

// Unread says that no consistent read has shown since the lease ended that nobody holds it (E2), and begins one.
func (d *Draft) Unread(ended tenure.Instant) bool {
	if d.Lease.Read >= ended && d.Lease.Read > 0 {
		return false
	}
	d.Wait(wire.ReasonElection, "the primary is gone, and the lease is read once more before its place is taken")
	if d.Reading == nil && !d.Recently(d.Tried, d.Policy.Renew/4) {
		d.ReadLease("tenure.elect-only-after-the-end: a consistent read must return the same version")
	}
	return true
}

// Ended is since when nobody holds a lease that has expired.
func (d *Draft) Ended() tenure.Instant {
	if d.Lease.Holder == (wire.Member{}) {
		return d.Lease.Changed
	}
	return d.Lease.Changed.Add(d.Lasts())
}
