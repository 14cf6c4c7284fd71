package plan

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// requestPatience is how long a requested switchover may take until it is given up.
const requestPatience = time.Minute

// carryOutRequest brings a user's request for another primary to its end: it is written down, handed to the agent of
// the holder, and taken away when the primary has changed, or will not.
func carryOutRequest(d *draft.Draft) {
	request := d.Request
	if request == nil || d.Writes("", d.Name) {
		return
	}
	holder, _ := d.Instance(d.Lease.Holder)
	refusal := d.Refusal(request.ID)
	switch {
	case request.Since.IsZero():
		beginRequest(d, *request)
	case d.Lease.Term > request.Term && (d.Lease.Holder == request.Target || request.Target == database.AnyInstance):
		endRequest(d, "SwitchoverDone", d.Lease.Holder+" is the primary now")
	case d.Lease.Term > request.Term && d.Lease.Holder != "":
		endRequest(d, "SwitchoverRefused", fmt.Sprintf("%s has become the primary instead of %s", d.Lease.Holder,
			request.Target))
	case refusal != nil && !refusal.At.Before(request.Since):
		endRequest(d, "SwitchoverRefused", refusal.Why)
	case d.Now.Sub(request.Since) > requestPatience:
		endRequest(d, "SwitchoverRefused", "it was not carried out within "+requestPatience.String())
	default:
		d.Hold(database.Progressing, time.Second, "SwitchingOver", "another primary was asked for: "+request.Target)
		if d.Lease.Switchover != request.ID {
			ask := database.SwitchOver{For: database.ForRequest, Request: request.ID, Target: request.Target}
			d.SwitchOver(holder, ask, "a user asks for another primary")
		}
	}
}

func beginRequest(d *draft.Draft, request database.Request) {
	if request.Target == d.Lease.Holder {
		endRequest(d, "SwitchoverDone", request.Target+" is the primary already")
		return
	}
	if why := refusal(d, request.Target); why != "" {
		endRequest(d, "SwitchoverRefused", why)
		return
	}
	d.Change(database.Action{
		Do: database.NoteRequest{Request: request.ID, Target: request.Target, Term: d.Lease.Term}, Name: d.Name,
		Why: "a user asks for another primary: " + request.Target,
	})
}

// refusal says why a target cannot become the primary, empty if it can.
func refusal(d *draft.Draft, target string) string {
	holder, _ := d.Instance(d.Lease.Holder)
	if !d.Serves(holder) {
		return "there is no primary that serves and could hand over"
	}
	if target == database.AnyInstance {
		if d.CountHealthy(draft.Without(d.Plan.Design.Names(), d.Lease.Holder)) == 0 {
			return "no replica is well enough to take over"
		}
		return ""
	}
	instance, found := d.Instance(target)
	switch {
	case !found || !d.Plan.Design.Wants(target):
		return "there is no instance " + target
	case !d.Lease.HasMember(target) || !d.Streams(instance):
		return target + " does not follow closely enough to take over"
	}
	return ""
}

func endRequest(d *draft.Draft, event, why string) {
	d.Do(database.Action{Do: database.EndRequest{
		Request: d.Request.ID, Event: event, Token: d.Request.Token,
	}, Name: d.Name, Why: why})
}
