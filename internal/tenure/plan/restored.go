package plan

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
)

// ignoreRestoredCopy answers nobody with a copy that may be an older state of the one that was here.
func ignoreRestoredCopy(d *draft.Draft) bool {
	draft.RefuseAll(d, "tenure.count-only-the-own-copy: the copy here was restored, and counts for nothing")
	if d.Ballot != nil {
		d.Do(tenure.Conduct{Why: "tenure.count-only-the-own-copy: the copy here was restored"})
	}
	return false
}

// idleWithARestoredCopy follows nobody, and says which timelines were given out: this copy must not write one of them
// anew, so it is told nothing before that is known.
func idleWithARestoredCopy(d *draft.Draft) bool {
	if !d.Lease.Known || d.Stopping {
		return false
	}
	standing := d.Idle()
	standing.OpenReads = false
	if record := d.Record(); record != nil {
		standing.Timeline = record.Timeline
	}
	d.Obey("tenure.count-only-the-own-copy: the copy was restored, and there is nobody to follow", standing)
	return false
}
