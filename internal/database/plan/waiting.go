package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

const (
	// atOnce is for what applications wait for.
	atOnce = 500 * time.Millisecond
	// soon is for what an agent can say and no event tells.
	soon = 3 * time.Second
	// later is for what an event should tell, in case it is something that has none.
	later = 30 * time.Second
)

// waitForInstances names, for each instance, the first thing that it waits for.
func waitForInstances(d *draft) {
	for _, wanted := range d.plan.Design.Instances {
		instance, found := d.Instance(wanted.Name)
		if wanted.Stopped && instance.Pod == nil {
			continue
		}
		if !found {
			instance = database.Instance{Serial: wanted.Serial, Name: wanted.Name}
		}
		waitForInstance(d, instance)
	}
}

// settingsInForce are the settings that count as the wanted ones: those with the record of the first initialisation,
// and the same without it. The record only forbids what an instance with data does not do anyway, and a mounted file
// can take a minute to arrive.
func settingsInForce(design database.Design) []string {
	wanted := render.Settings(design).Hash()
	design.Record = database.Record{}
	return []string{wanted, render.Settings(design).Hash()}
}

// passing are reasons of an agent that end by themselves.
var passing = []wire.Reason{
	wire.ReasonWaitingForRecord, wire.ReasonServerRecovering, wire.ReasonWaitingForStanding, wire.ReasonCopying,
	wire.ReasonPromoting, wire.ReasonElection, wire.ReasonGateClosed, wire.ReasonMembership, wire.ReasonSwitchover,
	wire.ReasonFenced, wire.ReasonWaitingForLease, wire.ReasonRestarting,
}

// patience is when an instance that is not ready and gives no report is asked again: soon if writes count on it. Nodes
// that could not reach the API server are not ready for a while either, and one answer that did not come in time would
// be all that anybody is told meanwhile.
func (d *draft) patience(instance string) time.Duration {
	if d.Lease.HasMember(instance) {
		return soon
	}
	return later
}

func waitForInstance(d *draft, instance database.Instance) {
	pod, report := instance.Pod, instance.Report
	switch {
	case report.Reachable && report.State == string(wire.StateFailed):
		d.hold(database.Stalled, later, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case pod == nil && (d.stopped || d.invalid):
		// Nothing is made, so there is nothing to wait for but what has stopped us.
	case pod == nil:
		d.waitForPod(instance)
	case pod.Deleting:
		d.hold(database.Progressing, 0, "InstanceStopping", "the pod of "+instance.Name+" is being deleted")
	case pod.Stuck != "":
		d.hold(database.Progressing, 0, "InstanceStuck", fmt.Sprintf("%s cannot start: %s", instance.Name, pod.Stuck))
	case d.unbound(instance) != "":
		d.hold(database.Progressing, 0, "ClaimPending", "the claim "+d.unbound(instance)+" has no volume yet")
	case !pod.Ready && report.Reachable:
		d.hold(database.Progressing, soon, "InstanceStarting",
			strings.TrimRight(fmt.Sprintf("%s is %s: %s", instance.Name, report.State, report.Message), ": "))
	case !pod.UnplacedSince.IsZero():
		d.hold(database.Progressing, soon, "InstanceStarting", instance.Name+" waits for a node")
	case !pod.Ready:
		d.hold(database.Progressing, d.patience(instance.Name), "InstanceStarting", instance.Name+" is not ready")
	case !report.Reachable:
		d.hold(database.Progressing, soon, "AgentUnreachable",
			fmt.Sprintf("the agent of %s gives no report: %s", instance.Name, report.Problem))
	default:
		waitForReport(d, instance)
	}
}

// waitForPod says why an instance has no pod, as far as the API server tells: nobody else does.
func (d *draft) waitForPod(instance database.Instance) {
	if d.Trial != nil && d.Trial.Refusal != "" && instance.Set != nil && instance.Set.Observed {
		d.hold(database.Stalled, later, "TemplateRefused", fmt.Sprintf(
			"%s has no pod, because the API server does not take one: %s", instance.Name, d.Trial.Refusal))
		return
	}
	d.hold(database.Progressing, 0, "InstanceStarting", instance.Name+" has no pod yet")
}

// waitForReport names what an instance that is up waits for by its own word.
func waitForReport(d *draft, instance database.Instance) {
	report, initialised := instance.Report, d.Lease.Copy.Initialised
	switch {
	case !slices.Contains(d.inForce, report.SettingsHash) && !d.stopped && !d.invalid:
		d.hold(database.Progressing, soon, "SettingsNotInForce",
			instance.Name+" has not taken over the latest settings yet")
	case slices.Contains(passing, wire.Reason(report.Reason)):
		d.hold(database.Progressing, soon, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case report.Reason == string(wire.ReasonUpstreamMissing) && !d.Lease.HasMember(instance.Name):
		// Nobody counts on it yet: it waits for a primary that has just begun.
		d.hold(database.Progressing, soon, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case report.Reason != "":
		d.hold(database.Degraded, later, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case initialised && d.Lease.Holder != instance.Name && !report.Streams:
		d.hold(database.Progressing, soon, "ReplicaNotStreaming", instance.Name+" does not take the log of the primary yet")
	case initialised && !d.Lease.HasMember(instance.Name):
		d.hold(database.Progressing, soon, "ReplicaJoining", instance.Name+" is not in the write quorum yet")
	}
}

// tellLibraries says which libraries have changed under data that depends on them.
func tellLibraries(d *draft) {
	holder, _ := d.Instance(d.Lease.Holder)
	for _, library := range holder.Report.Libraries {
		indexes := strings.Join(library.Indexes, ", ")
		if library.More > 0 {
			indexes += fmt.Sprintf(" and %d more", library.More)
		}
		d.hold(database.Degraded, later, "LibraryChanged", fmt.Sprintf(
			"%s went from %s to %s, and these indexes were built before: %s; rebuild them with REINDEX CONCURRENTLY",
			library.Name, library.Before, library.Now, indexes))
	}
}

// tellHibernation says who is still to stop.
func tellHibernation(d *draft) {
	for _, wanted := range d.plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		switch {
		case !d.Spec.Hibernated || instance.Pod == nil || instance.Pod.Deleting:
		case wanted.Stopped:
			d.hold(database.Progressing, later, "Hibernating", wanted.Name+" stops")
		default:
			d.hold(database.Progressing, later, "Hibernating", wanted.Name+" stops when all others have")
		}
	}
}

// unbound names a claim of an instance that has no volume yet, empty if all have.
func (d *draft) unbound(instance database.Instance) string {
	for _, claim := range d.Claims(instance) {
		if claim.Claim != nil && !claim.Bound {
			return claim.Name
		}
	}
	return ""
}

// tellPendingRestarts lists what takes effect when an instance starts again and is no reason to start it: what only a
// new version of Meridian brings. It also says when a restart has not helped.
func tellPendingRestarts(d *draft) {
	for _, wanted := range d.plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		if instance.Pod == nil || instance.Broken() != "" || !d.claimStays(instance) {
			continue
		}
		one := d.dueOf(instance)
		if !one.pod && !d.atTarget(instance) && instance.Pod.Template != "" && !instance.Pod.Deleting {
			message := fmt.Sprintf("%s takes over from this version of Meridian at its next restart%s: %s", instance.Name,
				d.nextWindow(), d.difference(instance.Name))
			d.plan.Pending = append(d.plan.Pending, message)
			d.plan.Restarts = append(d.plan.Restarts, message)
		}
		if pending := instance.Report.PendingRestart; len(pending) > 0 && !one.pod && !one.server &&
			instance.Report.Restart == d.tokenOf(instance.Name) {
			d.hold(database.Degraded, 0, "RestartPending", fmt.Sprintf(
				"%s has started anew, and %s still waits for a restart", instance.Name, strings.Join(pending, ", ")))
		}
	}
}

// nextWindow says when what waits is carried out at the latest, and has a pass run then: that a window opens is no
// event.
func (d *draft) nextWindow() string {
	if d.Window.Begins.IsZero() || d.invalid {
		return ""
	}
	d.look(d.Window.Begins)
	return ", or in the maintenance window that opens at " + d.Window.Begins.Format(time.RFC3339)
}

// difference is what the wanted template changes, in short.
func (d *draft) difference(instance string) string {
	child, _ := d.Child(database.KindSet, instance)
	if child.State != database.Changed {
		return "its template is newer"
	}
	return summary(child.Changes)
}

// tellTolerated names the fields that admission changes whenever they are written. They hold nothing up.
func tellTolerated(d *draft) {
	for _, child := range d.Children {
		if len(child.Tolerated) > 0 {
			d.plan.Pending = append(d.plan.Pending, fmt.Sprintf("admission in this cluster changes the %s %s whenever it is "+
				"written, and that is left as it is: %s", child.Kind, child.Name, summary(child.Tolerated)))
		}
	}
}
