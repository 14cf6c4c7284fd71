package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/wire"
)

// waitForInstances names, for each instance, the first thing that it waits for.
func waitForInstances(d *draft.Draft) {
	for _, wanted := range d.Plan.Design.Instances {
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

// passing are reasons of an agent that end by themselves.
var passing = []wire.Reason{
	wire.ReasonWaitingForRecord, wire.ReasonServerRecovering, wire.ReasonWaitingForStanding, wire.ReasonCopying,
	wire.ReasonPromoting, wire.ReasonElection, wire.ReasonGateClosed, wire.ReasonMembership, wire.ReasonSwitchover,
	wire.ReasonFenced, wire.ReasonWaitingForLease, wire.ReasonRestarting, wire.ReasonWALUnshipped,
	wire.ReasonRestoring,
}

// patience is when an instance that is not ready and gives no report is asked again: soon if writes count on it. Nodes
// that could not reach the API server are not ready for a while either, and one answer that did not come in time would
// be all that anybody is told meanwhile.
func patience(d *draft.Draft, instance string) time.Duration {
	if d.Lease.HasMember(instance) {
		return draft.Soon
	}
	return draft.Later
}

func waitForInstance(d *draft.Draft, instance database.Instance) {
	pod, report := instance.Pod, instance.Report
	switch {
	case report.Reachable && report.State == string(wire.StateFailed):
		d.Hold(database.Stalled, draft.Later, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case pod == nil && (d.Stopped || d.Invalid):
		// Nothing is made, so there is nothing to wait for but what has stopped us.
	case pod == nil:
		waitForPod(d, instance)
	case pod.Deleting:
		d.Hold(database.Progressing, 0, "InstanceStopping", "the pod of "+instance.Name+" is being deleted")
	case pod.Stuck != "":
		d.Hold(database.Progressing, 0, "InstanceStuck", fmt.Sprintf("%s cannot start: %s", instance.Name, pod.Stuck))
	case !pod.UnplacedSince.IsZero() && !report.Reachable:
		// Looked at again: what the scheduler says counts after a while, and is no event then.
		d.Hold(database.Progressing, draft.Soon, "InstanceStarting", instance.Name+" waits for a node")
	case unbound(d, instance) != "":
		d.Hold(database.Progressing, 0, "ClaimPending", "the claim "+unbound(d, instance)+" has no volume yet")
	case !pod.Ready && report.Reachable:
		d.Hold(database.Progressing, draft.Soon, "InstanceStarting",
			strings.TrimRight(fmt.Sprintf("%s is %s: %s", instance.Name, report.State, report.Message), ": "))
	case !pod.Ready:
		d.Hold(database.Progressing, patience(d, instance.Name), "InstanceStarting", instance.Name+" is not ready")
	case !report.Reachable:
		d.Hold(database.Progressing, draft.Soon, "AgentUnreachable",
			fmt.Sprintf("the agent of %s gives no report: %s", instance.Name, report.Problem))
	default:
		waitForReport(d, instance)
	}
}

// waitForPod says why an instance has no pod, as far as the API server tells: nobody else does.
func waitForPod(d *draft.Draft, instance database.Instance) {
	if d.Trial != nil && d.Trial.Refusal != "" && instance.Set != nil && instance.Set.Observed {
		d.Hold(database.Stalled, draft.Later, "TemplateRefused", fmt.Sprintf(
			"%s has no pod, because the API server does not take one: %s", instance.Name, d.Trial.Refusal))
		return
	}
	d.Hold(database.Progressing, 0, "InstanceStarting", instance.Name+" has no pod yet")
}

// waitForReport names what an instance that is up waits for by its own word.
func waitForReport(d *draft.Draft, instance database.Instance) {
	report, initialised := instance.Report, d.Lease.Copy.Initialised
	switch {
	case !slices.Contains(d.InForce, report.SettingsHash) && !d.Stopped && !d.Invalid:
		d.Hold(database.Progressing, draft.Soon, "SettingsNotInForce",
			instance.Name+" has not taken over the latest settings yet")
	case slices.Contains(passing, wire.Reason(report.Reason)):
		d.Hold(database.Progressing, draft.Soon, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case report.Reason == string(wire.ReasonUpstreamMissing) && !d.Lease.HasMember(instance.Name):
		// Nobody counts on it yet: it waits for a primary that has just begun.
		d.Hold(database.Progressing, draft.Soon, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case report.Reason != "":
		d.Hold(database.Degraded, draft.Later, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case initialised && d.Lease.Holder != instance.Name && !report.Streams:
		d.Hold(database.Progressing, draft.Soon, "ReplicaNotStreaming",
			instance.Name+" does not stream from the primary yet")
	case initialised && !d.Lease.HasMember(instance.Name):
		d.Hold(database.Progressing, draft.Soon, "ReplicaJoining", instance.Name+" is not in the write quorum yet")
	}
}

// tellLibraries says which libraries have changed under data that depends on them.
func tellLibraries(d *draft.Draft) {
	holder, _ := d.Instance(d.Lease.Holder)
	for _, library := range holder.Report.Libraries {
		indexes := strings.Join(library.Indexes, ", ")
		if library.More > 0 {
			indexes += fmt.Sprintf(" and %d more", library.More)
		}
		d.Hold(database.Degraded, draft.Later, "LibraryChanged", fmt.Sprintf(
			"%s went from %s to %s, and these indexes were built before: %s; rebuild them with REINDEX CONCURRENTLY",
			library.Name, library.Before, library.Now, indexes))
	}
}

// tellHibernation says who is still to stop.
func tellHibernation(d *draft.Draft) {
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		switch {
		case !d.Spec.Hibernated || instance.Pod == nil || instance.Pod.Deleting:
		case wanted.Stopped:
			d.Hold(database.Progressing, draft.Later, "Hibernating", wanted.Name+" stops")
		default:
			d.Hold(database.Progressing, draft.Later, "Hibernating", wanted.Name+" stops when all others have")
		}
	}
}

// unbound names a claim of an instance that has no volume yet, empty if all have.
func unbound(d *draft.Draft, instance database.Instance) string {
	for _, claim := range d.Claims(instance) {
		if claim.Claim != nil && !claim.Bound {
			return claim.Name
		}
	}
	return ""
}

func tellTolerated(d *draft.Draft) { d.TellTolerated(d.Children) }
