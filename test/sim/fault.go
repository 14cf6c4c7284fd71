package sim

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/databases"
)

// PointKind is a kind of place where something may go wrong.
type PointKind string

// The places. Each agent counts its own.
const (
	PointRead    PointKind = "read"
	PointWrite   PointKind = "write"
	PointMessage PointKind = "message"
	PointStore   PointKind = "store"
	PointFence   PointKind = "fence"
	PointBefore  PointKind = "before"
	PointAfter   PointKind = "after"
	// PointTake is a write that takes the lease, PointTransfer one that gives it away, PointChange one that changes its
	// record, PointAnswer the moment right after the answer to a ballot.
	PointTake     PointKind = "take"
	PointTransfer PointKind = "transfer"
	PointChange   PointKind = "change"
	PointAnswer   PointKind = "answer"
	// PointRecord is the moment right after the holder has changed the record.
	PointRecord PointKind = "record"
	// PointLook is a read of the write address or of what pods say, PointShow a write of the write address or of the
	// labels of the own pod.
	PointLook PointKind = "look"
	PointShow PointKind = "show"
	// PointAct is the moment before the loop of a server does something.
	PointAct PointKind = "act"
	// PointTell is the moment when a replica has got the history of a timeline from a server, and no WAL yet.
	PointTell PointKind = "tell"
	// PointTime is a moment, not a place.
	PointTime PointKind = ""
)

type pointKey struct {
	node int
	kind PointKind
}

// FaultKind is what goes wrong.
type FaultKind string

// What goes wrong at a call.
const (
	FaultNone       FaultKind = ""
	FaultRefused    FaultKind = "refused"
	FaultApplied    FaultKind = "unknown-applied"
	FaultNotApplied FaultKind = "unknown-not-applied"
	FaultLate       FaultKind = "late"
	FaultAppliedCut FaultKind = "applied-then-cut"
	// FaultForgotten is a write that is done late, of an agent that ends at once and is cut off after its first read.
	FaultForgotten FaultKind = "late-and-restarted"
	// FaultCrashBefore ends the agent right before a write is sent, FaultCrashAfter right after that: it is done, and
	// nobody hears of it.
	FaultCrashBefore FaultKind = "crash-before"
	FaultCrashAfter  FaultKind = "crash-after"
	FaultLost        FaultKind = "lost"
	FaultReplyLost   FaultKind = "reply-lost"
	FaultTwice       FaultKind = "twice"
	FaultFails       FaultKind = "fails"
)

// What goes wrong with a machine, at a place or at a moment.
const (
	FaultCrash      FaultKind = "crash"
	FaultPowerOff   FaultKind = "power-off"
	FaultFreeze     FaultKind = "freeze-agent"
	FaultFreezePod  FaultKind = "freeze-pod"
	FaultPause      FaultKind = "pause-machine"
	FaultClockStep  FaultKind = "wall-clock-put-forward"
	FaultVolumeLost FaultKind = "volume-lost"
	FaultKillServer FaultKind = "kill-server"
	FaultHang       FaultKind = "hang-loop-of-the-server"
	FaultClock      FaultKind = "wall-clock-put-back"
	// What goes wrong with a server beside its loop, in worlds that have both.
	FaultDisk       = FaultKind(databases.TroubleDisk)
	FaultServer     = FaultKind(databases.TroubleServer)
	FaultCheckpoint = FaultKind(databases.TroubleCheckpoint)
	FaultReplay     = FaultKind(databases.TroubleReplay)
	FaultSilent     = FaultKind(databases.TroubleSilent)
	FaultMuch       = FaultKind(databases.TroubleMuch)
	FaultCancel     = FaultKind(databases.TroubleCancel)
	FaultLong       = FaultKind(databases.TroubleLong)
	// FaultPutBack makes the claim of a volume again from an older state of it, which Other chooses.
	FaultPutBack FaultKind = "volume-put-back"
)

// What goes wrong at a moment.
const (
	FaultCut        FaultKind = "cut-from-all"
	FaultCutAPI     FaultKind = "cut-from-api"
	FaultCutPeers   FaultKind = "cut-from-peers"
	FaultCutOneWay  FaultKind = "cut-one-way"
	FaultAPIAway    FaultKind = "api-away"
	FaultWatchDead  FaultKind = "watch-dead"
	FaultTerminate  FaultKind = "terminate"
	FaultSwitchover FaultKind = "switchover"
	FaultWish       FaultKind = "wish"
	FaultFlush      FaultKind = "flush"
	FaultLease      FaultKind = "lease-duration"
	FaultSettings   FaultKind = "settings-late" // They come to the pod only after so long.
	FaultAllCrash   FaultKind = "all-crash"
	FaultAllOff     FaultKind = "all-power-off"
	FaultRoute      FaultKind = "write-address-changed"
	FaultRouteGone  FaultKind = "write-address-gone"
	// FaultLeaseLost deletes the lease, FaultLeaseBack puts it back to what it was, FaultGiveUp is a user's word that
	// copies are gone, FaultOperator keeps the operator from doing anything.
	FaultLeaseLost FaultKind = "lease-lost"
	FaultLeaseBack FaultKind = "lease-put-back"
	FaultGiveUp    FaultKind = "copies-given-up"
	FaultOperator  FaultKind = "operator-away"
)

// Whom a fault at a moment hits, if it is not an index.
const (
	Holder  = -1
	Replica = -2
	Target  = -3
	// LastReplica is another one than Replica, if there are two.
	LastReplica = -4
)

// Fault is one thing that goes wrong.
type Fault struct {
	Kind FaultKind
	// Point and Ordinal are the place, At the moment if there is no place.
	Point   PointKind
	Ordinal int
	At      time.Duration
	Node    int
	Other   int
	For     time.Duration
	// Wish is how many instances are wanted from then on.
	Wish int
}

// String is the fault for people.
func (f Fault) String() string {
	if f.Point != PointTime {
		return fmt.Sprintf("%s at %s %d of node %d for %s", f.Kind, f.Point, f.Ordinal, f.Node, f.For)
	}
	return fmt.Sprintf("%s of node %d (%d) at %s for %s wish %d", f.Kind, f.Node, f.Other, f.At, f.For, f.Wish)
}

func (w *World) plant(faults []Fault) {
	w.faults = map[pointKey]map[int]*Fault{}
	for _, fault := range faults {
		if fault.Point == PointTime {
			w.after(fault.At, func() { w.befall(fault) })
			continue
		}
		key := pointKey{fault.Node, fault.Point}
		if w.faults[key] == nil {
			w.faults[key] = map[int]*Fault{}
		}
		w.faults[key][fault.Ordinal] = &fault
	}
}

// whom is the node that a fault hits now.
func (w *World) whom(index int) *node {
	if index >= 0 {
		return w.nodes[index%len(w.nodes)]
	}
	nodes := slices.Clone(w.nodes)
	if index == LastReplica {
		slices.Reverse(nodes)
	}
	for _, n := range nodes {
		if holds := n.name == w.api.holder; n.wanted && holds == (index == Holder) {
			return n
		}
	}
	return w.nodes[0]
}

// strike hits one machine.
func (w *World) strike(n *node, fault *Fault) {
	w.note(n.index, "FAULT %s for %s", fault.Kind, fault.For)
	back := max(fault.For, time.Second)
	switch fault.Kind {
	case FaultFreeze:
		n.frozen = max(n.frozen, w.now+fault.For)
	case FaultFreezePod:
		n.freeze(w.now + fault.For)
	case FaultSettings:
		n.settings = w.now + fault.For
	case FaultPause:
		n.freeze(w.now + fault.For)
		at := n.clock()
		// A machine that is paused already loses only what this pause adds.
		lost := max(0, w.now+fault.For-max(w.now, n.paused))
		n.lostTime += lost
		n.paused = max(n.paused, w.now+fault.For)
		n.jumps = append(n.jumps, tenure.Jump{At: at + 1, By: lost})
	case FaultClockStep:
		n.jumps = append(n.jumps, tenure.Jump{At: n.clock(), By: fault.For})
		n.stepped += fault.For
	case FaultPowerOff:
		n.powerOff()
		n.bootUp()
		if w.cluster != nil {
			n.wanted = false // Its pod may be there, and does nothing.
			w.cluster.PoweredOff(n.index, back)
			return
		}
		n.restart(back)
	case FaultVolumeLost:
		n.end()
		n.move()
		if n.cache == nil && w.spares(n) {
			n.volume = volume{copy: dataCopy{data: tenure.DataNone}}
			n.loseVolume()
			delete(w.truth.known, n.index)
		}
		n.restart(back)
	case FaultPutBack:
		n.end()
		n.move()
		if w.spares(n) {
			n.putBack(fault.Other)
		}
		n.restart(back)
	case FaultKillServer:
		n.killServer("somebody has killed it")
	case FaultClock:
		n.stepped -= fault.For
	case FaultDisk, FaultServer, FaultCheckpoint, FaultReplay, FaultSilent, FaultMuch, FaultCancel, FaultLong:
		n.trouble(fault)
	case FaultHang:
		n.hang(w.now + fault.For)
	default:
		n.end()
		n.restart(w.between(500*time.Millisecond, 3*time.Second))
	}
}

// spares says that the copy of a node may be lost: nobody can promise anything without the only one.
func (w *World) spares(n *node) bool {
	record := w.truth.record
	if record == nil || !record.Initialised {
		return false
	}
	whole := 0
	for _, member := range record.Members {
		other := w.named(member.Name)
		if copied := other.held(); other != n && copied.incarnation == member.Incarnation && copied.data == tenure.DataWhole {
			whole++
		}
	}
	return whole > len(record.Members)-record.W ||
		!record.Has(wire.Member{Name: n.name, Incarnation: n.incarnation()})
}

// befall hits the world at a moment.
func (w *World) befall(fault Fault) {
	n := w.whom(fault.Node)
	w.fired++
	if w.cluster != nil && w.cluster.Befall(fault) {
		return
	}
	switch fault.Kind {
	case FaultCut, FaultCutAPI, FaultCutPeers, FaultCutOneWay:
		w.note(n.index, "FAULT %s for %s", fault.Kind, fault.For)
		w.cutOff(n, fault, true)
		w.after(fault.For, func() { w.cutOff(n, fault, false) })
	case FaultAPIAway:
		w.note(-1, "FAULT the API server is away for %s", fault.For)
		w.api.away = true
		w.after(fault.For, func() { w.api.away = false })
	case FaultLeaseLost, FaultLeaseBack, FaultGiveUp, FaultOperator:
		w.note(-1, "FAULT %s", fault.Kind)
		w.loseTheLease(fault)
	case FaultRoute, FaultRouteGone:
		w.note(-1, "FAULT somebody changes the write address: %s", fault.Kind)
		w.api.route.address, w.api.route.term = "", 0
		if fault.Kind == FaultRouteGone {
			w.api.route.gone = w.now + fault.For
		}
		w.api.routeChanged()
	case FaultWatchDead:
		n.watchDead = w.now + fault.For
	case FaultTerminate:
		w.terminate(n)
	case FaultSwitchover:
		w.askSwitchover(fault)
	case FaultFlush:
		w.flush = w.identity("flush-")
		w.emptyTheCache(w.flush)
	case FaultWish:
		w.wish(fault.Wish)
	case FaultLease:
		w.setLease([]time.Duration{4 * time.Second, 10 * time.Second, 20 * time.Second}[fault.Wish%3])
		w.publishPolicy()
	case FaultAllCrash, FaultAllOff:
		kind := map[FaultKind]FaultKind{FaultAllCrash: FaultCrash, FaultAllOff: FaultPowerOff}[fault.Kind]
		for _, each := range w.nodes {
			w.strike(each, &Fault{Kind: kind, For: w.between(time.Second, 5*time.Second)})
		}
	default:
		w.strike(n, &fault)
	}
}

func (w *World) loseTheLease(fault Fault) {
	switch fault.Kind {
	case FaultLeaseLost:
		// Before there is data nobody mends it: the user makes the database anew.
		if w.truth.record != nil && w.truth.record.Initialised {
			w.api.lose()
		}
	case FaultLeaseBack:
		w.api.restore(fault.Other, fault.Wish%2 == 1)
	case FaultGiveUp:
		w.api.giveUp()
	default:
		w.operatorAway = w.now + fault.For
	}
}

func (w *World) cutOff(n *node, fault Fault, cut bool) {
	if fault.Kind == FaultCut || fault.Kind == FaultCutAPI {
		w.api.cutFrom[n.index] = cut
	}
	for _, other := range w.nodes {
		if other == n {
			continue
		}
		switch fault.Kind {
		case FaultCut, FaultCutPeers:
			w.cut[n.index][other.index], w.cut[other.index][n.index] = cut, cut
		case FaultCutOneWay:
			if other.index == fault.Other%len(w.nodes) {
				w.cut[n.index][other.index] = cut
			}
		default:
		}
	}
	if w.database != nil {
		w.database.NetworkChanged()
	}
}

// terminate is SIGTERM with a grace period; a new pod comes after it.
func (w *World) terminate(n *node) {
	if n.agent == nil {
		return
	}
	w.note(n.index, "FAULT the pod is told to end")
	n.leaving = true
	n.agent.soon(time.Millisecond)
	life := n.life
	w.after(60*time.Second, func() {
		if n.life == life {
			w.note(n.index, "the grace period is over")
			n.end()
			n.move()
			n.restart(time.Second)
		}
	})
}

func (w *World) askSwitchover(fault Fault) {
	n := w.whom(Holder)
	if n.agent == nil {
		return
	}
	wish := wire.Switchover{ID: w.identity("switchover-")}
	if fault.Other > 0 {
		wish.Target = w.nodes[fault.Other%len(w.nodes)].name
	}
	w.note(n.index, "a switchover is asked for, target %q", wish.Target)
	n.agent.take(tenure.SwitchoverAsked{Switchover: wish})
}

// wish changes how many instances are wanted. Pods come at once, and go when they are members no more.
func (w *World) wish(count int) {
	w.policy.Instances = nil
	for _, n := range w.nodes[:min(count, len(w.nodes))] {
		w.policy.Instances = append(w.policy.Instances, n.name)
		if !n.wanted {
			n.wanted = true
			n.restart(w.between(0, time.Second))
		}
	}
	w.publishPolicy()
}

func (w *World) setLease(duration time.Duration) {
	w.policy = w.policy.For(duration)
}

// publishPolicy lets the settings come to the instances, each in its time and none back to older ones.
func (w *World) publishPolicy() {
	policy := w.policy
	w.published++
	for _, n := range w.nodes {
		edition := w.published
		w.after(max(w.between(10*time.Millisecond, 2*time.Second), n.settings-w.now), func() {
			if edition > n.edition {
				n.edition = edition
				n.seen(policy)
			}
		})
	}
}

// operate is the little that the operator does in this world.
func (w *World) operate() {
	w.after(3*time.Second, w.operate)
	if w.now < w.operatorAway || w.api.away {
		return
	}
	w.operateTheLease()
	if w.api.lease.Record == nil && w.truth.record != nil {
		return // Nothing is added or taken away while the lease is lost.
	}
	holder := w.whom(Holder)
	for _, n := range w.nodes {
		wanted := slices.Contains(w.policy.Instances, n.name)
		record := w.api.lease.Record
		member := record != nil && slices.ContainsFunc(record.Members, func(m wire.Member) bool { return m.Name == n.name })
		switch {
		case wanted || !n.wanted:
		case n == holder && w.api.lease.Holder.Name == n.name:
			w.askSwitchover(Fault{})
		case !member:
			w.note(n.index, "the pod is not wanted any more")
			n.wanted = false
			n.end()
			n.renew()
		}
	}
}

// operateTheLease makes the lease that shall take the place of a lost one, and tells of it once it has.
func (w *World) operateTheLease() {
	lease := w.api.lease
	switch {
	case w.caches != nil:
		w.operateTheCachesLease()
	case lease.UID == "":
		w.note(-1, "the operator makes a lease in the place of %s", w.policy.LeaseUID)
		w.api.create(w.policy.LeaseUID, w.lostBefore)
	case lease.UID != w.policy.LeaseUID && lease.Record != nil && lease.Record.Initialised:
		w.lostBefore = wire.LostBefore(lease.UID, w.lostBefore, lease.Record.Succeeds)
		w.policy.LeaseUID = lease.UID
		w.publishPolicy()
	case w.calm && w.truth.vacant() && lease.GivenUp == nil:
		// In the end there is a user who looks which copies are gone.
		w.after(30*time.Second, func() {
			if w.truth.vacant() && w.api.lease.GivenUp == nil {
				w.api.giveUp()
			}
		})
	}
}
