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
	// soon is for what an agent can say and no event tells.
	soon = 3 * time.Second
	// later is for what an event should tell, in case it is something that has none.
	later = 30 * time.Second
)

// waitForInstances names, for each instance, the first thing that it waits for.
func waitForInstances(d *draft) {
	hashes := settingsInForce(d.plan.Design)
	for _, wanted := range d.plan.Design.Instances {
		instance, found := d.Instance(wanted.Name)
		if !found {
			instance = database.Instance{Serial: wanted.Serial, Name: wanted.Name}
		}
		waitForInstance(d, instance, hashes)
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
	wire.ReasonFenced, wire.ReasonWaitingForLease,
}

func waitForInstance(d *draft, instance database.Instance, hashes []string) {
	pod, report := instance.Pod, instance.Report
	switch {
	case report.Reachable && report.State == string(wire.StateFailed):
		d.hold(database.Stalled, later, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case pod == nil && (d.stopped || d.invalid):
		// Nothing is made, so there is nothing to wait for but what has stopped us.
	case pod == nil:
		d.hold(database.Progressing, 0, "InstanceStarting", instance.Name+" has no pod yet")
	case pod.Deleting:
		d.hold(database.Progressing, 0, "InstanceStopping", "the pod of "+instance.Name+" is being deleted")
	case pod.Stuck != "":
		d.hold(database.Progressing, 0, "InstanceStuck", fmt.Sprintf("%s cannot start: %s", instance.Name, pod.Stuck))
	case instance.Claim != nil && !instance.Claim.Bound:
		d.hold(database.Progressing, 0, "ClaimPending", "the claim "+instance.Name+" has no volume yet")
	case !pod.Ready && report.Reachable:
		d.hold(database.Progressing, soon, "InstanceStarting",
			strings.TrimRight(fmt.Sprintf("%s is %s: %s", instance.Name, report.State, report.Message), ": "))
	case !pod.Ready:
		d.hold(database.Progressing, later, "InstanceStarting", instance.Name+" is not ready")
	case !report.Reachable:
		d.hold(database.Progressing, soon, "AgentUnreachable",
			fmt.Sprintf("the agent of %s gives no report: %s", instance.Name, report.Problem))
	default:
		waitForReport(d, instance, hashes)
	}
}

// waitForReport names what an instance that is up waits for by its own word.
func waitForReport(d *draft, instance database.Instance, hashes []string) {
	report, initialised := instance.Report, d.Lease.Copy.Initialised
	switch {
	case !slices.Contains(hashes, report.SettingsHash) && !d.stopped && !d.invalid:
		d.hold(database.Progressing, soon, "SettingsNotInForce",
			instance.Name+" has not taken over the latest settings yet")
	case slices.Contains(passing, wire.Reason(report.Reason)):
		d.hold(database.Progressing, soon, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case report.Reason != "":
		d.hold(database.Degraded, later, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case initialised && d.Lease.Holder != instance.Name && !report.Streams:
		d.hold(database.Progressing, soon, "ReplicaNotStreaming", instance.Name+" does not take the log of the primary yet")
	case initialised && !d.Lease.HasMember(instance.Name):
		d.hold(database.Progressing, soon, "ReplicaJoining", "writes are not counted on "+instance.Name+" yet")
	}
}

// tellPendingRestarts lists what is written and takes effect when the pod starts again. Restarting a running instance
// is not carried out yet, and saying that all is well would not be true.
func tellPendingRestarts(d *draft) {
	for _, instance := range d.Instances {
		if !claimStays(instance) {
			// A restart would be the end of the data.
			continue
		}
		var pending []string
		outdated := outdated(instance) && instance.Pod.Stuck == ""
		if outdated && instance.Pod.Wish == render.Wish(d.Spec) {
			message := instance.Name + " takes over the pod template of this version of Meridian at its next restart"
			d.plan.Pending = append(d.plan.Pending, message)
			d.plan.Restarts = append(d.plan.Restarts, message)
		} else if outdated {
			pending = append(pending, "its new pod template")
		}
		pending = append(pending, instance.Report.PendingRestart...)
		if len(pending) == 0 {
			continue
		}
		message := fmt.Sprintf("%s takes over %s at its next restart", instance.Name, strings.Join(pending, ", "))
		d.plan.Pending = append(d.plan.Pending, message)
		d.hold(database.Degraded, 0, "RestartPending", fmt.Sprintf(
			"%s; restarts are not carried out yet: delete the pod %s when it suits you",
			message, database.PodName(instance.Name)))
	}
}
