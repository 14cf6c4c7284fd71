package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/wire"
)

const (
	// soon is for what an agent can say and no event tells.
	soon = 2 * time.Second
	// often is for what an agent can say and nobody waits for.
	often = 5 * time.Second
	// later is for what an event should tell, in case it is something that has none.
	later = 30 * time.Second
)

// resizePods changes the memory of running containers in place. Growing is harmless: the agents follow. Shrinking waits
// until the server keeps no more than is wanted, and goes as far as the server has given back what it took for more, or
// the kernel would end it. What then is left is only the price of the holes between keys: the cache is as wished.
func resizePods(d *draft) {
	wanted := wire.CacheLimit(d.Plan.Design.Memory())
	for _, instance := range d.Instances {
		pod, report := instance.Pod, instance.Report
		if d.Invalid || pod == nil || pod.Deleting || pod.Stuck != "" {
			continue
		}
		target := max(wanted, wire.CacheNeeds(report.Resident))
		switch {
		case pod.Limit == wanted:
			waitForResize(d, instance)
		case pod.Limit < wanted:
			resizePod(d, instance, wanted)
		case !report.Reachable || report.Allowed == 0 || report.Allowed > d.Plan.Design.Memory():
			d.Hold(cache.Progressing, soon, "MemoryShrinking", fmt.Sprintf(
				"the container of %s shrinks when its server has let go of what no longer fits", instance.Name))
		case target == wanted || pod.Limit-target >= pod.Limit/worthwhile:
			resizePod(d, instance, target)
		}
		if pod.Limit > wanted && target > wanted {
			d.Plan.Pending = append(d.Plan.Pending, fmt.Sprintf(
				"the container of %s shrinks to %s as its server closes the holes that evicted keys have left",
				instance.Name, size(wanted)))
			d.Plan.Again = min(d.Plan.Again, often)
		}
	}
}

// worthwhile is the part of a container that has to be won for a step on the way.
const worthwhile = 8

func resizePod(d *draft, instance cache.Instance, bytes int64) {
	pod := instance.Pod
	d.Change(cache.Action{
		Do: cache.ResizePod{Bytes: bytes}, Kind: cache.KindPod, Name: cache.PodName(instance.Name),
		UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		Why: fmt.Sprintf("from %s to %s of memory", size(pod.Limit), size(bytes)),
	})
}

// waitForResize says how far the kubelet has come.
func waitForResize(d *draft, instance cache.Instance) {
	pod := instance.Pod
	switch {
	case pod.Resize == cache.ResizeInfeasible:
		d.Hold(cache.Degraded, later, "ResizeInfeasible", fmt.Sprintf(
			"the node of %s can never give it %s: %s; ask for less in spec.memory, or delete the pod %s to have it placed "+
				"elsewhere, empty", instance.Name, size(pod.Limit), pod.Message, cache.PodName(instance.Name)))
	case pod.Resize == cache.ResizeDeferred:
		d.Hold(cache.Degraded, later, "ResizeDeferred", fmt.Sprintf(
			"the node of %s has no room for %s now: %s", instance.Name, size(pod.Limit), pod.Message))
	case pod.Resize == cache.ResizeRunning || pod.Actual != 0 && pod.Actual != pod.Limit:
		d.Hold(cache.Progressing, later, "ContainerResizing", fmt.Sprintf(
			"the container of %s gets %s", instance.Name, size(pod.Limit)))
	}
}

// size is a number of bytes for people.
func size(bytes int64) string {
	const mebi = 1 << 20
	if bytes%mebi == 0 {
		return fmt.Sprintf("%dMi", bytes/mebi)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// replaceStuckPods deletes a pod whose containers never started when its StatefulSet has another template for it by
// now, or another size: there is no server in it that could lose anything.
func replaceStuckPods(d *draft) {
	for _, instance := range d.Instances {
		pod, set := instance.Pod, instance.Set
		if pod == nil || set == nil || pod.Stuck == "" || pod.Deleting || !set.Observed {
			continue
		}
		if pod.Template == set.Template && pod.Limit == wire.CacheLimit(d.Plan.Design.Memory()) || d.changes(instance.Name) {
			continue
		}
		d.Change(cache.Action{
			Do: cache.DeletePod{}, Kind: cache.KindPod, Name: cache.PodName(instance.Name),
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Why: "it could not start (" + pod.Stuck + ") and its template has changed since",
		})
	}
}

// changes says that the StatefulSet of an instance is not written as wanted yet: a pod that is made again too early is
// made from the old template.
func (d *draft) changes(instance string) bool {
	child, found := d.Child(cache.KindSet, instance)
	return !found || child.State != cache.Same
}

// waitForInstances names, for each instance, the first thing that it waits for.
func waitForInstances(d *draft) {
	hash := render.Settings(d.Plan.Design).Hash()
	for _, name := range d.Plan.Design.Instances {
		instance, found := d.Instance(name)
		if !found {
			instance = cache.Instance{Name: name}
		}
		waitForInstance(d, instance, hash)
	}
}

// patience is when an instance that is not ready and gives no report is asked again: soon if it was there. Nodes that
// could not reach the API server are not ready for a while either, and one answer that did not come in time would be
// all that anybody is told meanwhile.
func (d *draft) patience(instance string) time.Duration {
	if slices.Contains(d.Lease.Members, instance) {
		return soon
	}
	return later
}

func waitForInstance(d *draft, instance cache.Instance, hash string) {
	pod, report := instance.Pod, instance.Report
	switch {
	case pod == nil && (d.Stopped || d.Invalid):
		// Nothing is made, so there is nothing to wait for but what has stopped us.
	case pod == nil:
		d.Hold(cache.Progressing, 0, "InstanceStarting", instance.Name+" has no pod yet")
	case d.Lease.Term > 0 && d.overdue(pod.EndsBy):
		// It does not come any nearer to its end, so that nothing is under way: tellMissing says what is the matter.
	case pod.Deleting:
		d.Hold(cache.Progressing, 0, "InstanceStopping", "the pod of "+instance.Name+" is being deleted")
	case pod.Stuck != "":
		d.Hold(cache.Progressing, 0, "InstanceStuck", fmt.Sprintf("%s cannot start: %s", instance.Name, pod.Stuck))
	case !pod.Ready && report.Reachable:
		d.Hold(cache.Progressing, soon, "InstanceStarting",
			strings.TrimRight(fmt.Sprintf("%s is %s: %s", instance.Name, report.State, report.Message), ": "))
	case !pod.UnplacedSince.IsZero():
		d.Hold(cache.Progressing, soon, "InstanceStarting", instance.Name+" waits for a node")
	case !pod.Ready:
		d.Hold(cache.Progressing, d.patience(instance.Name), "InstanceStarting", instance.Name+" is not ready")
	case !report.Reachable:
		d.Hold(cache.Progressing, soon, "AgentUnreachable",
			fmt.Sprintf("the agent of %s gives no report: %s", instance.Name, report.Problem))
	default:
		waitForReport(d, instance, hash)
	}
}

// waitForReport names what an instance that is up waits for by its own word.
func waitForReport(d *draft, instance cache.Instance, hash string) {
	pod, report := instance.Pod, instance.Report
	switch {
	case report.Reason == string(wire.ReasonMemoryLimited) &&
		(pod.Resize == cache.ResizeDeferred || pod.Resize == cache.ResizeInfeasible):
		// waitForResize has said why the settings cannot be in force.
	case report.SettingsHash != hash && !d.Stopped && !d.Invalid:
		d.Hold(cache.Progressing, soon, "SettingsNotInForce",
			instance.Name+" has not put the latest memory and settings in force yet")
	case report.Reason == string(wire.ReasonUpstreamMissing) && !slices.Contains(d.Lease.Members, instance.Name):
		// Nobody counts on it yet: it waits for a primary that has just begun.
		d.Hold(cache.Progressing, soon, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	case report.Reason != "":
		d.Hold(cache.Degraded, later, report.Reason, fmt.Sprintf("%s: %s", instance.Name, report.Message))
	}
}

// missingAfter is for how long an instance may be away before that is more than a restart or a move.
const missingAfter = time.Minute

// overdue says that a moment is longer ago than that. If it is about to be, there is another look then.
func (d *draft) overdue(since time.Time) bool {
	if since.IsZero() {
		return false
	}
	at := since.Add(missingAfter)
	if d.Now.Before(at) {
		d.Look(d.Now, at)
	}
	return !d.Now.Before(at)
}

// tellMissing says which instances have been away for longer. The pod on a lost node is deleted in vain, and no other
// one takes its place: only a human knows whether the node comes back.
func tellMissing(d *draft) {
	if d.Lease.Term == 0 {
		return // There is nothing yet that could be missing.
	}
	well, missing := 0, []string(nil)
	for _, name := range d.Plan.Design.Instances {
		instance, _ := d.Instance(name)
		pod := instance.Pod
		switch {
		case pod == nil:
		case instance.Up():
			well++
		case d.overdue(pod.EndsBy):
			missing = append(missing, fmt.Sprintf("the pod of %s is being deleted, and its node %s does not say that it has "+
				"ended; if that never comes back, delete the Node or taint it node.kubernetes.io/out-of-service", name, pod.Node))
		case d.overdue(pod.AwaySince):
			missing = append(missing, name+" is not ready since "+pod.AwaySince.UTC().Format(time.RFC3339))
		}
	}
	if len(missing) > 0 {
		d.Hold(cache.Degraded, 0, "CopiesMissing", fmt.Sprintf("%d of %d instances are well: %s",
			well, len(d.Plan.Design.Instances), strings.Join(missing, "; ")))
	}
}

// restartPods carries out what takes effect at a restart, in a cache of several instances: one pod at a time, the
// primary last, which hands over before it ends. The next one follows when the last is back and has everything. What
// only a new version of Meridian has changed is taken along by the next restart, whatever its reason.
func restartPods(d *draft) {
	var next *cache.Instance
	for _, name := range d.Plan.Design.Instances {
		instance, _ := d.Instance(name)
		if len(d.outdated(instance)) == 0 {
			continue
		}
		if next == nil || next.Name == d.Lease.Holder {
			next = &instance
		}
	}
	// Which instances are outdated is known when all templates are written: of some of them, the primary could be the only
	// one, and would move first instead of last.
	if next == nil || len(d.Plan.Design.Instances) < 2 || d.Invalid ||
		slices.ContainsFunc(d.Plan.Design.Instances, d.changes) {
		return
	}
	what := strings.Join(d.outdated(*next), ", ")
	d.Hold(cache.Progressing, soon, "Rolling", fmt.Sprintf("the instances take over %s, one after the other", what))
	if d.settled() && !d.Writes(cache.KindPod, cache.PodName(next.Name)) {
		d.Change(cache.Action{
			Do: cache.RestartPod{}, Kind: cache.KindPod, Name: cache.PodName(next.Name),
			UID: next.Pod.UID, ResourceVersion: next.Pod.ResourceVersion, Why: "it takes over " + what,
		})
	}
}

// outdated lists what an instance takes over at its next restart because the spec asks for it.
func (d *draft) outdated(instance cache.Instance) []string {
	pod, set := instance.Pod, instance.Set
	if pod == nil || set == nil || pod.Deleting || pod.Stuck != "" {
		return nil
	}
	pending := slices.Clone(instance.Report.PendingRestart)
	if pod.Template != set.Template && pod.Wish != render.Wish(d.Spec) {
		pending = append(pending, "its new pod template")
	}
	return pending
}

// settled says that every instance is well: one leads, and the others have everything that it has.
func (d *draft) settled() bool {
	for _, instance := range d.Instances {
		if !d.Healthy(instance) {
			return false
		}
	}
	return len(d.Plan.Design.Leaving) == 0 && len(d.Instances) == len(d.Plan.Design.Instances)
}

// tellPendingRestarts lists what is written and takes effect when a pod starts again. Of a cache with one instance a
// restart loses everything, so it is left to the user; saying that all is well would not be true.
func tellPendingRestarts(d *draft) {
	for _, instance := range d.Instances {
		pod, set := instance.Pod, instance.Set
		if pod == nil || set == nil {
			continue
		}
		pending := d.outdated(instance)
		if len(pending) == 0 {
			if pod.Template != set.Template && pod.Stuck == "" {
				message := instance.Name + " takes over the pod template of this version of Meridian at its next restart"
				d.Plan.Pending = append(d.Plan.Pending, message)
				d.Plan.Restarts = append(d.Plan.Restarts, message)
			}
			continue
		}
		message := fmt.Sprintf("%s takes over %s at its next restart", instance.Name, strings.Join(pending, ", "))
		d.Plan.Pending = append(d.Plan.Pending, message)
		if len(d.Plan.Design.Instances) < 2 {
			d.Hold(cache.Degraded, 0, "RestartPending", fmt.Sprintf(
				"%s, which empties a cache of one instance: delete the pod %s when it suits you, or set spec.replicas to 2 "+
					"or more to have it done without a loss", message, cache.PodName(instance.Name)))
		}
	}
}
