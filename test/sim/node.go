package sim

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/caches"
	"meridian.dev/meridian/test/sim/databases"
)

// node is a machine with one pod: agent, watchdog, server and volume.
type node struct {
	w      *World
	index  int
	name   string
	silent bool // The machine goes: nobody hears of the end of what ran there.
	// life changes when the container ends: what was begun in an earlier one comes to nothing.
	life    int
	leaving bool // The pod was deleted, and comes back when it has ended.
	wanted  bool
	address string

	boot     string
	bootAt   time.Duration
	bootBase tenure.Instant
	rate     float64
	jumps    tenure.Jumps
	settings time.Duration // Until when no settings come to the pod.
	lostTime time.Duration
	stepped  time.Duration // By how much the wall clock was moved.

	edition     int           // The last one of the settings that has come here.
	frozen      time.Duration // The agent does nothing until then.
	frozenPod   time.Duration // Nor does anything else in the pod.
	paused      time.Duration // Nor does the clock of the machine.
	watchDead   time.Duration
	watchBroken bool
	policy      tenure.Policy
	mounted     *wire.Settings  // Where settings are mounted as a whole.
	given       *caches.Mounted // What a pod of a cache is given then.
	cut         string          // The annotation of the pod.

	volume volume
	past   []volume // Older states of the volume, the latest last: snapshots that somebody has made.
	agent  *agent
	server *server
	cache  *caches.Pod // Instead of the server, where the data is in memory.
	// database is the server with the loop of production, instead of the model of both.
	database *databases.Pod
	// hurt is when it last could not hear or say everything, and hungUntil until when the loop of its server hangs.
	hurt, hungUntil time.Duration
	guard           tenure.Guard
	armed           int
}

// volume is what a crash leaves.
type volume struct {
	stored tenure.Stored
	copy   dataCopy
}

// Snapshots is how many older states of a volume there are.
const Snapshots = 4

// remember makes snapshots of all volumes, now and then.
func (w *World) remember() {
	for _, n := range w.nodes {
		if n.volume.copy.data == tenure.DataWhole {
			n.past = append(n.past, n.volume)
			n.past = n.past[max(0, len(n.past)-Snapshots):]
		}
	}
	w.after(2*time.Second, w.remember)
}

// putBack makes the volume what it was: the copy, and what is stored beside it. It comes with another claim, by which
// the agent knows (I1). That the agent can read its claim is taken for granted: a pod does not start without the API
// server.
func (n *node) putBack(which int) {
	if len(n.past) == 0 {
		return
	}
	n.volume = n.past[which%len(n.past)]
	n.volume.copy.log = slices.Clone(n.volume.copy.log)
	n.w.note(n.index, "the volume is put back to %s", n.volume.copy.position())
	if n.w.bug != BugClaimIgnored {
		n.volume.copy.data, n.volume.copy.incarnation = tenure.DataPutBack, ""
	}
	n.past = nil
	n.w.putBack++
	delete(n.w.truth.known, n.index)
}

// clock is the time since the boot.
func (n *node) clock() tenure.Instant {
	since := float64(n.w.now-n.bootAt-n.lostTime) * n.rate
	return n.bootBase.Add(time.Duration(since))
}

// when is the true time of a moment of this machine.
func (n *node) when(at tenure.Instant) time.Duration {
	return n.bootAt + n.lostTime + time.Duration(float64(at.Since(n.bootBase))/n.rate)
}

func (n *node) bootUp() {
	w := n.w
	w.truth.boots(n)
	n.boot = w.identity("boot-")
	n.bootAt, n.lostTime, n.jumps, n.paused = w.now, 0, nil, 0
	n.bootBase = tenure.Instant(w.between(20*time.Second, 100*time.Second))
	n.rate = 1 + (w.random.Float64()-0.5)*0.002
	switch {
	case w.Case.SlowClock && n.index == 0:
		n.rate = 0.1
	case w.Case.SlowClock:
		n.rate = 1.5 + w.random.Float64()
	case w.Case.WildClocks:
		n.rate = 0.15 * math.Pow(40, w.random.Float64())
	}
}

// begun is the record that was being written when the agent ended, as far as its volume can tell that it was: a holder
// that was giving its place away finds the lease as it was, if that was put back meanwhile.
func (v *volume) begun() *wire.LeaseRecord {
	next := v.stored.NextRecord
	if next != nil && next.Term > v.stored.MaxTerm && v.stored.HeldTerm == v.stored.MaxTerm {
		return nil
	}
	return next
}

// astray says that the lease was put back to a state after which there was a later one that this volume has never seen.
// Nobody there can know: for it the lease is as it was when it went away.
func (t *truth) astray(n *node) bool {
	known, last := t.known[n.index], t.record
	return t.w.api.putBack && last != nil && (known.Term < t.highest || known.Term < last.Term ||
		known.Term == last.Term && known.Revision < last.Revision)
}

// heard notes that somebody has told an agent of a later record than the lease has.
func (t *truth) heard(a *agent, replied tenure.PeerReplied) {
	now := t.w.api.lease
	if replied.Request.Kind != wire.PeerFence || !replied.Reply.Yes || now.Record == nil ||
		replied.Request.LeaseVersion != now.Version {
		return
	}
	for _, record := range replied.Reply.Records {
		if record.Term > now.Record.Term || record.Term == now.Record.Term && record.Revision > now.Record.Revision {
			a.told = now.Version
		}
	}
}

// learned keeps what a volume has shown. What is about to be written, or was never done, is no knowledge of what was.
func (t *truth) learned(n *node, stored tenure.Stored, next *wire.LeaseRecord) {
	known, last, first := t.known[n.index], stored.LastRecord, stored.NextRecord
	if first != nil && last != nil && first.Term == last.Term && first.Revision == last.Revision {
		last = nil // It is the first one, and about to be written.
	}
	if next != nil && !slices.Contains(t.holders[next.Term], n.name) {
		next = nil
	}
	for _, record := range []*wire.LeaseRecord{{Term: stored.MaxTerm}, last, next} {
		if record != nil && (record.Term > known.Term || record.Term == known.Term && record.Revision > known.Revision) {
			known = wire.LeaseRecord{Term: record.Term, Revision: record.Revision}
		}
	}
	t.known[n.index] = known
}

// start starts the container.
func (n *node) start() {
	w := n.w
	if n.agent != nil || !n.wanted {
		return
	}
	n.life++
	w.truth.learned(n, n.volume.stored, n.volume.begun())
	n.leaving, n.watchBroken = false, false
	n.guard = tenure.Guard{Alive: true}
	n.agent = newAgent(n)
	w.note(n.index, "the container starts, boot %s", n.boot)
	w.api.rewatch(n, n.life)
	n.agent.soon(time.Millisecond)
	n.agent.begin()
}

// end ends the container with all its processes.
func (n *node) end() {
	n.life++
	n.agent, n.guard = nil, tenure.Guard{}
	n.armed++
	if n.database != nil {
		n.database.End(n.silent)
	}
	n.killServer("the container ends")
	if n.cache != nil {
		n.hurt = n.w.now
		n.cache.End(n.silent)
	}
}

// move is a new pod in the place of the old one: it has another address.
func (n *node) move() {
	n.address, n.cut = n.w.identity("ip-"+n.name+"-"), ""
	n.renew()
}

func (n *node) restart(in time.Duration) {
	if n.w.cluster != nil && n.leaving {
		n.w.cluster.Ended(n.index)
		return
	}
	life := n.life
	n.w.after(in, func() {
		if n.life == life {
			n.start()
		}
	})
}

func (n *node) killServer(why string) {
	if n.cache != nil && !n.silent {
		n.cache.Die(why, false)
	}
	if n.database != nil {
		n.database.Die(why, false)
	}
	if n.server == nil {
		return
	}
	n.w.note(n.index, "the server is gone: %s", why)
	n.server.die()
}

// inPod runs something of the pod's processes, after a freeze if there is one.
func (n *node) inPod(d time.Duration, run func()) {
	life := n.life
	n.w.after(d, func() { n.thawed(life, run) })
}

func (n *node) thawed(life int, run func()) {
	switch {
	case n.life != life:
	case n.w.now < n.frozenPod:
		n.w.after(n.frozenPod-n.w.now+n.w.between(0, 5*time.Millisecond), func() { n.thawed(life, run) })
	default:
		run()
	}
}

// arm is the watchdog: it kills at the deadline, whatever the agent does.
func (n *node) arm(until tenure.Instant) {
	n.guard.Until = until
	n.armed++
	armed := n.armed
	if until == 0 {
		n.killServer("the watchdog was told to")
		return
	}
	n.inPod(n.when(until)-n.w.now, func() {
		if n.armed == armed && n.w.bug != BugNoWatchdog && n.w.bug != BugServesOn {
			n.guardFires(armed)
		}
	})
}

func (n *node) guardFires(armed int) {
	if n.armed != armed {
		return
	}
	if left := n.when(n.guard.Until) - n.w.now; left > 0 { // The clock stood still meanwhile.
		n.inPod(left, func() { n.guardFires(armed) })
		return
	}
	n.killServer("the watchdog's deadline has passed")
	n.inPod(20*time.Millisecond, func() { n.guardFires(armed) })
}

// agent is the agent's process.
type agent struct {
	n       *node
	loop    loop
	engine  *engine
	planned uint64
	replies map[uint64]func(wire.PeerReply)
	decided map[uint64]func(wire.SwitchoverReply)
	nextID  uint64
	told    string // The version of a ballot whose answers tell that the lease was put back.
	got     struct {
		view tenure.View
		err  error
	}
}

// loop is the loop that decides who the instance is.
type loop interface {
	tenure.Authority
	Take(tenure.Event)
	Pass(ctx context.Context, stopping bool) (finished bool, next time.Duration)
}

// crash is thrown through a pass: the process ends in the middle of it.
type crash struct{ fault *Fault }

func newAgent(n *node) *agent {
	a := &agent{
		n: n, replies: map[uint64]func(wire.PeerReply){}, decided: map[uint64]func(wire.SwitchoverReply){},
	}
	a.engine = &engine{a: a, n: n}
	a.loop = newLoop(a, logr.New(&teller{a: a}))
	return a
}

// inAgent runs something of the agent's process, after a freeze if there is one.
func (a *agent) inAgent(run func()) {
	n := a.n
	switch {
	case n.agent != a:
	case n.w.now < n.frozen || n.w.now < n.frozenPod:
		n.w.after(max(n.frozen, n.frozenPod)-n.w.now+n.w.between(0, 3*time.Millisecond), func() { a.inAgent(run) })
	default:
		run()
	}
}

func (a *agent) take(event tenure.Event) {
	a.inAgent(func() {
		a.loop.Take(event)
		if replied, ok := event.(tenure.PeerReplied); ok {
			a.n.w.truth.heard(a, replied)
		}
		a.soon(time.Millisecond)
	})
}

// soon plans a pass. A later plan replaces an earlier one: both see the same.
func (a *agent) soon(in time.Duration) {
	a.planned++
	planned := a.planned
	a.n.w.after(in, func() {
		a.inAgent(func() {
			if a.planned == planned {
				a.pass()
			}
		})
	})
}

func (a *agent) pass() {
	n, w := a.n, a.n.w
	defer a.crashes()
	w.passes++
	finished, next := a.loop.Pass(context.Background(), n.leaving)
	w.truth.passed(a)
	if n.agent != a {
		return
	}
	if finished {
		w.note(n.index, "the agent has nothing left to give away, and ends")
		n.end()
		n.move()
		n.restart(w.between(time.Second, 6*time.Second))
		return
	}
	a.soon(next)
}

// crashes ends the process if that was thrown through what it did.
func (a *agent) crashes() {
	thrown := recover()
	if thrown == nil {
		return
	}
	crashed, ok := thrown.(crash)
	if !ok {
		panic(thrown)
	}
	a.n.w.strike(a.n, crashed.fault)
}

// seen is the policy that has come to the pod.
func (n *node) seen(policy tenure.Policy) {
	n.policy = policy
	if n.agent != nil {
		n.agent.soon(time.Millisecond)
	}
}

func (n *node) policySeen() tenure.Policy { return n.policy }

// freshCopy is an id for a copy that is made new.
func (n *node) freshCopy() string {
	if n.w.bug == BugIncarnationStays {
		return "copy-of-" + n.name
	}
	return n.w.identity("copy-")
}
