// Package lease is what an agent does about the lease itself: it reads it, remembers what it has said, renews it as its
// holder, and ends a server in time that may lead no more. Start reading at StopLeadingInTime.
package lease

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// StopLeadingInTime is the agent's own care; the watchdog does the same without it.
func StopLeadingInTime(d *draft.Draft) bool {
	if !d.Leads() {
		if d.Guard.Until > 0 {
			// A deadline that is left would end whatever runs here as a replica later.
			d.Do(tenure.Arm{Why: "tenure.stop-at-the-deadline: there is nothing to end any more"})
		}
		return false
	}
	why := mustNotLead(d)
	if why == "" {
		_, until := d.Deadline()
		d.Again(until.Since(d.Now))
		return false
	}
	ends := d.Engine.Processes || d.Engine.Leading != nil || d.Guard.Until > 0
	if ends {
		d.Do(tenure.Arm{Why: why})
	}
	// The server is told to be idle before it is killed: whatever was about to start it as a primary is refused then.
	standing := d.Idle()
	standing.OpenReads, standing.Down = false, d.Stopping
	d.Obey(why, standing)
	if ends {
		d.Do(tenure.Kill{Why: why})
	}
	if d.Yielding != nil {
		d.Do(tenure.Yield{Why: why, Stop: true})
	}
	return false
}

// mustNotLead is why whoever leads here must end, empty if it may go on.
func mustNotLead(d *draft.Draft) tenure.Why {
	term, may := d.MayLead()
	switch {
	case !d.Guard.Alive && d.Engine.Processes:
		return "tenure.stop-at-the-deadline: the watchdog is gone, and nothing would end the server in time"
	case !may && d.LeasesMissed() > 0:
		return "tenure.lead-only-by-right: " +
			"another lease was taken over since this instance has obeyed one, and is lost too"
	case !may && d.Yielding != nil && d.Concerned() && d.Lease.Holder != d.Self():
		return "tenure.lead-only-by-right: the lease was handed over"
	case !may:
		return "tenure.stop-at-the-deadline: the deadline of the lease has passed without a renewal"
	case d.Concerned() && !d.ShowsAnew() && (d.Lease.Term > term || d.Lease.Term == term && d.Lease.Holder != d.Self()):
		return "tenure.lead-only-by-right: the lease names another holder"
	case d.Overtaken(term):
		return "tenure.lead-only-by-right: a later term was seen, so another instance leads or has led since"
	}
	return ""
}

// Blind says that the volume, the settings or the server tell too little to decide anything.
func Blind(d *draft.Draft) bool { return missing(d) != nil }

// missing is what is not known, nil if nothing is.
func missing(d *draft.Draft) *tenure.Hold {
	switch {
	case d.Problem != "":
		return &tenure.Hold{Reason: wire.ReasonTenureUnreadable, Detail: d.Problem, Stalled: true}
	case !d.Policy.Known && d.Stored.LeaseUID == "":
		return &tenure.Hold{Reason: wire.ReasonSettingsUnreadable, Detail: "the settings say nothing of a lease yet"}
	case d.Stored.DatabaseUID != "" && d.Stored.DatabaseUID != d.DatabaseUID:
		return &tenure.Hold{Reason: wire.ReasonVolumeForeign, Stalled: true, Detail: fmt.Sprintf("the volume has obeyed "+
			"the lease of the database with UID %s, and this instance belongs to %s", d.Stored.DatabaseUID, d.DatabaseUID)}
	case !d.Engine.Known || d.Engine.Data == tenure.DataUnknown:
		return &tenure.Hold{
			Reason: wire.ReasonVolumeUnreadable,
			Detail: "what is on the volume was not looked at yet, or cannot be read",
		}
	}
	return nil
}

// WaitForFacts begins nothing, and answers nobody, without the volume or the settings.
func WaitForFacts(d *draft.Draft) bool {
	hold := missing(d)
	if hold == nil {
		return false
	}
	d.Plan.Holds = append(d.Plan.Holds, *hold)
	if hold.Reason == wire.ReasonVolumeUnreadable {
		d.Again(100 * time.Millisecond)
	}
	draft.RefuseAll(d, "this instance does not know its own state yet")
	StopAnyway(d)
	return true
}

// StopAnyway ends a pod that was told to end although nothing is known of the lease: a primary stops in good order, and
// gives nothing away.
func StopAnyway(d *draft.Draft) {
	switch {
	case !d.Stopping:
	case d.Leads():
		d.Obey("the pod ends", d.Ending())
		d.Plan.Finished = !d.Engine.Processes
	default:
		d.Plan.Finished = true
	}
}

// Arm gives the deadline to the watchdog, if it has another one.
func Arm(d *draft.Draft) bool {
	_, until := d.Deadline()
	if !d.Guard.Alive {
		d.Wait(wire.ReasonGateClosed, "the watchdog is not there yet")
		return false
	}
	// A later deadline may come with the next pass, an earlier one may not.
	if ahead := until.Since(d.Guard.Until); ahead < 0 || ahead >= d.Policy.Renew/4 {
		why := tenure.Why("tenure.stop-at-the-deadline: " +
			"the watchdog ends the server at the deadline, whatever becomes of this agent")
		d.Do(tenure.Arm{Why: why, Until: until, Jumped: d.Jumps.Since(0)})
	}
	return true
}
