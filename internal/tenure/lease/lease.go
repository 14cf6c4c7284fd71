package lease

import (
	"reflect"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
)

// LearnFromTheLease keeps on the volume what must not be forgotten: the lease itself, the highest term, and, as the
// holder, the record. It lifts a fence when a consistent read, or an own write, shows another version than the one that
// was answered for.
func LearnFromTheLease(d *draft.Draft) bool {
	lease := d.Lease
	if !lease.Exists || lease.Problem != "" {
		return false
	}
	want := d.Stored
	want.LeaseUID = lease.UID
	want.MaxTerm = max(want.MaxTerm, lease.Term)
	if last := want.LastRecord; lease.Record != nil && d.Outdoes(lease.Record) &&
		(last == nil || !reflect.DeepEqual(*last, *lease.Record)) {
		want.LastRecord = lease.Record
	}
	forgetWhatIsOver(d, &want)
	if term, _ := d.MayLead(); term == lease.Term && d.Holder() {
		want.HeldTerm = max(want.HeldTerm, term)
	}
	if d.HeldElsewhere(want.HeldTerm) {
		want.HeldTerm = 0
	}
	if want != d.Stored {
		d.Store("tenure.lift-a-fence-only-by-a-read: "+
			"what the lease has said is not forgotten", func(stored *tenure.Stored) {
			database := stored.DatabaseUID
			*stored = want
			stored.DatabaseUID = database
		})
	}
	return false
}

// forgetWhatIsOver drops what nothing can come of any more: writes in doubt, promises, a fence.
func forgetWhatIsOver(d *draft.Draft, want *tenure.Stored) {
	if want.NextRecord != nil && d.NothingInDoubt() && !d.Outlived() {
		want.NextRecord, want.NextVersion = nil, ""
	}
	if want.Anew != nil && d.SeenForSure() && d.Write == nil && len(d.Doubts) == 0 {
		want.Anew = nil
	}
	if want.Promise != nil && !d.Bound() {
		want.Promise = nil
	}
	if fence := want.Fence; fence != nil && passed(d, *fence) {
		want.Fence = nil
	}
}

// passed says that nothing can come any more of the ballot that a fence is about: its lease has had a newer version.
// A consistent read shows that, or an own write, or the word of the holder that wrote it (see State.told): a member
// that does not reach the API server would stay fenced otherwise, and the new primary closed for want of it. A lease
// that has taken the place of another shows that nothing will ever be written to that one. An older version, by a read
// that began behind the fence, tells that the store of the cluster was put back: the one that was answered for is gone.
func passed(d *draft.Draft, fence tenure.Fence) bool {
	if fence.LeaseUID == d.Lease.UID && d.Lease.Read > d.Fenced && tenure.Newer(fence.Version, d.Lease.Version) {
		return true
	}
	if fence.LeaseUID != d.Lease.UID || d.Lease.Read > 0 && d.Lease.Term > d.Stored.MaxTerm {
		return d.SeenForSure() && fence.Version != d.Lease.Version
	}
	return tenure.Newer(d.Lease.Version, fence.Version) && (d.SeenForSure() || d.Lease.Vouched)
}

// ReadTheLease begins a consistent read where one is due.
func ReadTheLease(d *draft.Draft) bool {
	if d.Reading != nil || d.Write != nil {
		return false
	}
	var why tenure.Why
	switch {
	case !d.Lease.Known:
		why = "the lease was not read yet"
	case d.Lease.Stale > 0:
		why = "tenure.forget-no-write-in-doubt: there is a sign that the lease has changed"
	case d.Stored.Fence != nil && tenure.Newer(d.Lease.Version, d.Stored.Fence.Version) && !passed(d, *d.Stored.Fence):
		why = "tenure.lift-a-fence-only-by-a-read: a fence is lifted by a consistent read alone"
	case d.Lease.Failing != nil && !d.Holder():
		why = "the API server did not answer"
	case d.Stored.Fence != nil && !d.Recently(max(d.Lease.Read, d.Tried), d.Lasts()):
		// A watch does not show that the lease was put back, and whoever conducts the election may be gone.
		why = "tenure.lift-a-fence-only-by-a-read: " +
			"an election takes long that was answered, and the lease may be another one by now"
	default:
		return false
	}
	if d.Lease.Failing != nil && d.Recently(d.Tried, d.Policy.Renew/4) {
		return false
	}
	d.ReadLease(why)
	return false
}

// RenewTheLease renews as long as this copy is the holder, whether it leads already or comes back: a successful
// conditional write is what lets it lead (C3). A write in doubt is settled by the same: either the renewal is done and
// the other one never will be, or the other way round.
func RenewTheLease(d *draft.Draft) bool {
	if !d.Holder() || d.Write != nil || d.Stopping && d.Standing.Role == tenure.RoleIdle && d.Yielding == nil {
		return false
	}
	// Whoever gives the lease back does not renew it.
	if d.Engine.Data == tenure.DataChanging || d.Now < d.Rest && d.OthersCanElect() {
		return false
	}
	due := d.Right.Renewed.Add(d.Policy.Renew)
	// A right from before a jump of the wall clock may be older than it looks (C1).
	if d.Right.Term != d.Lease.Term || len(d.Doubts) > 0 || d.Jumps.Since(d.Right.Renewed) > 0 {
		due = 0
	}
	if d.Now < due {
		d.Again(due.Since(d.Now))
		return false
	}
	if d.Lease.Stale > 0 && d.Reading != nil || d.Lease.Failing != nil && d.Recently(d.Tried, d.Policy.Renew/4) {
		return false
	}
	if d.Outlived() {
		why := tenure.Why("tenure.obey-only-a-successor: " +
			"others may have seen the record that did not stay, and obey none before it")
		d.WriteLease(tenure.WriteRecord, why, d.Self(), *d.Lease.Record)
		return false
	}
	d.WriteLease(tenure.WriteRenew, "the holder stays", d.Self(), *d.Lease.Record)
	return false
}
