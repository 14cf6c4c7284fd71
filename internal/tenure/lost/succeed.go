package lost

import (
	"reflect"
	"slices"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// Succeed writes the lease anew as the living holder (O1).
func Succeed(d *draft.Draft) bool {
	term, until := d.Promised()
	record := d.Stored.LastRecord
	if !d.Vacant() || d.Write != nil || d.Now >= until || term != d.Stored.HeldTerm || term != d.Stored.MaxTerm ||
		d.Stored.Fence != nil || record == nil || !record.Has(d.Self()) {
		return false
	}
	next := heir(d, *record, termAnew(d), record.Timeline)
	rememberAnew(d, next.Term)
	d.WriteLease(tenure.WriteSucceed, "tenure.succeed-only-with-promises: "+
		"the holder writes its lost lease anew, and W members have promised to let it",
		d.Self(), next)
	return false
}

// termAnew is the next term that this instance has certainly not written before. The same write again has the same one:
// only one of the two can be done.
func termAnew(d *draft.Draft) int64 {
	next, anew := d.Stored.MaxTerm+1, d.Stored.Anew
	switch {
	case anew == nil:
		return next
	case anew.Version == d.Lease.Version && anew.Leases[len(anew.Leases)-1] == d.Lease.UID:
		return max(next, anew.Term)
	}
	return max(next, anew.Term+1)
}

// rememberAnew puts on the volume which lease is written anew, and for which term.
func rememberAnew(d *draft.Draft, term int64) {
	var leases []string
	before := d.Stored.Anew
	if before != nil {
		leases = slices.DeleteFunc(slices.Clone(before.Leases), func(uid string) bool { return uid == d.Lease.UID })
	}
	next := tenure.Anew{Leases: append(leases, d.Lease.UID), Version: d.Lease.Version, Term: term}
	if before == nil || !reflect.DeepEqual(*before, next) {
		d.Store("tenure.succeed-only-with-promises: "+
			"this instance may not hear of what it writes, and others may see it", func(stored *tenure.Stored) {
			stored.Anew = &next
		})
	}
}

// heir is the record that goes into the new lease. It names every lost lease that is known of, here, to the operator,
// and to those who have answered: whoever has obeyed one of them and no later one shall obey this.
func heir(d *draft.Draft, record wire.LeaseRecord, term int64, timeline int) wire.LeaseRecord {
	record.Term, record.Timeline, record.Switchover = term, timeline, nil
	if d.Lease.UID == d.Stored.LeaseUID {
		return record
	}
	lost := slices.Concat(record.Succeeds, d.Lease.Before, []string{d.Stored.LeaseUID})
	if d.Stored.Anew != nil {
		lost = append(lost, d.Stored.Anew.Leases...)
	}
	if d.Ballot != nil {
		for _, answer := range d.Ballot.Answers {
			lost = append(lost, answer.LeaseUID)
		}
	}
	record.Succeeds = nil
	for _, uid := range append(lost, d.Lease.Succeeds) {
		if uid != "" && uid != d.Lease.UID && !slices.Contains(record.Succeeds, uid) {
			record.Succeeds = append(record.Succeeds, uid)
		}
	}
	return record
}
