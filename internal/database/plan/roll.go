package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/database"
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

// rollInstances restarts what the user's wish needs restarted: one instance at a time, replicas first, each only while
// all others are well; then the primary moves, and the old one is the last. It stops at the first harm.
func rollInstances(d *draft) {
	dues := d.dues()
	if d.invalid || d.LeaseLost() || d.Lease.Problem != "" {
		return
	}
	if len(dues) == 0 {
		finishRoll(d)
		return
	}
	for _, one := range dues {
		d.plan.Pending = append(d.plan.Pending, fmt.Sprintf("%s is restarted: %s", one.instance.Name, one.why))
	}
	if d.stopped {
		return
	}
	next := d.nextOf(dues)
	name := next.instance.Name
	d.plan.Roll = database.RollRunning
	switch blocked := d.blocked(next, dues); {
	case d.harm() != "":
		d.stopRoll("the other instances are left as they are: ")
	case next.pod && d.Trial != nil && d.Trial.Refusal != "":
		d.hold(database.Stalled, later, "TemplateRefused", fmt.Sprintf(
			"the API server does not take a pod from the wanted template, so no instance is touched: %s", d.Trial.Refusal))
	case blocked != "":
		recheck := soon
		if blocked == d.Fleet.Held {
			d.plan.Roll, recheck = database.RollHeld, d.Fleet.Recheck()
		}
		d.hold(database.Progressing, recheck, database.ReasonRollWaiting,
			fmt.Sprintf("%s is restarted next, but %s", name, blocked))
	case next.pod && name == d.Lease.Holder && len(d.plan.Design.Instances) > 1:
		d.askFor(database.ForRestart, next.instance, "it is restarted next, "+next.why)
	default:
		d.hold(database.Progressing, soon, database.ReasonRolling, fmt.Sprintf("%s is restarted: %s", name, next.why))
		d.turn = name
		d.restart(next)
	}
}

// finishRoll is for a roll whose last instance has got the change: it ends when all are well. Until then other
// databases wait for it, and if that instance comes to harm, they count it; one that is alone is the last as well.
func finishRoll(d *draft) {
	begun := d.Fleet.Roll == database.RollRunning || d.Fleet.Roll == database.RollStopped
	if !begun || d.stopped || d.Spec.Hibernated {
		return
	}
	if d.harm() != "" {
		d.stopRoll("")
		return
	}
	for _, wanted := range d.plan.Design.Instances {
		if why := d.unwell(wanted.Name); why != "" {
			d.plan.Roll = database.RollRunning
			d.hold(database.Progressing, soon, database.ReasonRolling, fmt.Sprintf(
				"all instances have got the change, and %s %s", wanted.Name, why))
			return
		}
	}
}

// stopRoll says what harm was done.
func (d *draft) stopRoll(others string) {
	d.plan.Roll = database.RollStopped
	d.hold(database.Stalled, later, database.ReasonRollStopped,
		fmt.Sprintf("%s; %scorrect the spec, or undo the change", d.harm(), others))
}

// dues are the instances that need a restart by the user's wish.
func (d *draft) dues() []due {
	var dues []due
	for _, wanted := range d.plan.Design.Instances {
		instance, found := d.Instance(wanted.Name)
		if !found || instance.Pod == nil || instance.Pod.Deleting || wanted.Stopped || d.Spec.Hibernated ||
			!d.claimStays(instance) {
			continue
		}
		if one := d.dueOf(instance); (one.pod || one.server) && instance.Broken() == "" {
			dues = append(dues, one)
		}
	}
	return dues
}

func (d *draft) dueOf(instance database.Instance) due {
	one := due{instance: instance}
	var reasons []string
	pod := instance.Pod
	if !d.atTarget(instance) && !render.SameWish(d.Spec, pod.Wish) {
		reasons = append(reasons, "its pod changes: "+d.difference(instance.Name))
	}
	if why := d.infeasible(instance); why != "" {
		reasons = append(reasons, "its node can never give it what is wanted: "+why)
	}
	if d.Spec.Restart != "" && pod.Restart != d.Spec.Restart {
		reasons = append(reasons, "spec.restart asks for it")
	}
	if len(reasons) == 0 && d.waitsForRestart(instance) && d.Window.Open {
		reasons = append(reasons, "the maintenance window is open, and it takes over from this version of Meridian: "+
			d.difference(instance.Name))
	}
	one.pod = len(reasons) > 0
	if pending := instance.Report.PendingRestart; len(pending) > 0 && d.tokenOf(instance.Name) != d.token(instance) {
		reasons = append(reasons, strings.Join(pending, ", ")+" requires a restart")
		one.server = !one.pod
	}
	one.why = strings.Join(reasons, ", and ")
	return one
}

// waitsForRestart says that a new pod of the instance would be another one although the user has asked for nothing new:
// that is what a new version of Meridian brings.
func (d *draft) waitsForRestart(instance database.Instance) bool {
	return !d.atTarget(instance) && instance.Pod.Template != "" && !instance.Pod.Deleting &&
		render.SameWish(d.Spec, instance.Pod.Wish)
}

// atTarget says that a new pod of the instance would be as the one that it has.
func (d *draft) atTarget(instance database.Instance) bool {
	return instance.Pod != nil && d.infeasible(instance) == "" &&
		instance.Pod.Template == render.Template(d.plan.Design, instance.Name)
}

// token names a start of a server. What is pending and the generation are in it, so that a wish that comes back later
// is another one, and a restart that did not help is not tried for ever.
func (d *draft) token(instance database.Instance) string {
	sum := sha256.New()
	for _, name := range instance.Report.PendingRestart {
		_, _ = sum.Write([]byte(name + "\n"))
	}
	return fmt.Sprintf("%d-%s", d.Generation, hex.EncodeToString(sum.Sum(nil)[:4]))
}

// tokenOf is the start that was asked for last.
func (d *draft) tokenOf(instance string) string {
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
func (d *draft) nextOf(dues []due) due {
	rank := func(one due) []int {
		instance := one.instance
		begun := one.pod && instance.Set != nil && instance.Set.Template == render.Template(d.plan.Design, instance.Name)
		return []int{
			weigh(one.server && d.lowers(instance) == (instance.Name == d.Lease.Holder)),
			weigh(instance.Name != d.Lease.Holder), weigh(d.Idle(instance.Name)), weigh(begun),
			weigh(d.unwell(instance.Name) != ""),
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
func (d *draft) lowers(instance database.Instance) bool {
	return slices.ContainsFunc(instance.Report.Parameters, func(parameter database.Parameter) bool {
		current, first := strconv.Atoi(parameter.Current)
		wanted, second := strconv.Atoi(parameter.Wanted)
		return parameter.State == string(wire.ParameterPending) && slices.Contains(atLeast, parameter.Name) &&
			first == nil && second == nil && wanted < current
	})
}

// harm says what went wrong on an instance that has what is wanted already, empty if nothing did.
func (d *draft) harm() string {
	for _, wanted := range d.plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		if cause := instance.Broken(); cause != "" && d.atTarget(instance) {
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

// blocked names the first thing that keeps the next instance from being restarted. Instances that do not stream may be
// what the change repairs: they do not wait for each other, and not for a primary that waits for them.
func (d *draft) blocked(next due, dues []due) string {
	switch {
	case next.pod && d.Trial != nil && d.Trial.Unknown != "":
		return "the API server has not said yet whether it takes such a pod: " + d.Trial.Unknown
	case d.Request != nil:
		return "another primary was asked for"
	case len(d.plan.Design.Leaving) > 0:
		return d.plan.Design.Leaving[0] + " is leaving"
	case d.writes(database.KindSettings, database.SettingsName(d.Name)):
		return "new settings come first"
	}
	for _, wanted := range d.plan.Design.Instances {
		if wanted.Name == next.instance.Name {
			if next.server && (d.writes(database.KindPod, database.PodName(wanted.Name)) || d.cramped(next.instance)) {
				return "its container is resized first"
			}
			continue
		}
		idle := d.Idle(next.instance.Name) && (d.Leads(wanted.Name) || d.Idle(wanted.Name) && isDue(dues, wanted.Name))
		if why := d.unwell(wanted.Name); why != "" && !idle {
			return wanted.Name + " " + why
		}
	}
	if d.Fleet.Held != "" {
		return d.Fleet.Held
	}
	return ""
}

// isDue says that an instance is among those that need a restart: it has not got the change yet.
func isDue(dues []due, name string) bool {
	return slices.ContainsFunc(dues, func(one due) bool { return one.instance.Name == name })
}

// enough is how much log a replica may lack and still be called caught up.
const enough = 16 << 20

// unwell names the first predicate that an instance does not fulfil while others are restarted, empty if it is well.
func (d *draft) unwell(name string) string {
	instance, _ := d.Instance(name)
	pod, report := instance.Pod, instance.Report
	token := d.tokenOf(name)
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
		return "is about to start its server anew"
	case name == d.Lease.Holder && !d.Serves(instance):
		return "does not accept writes yet"
	case name != d.Lease.Holder && !report.Streams:
		return "does not take the log of the primary yet"
	case !d.Lease.HasMember(name):
		return "is not in the write quorum yet"
	case report.LagBytes > enough:
		return fmt.Sprintf("still lacks %d MiB of the log", report.LagBytes>>20)
	case !slices.Contains(d.inForce, report.SettingsHash):
		return "has not taken over the latest settings yet"
	}
	return ""
}

// restart does the next step for an instance whose turn it is. Its StatefulSet is written by writeSets, before this.
func (d *draft) restart(next due) {
	instance := next.instance
	if next.server {
		d.change(database.Action{
			Do: database.RestartServer{
				Target: instance.Name, Token: d.token(instance), Stay: instance.Name == d.Lease.Holder && d.lowers(instance),
			},
			Kind: database.KindSettings, Name: database.SettingsName(d.Name),
			UID: d.Settings.UID, ResourceVersion: d.Settings.ResourceVersion, Why: instance.Name + ": " + next.why,
		})
		return
	}
	d.replace(instance, next.why)
}

// replace has a pod made anew, once its StatefulSet has the wanted template and its controller has seen it.
func (d *draft) replace(instance database.Instance, why string) {
	child, found := d.Child(database.KindSet, instance.Name)
	target := render.Template(d.plan.Design, instance.Name)
	if d.writes(database.KindPod, database.PodName(instance.Name)) {
		return
	}
	if !found || child.State != database.Same || instance.Set == nil || !instance.Set.Observed ||
		instance.Set.Template != target || d.atTarget(instance) || !d.claimStays(instance) {
		return
	}
	d.change(database.Action{
		Do: database.ReplacePod{Template: target}, Kind: database.KindPod, Name: database.PodName(instance.Name),
		UID: instance.Pod.UID, ResourceVersion: instance.Pod.ResourceVersion, Why: why,
	})
}

// replaceBroken has pods made anew in which an agent runs and PostgreSQL cannot, once there is another template for
// them. They wait for nobody: there may be no one who is well.
func replaceBroken(d *draft) {
	for _, wanted := range d.plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		if cause := instance.Broken(); cause != "" && instance.Pod.Stuck == "" && !instance.Pod.Deleting {
			d.replace(instance, "it cannot start ("+cause+") and its template has changed since")
		}
	}
}

// withheld says that a StatefulSet keeps the template that it has. A template reaches an instance only when its turn
// has come, or when its pod starts anyway: one that does harm must not be what another instance starts from.
func (d *draft) withheld(name string) bool {
	instance, _ := d.Instance(name)
	set, pod := instance.Set, instance.Pod
	untried := d.Trial != nil && (d.Trial.Refusal != "" || d.Trial.Unknown != "")
	switch {
	case set == nil || set.Stopped || d.Spec.Hibernated:
		return false
	case d.resizes(instance) && (untried || pod != nil && refusesSize(pod) && d.infeasible(instance) == ""):
		return true // A pod of that size would not be taken, and the instance could not start again.
	case set.Template == render.Template(d.plan.Design, name):
		return false
	case untried:
		return true
	case instance.Broken() != "" || d.turn == name:
		return false
	case pod == nil || pod.Deleting:
		return d.harm() != ""
	}
	return true
}
