package plan

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/database"
)

// requestPatience is how long a requested switchover may take until it is given up.
const requestPatience = time.Minute

// carryOutRequest brings a user's request for another primary to its end: it is written down, handed to the agent of
// the holder, and taken away when the primary has changed, or will not.
func carryOutRequest(d *draft) {
	request := d.Request
	if request == nil || d.writes("", d.Name) {
		return
	}
	holder, _ := d.Instance(d.Lease.Holder)
	refusal := d.Refusal(request.ID)
	switch {
	case request.Since.IsZero():
		d.beginRequest(*request)
	case d.Lease.Term > request.Term && (d.Lease.Holder == request.Target || request.Target == database.AnyInstance):
		d.endRequest("SwitchoverDone", d.Lease.Holder+" is the primary now")
	case d.Lease.Term > request.Term && d.Lease.Holder != "":
		d.endRequest("SwitchoverRefused", fmt.Sprintf("%s has become the primary instead of %s", d.Lease.Holder,
			request.Target))
	case refusal != nil && !refusal.At.Before(request.Since):
		d.endRequest("SwitchoverRefused", refusal.Why)
	case d.Now.Sub(request.Since) > requestPatience:
		d.endRequest("SwitchoverRefused", "it was not carried out within "+requestPatience.String())
	default:
		d.hold(database.Progressing, time.Second, "SwitchingOver", "another primary was asked for: "+request.Target)
		if d.Lease.Switchover != request.ID {
			ask := database.SwitchOver{For: database.ForRequest, Request: request.ID, Target: request.Target}
			d.switchOver(holder, ask, "a user asks for another primary")
		}
	}
}

func (d *draft) beginRequest(request database.Request) {
	if request.Target == d.Lease.Holder {
		d.endRequest("SwitchoverDone", request.Target+" is the primary already")
		return
	}
	if why := d.refusal(request.Target); why != "" {
		d.endRequest("SwitchoverRefused", why)
		return
	}
	d.change(database.Action{
		Do: database.NoteRequest{Request: request.ID, Target: request.Target, Term: d.Lease.Term}, Name: d.Name,
		Why: "a user asks for another primary: " + request.Target,
	})
}

// refusal says why a target cannot become the primary, empty if it can.
func (d *draft) refusal(target string) string {
	holder, _ := d.Instance(d.Lease.Holder)
	if !d.Serves(holder) {
		return "there is no primary that serves and could hand over"
	}
	if target == database.AnyInstance {
		if d.healthy(without(d.plan.Design.Names(), d.Lease.Holder)) == 0 {
			return "no replica is well enough to take over"
		}
		return ""
	}
	instance, found := d.Instance(target)
	switch {
	case !found || !d.plan.Design.Wants(target):
		return "there is no instance " + target
	case !d.Lease.HasMember(target) || !d.Streams(instance):
		return target + " does not follow closely enough to take over"
	}
	return ""
}

func (d *draft) endRequest(event, why string) {
	d.do(database.Action{Do: database.EndRequest{Request: d.Request.ID, Event: event}, Name: d.Name, Why: why})
}

// askToYield has a holder that shall leave hand over.
func (d *draft) askToYield(holder database.Instance, why string) {
	d.askFor(database.ForLeaving, holder, why)
}

// askFor has a holder hand over. The id holds for one term: whoever leads after is asked anew. A holder that has
// refused is asked again after a while.
func (d *draft) askFor(purpose database.Purpose, holder database.Instance, why string) {
	id := fmt.Sprintf("%s-%s-%d", purpose, holder.Name, d.Lease.Term)
	if refusal := d.Refusal(id); refusal != nil {
		d.hold(database.Progressing, soon, "SwitchoverRefused", fmt.Sprintf(
			"%s is the primary and has to hand over: %s; its agent does not yet: %s", holder.Name, why, refusal.Why))
		if d.Now.Sub(refusal.At) < later {
			return
		}
	} else {
		d.hold(database.Progressing, soon, "PrimaryLeaving", holder.Name+" is the primary and has to hand over: "+why)
	}
	if !d.stopped && !d.invalid && d.Lease.Switchover != id {
		ask := database.SwitchOver{For: purpose, Request: id, Target: database.AnyInstance}
		d.switchOver(holder, ask, why)
	}
}

func (d *draft) switchOver(holder database.Instance, ask database.SwitchOver, why string) {
	if holder.Pod == nil || !holder.Report.Reachable || d.writes("", holder.Name) {
		return
	}
	ask.Term = d.Lease.Term
	d.do(database.Action{
		Do: ask, Name: holder.Name, UID: holder.Pod.UID, ResourceVersion: holder.Pod.ResourceVersion, Why: why,
	})
}
