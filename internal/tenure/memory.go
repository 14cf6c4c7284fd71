package tenure

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Memory is what an agent remembers between two passes, and loses when it ends. It changes only by the events below,
// each a function of the memory and the event, and by the actions that say so.
type Memory struct {
	Lease Lease `json:"lease"`
	Right Right `json:"right,omitzero"`
	// Write is a write of the lease that is under way.
	Write *Write `json:"write,omitempty"`
	// Doubts are writes of the present version of the lease whose outcome is not known (E5).
	Doubts []Write `json:"doubts,omitempty"`
	// Reading says that a consistent read of the lease is under way since then.
	Reading *Instant `json:"reading,omitempty"`
	// Tried is when the API server last did not answer.
	Tried Instant `json:"tried,omitempty"`
	// Ballot is the one that this instance conducts, nil if none.
	Ballot *Ballot `json:"ballot,omitempty"`
	// Promises are those that this instance, as the holder, was given.
	Promises []Promised `json:"promises,omitempty"`
	// Places are the positions that peers told on request.
	Places []Place `json:"places,omitempty"`
	// Asked is the switchover that somebody has asked this instance for.
	Asked *wire.Switchover `json:"asked,omitempty"`
	Route Route            `json:"route"`
	// Ushered is whom those who still come to this pod, which ends, are led on to.
	Ushered Ushered `json:"ushered,omitzero"`
	// Labels are what the pod of this instance says of itself.
	Labels Labels `json:"labels"`
	// Peers are the other instances that were heard of, and where they are, sorted by name.
	Peers []Peer `json:"peers,omitempty"`
	// Standing is what the engine was told last.
	Standing Standing `json:"standing"`
	// Preparing is since when the server makes its stop short before this instance gives its place away, nil if it does
	// not, Yielding since when it gives it away, and Yielded when it last ended to do so.
	Preparing *Instant `json:"preparing,omitempty"`
	Yielding  *Instant `json:"yielding,omitempty"`
	Yielded   Instant  `json:"yielded,omitempty"`
	// Fenced is when the present fence was put on the volume, 0 if that was in another life of the agent.
	Fenced Instant `json:"fenced,omitempty"`
	// Rest is until when this instance does not stand, after a promotion that failed.
	Rest Instant `json:"rest,omitempty"`
	// Lacking is since when the holder has too few replicas for its quorum, nil if it has enough, and LackVersion the
	// version that its lease had then.
	Lacking     *Instant `json:"lacking,omitempty"`
	LackVersion string   `json:"lackVersion,omitempty"`
	// Cuts are what the pods of members say of not reaching this instance, and CutsTried when they were last asked.
	Cuts      []wire.CutOff `json:"cuts,omitempty"`
	CutsTried Instant       `json:"cutsTried,omitempty"`
	// Missed is since when the server here takes no log of the holder, nil if it does.
	Missed *Instant `json:"missed,omitempty"`
	// Retreats is how often this instance has given the lease back because it was cut off, and Retreated when last.
	Retreats  int     `json:"retreats,omitempty"`
	Retreated Instant `json:"retreated,omitempty"`
	// Stopped is since when a server that was told to yield has ended, 0 if it has not.
	Stopped Instant `json:"stopped,omitempty"`
	// Incarnation is the copy that was last seen here.
	Incarnation string `json:"incarnation,omitempty"`
	// Sent are the last requests of each kind to each peer, so that none is sent twice at once.
	Sent []Sent `json:"sent,omitempty"`
}

// Sent is a request to a peer. Since is when the first of those was sent that came one after the other.
type Sent struct {
	To    string        `json:"to"`
	Kind  wire.PeerKind `json:"kind"`
	At    Instant       `json:"at"`
	Since Instant       `json:"since,omitempty"`
}

// sentGap is how far apart two requests may be for a peer to have been asked all the time.
const sentGap = time.Second

// Lasts is how long a peer has been asked by now, 0 if it was asked too long ago.
func (s Sent) Lasts(now Instant) time.Duration {
	if now.Since(s.At) > sentGap {
		return 0
	}
	return now.Since(s.Since)
}

// View is the lease as the API server tells it. An absent lease is a View without a UID.
type View struct {
	UID, Version string
	Holder       wire.Member
	Term         int64
	Record       *wire.LeaseRecord
	// Duration is how long the lease lasts.
	Duration time.Duration
	Problem  string
	// Succeeds is the lease whose place this one was made for, Before are those that were lost before that one, and
	// GivenUp are copies that a user has given up.
	Succeeds string
	Before   []string
	GivenUp  []wire.Member
}

// Verdict is how a write of the lease ended.
type Verdict string

// The verdicts.
const (
	WriteDone Verdict = "done"
	// WriteConflict: the lease has another version; certainly not done.
	WriteConflict Verdict = "conflict"
	// WriteRefused: certainly not done, for another reason.
	WriteRefused Verdict = "refused"
	// WriteUnknown: nobody knows, and it may still be done.
	WriteUnknown Verdict = "unknown"
)

// Look keeps in mind which copy is here, and puts it into facts that could not tell: one look at the volume that failed
// does not make it another copy. It also notes when a server has ended that was told to yield.
func (m *Memory) Look(engine Engine, now Instant) Engine {
	switch {
	case engine.Final == nil || engine.Processes:
		m.Stopped = 0
	case m.Stopped == 0:
		m.Stopped = now
	}
	if engine.Data == DataUnknown && engine.Incarnation == "" {
		engine.Incarnation = m.Incarnation
	}
	m.Incarnation = engine.Incarnation
	return engine
}

// Watched is a change that the API server told of by itself. It may be old.
func (m *Memory) Watched(view View, now Instant) {
	// Versions are comparable between leases too: one that is gone does not come back by an old message.
	if m.Lease.Known && m.Lease.Version != "" && !Newer(view.Version, m.Lease.Version) {
		return
	}
	m.see(view, now)
}

// ReadBegun is the begin of a consistent read.
func (m *Memory) ReadBegun(now Instant) { m.Reading = &now }

// ReadDone is the end of a consistent read that began at that moment.
func (m *Memory) ReadDone(view View, began, now Instant) {
	m.Reading = nil
	// Whoever leads by promises goes by them until a renewal is done: a read alone gives no right.
	leads := m.Standing.Role == RoleLead || m.Standing.Role == RoleYield
	if !leads || m.Lease.Known && view.UID != m.Lease.UID || view.Term != m.Standing.Term {
		m.Lease.Failing = nil
	}
	if m.Lease.Stale <= began {
		m.Lease.Stale = 0
	}
	if m.gone(view) && began <= m.Lease.Changed {
		return
	}
	if m.putBack(view) && began > m.Lease.Changed {
		m.replace(view, now)
		m.Ballot = nil // Its answers are about a version that may come once more, and mean another lease then.
	}
	m.see(view, now)
	if m.Lease.UID == view.UID && (view.UID == "" || m.Lease.Version == view.Version) {
		m.Lease.Read = max(m.Lease.Read, began)
	}
}

// gone says that this is a lease of before the one that is known, by their versions: an answer that was long on its way
// does not bring it back.
func (m *Memory) gone(view View) bool {
	known := m.Lease
	return known.Known && known.Exists && view.UID != "" && view.UID != known.UID && !Newer(view.Version, known.Version)
}

// putBack says that the lease, if it was like this after what is known of it, was put back to what it had been: its
// version is an older one, or the same one with another content, because versions are counted anew from there.
func (m *Memory) putBack(view View) bool {
	known := m.Lease
	if !known.Known || !known.Exists || known.UID != view.UID {
		return false
	}
	another := view.Term != known.Term || view.Holder != known.Holder || !reflect.DeepEqual(view.Record, known.Record)
	return Newer(known.Version, view.Version) || known.Version == view.Version && another
}

// ReadFailed is the end of a read without an answer.
func (m *Memory) ReadFailed(now Instant) {
	m.Reading = nil
	m.fail(now)
}

// WriteBegun is the begin of a conditional write.
func (m *Memory) WriteBegun(write Write) { m.Write = &write }

// WriteEnded is its end. The view is there only when it was done.
func (m *Memory) WriteEnded(self wire.Member, verdict Verdict, view View, now Instant) {
	write := m.Write
	if write == nil {
		return
	}
	m.Write = nil
	switch verdict {
	case WriteDone:
		m.Lease.Failing = nil
		// The grant is decided here and not in see: this write is known to be the one that was done.
		m.see(view, now)
		m.grant(self, *write)
	case WriteConflict:
		m.Lease.Stale = now
	case WriteRefused:
		m.Lease.Stale = now
		m.fail(now)
	case WriteUnknown:
		write.Ended = now
		if write.Version == m.Lease.Version {
			m.Doubts = append(m.Doubts, *write)
		} else {
			m.settle(self, []Write{*write})
		}
		m.Lease.Stale = now
		m.fail(now)
	}
}

// Settle looks at the writes in doubt once the lease has another version: at most one of them was done, and none will
// be any more. Each pass begins with it.
func (m *Memory) Settle(self wire.Member) {
	var open, over []Write
	for _, doubt := range m.Doubts {
		if doubt.Version == m.Lease.Version {
			open = append(open, doubt)
		} else {
			over = append(over, doubt)
		}
	}
	m.Doubts = open
	if m.Write != nil && m.Write.Version != m.Lease.Version {
		over = append(over, *m.Write) // A read, or a watch, may be faster than the answer to a write.
	}
	m.settle(self, over)
}

// settle grants the right of the earliest write in doubt that the lease shows: its deadline is the earliest. A lease
// does not show a renewal: somebody else may have given it its present version, and what never arrived gives no right
// (C1).
func (m *Memory) settle(self wire.Member, over []Write) {
	for _, doubt := range over {
		shown := m.Lease.Exists && m.Lease.Holder == doubt.Holder && m.Lease.Term == doubt.Record.Term
		if doubt.Kind == WriteRecord || doubt.Kind == WriteRenew {
			shown = shown && doubt.Kind == WriteRecord && m.Lease.Record != nil &&
				m.Lease.Record.Revision == doubt.Record.Revision
		}
		if shown {
			m.grant(self, doubt)
			return
		}
	}
}

// grant takes the right that a write has given, or gives up the right that it has given away. A right of a later moment
// stays.
func (m *Memory) grant(self wire.Member, write Write) {
	switch {
	case write.Holder != self:
		m.Right = Right{}
	case m.Right.Term != write.Record.Term || m.Right.Renewed < write.Started:
		m.Right = Right{Term: write.Record.Term, Renewed: write.Started, Duration: write.Duration}
	}
}

func (m *Memory) see(view View, now Instant) {
	before := m.Lease
	if before.Known && before.UID == view.UID && !Newer(view.Version, before.Version) {
		return
	}
	m.replace(view, now)
}

func (m *Memory) replace(view View, now Instant) {
	before := m.Lease
	if view.UID == "" {
		view.Version = before.Version // What was seen of a lease that is gone is older than this.
	}
	if view.UID != before.UID {
		// What peers have told of terms was about the other one.
		m.Peers = slices.Clone(m.Peers)
		for i := range m.Peers {
			m.Peers[i].Term = 0
		}
		m.Places = slices.Clone(m.Places)
		for i := range m.Places {
			m.Places[i].Term = 0
		}
	}
	m.Lease = Lease{
		Known: true, Exists: view.UID != "", UID: view.UID, Version: view.Version, Holder: view.Holder, Term: view.Term,
		Record: view.Record, Duration: view.Duration, Problem: view.Problem, Changed: now,
		Succeeds: view.Succeeds, Before: view.Before, GivenUp: view.GivenUp, Failing: before.Failing, Stale: before.Stale,
	}
}

// Newer compares versions of one object. Kubernetes makes them decimal numbers that grow.
func Newer(version, than string) bool {
	if len(version) != len(than) {
		return len(version) > len(than)
	}
	return version > than
}

func (m *Memory) fail(now Instant) {
	m.Tried = now
	if m.Lease.Failing == nil {
		m.Lease.Failing = &now
	}
}

// Heard is a request that has come in: its sender is where the message says.
func (m *Memory) Heard(request wire.PeerRequest, now Instant) {
	m.learn(request.PeerHeader, now)
	if request.Term > m.Lease.Term {
		m.Lease.Stale = now
	}
}

// SentTo notes a request.
func (m *Memory) SentTo(request wire.PeerRequest, now Instant) {
	next := Sent{To: request.To.Name, Kind: request.Kind, At: now, Since: now}
	m.Sent = slices.DeleteFunc(slices.Clone(m.Sent), func(sent Sent) bool {
		same := sent.To == next.To && sent.Kind == next.Kind
		if same && sent.Lasts(now) > 0 {
			next.Since = sent.Since
		}
		return same
	})
	m.Sent = append(m.Sent, next)
	if request.Kind == wire.PeerTell {
		m.peer(request.To.Name).Told = request.Term
	}
}

// Replied is the reply to a request that was sent at that moment.
func (m *Memory) Replied(request wire.PeerRequest, reply wire.PeerReply, sent, now Instant) {
	if reply.DatabaseUID != request.DatabaseUID || reply.From.Name != request.To.Name ||
		request.To.Incarnation != "" && reply.From != request.To {
		return
	}
	m.learn(reply.PeerHeader, now)
	if reply.Term > m.Lease.Term {
		m.Lease.Stale = now
	}
	if !reply.Yes {
		return
	}
	position := Position{Timeline: reply.Timeline, LSN: reply.LSN}
	switch request.Kind {
	case wire.PeerAsk:
		if m.isAbout(request) && !slices.Contains(m.Ballot.Willing, reply.From) {
			m.Ballot.Willing = append(slices.Clone(m.Ballot.Willing), reply.From)
		}
	case wire.PeerFence:
		if m.isAbout(request) {
			m.Answered(AnswerOf(reply))
		}
	case wire.PeerPromise:
		m.Promises = slices.DeleteFunc(slices.Clone(m.Promises), func(p Promised) bool { return p.Member == reply.From })
		// The promise counts from when it was asked for: the reply may have been long on its way.
		m.Promises = append(m.Promises, Promised{
			Member: reply.From, Term: request.Term, Sent: sent, Duration: request.Duration,
		})
	case wire.PeerPlace:
		m.Places = slices.DeleteFunc(slices.Clone(m.Places), func(p Place) bool { return p.Member == reply.From })
		m.Places = append(m.Places, Place{
			Member: reply.From, Position: position, Term: m.peer(reply.From.Name).Term, At: sent,
			CannotLead: reply.CannotLead,
		})
	case wire.PeerTell:
	}
}

// Lost is a request that got no reply: what was told did not arrive.
func (m *Memory) Lost(request wire.PeerRequest) {
	if request.Kind == wire.PeerTell {
		m.peer(request.To.Name).Told = 0
	}
}

// Answered is an answer to the ballot, a peer's or the own.
func (m *Memory) Answered(answer Answer) {
	if m.Ballot == nil {
		return
	}
	answers := slices.DeleteFunc(slices.Clone(m.Ballot.Answers), func(a Answer) bool { return a.Member == answer.Member })
	ballot := *m.Ballot
	ballot.Answers = append(answers, answer)
	m.Ballot = &ballot
}

func (m *Memory) isAbout(request wire.PeerRequest) bool {
	return m.Ballot != nil && m.Ballot.LeaseUID == request.LeaseUID && m.Ballot.Version == request.LeaseVersion
}

func (m *Memory) learn(header wire.PeerHeader, now Instant) {
	peer := m.peer(header.From.Name)
	peer.Heard = now
	if header.Address != "" {
		peer.Address = header.Address
	}
	peer.Term = 0
	if header.LeaseUID != "" && header.LeaseUID == m.Lease.UID {
		peer.Term = header.Term
	}
}

func (m *Memory) peer(name string) *Peer {
	index, found := slices.BinarySearchFunc(m.Peers, name, func(p Peer, name string) int {
		return strings.Compare(p.Name, name)
	})
	if !found {
		m.Peers = slices.Insert(slices.Clone(m.Peers), index, Peer{Name: name})
	} else {
		m.Peers = slices.Clone(m.Peers)
	}
	return &m.Peers[index]
}
