package roll

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// due is what an instance lacks by the user's wish. It is told from the instance alone, anew in each pass: no step is
// ever remembered, so a roll goes on after a crash, and takes a new wish up, wherever it is.
type due struct {
	instance database.Instance
	// pod says that it takes a new pod, server that a new start of its server will do.
	pod, server bool
	why         string
}

// Instances restarts what the user's wish needs restarted: one instance at a time, replicas first, each only while
// all others are well; then the primary moves, and the old one is the last. It stops at the first harm.
func Instances(d *draft.Draft) {
	dues := allDue(d)
	if d.Settings.Rolling {
		d.Plan.Roll = database.RollRunning
	}
	if d.Invalid || d.LeaseLost() || d.Lease.Problem != "" {
		return
	}
	if len(dues) == 0 {
		finishRoll(d)
		return
	}
	for _, one := range dues {
		d.Plan.Pending = append(d.Plan.Pending, fmt.Sprintf("%s is restarted: %s", one.instance.Name, one.why))
	}
	if d.Stopped {
		return
	}
	next := nextOf(d, dues)
	name := next.instance.Name
	if !d.Settings.Rolling {
		d.Plan.Roll = database.RollDue
	}
	switch blocked := blocked(d, next, dues); {
	case harm(d) != "":
		stopRoll(d, "the other instances are left as they are: ")
	case next.pod && d.Trial != nil && d.Trial.Refusal != "":
		d.Hold(database.Stalled, draft.Later, "TemplateRefused", fmt.Sprintf(
			"the API server does not take a pod from the wanted template, so no instance is touched: %s", d.Trial.Refusal))
	case blocked != "":
		d.Hold(database.Progressing, draft.Soon, "RollWaiting",
			fmt.Sprintf("%s is restarted next, but %s", name, blocked))
	case d.Fleet.Held != "":
		d.Hold(database.Progressing, d.Fleet.Recheck(), "RollWaiting",
			fmt.Sprintf("%s is restarted next, but %s", name, d.Fleet.Held))
	case !d.Settings.Rolling:
		d.Hold(database.Progressing, draft.Soon, rolling, fmt.Sprintf("%s is restarted: %s", name, next.why))
		mark(d, database.BeginRoll{}, fmt.Sprintf("%s is the first to restart: %s", name, next.why))
	case next.pod && name == d.Lease.Holder && len(d.Plan.Design.Instances) > 1:
		d.AskFor(database.ForRestart, next.instance, "it is restarted next, "+next.why)
	default:
		d.Hold(database.Progressing, draft.Soon, rolling, fmt.Sprintf("%s is restarted: %s", name, next.why))
		d.Turn = name
		restart(d, next)
	}
}

// rolling is the reason while an instance is restarted, or the last one has not recovered.
const rolling = "Rolling"

// mark has a roll begin or end on the settings: what the operator has begun is known to whoever operates next.
func mark(d *draft.Draft, step database.Step, why string) {
	name := database.SettingsName(d.Name)
	if d.Settings.UID == "" || d.Settings.Deleting || d.Writes(database.KindSettings, name) {
		return
	}
	d.Change(database.Action{
		Do: step, Kind: database.KindSettings, Name: name,
		UID: d.Settings.UID, ResourceVersion: d.Settings.ResourceVersion, Why: why,
	})
}

// finishRoll is for a roll whose last instance has got the change: it ends when all are well. Until then other
// databases wait for it, and if that instance comes to harm, they count it; one that is alone is the last as well.
func finishRoll(d *draft.Draft) {
	if !d.Settings.Rolling || d.Stopped {
		return
	}
	if d.Spec.Hibernated {
		mark(d, database.EndRoll{}, "the database is hibernated")
		return
	}
	if harm(d) != "" {
		stopRoll(d, "")
		return
	}
	for _, wanted := range d.Plan.Design.Instances {
		if why := unwell(d, wanted.Name); why != "" {
			d.Hold(database.Progressing, draft.Soon, rolling, fmt.Sprintf(
				"all instances have the change, and %s %s", wanted.Name, why))
			return
		}
	}
	mark(d, database.EndRoll{}, "all instances have the change and are healthy")
}

// stopRoll says what harm was done.
func stopRoll(d *draft.Draft, others string) {
	d.Plan.Roll = database.RollStopped
	d.Hold(database.Stalled, draft.Later, "RollStopped",
		fmt.Sprintf("%s; %scorrect the spec, or undo the change", harm(d), others))
}

// allDue are the instances that need a restart by the user's wish.
func allDue(d *draft.Draft) []due {
	var dues []due
	for _, wanted := range d.Plan.Design.Instances {
		instance, found := d.Instance(wanted.Name)
		if !found || instance.Pod == nil || instance.Pod.Deleting || wanted.Stopped || d.Spec.Hibernated ||
			!d.ClaimStays(instance) {
			continue
		}
		if one := dueOf(d, instance); (one.pod || one.server) && instance.Broken() == "" {
			dues = append(dues, one)
		}
	}
	return dues
}

func dueOf(d *draft.Draft, instance database.Instance) due {
	one := due{instance: instance}
	var reasons []string
	pod := instance.Pod
	if !atTarget(d, instance) && !render.SameWish(d.Spec, pod.Wish) {
		reasons = append(reasons, "its pod changes: "+difference(d, instance.Name))
	}
	if why := infeasible(d, instance); why != "" {
		reasons = append(reasons, "its node can never give it what is wanted: "+why)
	}
	if d.Spec.Restart != "" && pod.Restart != d.Spec.Restart {
		reasons = append(reasons, "spec.restart asks for it")
	}
	if len(reasons) == 0 && waitsForRestart(d, instance) && d.Window.Open {
		reasons = append(reasons, "the maintenance window is open, and it takes over from this version of Meridian: "+
			difference(d, instance.Name))
	}
	one.pod = len(reasons) > 0
	if pending := instance.Report.PendingRestart; len(pending) > 0 && tokenOf(d, instance.Name) != token(d, instance) {
		reasons = append(reasons, strings.Join(pending, ", ")+" requires a restart")
		one.server = !one.pod
	}
	one.why = strings.Join(reasons, ", and ")
	return one
}

// waitsForRestart says that a new pod of the instance would be another one although the user has asked for nothing new:
// that is what a new version of Meridian brings.
func waitsForRestart(d *draft.Draft, instance database.Instance) bool {
	return !atTarget(d, instance) && instance.Pod.Template != "" && !instance.Pod.Deleting &&
		render.SameWish(d.Spec, instance.Pod.Wish)
}

// atTarget says that a new pod of the instance would be as the one that it has.
func atTarget(d *draft.Draft, instance database.Instance) bool {
	return instance.Pod != nil && infeasible(d, instance) == "" &&
		instance.Pod.Template == render.Template(d.Plan.Design, instance.Name)
}

// token names a start of a server. What is pending and the generation are in it, so that a wish that comes back later
// is another one, and a restart that did not help is not tried for ever.
func token(d *draft.Draft, instance database.Instance) string {
	sum := sha256.New()
	for _, name := range instance.Report.PendingRestart {
		_, _ = sum.Write([]byte(name + "\n"))
	}
	return fmt.Sprintf("%d-%s", d.Generation, hex.EncodeToString(sum.Sum(nil)[:4]))
}

// tokenOf is the start that was asked for last.
func tokenOf(d *draft.Draft, instance string) string {
	for _, restart := range d.Settings.Restarts {
		if restart.Instance == instance {
			return restart.Token
		}
	}
	return ""
}

// nextOf chooses who is next: replicas before the primary; among them one that does not stream, one that was begun
// with, one that is not well, and the one that lacks most. Lowering what a replica must have at least as high as its
// primary begins with the primary.
func nextOf(d *draft.Draft, dues []due) due {
	rank := func(one due) []int {
		instance := one.instance
		begun := one.pod && instance.Set != nil && instance.Set.Template == render.Template(d.Plan.Design, instance.Name)
		return []int{
			draft.Weigh(one.server && lowers(instance) == (instance.Name == d.Lease.Holder)),
			draft.Weigh(instance.Name != d.Lease.Holder), draft.Weigh(d.Idle(instance.Name)), draft.Weigh(begun),
			draft.Weigh(unwell(d, instance.Name) != ""),
			int(instance.Report.LagBytes>>24)*1000 + instance.Serial,
		}
	}
	return slices.MaxFunc(dues, func(a, b due) int { return slices.Compare(rank(a), rank(b)) })
}

// atLeast are the parameters of which a replica must have at least as much as its primary.
var atLeast = []string{
	"max_connections", "max_locks_per_transaction", "max_prepared_transactions", "max_wal_senders",
	"max_worker_processes",
}

// lowers says that an instance waits for a restart to lower one of these: then the primary has to be the first, in its
// place, because a replica cannot have less, and one that is promised another value keeps the old one as a primary.
func lowers(instance database.Instance) bool {
	return slices.ContainsFunc(instance.Report.Parameters, func(parameter database.Parameter) bool {
		current, first := strconv.Atoi(parameter.Current)
		wanted, second := strconv.Atoi(parameter.Wanted)
		return parameter.State == string(wire.ParameterPending) && slices.Contains(atLeast, parameter.Name) &&
			first == nil && second == nil && wanted < current
	})
}

// harm says what went wrong on an instance that has what is wanted already, empty if nothing did.
func harm(d *draft.Draft) string {
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		if cause := instance.Broken(); cause != "" && atTarget(d, instance) {
			return fmt.Sprintf("%s cannot start: %s", wanted.Name, cause)
		}
		for _, parameter := range instance.Report.Parameters {
			if parameter.State == string(wire.ParameterRefused) {
				return fmt.Sprintf("PostgreSQL of %s refuses %s = %s", wanted.Name, parameter.Name, parameter.Wanted)
			}
		}
	}
	return ""
}

// blocked names the first thing in the database itself that keeps the next instance from being restarted. Instances
// that do not stream may be what the change repairs: they do not wait for each other, and not for a primary that waits
// for them.
func blocked(d *draft.Draft, next due, dues []due) string {
	switch {
	case next.pod && d.Trial != nil && d.Trial.Unknown != "":
		return "the API server has not said yet whether it takes such a pod: " + d.Trial.Unknown
	case d.Request != nil:
		return "another primary was asked for"
	case len(d.Plan.Design.Leaving) > 0:
		return d.Plan.Design.Leaving[0] + " is leaving"
	case d.Writes(database.KindSettings, database.SettingsName(d.Name)):
		return "new settings come first"
	}
	for _, wanted := range d.Plan.Design.Instances {
		if wanted.Name == next.instance.Name {
			if next.server && (d.Writes(database.KindPod, database.PodName(wanted.Name)) || cramped(d, next.instance)) {
				return "its container is resized first"
			}
			continue
		}
		idle := d.Idle(next.instance.Name) && (d.Leads(wanted.Name) || d.Idle(wanted.Name) && isDue(dues, wanted.Name))
		if why := unwell(d, wanted.Name); why != "" && !idle {
			return wanted.Name + " " + why
		}
	}
	return ""
}

// isDue says that an instance is among those that need a restart: it has not got the change yet.
func isDue(dues []due, name string) bool {
	return slices.ContainsFunc(dues, func(one due) bool { return one.instance.Name == name })
}

// Enough is how much log a replica may lack and still be called caught up.
const enough = 16 << 20

// unwell names the first predicate that an instance does not fulfil while others are restarted, empty if it is well.
func unwell(d *draft.Draft, name string) string {
	instance, _ := d.Instance(name)
	pod, report := instance.Pod, instance.Report
	token := tokenOf(d, name)
	switch {
	case pod == nil:
		return "has no pod"
	case pod.Deleting:
		return "is stopping"
	case !pod.Ready:
		return "is not ready"
	case !report.Reachable:
		return "gives no report"
	case token != "" && report.Restart != token && len(report.PendingRestart) > 0:
		return "is about to restart its server"
	case name == d.Lease.Holder && !d.Serves(instance):
		return "does not accept writes yet"
	case name != d.Lease.Holder && !report.Streams:
		return "does not stream from the primary yet"
	case !d.Lease.HasMember(name):
		return "is not in the write quorum yet"
	case report.LagBytes > enough:
		return fmt.Sprintf("still lacks %d MiB of WAL", report.LagBytes>>20)
	case !slices.Contains(d.InForce, report.SettingsHash):
		return "has not taken over the latest settings yet"
	}
	return ""
}

// restart does the next step for an instance whose turn it is. Its StatefulSet is written by WriteSets, before this.
func restart(d *draft.Draft, next due) {
	instance := next.instance
	if next.server {
		d.Change(database.Action{
			Do: database.RestartServer{
				Target: instance.Name, Token: token(d, instance), Stay: instance.Name == d.Lease.Holder && lowers(instance),
			},
			Kind: database.KindSettings, Name: database.SettingsName(d.Name),
			UID: d.Settings.UID, ResourceVersion: d.Settings.ResourceVersion, Why: instance.Name + ": " + next.why,
		})
		return
	}
	replace(d, instance, next.why)
}

// replace has a pod made anew, once its StatefulSet has the wanted template and its controller has seen it.
func replace(d *draft.Draft, instance database.Instance, why string) {
	child, found := d.Child(database.KindSet, instance.Name)
	target := render.Template(d.Plan.Design, instance.Name)
	if d.Writes(database.KindPod, database.PodName(instance.Name)) {
		return
	}
	if !found || child.State != database.Same || instance.Set == nil || !instance.Set.Observed ||
		instance.Set.Template != target || atTarget(d, instance) || !d.ClaimStays(instance) {
		return
	}
	d.Change(database.Action{
		Do: database.ReplacePod{Template: target}, Kind: database.KindPod, Name: database.PodName(instance.Name),
		UID: instance.Pod.UID, ResourceVersion: instance.Pod.ResourceVersion, Why: why,
	})
}
