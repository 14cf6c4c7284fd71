package plan

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/follow"
	"meridian.dev/meridian/internal/tenure/lease"
	"meridian.dev/meridian/internal/tenure/lost"
	"meridian.dev/meridian/internal/tenure/route"
	"meridian.dev/meridian/internal/tenure/succession"
	"meridian.dev/meridian/internal/wire"
)

// ignoreRestoredCopy is for a copy that may be an older state of the one that was here (I1). It is not the member
// that it looks like: it answers no election, promises nothing and leads nothing, and what is stored beside it is as
// old. It learns who leads, so that a new copy can be made from there.
func ignoreRestoredCopy(d *draft.Draft) bool {
	if d.Engine.Data != tenure.DataPutBack {
		return false
	}
	draft.RefuseAll(d, "I1: the copy here was put back, and counts for nothing")
	if d.Ballot != nil {
		d.Do(tenure.Conduct{Why: "I1: the copy here was put back"})
	}
	if d.Lost() != "" {
		lost.ReadTheLostLease(d)
		waitPutBack(d)
	} else {
		lease.LearnFromTheLease(d)
		lease.ReadTheLease(d)
		if lease := d.Lease; lease.Exists && lease.Record != nil && lease.Record.Initialised &&
			lease.Holder != (wire.Member{}) && lease.Holder.Name != d.Name && d.Stored.Fence == nil {
			follow.FollowTheHolder(d)
		} else {
			waitPutBack(d)
		}
		route.LabelThePod(d)
	}
	succession.FinishWhenTold(d)
	return true
}

// waitPutBack follows nobody, and says which timelines were given out: this copy must not write one of them anew, so it
// is told nothing before that is known.
func waitPutBack(d *draft.Draft) {
	if !d.Lease.Known || d.Stopping {
		return
	}
	standing := d.Idle()
	standing.OpenReads = false
	if record := d.Record(); record != nil {
		standing.Timeline = record.Timeline
	}
	d.Obey("I1: the copy was put back, and there is nobody to follow", standing)
}
