package cache

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// oldPatience is how long after the end of the lease what is known of the own copy may still come from before it: all
// that has come from the primary is counted by then.
const oldPatience = 2 * time.Second

// RememberAFlush records that the cache was emptied, and where that was among its writes. The user is told only then:
// if the primary is lost before, the next one is asked again.
func RememberAFlush(d *draft.Draft) bool {
	leading, emptied := d.Engine.Leading, d.Engine.Emptied
	if !d.Policy.Volatile || emptied == nil || leading == nil || leading.Term != d.Standing.Term || !d.Holder() ||
		d.Standing.Role != tenure.RoleLead || emptied.Timeline != d.Lease.Record.Timeline {
		return false
	}
	if known := d.Lease.Record.Emptied; known != nil && *known == *emptied {
		return false
	}
	d.Wait(wire.ReasonFlushing, "the cache was emptied, and that is recorded, so that no copy from before leads")
	if d.Write != nil || len(d.Doubts) > 0 || d.Stored.NextRecord != nil || !d.SeenForSure() || d.Lease.Failing != nil {
		return false
	}
	record := *d.Lease.Record
	record.Emptied = emptied
	d.WriteLease(tenure.WriteRecord, "tenure.bring-nothing-back: "+
		"copies from before a flush do not lead", d.Self(), record)
	return false
}

// DropAnOldCopy ends a server whose data must not come back, when nobody leads that could bring it up to date and no
// other instance has a copy that may lead. An empty one is begun in its place as if it had been lost.
func DropAnOldCopy(d *draft.Draft) bool {
	if !d.Policy.Volatile || !d.Predates() || !d.Expired() || d.Holder() || d.Leads() || d.Bound() || d.Stopping ||
		d.Write != nil {
		return false
	}
	d.Wait(wire.ReasonElection, "the copy here is from before the cache was emptied, and does not lead")
	d.AskForCopies(*d.Lease.Record)
	heard := d.HeardOut(*d.Lease.Record)
	if d.Recently(d.Ended(), oldPatience) || someoneHasCopy(d) || !heard || d.Unread(d.Ended()) {
		return false
	}
	standing := d.Idle()
	standing.OpenReads, standing.Down = false, true
	d.Obey("tenure.bring-nothing-back: the copy here is from before the cache was emptied", standing)
	d.Do(tenure.Kill{Why: "tenure.bring-nothing-back: " +
		"the copy here is from before the cache was emptied, and nobody has a later one"})
	return true
}
