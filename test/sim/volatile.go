package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/caches"
	"meridian.dev/meridian/test/sim/mistakes"
)

// A cache has the same agents as a database, and servers that keep their data in memory: package caches has them, with
// the loop of production that runs them. What is here puts them into this world.

// asCache makes the cache of a world.
func (w *World) asCache(flaw caches.Flaw) {
	w.policy.Volatile = true
	w.caches = caches.New(cacheWorld{w}, flaw)
	for _, n := range w.nodes {
		n.cache = w.caches.Add(n.name, cacheHost{n})
	}
	w.after(healthEvery, w.lookAtHealth)
}

// cacheWorld implements caches.World.
type cacheWorld struct{ *World }

// Act counts what the loops of the servers do: a world in which nothing is to be done has none of it.
func (c cacheWorld) Act(who int, verb, why string) {
	c.lively++
	c.mix(who, verb)
	if c.telling {
		c.tell(who, "%s  (%s)", verb, why)
	}
}

// cacheHost implements caches.Host.
type cacheHost struct{ n *node }

func (h cacheHost) Clock() time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(h.n.clock()))
}
func (h cacheHost) Address() string     { return h.n.address }
func (h cacheHost) Changed()            { h.n.agent.soon(time.Millisecond) }
func (h cacheHost) Well() time.Duration { return h.n.w.now - h.n.hurt }

func (h cacheHost) InAgent(run func()) {
	if a := h.n.agent; a != nil {
		a.inAgent(run)
	}
}

func (h cacheHost) Mounted() caches.Mounted {
	if h.n.given != nil {
		return *h.n.given
	}
	policy := h.n.policySeen()
	return caches.Mounted{Certificate: "c1", Passwords: redis.Passwords{Present: "secret"}, Settings: wire.CacheSettings{
		CacheUID: databaseUID, LeaseUID: policy.LeaseUID, Instances: policy.Instances,
		LeaseMilliseconds: policy.Duration.Milliseconds(),
	}}
}

// healthEvery is how often it is looked who could not hear or say everything.
const healthEvery = 50 * time.Millisecond

func (w *World) lookAtHealth() {
	for _, n := range w.nodes {
		if !w.well(n) {
			n.hurt = w.now
		}
	}
	w.after(healthEvery, w.lookAtHealth)
}

func (w *World) well(n *node) bool {
	if n.agent == nil || n.leaving || w.now < max(n.frozen, n.frozenPod, n.hungUntil) || !w.api.reaches(n) ||
		w.api.lease.UID == "" {
		return false
	}
	for index := range w.nodes {
		if w.cut[index][n.index] || w.cut[n.index][index] {
			return false
		}
	}
	return true
}

// cachePort is the server of a cache as the loop of the lease has it.
type cachePort struct{ a *agent }

func (p cachePort) Facts() tenure.Engine { return p.a.n.cache.Facts() }

func (p cachePort) Obey(standing tenure.Standing) {
	p.a.boundary(func() { p.a.n.cache.Obey(standing) })
}

func (p cachePort) Fence(ctx context.Context) (position tenure.Position, err error) {
	p.a.boundary(func() {
		if fault := p.a.point(PointFence); fault != nil {
			err = errors.New("the server does not answer")
			return
		}
		position, err = p.a.n.cache.Fence(ctx)
	})
	return position, err
}

func (p cachePort) Kill() { p.a.boundary(p.a.n.cache.Kill) }

// server is the one that the loop of the lease tells what to be.
func (a *agent) server() tenure.Server {
	if a.n.cache != nil {
		return cachePort{a}
	}
	if a.n.database != nil {
		return databasePort{a}
	}
	return serverPort{a}
}

// begin lets the loop of the server begin.
func (a *agent) begin() {
	if a.n.cache != nil {
		a.n.cache.Start(a.loop)
		return
	}
	if a.n.database != nil {
		a.n.database.Start(a.loop)
		return
	}
	a.engine.soon(a.n.w.between(10*time.Millisecond, 200*time.Millisecond))
}

// hang keeps the loop of the server from doing anything.
func (n *node) hang(until time.Duration) {
	n.hungUntil = max(n.hungUntil, until)
	switch until = n.hungUntil; {
	case n.cache != nil:
		n.cache.Hang(until)
	case n.database != nil:
		n.database.Hang(until)
	case n.agent != nil:
		n.agent.engine.hung = until
	}
}

// renew is another pod in the place of the one before. Nothing of a cache outlives its pod.
func (n *node) renew() {
	if n.cache == nil {
		return
	}
	n.cache.Forget()
	n.volume = volume{copy: dataCopy{data: tenure.DataNone}}
	delete(n.w.truth.known, n.index)
}

// powerOff ends the machine. The pod may live on after the boot, with its folder, or be replaced by another.
func (n *node) powerOff() {
	kept := n.volume
	n.silent = true
	n.end()
	n.silent = false
	noted := ""
	if n.cache != nil {
		noted = n.cache.Noted()
	}
	if n.w.cluster != nil && n.cache != nil {
		return // The pod is there still, with its folder.
	}
	n.move()
	if n.cache != nil && n.wanted && n.w.chance(0.5) {
		n.volume = kept
		n.cache.Remember(noted)
	}
}

// unsettledCache says what of a cache is not as wished, empty if all is.
func (w *World) unsettledCache() string {
	lease := w.api.lease
	if lease.UID != w.policy.LeaseUID {
		return "the lease is lost"
	}
	if reason := w.caches.Unsettled(lease, w.policy.Instances); reason != "" {
		return reason
	}
	if holder := w.named(lease.Holder.Name); w.api.route.address != holder.address || w.api.route.term != lease.Term {
		return fmt.Sprintf("the write address leads to %s of term %d", w.api.route.address, w.api.route.term)
	}
	if w.flush != "" {
		return "the cache was not emptied"
	}
	for _, n := range w.nodes {
		if n.wanted && n.volume.stored.Fence != nil {
			return n.name + " is fenced"
		}
	}
	return ""
}

// cacheWritten looks at a write of the lease of a cache. Who cannot know that the lease was put back, and joins with a
// copy, may have less than a member which does know, and leads by no lease of before: the cache goes on, as after an
// election that nobody else stood for. The same goes for who begins an empty copy, if the lease was put back within its
// term: of a later one the members would have told, of a later record they do not.
func (t *truth) cacheWritten(n *node, write tenure.Write, before tenure.View, astray bool) {
	if t.w.caches == nil {
		return
	}
	within := t.record != nil && t.record.Term == before.Term
	if astray && (write.Kind == tenure.WriteJoin || write.Kind == tenure.WriteBegin && within) {
		before.Record = nil
	}
	begun := min(max(t.w.now-n.when(write.Started), 0), 20*time.Second)
	t.w.caches.Written(n.name, write, before.Record, begun)
}

// operateTheCachesLease is what the operator does about the lease of a cache that is lost: nothing, as long as an
// instance knows of it. In the end a user deletes the pods.
func (w *World) operateTheCachesLease() {
	switch lease := w.api.lease; {
	case w.leaseIsRight():
	case w.remembered():
		if w.calm && w.now > w.toldUser {
			w.toldUser = w.now + 60*time.Second
			w.after(10*time.Second, w.deleteThePods)
		}
	case lease.UID == "":
		w.note(-1, "the operator makes another lease: no instance has obeyed the one before")
		w.api.create("", nil)
		w.api.lost, w.api.putBack = false, false
		w.AnotherLease()
	default:
		w.policy.LeaseUID = lease.UID
		w.publishPolicy()
	}
}

// leaseIsRight says that the lease is the one that was made, and was not put back to what no instance obeys.
func (w *World) leaseIsRight() bool {
	lease := w.api.lease
	return lease.UID != "" && lease.UID == w.policy.LeaseUID && !(w.truth.vacant() && w.remembered())
}

// behindAVolume says that an instance knows of a later state of the lease than it has.
func (w *World) behindAVolume() bool {
	lease := w.api.lease
	return lease.UID != "" && slices.ContainsFunc(w.nodes, func(n *node) bool {
		stored := n.volume.stored
		last := stored.LastRecord
		return n.wanted && (stored.MaxTerm > lease.Term || last != nil && (lease.Record == nil ||
			last.Term == lease.Term && last.Revision > lease.Record.Revision))
	})
}

// remembered says that an instance has obeyed a lease, or does not answer.
func (w *World) remembered() bool {
	for _, n := range w.nodes {
		if n.wanted && (n.agent == nil || n.leaving || n.volume.stored.MaxTerm > 0) {
			return true
		}
	}
	return false
}

func (w *World) deleteThePods() {
	if w.leaseIsRight() {
		return
	}
	w.note(-1, "a user deletes the pods of the cache")
	for _, n := range w.nodes {
		if n.wanted {
			w.strike(n, &Fault{Kind: FaultVolumeLost, For: time.Second})
		}
	}
}

// emptyTheCache is what the operator does about a user's request to empty the cache: it asks until that was recorded,
// or until there is another request.
func (w *World) emptyTheCache(id string) {
	record := w.api.lease.Record
	if w.caches == nil || w.flush != id {
		return
	}
	if record != nil && record.Emptied != nil && record.Emptied.ID == id {
		w.flush = "" // It is recorded.
		return
	}
	w.note(-1, "the operator asks for an empty cache, %s", id)
	w.caches.Ask(id)
	w.after(time.Second, func() { w.emptyTheCache(id) })
}

// cacheFlaws are rules of caches that are broken on purpose.
func cacheFlaws() []Flaw {
	ends := []FaultKind{FaultKillServer, FaultCrash, FaultVolumeLost, FaultPowerOff}
	cuts := []FaultKind{FaultCut, FaultFreeze, FaultCutAPI}
	return []Flaw{
		{Bug: "an empty server counts as a copy", Rule: "tenure.release-without-a-copy", Volatile: true, Kinds: ends,
			Aim: emptyAndAlone, Cache: caches.Flaw{EmptyIsWhole: true, SameAgain: true}},
		{Bug: "a server that was killed is started again under its id", Rule: "tenure.count-only-the-own-copy",
			Volatile: true, Kinds: []FaultKind{FaultKillServer}, Cache: caches.Flaw{SameAgain: true}},
		{Bug: "replicas follow whoever is at the address", Rule: "redis.follow-only-the-holder", Volatile: true, Kinds: ends,
			Aim: followTheOld, Cache: caches.Flaw{AnyReplica: true}},
		{Bug: "a copy never grows too old", Rule: "sim.lead-only-with-a-young-copy", Volatile: true, Aim: cutAndLose,
			Kinds: []FaultKind{FaultCut, FaultCutPeers, FaultPowerOff}, Cache: caches.Flaw{AgesNever: true}},
		{Bug: "begins anew beside those that have a copy", Rule: "tenure.begin-only-without-a-copy", Volatile: true,
			Kinds: ends, Snapshot: sees(mistakes.BeginAlone)},
		{Bug: "a copy from before a flush leads", Rule: "tenure.bring-nothing-back", Volatile: true, Aim: flushAndLose,
			Kinds: []FaultKind{FaultCutPeers, FaultFlush, FaultPowerOff}, Snapshot: sees(mistakes.ForgetTheFlush)},
		{Bug: BugServesOn, Rule: "tenure.stop-at-the-deadline", Volatile: true, Kinds: cuts},
		{Bug: "gives the lease back while its server serves", Rule: "tenure.release-without-a-copy", Volatile: true,
			Kinds: []FaultKind{FaultTerminate, FaultCutAPI}, Aim: endUnheard, Plan: plans(mistakes.SurrenderTooEarly)},
		{Bug: "a promise of one is enough", Rule: "tenure.lead-only-by-right", Volatile: true,
			Kinds: []FaultKind{FaultCutAPI, FaultAPIAway, FaultCut}, Snapshot: sees(mistakes.CountOnePromiseForAll)},
	}
}

// BugServesOn is a cut-off primary that serves on after its deadline: no watchdog ends it.
const BugServesOn Bug = "a primary of a cache serves on after its deadline"

// endUnheard tells the primary to end, and cuts it from the API server when it may have given the lease back and has
// not heard that it has.
func endUnheard(c Case, random *rand.Rand) Case {
	c.Faults = []Fault{
		{Kind: FaultTerminate, At: began, Node: Holder, For: 30 * time.Second},
		{Kind: FaultCutAPI, At: began + time.Duration(random.Int64N(int64(60*time.Millisecond))), Node: Holder,
			For: 20 * time.Second},
	}
	return c
}

// emptyAndAlone kills the server of the only replica, and takes the holder away before it has the data again.
func emptyAndAlone(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances = 2, 2
	c.Faults = []Fault{
		{Kind: FaultPowerOff, At: began, Node: Holder, For: 40 * time.Second},
		{Kind: FaultKillServer, At: began - time.Duration(random.Int64N(int64(time.Second))), Node: Replica},
	}
	return c
}

// followTheOld keeps a replica from hearing of a new primary, while empty servers start in the place of the old one.
func followTheOld(c Case, random *rand.Rand) Case {
	c.Faults = []Fault{
		{Kind: FaultCutAPI, At: began - time.Second, Node: 2, For: 30 * time.Second},
		{Kind: FaultCutOneWay, At: began - time.Second, Node: 1, Other: 2, For: 30 * time.Second},
	}
	for at := began; at < began+20*time.Second; at += time.Second + time.Duration(random.Int64N(int64(3*time.Second))) {
		c.Faults = append(c.Faults, Fault{Kind: FaultKillServer, At: at, Node: 0})
	}
	return c
}

// cutAndLose keeps a replica from its primary for long, and takes all others away.
func cutAndLose(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.Lease = 2, 2, 4*time.Second
	cut := time.Duration(random.Int64N(int64(20*time.Second))) + 12*time.Second
	c.Faults = []Fault{
		{Kind: FaultCutPeers, At: began, Node: Replica, For: cut + 30*time.Second},
		{Kind: FaultPowerOff, At: began + cut, Node: Holder, For: 60 * time.Second},
	}
	c.Last = began + cut + 40*time.Second
	return c
}

// flushAndLose empties a cache while a replica is cut off, and takes the primary away before that is too old.
func flushAndLose(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.Lease = 2, 2, 4*time.Second
	lost := 1500*time.Millisecond + time.Duration(random.Int64N(int64(time.Second)))
	c.Faults = []Fault{
		{Kind: FaultCutPeers, At: began, Node: Replica, For: 40 * time.Second},
		{Kind: FaultFlush, At: began + 500*time.Millisecond},
		{Kind: FaultPowerOff, At: began + lost, Node: Holder, For: 60 * time.Second},
	}
	return c
}
