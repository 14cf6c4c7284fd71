package sim

import (
	"cmp"
	"slices"
	"time"

	agents "meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/tenure/status"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/caches"
)

// Cluster is what surrounds the agents where a world has more of it than a lease and a write address: the objects of an
// API server, pods that are made and told to end, and settings that are mounted. Package operated has one. What it does
// to the agents goes by the methods of World below, and what the agents do to it by these.
type Cluster interface {
	// WriteLease carries out a write whose version is the present one, and shows the lease by ShowLease.
	WriteLease(write tenure.Write) bool
	// WriteRoute leads the write address there, and shows it by ShowRoute. Label changes the labels of a pod.
	WriteRoute(who int, address string, term int64) bool
	Label(who int, labels tenure.Labelled) bool
	// Certificate and Logins are what is mounted into a pod.
	Certificate(who int) string
	Logins(who int) postgres.Logins
	// Ended is the container of a pod that was told to end. PoweredOff is a machine, for so long.
	Ended(who int)
	PoweredOff(who int, lasting time.Duration)
	// Befall carries out a fault that is this cluster's own.
	Befall(fault Fault) bool
	// Unsettled says what is not as wished, empty if all is, and Serves whether applications are to be served in the end.
	Serves() bool
	Unsettled() string
}

// ShowLease tells the agents what the lease is by now.
func (w *World) ShowLease(view tenure.View) {
	w.api.lease = view
	if view.UID == "" {
		w.api.before = nil
		for _, n := range w.nodes {
			w.api.tell(n)
		}
		return
	}
	w.api.holder = cmp.Or(view.Holder.Name, w.api.holder)
	w.api.show()
}

// ShowRoute tells the agents where the write address leads by now. Absent says that there is none.
func (w *World) ShowRoute(address string, term int64, absent bool) {
	w.api.route.address, w.api.route.term, w.api.route.gone = address, term, 0
	if absent {
		w.api.route.gone = never
	}
	w.api.routeChanged()
}

// never is when something comes back that is gone for good.
const never = time.Duration(1<<63 - 1)

// Wish is what the settings ask for, in the end of all instances.
func (w *World) Wish(settings wire.Settings) {
	w.policy = agents.PolicyOf(settings, true, w.caches != nil)
}

// Mount has settings come to a pod.
func (w *World) Mount(who int, settings wire.Settings) {
	n := w.nodes[who]
	n.mounted = &settings
	n.seen(agents.PolicyOf(settings, true, w.caches != nil))
}

// MountCache has everything come to a pod of a cache, with the settings in the words of the lease.
func (w *World) MountCache(who int, given caches.Mounted, settings wire.Settings) {
	w.nodes[who].given = &given
	w.Mount(who, settings)
}

// StartPod starts the container of a pod at its address, and EndPod ends it for good. In between it may end and start
// again by itself.
func (w *World) StartPod(who int, address string) {
	n := w.nodes[who]
	n.wanted, n.leaving, n.address = true, false, address
	n.start()
}

// EndPod ends the container.
func (w *World) EndPod(who int) {
	n := w.nodes[who]
	n.wanted, n.leaving, n.cut = false, false, ""
	n.end()
	n.renew()
}

// TellToEnd is SIGTERM.
func (w *World) TellToEnd(who int) {
	n := w.nodes[who]
	if n.leaving = true; n.agent == nil {
		n.wanted = false
		w.cluster.Ended(who)
		return
	}
	n.agent.soon(time.Millisecond)
}

// LoseVolume is another volume in the place of the one before.
func (w *World) LoseVolume(who int) {
	n := w.nodes[who]
	n.volume = volume{copy: dataCopy{data: tenure.DataNone}}
	n.loseVolume()
	delete(w.truth.known, who)
}

// Spares says that the copy of an instance may be lost.
func (w *World) Spares(who int) bool { return w.spares(w.nodes[who]) }

// Reached says that the container of a pod lives, and that somebody beside the API server gets through to it.
func (w *World) Reached(who int) bool {
	n := w.nodes[who]
	cut := w.api.cutFrom[who] && slices.ContainsFunc(w.nodes, func(other *node) bool { return w.cut[other.index][who] })
	return n.agent != nil && !cut && w.now >= max(n.frozen, n.frozenPod)
}

// Report is what the agent tells of its instance, by the stages of production.
func (w *World) Report(who int) (wire.Report, bool) {
	n := w.nodes[who]
	if n.agent == nil {
		return wire.Report{}, false
	}
	report, ok := n.database.Report()
	if shown, told := n.agent.shown(); ok && told {
		return status.Complete(report, shown.Snapshot, shown.Plan), true
	}
	return report, ok
}

// ReportCache is that of an instance of a cache.
func (w *World) ReportCache(who int) (wire.CacheReport, bool) {
	n := w.nodes[who]
	if n.agent == nil {
		return wire.CacheReport{}, false
	}
	report, ok := n.cache.Report()
	if shown, told := n.agent.shown(); ok && told {
		return status.CompleteCache(report, shown.Snapshot, shown.Plan), true
	}
	return report, ok
}

// shown is what the loop of the lease has shown last.
func (a *agent) shown() (controller.Shown, bool) {
	loop, shows := a.loop.(interface {
		Shown() (controller.Shown, bool)
	})
	if !shows {
		return controller.Shown{}, false
	}
	return loop.Shown()
}

// Ready is what the probe of the kubelet is told.
func (w *World) Ready(who int) bool {
	n := w.nodes[who]
	return n.agent != nil && (n.cache != nil && n.cache.Ready() || n.database != nil && n.database.Ready())
}

// Copy is the incarnation of the copy of an instance, empty if it has none, and Leads the term at which applications
// write there, if they do.
func (w *World) Copy(who int) string { return w.nodes[who].incarnation() }

// Leads says whether applications write there, and at which term.
func (w *World) Leads(who int) (term int64, leads bool) { return w.nodes[who].leading() }

// AskSwitchover hands a request to an agent, and its answer back.
func (w *World) AskSwitchover(who int, wish wire.Switchover, answer func(wire.SwitchoverReply)) {
	if a := w.nodes[who].agent; a != nil {
		a.nextID++
		a.decided[a.nextID] = answer
		a.take(tenure.SwitchoverAsked{ID: a.nextID, Switchover: wish})
	}
}

// AskFlush hands a request to empty the cache to an agent.
func (w *World) AskFlush(who int, id string) {
	if n := w.nodes[who]; n.agent != nil {
		n.agent.inAgent(func() { n.cache.Ask(id) })
	}
}

// AnotherLease has terms begin again: the lease of a cache was lost, and nobody has obeyed it.
func (w *World) AnotherLease() {
	w.truth.record, w.truth.highest = nil, 0
	w.caches.BeginAnew()
}

// Away says that the API server does not answer.
func (w *World) Away() bool { return w.api.away }

// Meets is what goes wrong at a place that belongs to no machine, nil if nothing does.
func (w *World) Meets(kind PointKind) *Fault {
	key := pointKey{nowhere, kind}
	count := w.points[key]
	w.points[key] = count + 1
	fault := w.faults[key][count]
	if fault == nil || w.calm {
		return nil
	}
	w.fired++
	w.note(-1, "FAULT at %s %d: %s", kind, count, fault.Kind)
	return fault
}

// nowhere is in the place of a machine for what happens on none.
const nowhere = -1

// UnsettledInstances says what of the instances is not as wished.
func (w *World) UnsettledInstances() string {
	if w.caches != nil {
		return w.unsettledCache()
	}
	return w.unsettledDatabase()
}

// Stored is the record of the lease that was written last.
func (w *World) Stored() *wire.LeaseRecord { return w.truth.record }

// Holder is who holds the lease.
func (w *World) Holder() wire.Member { return w.api.lease.Holder }

// Whom is the instance that a fault hits now.
func (w *World) Whom(index int) int { return w.whom(index).index }

// Act counts something that is done. A settled world has nothing to do.
func (w *World) Act() { w.lively++ }
