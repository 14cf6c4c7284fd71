package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/quorum"
	"meridian.dev/meridian/test/sim/databases"
	"meridian.dev/meridian/test/sim/law"
)

// In these worlds the loop of production runs the servers as well: package databases has it, on a model of PostgreSQL
// that is held against real ones. What is here puts it into this world.

// asDatabase makes the database of a world.
func (w *World) asDatabase() {
	major := w.Case.Major
	if major == 0 {
		major = databases.Major
	}
	w.database = databases.New(databaseWorld{w}, major, flawOf(w.Case.Bug).Pod)
	for _, n := range w.nodes {
		n.database = w.database.Add(n.name, databaseHost{n})
	}
}

// databaseWorld implements databases.World.
type databaseWorld struct{ *World }

// Fresh implements databases.Truth.
func (d databaseWorld) Fresh(who int) string { return d.nodes[who].freshCopy() }

// Act counts what the loops of the servers do: a world in which nothing is to be done has none of it, but for replicas
// that look now and then which WAL the others still need.
func (d databaseWorld) Act(who int, verb, why string) {
	if !strings.HasPrefix(verb, "AskPositions") && !strings.HasPrefix(verb, "KeepPlaces") {
		d.lively++
	}
	d.mix(who, verb)
	if d.telling {
		d.tell(who, "%s  (%s)", verb, why)
	}
	if a := d.nodes[who].agent; a != nil {
		if fault := a.point(PointAct); fault != nil {
			panic(crash{fault})
		}
	}
}

// NextWrite implements databases.Truth.
func (d databaseWorld) NextWrite() int {
	d.truth.nextID++
	return d.truth.nextID
}

// Acknowledged implements databases.Truth.
func (d databaseWorld) Acknowledged(who int, term int64, sessions bool, id int) {
	t := &d.truth
	if term < t.openedTerm && !t.openedWith[id] {
		d.wrong(law.OneWriter, "%s acknowledges a write at term %d, and term %d has let applications in",
			d.nodes[who].name, term, t.openedTerm)
	}
	if !sessions {
		d.wrong(law.OpenFirst, "%s acknowledges a write before its gate has opened", d.nodes[who].name)
	}
	if record := d.api.lease.Record; record != nil && t.strict() {
		// Hardly ever is a copy short, and to count the whole ones takes long.
		if short := d.database.Lacking(who, id, *record); short != "" {
			_, copies := d.database.Fewest(who, []int{id}, *record, map[int]bool{id: true})
			if copies+1 < record.W {
				d.wrong(law.WholeCopies, "%s acknowledges write %d, which is on %d other whole copies, and on that of %s, "+
					"which lacks WAL", d.nodes[who].name, id, copies, short)
			}
		}
	}
	t.keep(id)
	t.acks++
	if t.lastAck > 0 {
		t.longest = max(t.longest, d.now-t.lastAck)
	}
	t.lastAck = d.now
}

// Opened implements databases.Truth.
func (d databaseWorld) Opened(who int, term int64, seen []int) {
	t, n := &d.truth, d.nodes[who]
	t.opens++
	if term < t.openedTerm {
		for _, id := range seen {
			if !t.openedWith[id] && t.strict() {
				d.wrong(law.OneWriter, "%s lets applications see write %d at term %d, and term %d has begun without it", n.name,
					id, term, t.openedTerm)
			}
		}
		return
	}
	t.openedTerm = term
	if id, some := t.lost(n.held()); some && t.strict() {
		d.wrong(law.LoseNothing, "%s lets applications in at term %d without write %d, which was acknowledged or read",
			n.name, term, id)
	}
	t.openedWith = map[int]bool{}
	for _, id := range seen {
		t.keep(id)
		t.openedWith[id] = true
	}
}

// Leads implements databases.Truth.
func (d databaseWorld) Leads(who int, term int64, timeline int, incarnation string) {
	t := &d.truth
	if other, there := t.timelines[timeline]; there && other != incarnation {
		d.wrong(law.LeadOnce, "%s leads on timeline %d at term %d, and the copy %s has done so", d.nodes[who].name,
			timeline, term, other)
	}
	t.timelines[timeline] = incarnation
	t.leader, t.leaderSince = d.nodes[who], d.now
}

// Tells implements databases.Truth.
func (d databaseWorld) Tells(who int) {
	if a := d.nodes[who].agent; a != nil {
		if fault := a.point(PointTell); fault != nil {
			d.strike(d.nodes[who], fault)
		}
	}
}

// Took implements databases.Truth. A fence matters as long as its ballot can be won.
func (d databaseWorld) Took(who, from int, leads, alike bool) {
	n, up := d.nodes[who], d.nodes[from]
	fence := n.volume.stored.Fence
	if fence != nil && leads && d.truth.fencedAt[who] == *fence && fence.Version == d.api.lease.Version {
		d.wrong(law.Fenced, "%s takes the log of %s behind its fence %s", n.name, up.name, fence.Version)
	}
	if !alike {
		d.wrong(law.SameWAL, "%s streams from %s, and its log has left that history", n.name, up.name)
	}
}

// Destroys implements databases.Truth.
func (d databaseWorld) Destroys(who int, lost []int) {
	t := &d.truth
	if !t.strict() {
		return
	}
	for _, id := range lost {
		if !t.keptSet[id] {
			continue
		}
		has := func(other *node) bool { return other.index != who && other.held().has(id) }
		if !slices.ContainsFunc(d.nodes, has) {
			d.wrong(law.LastCopy, "%s destroys the last copy of write %d", d.nodes[who].name, id)
			return
		}
	}
}

// rewindsLater is how long after a promotion a copy is not rewound that others may still need.
const rewindsLater = 10 * time.Second

// Rewinds implements databases.Truth. A copy that is rewound is none until that has ended: where a write is in one
// other copy alone, the loss of that one would lose it.
func (d databaseWorld) Rewinds(who int, has []int) {
	t, record := &d.truth, d.api.lease.Record
	if t.leader == nil || d.now-t.leaderSince >= rewindsLater || !t.strict() || record == nil ||
		len(record.Members) <= record.W {
		return // Without this copy the leader could not open, so nothing is to be waited for.
	}
	id, copies := d.database.Fewest(who, has, *record, t.keptSet)
	takes := d.database.Takes(who, t.leader.index, *record)
	if id > 0 && copies < 2 && takes != "" {
		d.wrong(law.TwoCopies, "%s is rewound, and %s does not have write %d yet", d.nodes[who].name, takes, id)
	}
}

// lostLately is how long after the loss of a volume others may count on it: nobody knows at once.
const lostLately = 30 * time.Second

// GivesUp implements databases.Truth. Whoever counts other copies knows of them by words that may be seconds old.
func (d databaseWorld) GivesUp(who int, has []int) {
	t, n, record := &d.truth, d.nodes[who], d.api.lease.Record
	recently := t.volumeLost > 0 && d.now-t.volumeLost < lostLately
	if record == nil || recently || !t.strict() || !record.Has(wire.Member{Name: n.name, Incarnation: n.incarnation()}) {
		return
	}
	if id, copies := d.database.Fewest(who, has, *record, t.keptSet); id > 0 && copies < record.W {
		d.wrong(law.EnoughCopies, "%s gives its copy up, and write %d is on %d others, of %d that it must be on", n.name,
			id, copies, record.W)
	}
}

// databaseHost implements databases.Host.
type databaseHost struct{ n *node }

func (h databaseHost) Clock() time.Time {
	gone := time.Duration(h.n.clock())
	return databases.Reading(time.Unix(1_800_000_000, 0).Add(gone+h.n.stepped), gone)
}
func (h databaseHost) Instant() tenure.Instant { return h.n.clock() }
func (h databaseHost) Address() string         { return h.n.address }
func (h databaseHost) Changed()                { h.n.agent.soon(time.Millisecond) }
func (h databaseHost) Frozen() time.Duration   { return h.n.frozenPod }

func (h databaseHost) InAgent(run func()) {
	if a := h.n.agent; a != nil {
		a.inAgent(func() {
			defer a.crashes()
			run()
		})
	}
}

func (h databaseHost) Settings() wire.Settings {
	if h.n.mounted != nil {
		return *h.n.mounted
	}
	policy := h.n.policySeen()
	return wire.Settings{
		Version: 1, Database: databases.Name, Major: cmp.Or(h.n.w.Case.Major, databases.Major),
		Application: wire.Application{Database: "app", Owner: "app"},
		DatabaseUID: databaseUID, LeaseUID: policy.LeaseUID, Instances: policy.Instances,
		Durability: string(policy.Durability), LeaseMilliseconds: policy.Duration.Milliseconds(),
		MaxReadLagMilliseconds: 10_000, MaxFailoverLagBytes: int64(policy.MaxFailoverLag), Initialised: policy.Initialised,
	}
}

// Certificate implements databases.Host.
func (h databaseHost) Certificate() string {
	if c := h.n.w.cluster; c != nil {
		return c.Certificate(h.n.index)
	}
	return "c1"
}

// Logins implements databases.Host.
func (h databaseHost) Logins() postgres.Logins {
	if c := h.n.w.cluster; c != nil {
		return c.Logins(h.n.index)
	}
	return postgres.Logins{Present: postgres.Login{Name: "app", Password: "secret"}}
}

// Yield implements databases.Host. The loop of the lease decides.
func (h databaseHost) Yield(token string) {
	h.n.agent.take(tenure.SwitchoverAsked{Switchover: wire.Switchover{ID: "restart-" + token}})
}

// databasePort is the server as the loop of the lease has it.
type databasePort struct{ a *agent }

func (p databasePort) Facts() tenure.Engine { return p.a.n.database.Facts() }

func (p databasePort) Obey(standing tenure.Standing) {
	p.a.boundary(func() { p.a.n.database.Obey(standing) })
}

func (p databasePort) Fence(ctx context.Context) (position tenure.Position, err error) {
	p.a.boundary(func() {
		if fault := p.a.point(PointFence); fault != nil {
			err = errors.New("the receiver cannot be proven gone")
			return
		}
		position, err = p.a.n.database.Fence(ctx)
		if fence := p.a.n.volume.stored.Fence; err == nil && fence != nil {
			p.a.n.w.truth.fencedAt[p.a.n.index] = *fence
		}
	})
	return position, err
}

func (p databasePort) Kill() { p.a.boundary(p.a.n.database.Kill) }

// held is what is on the volume of a node.
func (n *node) held() dataCopy {
	if n.database == nil {
		return n.volume.copy
	}
	copied := dataCopy{data: n.database.Data(), incarnation: n.database.Incarnation()}
	for _, id := range n.database.Writes() {
		copied.log = append(copied.log, entry{id: id})
	}
	return copied
}

// incarnation is that of the copy.
func (n *node) incarnation() string {
	switch {
	case n.cache != nil:
		return n.cache.Copy()
	case n.database != nil:
		return n.database.Incarnation()
	}
	return n.volume.copy.incarnation
}

// leading is the term at which applications write here, if they do.
func (n *node) leading() (term int64, leads bool) {
	switch {
	case n.cache != nil:
		return n.cache.Leading()
	case n.database != nil:
		return n.database.Leading()
	}
	s := n.server
	if s == nil || s.mode != primary || !s.sessions {
		return 0, false
	}
	return s.term, true
}

// loseVolume is another volume in the place of the one of before.
func (n *node) loseVolume() {
	if n.database != nil {
		n.w.truth.volumeLost = n.w.now
		n.database.Lose()
	}
}

// freeze stops everything in the pod.
func (n *node) freeze(until time.Duration) {
	n.frozenPod = max(n.frozenPod, until)
	if n.database != nil {
		n.database.Freeze(n.frozenPod)
	}
}

// unsettledDatabase says what is not as wished, empty if all is.
func (w *World) unsettledDatabase() string {
	lease := w.api.lease
	if lease.Holder == (wire.Member{}) || lease.Record == nil || !lease.Record.Initialised {
		return "nobody holds the lease"
	}
	holder := w.named(lease.Holder.Name)
	facts := holder.database.Facts()
	leading := facts.Leading
	needed := quorum.Majority(len(lease.Record.Members))
	if !w.truth.strict() {
		needed = 1
	}
	switch {
	case leading == nil || leading.Term != lease.Term:
		return holder.name + " holds the lease and does not lead"
	case !leading.Open:
		return "the gate of " + holder.name + " is closed"
	case w.api.route.address != holder.address || w.api.route.term != lease.Term:
		return fmt.Sprintf("the write address leads to %s of term %d", w.api.route.address, w.api.route.term)
	case len(lease.Record.Members) != len(w.policy.Instances):
		return fmt.Sprintf("the members are %v", lease.Record.Members)
	case lease.Record.W != needed || leading.Setting == nil || leading.Setting.K != needed-1:
		return fmt.Sprintf("w is %d, the setting %v", lease.Record.W, leading.Setting)
	}
	for _, member := range lease.Record.Members {
		n := w.named(member.Name)
		switch {
		case !slices.Contains(w.policy.Instances, member.Name):
			return member.Name + " is not wanted"
		case n.incarnation() != member.Incarnation:
			return n.name + " has another copy than is recorded"
		case n != holder && !n.database.Facts().Streams:
			return n.name + " does not stream"
		case n.volume.stored.Fence != nil:
			return n.name + " is fenced"
		}
	}
	return ""
}

// trouble is what goes wrong with a server beside its loop.
func (n *node) trouble(fault *Fault) {
	if n.database.Befall(databases.Trouble(fault.Kind), fault.Wish, fault.For) {
		n.hungUntil = max(n.hungUntil, n.w.now+fault.For)
	}
}
