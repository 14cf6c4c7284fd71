package plan

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

func same(a, b tenure.Standing) bool {
	return a.Serial == b.Serial && a.Role == b.Role && a.Term == b.Term && a.Timeline == b.Timeline &&
		a.Upstream == b.Upstream && a.UpstreamAddress == b.UpstreamAddress && equal(a.Until, b.Until) &&
		a.Incarnation == b.Incarnation && a.Initialised == b.Initialised && a.SystemIdentifier == b.SystemIdentifier &&
		slices.Equal(a.Members, b.Members) && slices.Equal(a.Setting.Names, b.Setting.Names) &&
		a.Setting.K == b.Setting.K && a.OpenStart == b.OpenStart && a.OpenReads == b.OpenReads &&
		a.Down == b.Down && a.Prepare == b.Prepare && a.Emptied == b.Emptied && a.W == b.W
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// leads says that the server was told to lead, or may still be leading.
func (d *draft) leads() bool {
	return d.Standing.Role == tenure.RoleLead || d.Standing.Role == tenure.RoleYield || d.Engine.Leading != nil
}

// stopLeadingInTime is the agent's own care; the watchdog does the same without it.
func stopLeadingInTime(d *draft) bool {
	if !d.leads() {
		if d.Guard.Until > 0 {
			// A deadline that is left would end whatever runs here as a replica later.
			d.do(tenure.Arm{Why: "C2: there is nothing to end any more"})
		}
		return false
	}
	why := d.mustNotLead()
	if why == "" {
		_, until := d.Deadline()
		d.again(until.Since(d.Now))
		return false
	}
	ends := d.Engine.Processes || d.Engine.Leading != nil || d.Guard.Until > 0
	if ends {
		d.do(tenure.Arm{Why: why})
	}
	// The server is told to be idle before it is killed: whatever was about to start it as a primary is refused then.
	standing := d.idle()
	standing.OpenReads, standing.Down = false, d.Stopping
	d.obey(why, standing)
	if ends {
		d.do(tenure.Kill{Why: why})
	}
	if d.Yielding != nil {
		d.do(tenure.Yield{Why: why, Stop: true})
	}
	return false
}

// mustNotLead is why whoever leads here must end, empty if it may go on.
func (d *draft) mustNotLead() tenure.Why {
	term, may := d.MayLead()
	switch {
	case !d.Guard.Alive && d.Engine.Processes:
		return "C2: the watchdog is gone, and nothing would end the server in time"
	case !may && d.LeasesMissed() > 0:
		return "C3: another lease was taken over since this instance has obeyed one, and is lost too"
	case !may && d.Yielding != nil && d.concerned() && d.Lease.Holder != d.Self():
		return "C3: the place was given away"
	case !may:
		return "C1: the deadline of the lease has passed without a renewal"
	case d.concerned() && !d.showsAnew() && (d.Lease.Term > term || d.Lease.Term == term && d.Lease.Holder != d.Self()):
		return "C3: the lease names another holder"
	case d.overtaken(term):
		return "C3: a later term was seen, so another instance leads or has led since"
	}
	return ""
}

// overtaken says that a later term than this one was seen which this instance has not written anew itself.
func (d *draft) overtaken(term int64) bool {
	anew := d.Stored.Anew
	return d.Stored.MaxTerm > term && (anew == nil || anew.Term != d.Stored.MaxTerm)
}

// showsAnew says that the lease shows what this instance has written anew as its holder, before it has heard of that.
func (d *draft) showsAnew() bool {
	anew := d.Stored.Anew
	return anew != nil && d.Lease.Term == anew.Term && d.Lease.Holder == d.Self() &&
		slices.Contains(anew.Leases, d.Lease.UID)
}

// concerned says that the lease is about whoever leads here: it is the one that this volume obeys, or says that it has
// taken its place. A foreign one ends nobody.
func (d *draft) concerned() bool {
	if !d.Lease.Exists || d.Stored.LeaseUID == "" || d.Lease.UID == d.Stored.LeaseUID {
		return d.Lease.Exists
	}
	return d.Lease.Record != nil && slices.Contains(d.Lease.Record.Succeeds, d.Stored.LeaseUID)
}

func waitForFacts(d *draft) bool {
	switch {
	case d.Problem != "":
		d.stall(wire.ReasonTenureUnreadable, d.Problem)
	case !d.Policy.Known && d.Stored.LeaseUID == "":
		d.wait(wire.ReasonSettingsUnreadable, "the settings say nothing of a lease yet")
	case d.Stored.DatabaseUID != "" && d.Stored.DatabaseUID != d.DatabaseUID:
		d.stall(wire.ReasonVolumeForeign, fmt.Sprintf("the volume has obeyed the lease of the database with UID %s, and "+
			"this instance belongs to %s", d.Stored.DatabaseUID, d.DatabaseUID))
	case !d.Engine.Known || d.Engine.Data == tenure.DataUnknown:
		d.wait(wire.ReasonVolumeUnreadable, "what is on the volume was not looked at yet, or cannot be read")
		d.again(100 * time.Millisecond)
	default:
		return false
	}
	refuseAll(d, "this instance does not know its own state yet")
	d.stopAnyway()
	return true
}

// stopAnyway ends a pod that was told to end although nothing is known of the lease: a primary stops in good order, and
// gives nothing away.
func (d *draft) stopAnyway() {
	switch {
	case !d.Stopping:
	case d.leads():
		d.obey("the pod ends", d.yielding())
		d.plan.Finished = !d.Engine.Processes
	default:
		d.plan.Finished = true
	}
}

func keepPromisesAfterBoot(d *draft) bool {
	promise := d.Stored.Promise
	switch {
	case promise == nil:
	case promise.Boot != d.Boot:
		d.store("the machine was booted since a promise was given, so its end cannot be told: it lasts a whole duration more",
			func(stored *tenure.Stored) {
				longest := max(d.Policy.Duration, promise.Duration)
				stored.Promise = &tenure.Promise{
					Term: promise.Term, Until: d.Now.Add(longest), Boot: d.Boot, Duration: promise.Duration,
				}
			})
	case d.Now < promise.Until:
		d.again(promise.Until.Since(d.Now))
	case !d.Lease.Exists || d.Lease.Problem != "":
		// Elsewhere it goes with what the lease shows. An agent of an earlier version cannot read it.
		d.store("a promise that has ended keeps this instance from nothing", func(stored *tenure.Stored) {
			stored.Promise = nil
		})
	}
	return false
}

// promised says that a promise keeps this instance from answering and standing.
func (d *draft) promised() bool {
	return d.Stored.Promise != nil && (d.Stored.Promise.Boot != d.Boot || d.Now < d.Stored.Promise.Until)
}

// learnFromTheLease keeps on the volume what must not be forgotten: the lease itself, the highest term, and, as the
// holder, the record. It lifts a fence when a consistent read, or an own write, shows another version than the one that
// was answered for.
func learnFromTheLease(d *draft) bool {
	lease := d.Lease
	if !lease.Exists || lease.Problem != "" {
		return false
	}
	want := d.Stored
	want.LeaseUID = lease.UID
	want.MaxTerm = max(want.MaxTerm, lease.Term)
	if last := want.LastRecord; lease.Record != nil && d.outdoes(lease.Record) &&
		(last == nil || !reflect.DeepEqual(*last, *lease.Record)) {
		want.LastRecord = lease.Record
	}
	d.forgetWhatIsOver(&want)
	if term, _ := d.MayLead(); term == lease.Term && d.holder() {
		want.HeldTerm = max(want.HeldTerm, term)
	}
	if d.HeldElsewhere(want.HeldTerm) {
		want.HeldTerm = 0
	}
	if want != d.Stored {
		d.store("F2: what the lease has said is not forgotten", func(stored *tenure.Stored) {
			database := stored.DatabaseUID
			*stored = want
			stored.DatabaseUID = database
		})
	}
	return false
}

// forgetWhatIsOver drops what nothing can come of any more: writes in doubt, promises, a fence.
func (d *draft) forgetWhatIsOver(want *tenure.Stored) {
	if want.NextRecord != nil && d.nothingInDoubt() && !d.outlived() {
		want.NextRecord, want.NextVersion = nil, ""
	}
	if want.Anew != nil && d.seenForSure() && d.Write == nil && len(d.Doubts) == 0 {
		want.Anew = nil
	}
	if want.Promise != nil && !d.promised() {
		want.Promise = nil
	}
	if fence := want.Fence; fence != nil && d.passed(*fence) {
		want.Fence = nil
	}
}

// nothingInDoubt says that no write of this agent, nor of one that lived here before, can still be done: the lease has
// another version than they demanded, for sure, or an own write has given it the present one (E5).
func (d *draft) nothingInDoubt() bool {
	if len(d.Doubts) > 0 || d.Write != nil {
		return false
	}
	another := d.Stored.NextVersion != "" && d.Stored.NextVersion != d.Lease.Version
	return d.ours() || d.Lease.Read > 0 && another
}

// passed says that nothing can come any more of the ballot that a fence is about: its lease has had a newer version.
// A consistent read shows that, or an own write, or the word of the holder that wrote it (see State.told): a member
// that does not reach the API server would stay fenced otherwise, and the new primary closed for want of it. A lease
// that has taken the place of another shows that nothing will ever be written to that one. An older version, by a read
// that began behind the fence, tells that the store of the cluster was put back: the one that was answered for is gone.
func (d *draft) passed(fence tenure.Fence) bool {
	if fence.LeaseUID == d.Lease.UID && d.Lease.Read > d.Fenced && tenure.Newer(fence.Version, d.Lease.Version) {
		return true
	}
	if fence.LeaseUID != d.Lease.UID || d.Lease.Read > 0 && d.Lease.Term > d.Stored.MaxTerm {
		return d.seenForSure() && fence.Version != d.Lease.Version
	}
	return tenure.Newer(d.Lease.Version, fence.Version) && (d.seenForSure() || d.Lease.Vouched)
}

// outdoes says that the record of the lease is at least as new as the one on the volume. A watch that has just begun
// may show an old one of the same term, which the holder must not go by.
func (d *draft) outdoes(record *wire.LeaseRecord) bool {
	last := d.Stored.LastRecord
	return !d.holder() || last == nil || record.Term > last.Term || d.seenForSure()
}

// ours says that the present version of the lease comes from an own write.
func (d *draft) ours() bool { return d.Right.Term > 0 && d.Right.Term == d.Lease.Term && d.holder() }

// seenForSure says that the present version comes from a consistent read or an own write, and not from a watch.
func (d *draft) seenForSure() bool { return d.Lease.Read > 0 || d.ours() }

// readTheLease begins a consistent read where one is due.
func readTheLease(d *draft) bool {
	if d.Reading != nil || d.Write != nil {
		return false
	}
	var why tenure.Why
	switch {
	case !d.Lease.Known:
		why = "the lease was not read yet"
	case d.Lease.Stale > 0:
		why = "E5: there is a sign that the lease has changed"
	case d.Stored.Fence != nil && tenure.Newer(d.Lease.Version, d.Stored.Fence.Version) && !d.passed(*d.Stored.Fence):
		why = "F2: a fence is lifted by a consistent read alone"
	case d.Lease.Failing != nil && !d.holder():
		why = "the API server did not answer"
	case d.Stored.Fence != nil && !d.recently(max(d.Lease.Read, d.Tried), d.lasts()):
		// A watch does not show that the lease was put back, and whoever conducts the election may be gone.
		why = "F2: an election takes long that was answered, and the lease may be another one by now"
	default:
		return false
	}
	if d.Lease.Failing != nil && d.recently(d.Tried, d.Policy.Renew/4) {
		return false
	}
	d.read(why)
	return false
}

// read begins a consistent read, and lets the later rules wait for it.
func (d *draft) read(why tenure.Why) {
	d.do(tenure.ReadLease{Why: why})
}

// recently keeps attempts that fail from following each other at once.
func (d *draft) recently(at tenure.Instant, every time.Duration) bool {
	if at == 0 || d.Now.Since(at) >= every {
		return false
	}
	d.again(every - d.Now.Since(at))
	return true
}
