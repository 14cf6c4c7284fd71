package caches

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/law"
)

const (
	// slack is what the word of a server is behind the truth at most: it tells whole seconds, and is asked now and then.
	slack = 3 * time.Second
	// unseen is for how long a loop may stand still before it takes that for a silence of its link.
	unseen = 2 * time.Second
	// wellFor is how long nothing must have been wrong with somebody whose silence is nobody's fault but the loop's.
	wellFor = 3 * time.Second
)

// truth is what somebody who sees the whole world at once checks. It knows nothing of the rules. Writes may be lost;
// what is checked is that nothing is ever wrong, and that nothing is lost without need.
type truth struct {
	g    *Group
	next int
	// acked is when a write was acknowledged, and terms at which term.
	acked map[int]time.Duration
	terms map[int]int64
	// latest is the primary of the highest term that has let applications in, and leads that of the highest term that has
	// led: what it has is the data from then on, whatever was lost.
	latest, leads *server

	// flushes are the entries of those who have emptied the cache, by the id of the request, and emptied is the last that
	// the lease has recorded: it was told to the user. 0 if there is none.
	flushes map[string]int
	emptied int

	acks    int
	lastAck time.Duration
	longest time.Duration
}

func (t *truth) wrong(broken rule.Rule, format string, args ...any) {
	t.g.w.Wrong(broken, format, args...)
}

func (t *truth) openedTerm() int64 {
	if t.latest == nil {
		return 0
	}
	return t.latest.term
}

// opened notes that a primary lets applications in.
func (t *truth) opened(s *server) {
	if s.term >= t.openedTerm() {
		t.latest = s
	}
}

// leadsOn notes that a primary is one of a later term: it has written its lost lease anew, and nothing else changes.
func (t *truth) leadsOn(s *server, term int64) {
	if s.term < t.openedTerm() {
		t.wrong(law.OneWriter, "%s goes on at term %d with what it had at term %d, and term %d has let applications in",
			s.p.name,
			term, s.term, t.openedTerm())
	}
	s.term = term
	if t.leads == nil || term >= t.leads.term {
		t.leads = s
	}
	if s.open {
		t.opened(s)
	}
}

// acknowledged is a write that a client believes in (W1).
func (t *truth) acknowledged(s *server, id int) {
	now := t.g.w.Now()
	if s.term == 0 || s.term < t.openedTerm() {
		t.wrong(law.OneWriter, "%s acknowledges a write at term %d, and term %d has let applications in", s.p.name, s.term,
			t.openedTerm())
	}
	t.acked[id], t.terms[id] = now, s.term
	t.acks++
	if t.lastAck > 0 {
		t.longest = max(t.longest, now-t.lastAck)
	}
	t.lastAck = now
}

// bound is how old an answer may be: a replica believes in a silent link for a while, and a copy may lead that is not
// older than two leases.
func (t *truth) bound(p *Pod) time.Duration { return max(t.twice(p), linkTimeout) + slack }

// twice is two leases, by the settings of an instance.
func (t *truth) twice(p *Pod) time.Duration {
	return 2 * time.Duration(p.host.Mounted().Settings.LeaseMilliseconds) * time.Millisecond
}

// read is an answer to a client (V3).
func (t *truth) read(s *server) {
	if t.latest == nil || s == t.latest {
		return
	}
	if !s.replica && s.term < t.latest.term {
		t.wrong(law.AnswerFresh, "%s answers as the primary of term %d, and term %d has let applications in", s.p.name,
			s.term,
			t.latest.term)
	}
	// A loop that stands still closes the door as much later. Its container is ended for that, which is not modelled.
	still := t.g.w.Now() - s.p.looked
	missing, some := t.lacks(s.log, t.leads.log)
	if age := t.g.w.Now() - t.acked[missing]; some && age > t.bound(s.p)+still {
		t.wrong(law.AnswerFresh, "%s answers without write %d, which was acknowledged %s ago", s.p.name, missing, age)
	}
}

// lacks is the first acknowledged write of a history that a log does not have.
func (t *truth) lacks(log, of []int) (id int, some bool) {
	// What is equal at one place is equal before it: no entry is ever written twice.
	from := sort.Search(min(len(log), len(of)), func(at int) bool { return log[at] != of[at] })
	for _, id := range of[from:] {
		if _, acked := t.acked[id]; acked {
			return id, true
		}
	}
	return 0, false
}

// promoted looks at what becomes the primary (V1, V4).
func (t *truth) promoted(s *server, term int64) {
	age := t.g.w.Now() - s.heard
	var missing int
	var lacks bool
	if t.leads != nil {
		missing, lacks = t.lacks(s.log, t.leads.log)
	}
	if t.leads == nil || term >= t.leads.term {
		t.leads = s
	}
	begins := !s.replica && s.term == 0 && len(s.log) == 0
	if t.emptied != 0 && !begins && !slices.Contains(s.log, t.emptied) {
		t.wrong(law.StayEmptied, "%s leads at term %d with values from before a flush", s.p.name, term)
	}
	switch {
	case begins:
		// It begins a dataset: that it may was looked at when the lease was taken for it.
	case !s.full:
		t.wrong(law.LeadWithData, "%s leads at term %d without the data", s.p.name, term)
	case age > t.twice(s.p)+slack:
		t.wrong(law.LeadYoung, "%s leads at term %d, and has last heard of a primary %s ago", s.p.name, term, age)
	case lacks && t.g.w.Now()-t.acked[missing] > t.twice(s.p)+slack:
		t.wrong(law.LeadYoung, "%s leads at term %d, and lacks write %d, which was acknowledged %s ago", s.p.name, term,
			missing,
			t.g.w.Now()-t.acked[missing])
	}
}

// goesOn compares by content what servers compare by numbers (T1).
func (t *truth) goesOn(s, up *server) {
	if end := len(s.log); end > len(up.log) || end > 0 && s.log[end-1] != up.log[end-1] {
		t.wrong(law.SameHistory, "%s goes on with the writes of %s, and what it has is another history", s.p.name, up.p.name)
	}
}

// wiped looks at a server that is about to give up its data for that of another (V5).
func (t *truth) wiped(s, up *server) {
	last := 0
	for at := len(s.log) - 1; at >= 0 && last == 0; at-- {
		if s.log[at] > 0 {
			last = s.log[at]
		}
	}
	if !s.full || last == 0 {
		return
	}
	_, lacks := t.lacks(up.log, s.log)
	switch {
	case up.term == 0:
		t.wrong(law.KeepData, "%s gives up its data for that of %s, which has never led", s.p.name, up.p.name)
	case up.term < t.openedTerm():
		t.wrong(law.KeepData, "%s gives up its data for that of %s, which has led at term %d, and term %d has begun",
			s.p.name,
			up.p.name, up.term, t.openedTerm())
	case lacks && up.term == t.terms[last]:
		t.wrong(law.KeepData,
			"%s has write %d of term %d, and gives it up for the data of %s, which has lost it in that term",
			s.p.name, last, up.term, up.p.name)
	}
}

// Written looks at a write of the lease, with the record that it replaces. Begun is how long ago it was begun.
func (g *Group) Written(by string, write tenure.Write, before *wire.LeaseRecord, begun time.Duration) {
	t, p := &g.truth, g.named(by)
	switch write.Kind {
	case tenure.WriteRecord:
		if emptied := write.Record.Emptied; emptied != nil && (before == nil || before.Emptied == nil ||
			*before.Emptied != *emptied) {
			t.emptied = t.flushes[emptied.ID]
		}
	case tenure.WriteBegin:
		t.emptied = 0
		if before != nil && before.Initialised {
			t.begins(p, nil, *before, begun)
		}
	case tenure.WriteJoin:
		t.takes(p, write)
		if before != nil && before.Initialised && p.server != nil {
			t.begins(p, p.server.log, *before, begun)
		}
	case tenure.WriteTake:
		t.takes(p, write)
	case tenure.WriteTransfer:
		target := g.named(write.Holder.Name).server
		if t.latest == nil || target == nil || target.incarnation != write.Holder.Incarnation {
			return
		}
		if id, some := t.lacks(target.log, t.latest.log); some {
			t.wrong(law.HandOverAll, "%s gives the lease to %s, which lacks write %d", by, write.Holder.Name, id)
		}
	default:
	}
}

// takes looks at a server that takes the lease with what it has (V1).
func (t *truth) takes(p *Pod, write tenure.Write) {
	if s := p.server; s != nil && s.incarnation == write.Holder.Incarnation && !s.full {
		t.wrong(law.LeadWithData, "%s takes the lease without the data", p.name)
	}
}

// looks notes what a loop can know of its copy. One that has stood still cannot tell whether the link was silent
// meanwhile: its copy is as old as it was before that until a word has come some seconds later, and if that is too old,
// it is none.
func (t *truth) looks(p *Pod) {
	now := t.g.w.Now()
	still := now - p.looked
	if p.looked > 0 && still > unseen {
		p.resumed = now
	}
	switch {
	case p.server != nil && p.server.up() && (p.resumed == 0 || now-p.resumed > slack+unseen):
		p.blind, p.fresh = false, now
	case p.looked > 0 && still > t.twice(p)-slack:
		p.blind = true
	}
	p.looked = now
}

// begins looks at a server that takes the lease and was no member, with what it has, if anything: no member may have
// had a copy of more, and been able to say so (V2).
func (t *truth) begins(p *Pod, with []int, record wire.LeaseRecord, begun time.Duration) {
	now := t.g.w.Now()
	for _, other := range t.g.pods {
		s := other.server
		if other == p || other.blind || s == nil || !s.full || s.loading || !s.answers() || other.failures >= 3 ||
			!record.Has(wire.Member{Name: other.name, Incarnation: s.incarnation}) {
			continue
		}
		// One that has just found its primary may lack what it does not know of, one whose loop stood still knows only of
		// what it saw before, one that gets no answer only of what it was told before, and one that was behind may have been
		// so for longer than it takes to say so.
		young := now-min(s.heard, other.fresh, other.told) < t.twice(other)-slack &&
			s.heard-s.linked > slack+time.Second && s.replica && (s.lagged == 0 || now-s.lagged > t.twice(other))
		if _, more := t.lacks(with, s.log); young && more && other.host.Well() > begun+wellFor {
			t.wrong(law.BeginAlone, "%s begins with %d entries, and %s has a copy of more that is %s old, and was well for %s",
				p.name,
				len(with), other.name, now-s.heard, other.host.Well())
		}
	}
}

// Unsettled says what is not as wished, empty if all is.
func (g *Group) Unsettled(lease tenure.View, instances []string) string {
	if lease.Holder == (wire.Member{}) || lease.Record == nil || !lease.Record.Initialised {
		return "nobody holds the lease"
	}
	holder := g.named(lease.Holder.Name)
	primary := holder.server
	switch {
	case primary == nil || primary.replica || primary.term != lease.Term ||
		primary.incarnation != lease.Holder.Incarnation:
		return holder.name + " holds the lease and does not lead"
	case !primary.open:
		return "the door of " + holder.name + " is closed"
	case len(lease.Record.Members) != len(instances):
		return fmt.Sprintf("the members are %v", lease.Record.Members)
	}
	for _, name := range instances {
		p := g.named(name)
		s := p.server
		switch {
		case s == nil:
			return name + " has no server"
		case !lease.Record.Has(wire.Member{Name: name, Incarnation: s.incarnation}):
			return name + " is no member with its copy"
		case p != holder && (!s.up() || s.link.up != primary || !s.full):
			return name + " does not follow"
		case !s.open:
			return "the door of " + name + " is closed"
		}
	}
	return ""
}
