// Package isolation is about a holder that reaches the API server and no peer. It renews its lease for ever, and
// acknowledges nothing. The others cannot elect while it renews, and it cannot know by itself that they reach each
// other. So they say it where both sides can read: each on its own pod. When so many say it that they can elect, the
// holder gives the lease back.
//
// A slow replica never says so: it takes the log, or its agent hears from the holder. And the holder listens only while
// it has too few replicas to acknowledge anything, so that it never stops writes that go on.
//
// Start reading at ReportALostStream.
package isolation

import (
	"slices"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// mostRetreats bounds the growth of the patience of a holder that was cut off again and again.
const mostRetreats = 5

// ReportALostStream notes since when this replica takes no log of a holder that renews its lease, and calls it
// meanwhile.
func ReportALostStream(d *draft.Draft) bool {
	follows := d.Standing.Role == tenure.RoleFollow && d.Standing.Upstream == d.Lease.Holder && !d.Stopping
	missed := follows && !d.Engine.Streams && d.Engine.Data == tenure.DataWhole && d.FreshFacts() &&
		d.Lease.Failing == nil && !d.Expired() && d.Lease.Record != nil && d.Lease.Record.Has(d.Self())
	switch {
	case missed && d.Missed == nil:
		now := d.Now
		d.Do(tenure.NoteStreamLost{Why: "no log comes from the holder", Since: &now})
	case !missed && d.Missed != nil:
		d.Do(tenure.NoteStreamLost{Why: "this instance streams from the holder, or there is none to stream from"})
	}
	if missed && !d.Recently(*d.Missed, d.Policy.Renew) {
		d.Send("does the holder hear, if its log does not come?", d.Policy.Renew/2, wire.PeerRequest{
			Kind: wire.PeerTell, To: wire.Member{Name: d.Lease.Holder.Name},
		})
	}
	return false
}

// Cut is what the own pod says of the holder: empty if it was heard of not long ago. It is written anew now and
// then, so that the holder can tell that it still holds.
func Cut(d *draft.Draft) string {
	if d.Missed == nil {
		return ""
	}
	heard := *d.Missed
	for _, peer := range d.Peers {
		if peer.Name == d.Lease.Holder.Name {
			heard = max(heard, peer.Heard)
		}
	}
	if d.Recently(heard, d.Policy.Duration/2) {
		return ""
	}
	d.Wait(wire.ReasonCutOff, d.Lease.Holder.Name+" renews its lease, and is not reached from here")
	now := wire.CutOff{Member: d.Self(), Holder: d.Lease.Holder, Term: d.Lease.Term, LeaseVersion: d.Lease.Version}
	before, found := wire.DecodeCutOff(d.Labels.Cut)
	if before.LeaseVersion = now.LeaseVersion; found && before == now && d.Recently(d.Labels.Tried, d.Policy.Duration/2) {
		return d.Labels.Cut
	}
	return now.Encode()
}

// CutOff says that this holder has been without its quorum for long, and that enough members for an election do not
// reach it and reach the API server. Each time in a row it is twice as patient.
func CutOff(d *draft.Draft) bool {
	if d.Lacking == nil || d.Lease.Failing != nil || !d.Holder() || d.Lease.Record.W == 1 || !d.OthersCanElect() {
		return false
	}
	patience := d.Policy.Duration
	if d.Retreated > 0 && d.Now.Since(d.Retreated) < patience<<(mostRetreats+1) {
		patience <<= min(d.Retreats, mostRetreats)
	}
	if d.Recently(*d.Lacking, d.Policy.Duration/2) {
		return false
	}
	askForCuts(d)
	return !d.Recently(*d.Lacking, patience) && Cuts(d) >= d.AnswersNeeded()
}

func askForCuts(d *draft.Draft) {
	if d.Recently(d.CutsTried, d.Policy.Renew) {
		return
	}
	var names []string
	for _, member := range d.Lease.Record.Members {
		if member != d.Self() {
			names = append(names, member.Name)
		}
	}
	d.Do(tenure.ReadCuts{Why: "there are too few replicas: do they say that this instance is cut off?", Instances: names})
}

// Cuts counts the members that say so, of this term and since the quorum is lacking.
func Cuts(d *draft.Draft) int {
	var members []wire.Member
	for _, cut := range d.Cuts {
		if cut.Holder == d.Self() && cut.Term == d.Lease.Term && d.Lease.Record.Has(cut.Member) &&
			tenure.Newer(cut.LeaseVersion, d.LackVersion) && !slices.Contains(members, cut.Member) {
			members = append(members, cut.Member)
		}
	}
	return len(members)
}
