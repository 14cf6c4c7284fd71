package draft

import (
	"fmt"

	"meridian.dev/meridian/internal/database"
)

// AskToYield has a holder that shall leave hand over.
func (d *Draft) AskToYield(holder database.Instance, why string) {
	d.AskFor(database.ForLeaving, holder, why)
}

// AskFor has a holder hand over. The id holds for one term: whoever leads after is asked anew. A holder that has
// refused is asked again after a while.
func (d *Draft) AskFor(purpose database.Purpose, holder database.Instance, why string) {
	id := fmt.Sprintf("%s-%s-%d", purpose, holder.Name, d.Lease.Term)
	if refusal := d.Refusal(id); refusal != nil {
		d.Hold(database.Progressing, Soon, "SwitchoverRefused", fmt.Sprintf(
			"%s is the primary and has to hand over: %s; its agent does not yet: %s", holder.Name, why, refusal.Why))
		if d.Now.Sub(refusal.At) < Later {
			return
		}
	} else {
		d.Hold(database.Progressing, Soon, "PrimaryLeaving", holder.Name+" is the primary and has to hand over: "+why)
	}
	if !d.Stopped && !d.Invalid && d.Lease.Switchover != id {
		ask := database.SwitchOver{For: purpose, Request: id, Target: database.AnyInstance}
		d.SwitchOver(holder, ask, why)
	}
}

// SwitchOver asks the agent of the holder, if it answers and is not written to already.
func (d *Draft) SwitchOver(holder database.Instance, ask database.SwitchOver, why string) {
	if holder.Pod == nil || !holder.Report.Reachable || d.Writes("", holder.Name) {
		return
	}
	ask.Term = d.Lease.Term
	d.Do(database.Action{
		Do: ask, Name: holder.Name, UID: holder.Pod.UID, ResourceVersion: holder.Pod.ResourceVersion, Why: why,
	})
}
