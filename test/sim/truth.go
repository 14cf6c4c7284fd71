package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/quorum"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/law"
)

// truth is what somebody who sees the whole world at once checks after every step. It knows nothing of the rules.
type truth struct {
	w *World
	// kept are the writes that nobody may lose: those that were acknowledged, and those that a reader could see.
	kept    []int
	keptSet map[int]bool
	// opened is the highest term whose primary has let applications in.
	openedTerm  int64
	openedWith  map[int]bool   // The writes that it had then.
	timelines   map[int]string // The copy that has led on each.
	holders     map[int64][]string
	transfers   int
	promises    map[int]promised
	answered    map[string][]wire.Member // By the version of a ballot.
	fencedAt    map[int]tenure.Fence     // The last fence that was proven, by node.
	highest     int64                    // The highest term that was ever written.
	record      *wire.LeaseRecord        // The last record that was written.
	known       map[int]wire.LeaseRecord // The latest that the volume of each node has ever shown: term and revision.
	nextID      int
	volumeLost  time.Duration // When a volume was lost last.
	leader      *node         // The last server that began to lead, and when.
	leaderSince time.Duration

	acks    int
	lastAck time.Duration
	longest time.Duration
	opens   int
	takes   int
	// contested counts elections that were won while another server still led.
	contested int
	// refusals counts plans that the check of production would have refused, where a flaw has made them.
	refusals int
}

type promised struct {
	until    tenure.Instant
	boot     string
	duration time.Duration
}

func (t *truth) strict() bool { return t.w.Case.Durability != tenure.Async }

func (t *truth) keep(id int) {
	if id != 0 && !t.keptSet[id] {
		t.keptSet[id] = true
		t.kept = append(t.kept, id)
	}
}

// lost is a write that must be in the copy and is not.
func (t *truth) lost(c dataCopy) (id int, some bool) {
	has := make(map[int]bool, len(c.log))
	for _, e := range c.log {
		has[e.id] = true
	}
	for _, id := range t.kept {
		if !has[id] {
			return id, true
		}
	}
	return 0, false
}

func (t *truth) acknowledged(s *server, id int) {
	if id == 0 {
		return
	}
	// What enough members had before they were fenced is on the later primary: it may be acknowledged late.
	if s.term < t.openedTerm && !t.openedWith[id] {
		t.w.wrong(law.OneWriter, "%s acknowledges a write at term %d, and term %d has let applications in", s.n.name, s.term,
			t.openedTerm)
	}
	if !s.sessions {
		t.w.wrong(law.OpenFirst, "%s acknowledges a write before its gate has opened", s.n.name)
	}
	t.keep(id)
	t.acks++
	if t.lastAck > 0 {
		t.longest = max(t.longest, t.w.now-t.lastAck)
	}
	t.lastAck = t.w.now
}

func (t *truth) opened(s *server) {
	t.opens++
	seen := s.n.volume.copy.log[:s.recovered]
	if s.term < t.openedTerm {
		// Only clocks keep a deposed primary from being read; what is seen there must not be lost all the same.
		for _, e := range seen {
			if e.id != 0 && !t.openedWith[e.id] && t.strict() {
				t.w.wrong(law.OneWriter, "%s lets applications see write %d at term %d, and term %d has begun without it",
					s.n.name, e.id, s.term, t.openedTerm)
			}
		}
		return
	}
	t.openedTerm = s.term
	if id, some := t.lost(s.n.held()); some && t.strict() {
		t.w.wrong(law.LoseNothing, "%s lets applications in at term %d without write %d, which was acknowledged or read",
			s.n.name, s.term, id)
	}
	t.openedWith = map[int]bool{}
	for _, e := range seen {
		t.keep(e.id)
		t.openedWith[e.id] = true
	}
}

// goesAstray ends a run in which nobody could know that the lease was put back. A cache goes on from there: nothing of
// it is to be kept, so that everything else can be asked for as before.
func (t *truth) goesAstray(n *node, record wire.LeaseRecord) {
	if t.w.caches != nil {
		t.w.note(n.index, "the lease was put back, and nothing on its volume can tell: terms begin again")
		t.record, t.highest = &record, record.Term
		t.w.caches.BeginAnew()
		return
	}
	t.w.astray = true
	t.w.note(n.index, "the lease was put back, and nothing on its volume can tell: nothing is promised from here on")
}

// leaseWritten looks at a write of the lease. Astray says that its writer could not know when it began that the lease
// was put back.
func (t *truth) leaseWritten(n *node, write tenure.Write, before tenure.View, astray bool) {
	record := write.Record
	last, highest := t.record, t.highest
	astray, stays := astray || t.astray(n), write.Kind == tenure.WriteRenew || write.Kind == tenure.WriteRecord
	t.cacheWritten(n, write, before, astray)
	t.held(write)
	if astray && t.leads(record, before.Record, stays) {
		t.goesAstray(n, record)
		return
	}
	t.highest = max(t.highest, record.Term)
	if !astray || !stays || last == nil || !later(*last, record) {
		t.record = &record
	}
	if write.Kind == tenure.WriteSucceed || write.Kind == tenure.WriteRestore {
		t.writtenAnew(n, write, before, last, highest)
		return
	}
	if record.Term < highest && !astray {
		t.w.wrong(law.LaterTerm, "%s writes term %d, and term %d was written before", n.name, record.Term, highest)
	}
	t.ordered(n, write, before, stays)
	t.moved(n, write, before)
}

// later says that a record comes after another one.
func later(record, than wire.LeaseRecord) bool {
	return record.Term > than.Term || record.Term == than.Term && record.Revision > than.Revision
}

// ordered looks at the terms and timelines of a write.
func (t *truth) ordered(n *node, write tenure.Write, before tenure.View, stays bool) {
	record := write.Record
	if record.Term < before.Term {
		t.w.wrong(law.TermsGrow, "%s takes the term back from %d to %d", n.name, before.Term, record.Term)
	}
	moved := write.Holder != before.Holder && write.Holder != wire.Member{}
	// The first term of a cache is above that of the write address.
	first := t.w.caches != nil && (before.Record == nil || write.Kind == tenure.WriteBegin)
	next := record.Term == before.Term+1 || first && record.Term > before.Term
	if moved && !next && !stays {
		t.w.wrong(law.TermsGrow, "%s makes %s holder at term %d after %d", n.name, write.Holder, record.Term, before.Term)
	}
	if !moved && before.Record != nil && record.Term == before.Term && record.Timeline != before.Record.Timeline {
		t.w.wrong(law.OneTimeline, "%s changes the timeline within term %d", n.name, record.Term)
	}
}

// leads says that whoever writes this record is let in. An old holder that stays is not, because nobody follows it;
// unless it needs nobody. That of a cache has lost its data, unless it is only about to begin.
func (t *truth) leads(record wire.LeaseRecord, before *wire.LeaseRecord, stays bool) bool {
	begins := record.Initialised && before != nil && !before.Initialised
	return !stays || record.W == 1 && (t.w.caches == nil || begins)
}

// held notes who has had a term.
func (t *truth) held(write tenure.Write) {
	if name := write.Holder.Name; name != "" && !slices.Contains(t.holders[write.Record.Term], name) {
		t.holders[write.Record.Term] = append(t.holders[write.Record.Term], name)
	}
}

func (t *truth) moved(n *node, write tenure.Write, before tenure.View) {
	if write.Record.Initialised && before.Record != nil && !before.Record.Initialised {
		t.w.initialised()
	}
	switch write.Kind {
	case tenure.WriteTake:
		t.taken(n, write.Holder, before)
	case tenure.WriteTransfer:
		t.transfers++
	default:
	}
	if write.Kind == tenure.WriteTransfer && t.strict() {
		target := t.w.named(write.Holder.Name)
		// A copy that was lost while the write was on its way never leads by it.
		copied := target.held()
		if id, some := t.lost(copied); copied.incarnation == write.Holder.Incarnation && some {
			t.w.wrong(law.HandOverAll, "%s gives the lease to %s, which lacks write %d", n.name, target.name, id)
		}
	}
}

// writtenAnew looks at the first write of a lease that was lost.
func (t *truth) writtenAnew(n *node, write tenure.Write, before tenure.View, last *wire.LeaseRecord, highest int64) {
	if write.Record.Term <= highest {
		t.w.wrong(law.LaterTerm, "%s writes the lease anew at term %d, and term %d was written before", n.name,
			write.Record.Term, highest)
	}
	if !t.strict() || n.incarnation() != write.Holder.Incarnation {
		return
	}
	if id, some := t.lost(n.held()); some {
		t.w.wrong(law.LoseNothing, "%s writes the lease anew without write %d, which was acknowledged or read", n.name, id)
	}
	if write.Kind == tenure.WriteSucceed {
		for _, other := range t.w.nodes {
			if term, leads := other.leading(); other != n && leads && term >= write.Record.Term-1 {
				t.w.wrong(law.RecoverAlone, "%s writes the lease anew, and %s leads", n.name, other.name)
			}
		}
		return
	}
	t.takes++
	for _, member := range last.Members {
		other := t.w.named(member.Name)
		fence := other.volume.stored.Fence
		if other.incarnation() == member.Incarnation && !slices.Contains(before.GivenUp, member) &&
			(fence == nil || fence.Version != before.Version) {
			t.w.wrong(law.RecoverByAll, "%s writes the lease anew, and %s has not answered", n.name, member)
		}
	}
}

// vacant says that the lease was lost or put back, and not written anew yet.
func (t *truth) vacant() bool {
	lease, last := t.w.api.lease, t.record
	if t.w.caches != nil {
		return t.w.behindAVolume()
	}
	if last == nil || lease.UID == "" {
		return false
	}
	return lease.Term < t.highest || lease.Record == nil ||
		lease.Record.Revision < last.Revision && lease.Term == last.Term
}

// taken looks at an election with the eyes of all volumes.
func (t *truth) taken(n *node, taker wire.Member, before tenure.View) {
	t.takes++
	for _, other := range t.w.nodes {
		if _, leads := other.leading(); other != n && leads {
			t.contested++
		}
	}
	if !t.strict() || n.incarnation() != taker.Incarnation {
		return // A copy that is gone by now leads nowhere.
	}
	fenced := 0
	for _, member := range before.Record.Members {
		other := t.w.named(member.Name)
		fence := other.volume.stored.Fence
		gone := other.incarnation() != member.Incarnation && slices.Contains(t.answered[before.Version], member)
		if gone || other.incarnation() == member.Incarnation && fence != nil && fence.Version == before.Version {
			fenced++
		}
	}
	if needed := len(before.Record.Members) - before.Record.W + 1; fenced < needed {
		t.w.wrong(law.EnoughFenced, "%s takes the lease at version %s with %d members fenced of %d", n.name, before.Version,
			fenced, needed)
	}
	if id, some := t.lost(n.held()); some {
		t.w.wrong(law.LoseNothing, "%s takes the lease without write %d, which was acknowledged or read", n.name, id)
	}
}

// received looks at a piece of the log that reaches a fenced copy. A fence matters as long as its ballot can be won.
func (t *truth) received(l *stream) {
	fence := l.down.n.volume.stored.Fence
	if fence != nil && l.up.mode == primary && t.fencedAt[l.down.n.index] == *fence &&
		fence.Version == t.w.api.lease.Version {
		t.w.wrong(law.Fenced, "%s takes the log of %s behind its fence %s", l.down.n.name, l.up.n.name, fence.Version)
	}
}

// joined compares by content what PostgreSQL compares by timelines.
func (t *truth) joined(n, up *node) {
	own, other := n.volume.copy.log, up.volume.copy.log
	for index := range min(len(own), len(other)) {
		if own[index] != other[index] {
			t.w.wrong(law.SameWAL, "%s streams from %s, and their logs differ at %d", n.name, up.name, index+1)
			return
		}
	}
}

// truncated checks that nothing is destroyed that only this copy has.
func (t *truth) truncated(n *node, at int) {
	if !t.strict() {
		return
	}
	for _, e := range n.volume.copy.log[at:] {
		if !t.keptSet[e.id] {
			continue
		}
		has := func(other *node) bool { return other != n && other.volume.copy.has(e.id) }
		if !slices.ContainsFunc(t.w.nodes, has) {
			t.w.wrong(law.LastCopy, "%s destroys the last copy of write %d", n.name, e.id)
			return
		}
	}
}

func (t *truth) promoted(s *server) {
	incarnation := s.n.volume.copy.incarnation
	if other, there := t.timelines[s.timeline]; there && other != incarnation {
		t.w.wrong(law.LeadOnce, "%s leads on timeline %d at term %d, and the copy %s has done so", s.n.name, s.timeline,
			s.term, other)
	}
	t.timelines[s.timeline] = incarnation
}

func (t *truth) stored(n *node, stored tenure.Stored) {
	// A term that another instance has got once more, after the lease was put back, is no longer this one's.
	elsewhere := stored.HeldTerm == 0 && slices.ContainsFunc(t.holders[n.volume.stored.HeldTerm],
		func(holder string) bool { return holder != n.name })
	if before := n.volume.stored; stored.MaxTerm < before.MaxTerm || stored.HeldTerm < before.HeldTerm && !elsewhere {
		t.w.wrong(law.ForgetNoTerm, "%s forgets a term", n.name)
	}
	before := n.volume.begun()
	if before != nil && stored.NextRecord != nil && before.Revision == stored.NextRecord.Revision {
		before = nil // It is still under way.
	}
	t.learned(n, stored, before)
}

func (t *truth) routed(n *node, term int64) {
	if term < t.w.api.route.term {
		t.w.wrong(law.RouteForward, "%s takes the write address back to term %d", n.name, term)
	}
}

// nobodyServed says that the lease was lost or put back before the database had let anybody in. What was agreed on
// until then may be known to nobody, and there is nothing to lose: a user makes the database again.
func (t *truth) nobodyServed() bool {
	served := t.openedTerm > 0
	if t.w.caches != nil {
		served = t.w.caches.Served()
	}
	return !served && (t.w.api.putBack || t.w.api.lost)
}

// boots forgets a promise that had ended before the machine did: nobody counts on it any more. One from before an
// earlier boot has ended a duration after that.
func (t *truth) boots(n *node) {
	promise, there := t.promises[n.index]
	if promise.boot != n.boot {
		promise.until = n.bootBase.Add(promise.duration)
	}
	if there && n.clock() >= promise.until {
		delete(t.promises, n.index)
	}
}

func (t *truth) replied(n *node, request wire.PeerRequest, reply wire.PeerReply) {
	if !reply.Yes {
		return
	}
	switch request.Kind {
	case wire.PeerPromise:
		next := promised{n.clock().Add(request.Duration), n.boot, request.Duration}
		if before, there := t.promises[n.index]; there && before.boot == n.boot && before.until > next.until {
			next.until, next.duration = before.until, before.duration // The longer one holds.
		}
		t.promises[n.index] = next
	case wire.PeerFence:
		t.answered[request.LeaseVersion] = append(t.answered[request.LeaseVersion], reply.From)
		promise, there := t.promises[n.index]
		switch {
		case !there:
		case promise.boot == n.boot && n.clock() < promise.until:
			t.w.wrong(law.KeepPromises, "%s answers an election and has promised not to", n.name)
		case promise.boot != n.boot && n.clock().Since(n.bootBase) < promise.duration:
			t.w.wrong(law.KeepPromises, "%s answers an election soon after a boot and has promised before it", n.name)
		}
	default:
	}
}

func (t *truth) passed(a *agent) {
	shown, ok := a.shown()
	if ok && t.w.Case.Plans {
		if err := json.NewEncoder(t.w.plans).Encode(shown.Plan); err != nil {
			panic(err) // A plan is data.
		}
	}
	if ok && len(shown.Violations) > 0 {
		violation := shown.Violations[0]
		t.w.wrong(rule.Rule{ID: violation.Rule}, "the check refuses a plan of %s: %s\n%s", a.n.name, violation.Detail,
			shown.Plan.String())
	}
}

// unsettled says what is not as wished, empty if all is.
func (t *truth) unsettled() string {
	w := t.w
	for _, n := range w.nodes {
		if n.wanted && n.volume.stored.Promise != nil {
			return n.name + " is bound by a promise, and has to put it away"
		}
	}
	switch {
	case w.cluster != nil:
		return w.cluster.Unsettled()
	case w.caches != nil:
		return w.unsettledCache()
	case w.database != nil:
		return w.unsettledDatabase()
	}
	return t.unsettledModel()
}

// unsettledModel is about servers that are modelled with their loop.
func (t *truth) unsettledModel() string {
	w := t.w
	lease := w.api.lease
	if lease.Holder == (wire.Member{}) || lease.Record == nil || !lease.Record.Initialised {
		return "nobody holds the lease"
	}
	holder := w.named(lease.Holder.Name)
	s := holder.server
	switch {
	case s == nil || s.mode != primary || s.term != lease.Term:
		return holder.name + " holds the lease and does not lead"
	case !s.open:
		return "the gate of " + holder.name + " is closed"
	case holder.agent.engine.standing.Prepare != 0:
		return holder.name + " is about to give its place away"
	case w.api.route.address != holder.address || w.api.route.term != lease.Term:
		return fmt.Sprintf("the write address leads to %s of term %d", w.api.route.address, w.api.route.term)
	case len(lease.Record.Members) != len(w.policy.Instances):
		return fmt.Sprintf("the members are %v", lease.Record.Members)
	}
	w2 := quorum.Majority(len(lease.Record.Members))
	if !t.strict() {
		w2 = 1
	}
	if lease.Record.W != w2 || !s.sure || s.file.K != w2-1 {
		return fmt.Sprintf("w is %d, the setting %d of %v, sure %t", lease.Record.W, s.file.K, s.file.Names, s.sure)
	}
	return t.unjoined(holder, lease.Record.Members)
}

// unjoined says which member is not as wished.
func (t *truth) unjoined(holder *node, members []wire.Member) string {
	for _, member := range members {
		n := t.w.named(member.Name)
		switch {
		case !slices.Contains(t.w.policy.Instances, member.Name):
			return member.Name + " is not wanted"
		case n.volume.copy.incarnation != member.Incarnation:
			return n.name + " has another copy than is recorded"
		case n != holder && (n.server == nil || n.server.stream == nil || n.server.stream.up != holder.server):
			return n.name + " does not stream"
		case n.volume.stored.Fence != nil:
			return n.name + " is fenced"
		}
	}
	return ""
}
