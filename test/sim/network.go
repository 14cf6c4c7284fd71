package sim

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/law"
)

const callTimeout = 2 * time.Second

var errAway = errors.New("the API server does not answer")

// apiServer has one lease, one slice, and a watch of the lease for each agent.
type apiServer struct {
	w       *World
	lease   tenure.View
	version int
	away    bool
	cutFrom []bool // cutFrom[i]: agent i does not reach it.
	// cutNext[i] is for how long agent i does not reach it once it has read the lease, 0 if it does.
	cutNext map[int]time.Duration
	route   struct {
		address string
		term    int64
		version int
		gone    time.Duration // There is none until then.
	}
	// before are the last versions: a cache that starts may show any of them.
	before []tenure.View
	// backups are older states that somebody may restore.
	backups []tenure.View
	// putBack says that somebody has done so, lost that somebody has deleted it.
	putBack, lost bool
	// stores counts how often it was done by way of the store of the cluster.
	stores int
	// holder is who held the lease last.
	holder string
}

func (s *apiServer) reaches(n *node) bool { return !s.away && !s.cutFrom[n.index] }

func (s *apiServer) bump() {
	s.version += 1 + s.w.random.IntN(3)
	s.lease.Version = strconv.Itoa(s.version)
	s.show()
}

// show tells everybody of the lease as it is.
func (s *apiServer) show() {
	s.before = append(s.before, s.lease)
	if len(s.before) > 6 {
		s.before = s.before[1:]
	}
	for _, n := range s.w.nodes {
		s.tell(n)
	}
}

// tell delivers what the lease is by then: changes coalesce, and none is seen before an earlier one.
func (s *apiServer) tell(n *node) {
	life := n.life
	s.w.after(s.w.between(2*time.Millisecond, 60*time.Millisecond), func() {
		if n.life != life || n.agent == nil {
			return
		}
		if !s.reaches(n) || s.w.now < n.watchDead {
			if !n.watchBroken {
				n.watchBroken = true
				s.rewatch(n, life)
			}
			return
		}
		if s.lease.UID == "" {
			// That it is gone makes the port read.
			s.read(n, nil, func(view tenure.View, err error) {
				if n.agent != nil && n.life == life {
					n.agent.take(tenure.LeaseRead{View: view, Began: n.clock(), Problem: err})
				}
			})
			return
		}
		n.agent.take(tenure.LeaseWatched{View: s.lease})
	})
}

// routeChanged tells everybody whose watch lives that the write address is another one by now.
func (s *apiServer) routeChanged() {
	s.route.version++
	for _, n := range s.w.nodes {
		life := n.life
		s.w.after(s.w.between(2*time.Millisecond, 60*time.Millisecond), func() {
			switch {
			case n.life != life || n.agent == nil:
			case s.reaches(n) && s.w.now >= n.watchDead:
				n.agent.take(tenure.RouteTouched{})
			case !n.watchBroken:
				n.watchBroken = true
				s.rewatch(n, life)
			}
		})
	}
}

func (s *apiServer) rewatch(n *node, life int) {
	s.w.after(s.w.between(300*time.Millisecond, 2*time.Second), func() {
		if n.life != life || n.agent == nil {
			return
		}
		if !s.reaches(n) || s.w.now < n.watchDead {
			s.rewatch(n, life)
			return
		}
		n.watchBroken = false
		n.agent.take(tenure.RouteTouched{})
		if len(s.before) > 0 {
			n.agent.take(tenure.LeaseWatched{View: s.before[s.w.random.IntN(len(s.before))]})
		}
		s.w.after(s.w.between(0, 1500*time.Millisecond), func() { s.tell(n) })
	})
}

// travel is the way of a call to the server or back.
func (s *apiServer) travel() time.Duration {
	if s.w.chance(0.05) {
		return s.w.between(20*time.Millisecond, 900*time.Millisecond)
	}
	return s.w.between(time.Millisecond, 15*time.Millisecond)
}

// read is a consistent read: what it returns was so at some moment between begin and end.
func (s *apiServer) read(n *node, fault *Fault, end func(tenure.View, error)) {
	ended := false
	finish := func(view tenure.View, err error) {
		if !ended {
			ended = true
			end(view, err)
		}
	}
	failed := fault != nil && fault.Kind == FaultRefused
	s.w.after(callTimeout, func() { finish(tenure.View{}, errAway) })
	s.w.after(s.travel(), func() {
		if failed || !s.reaches(n) {
			s.w.after(s.w.between(time.Millisecond, callTimeout), func() { finish(tenure.View{}, errAway) })
			return
		}
		view := s.lease
		wait := s.travel()
		if fault != nil && fault.Kind == FaultLate {
			wait += fault.For
		}
		s.w.after(wait, func() {
			if s.reaches(n) {
				s.cutAfterRead(n)
				finish(view, nil)
			}
		})
	})
}

func (s *apiServer) cutAfterRead(n *node) {
	lasting := s.cutNext[n.index]
	if lasting == 0 {
		return
	}
	s.w.note(n.index, "FAULT cut from the API server for %s", lasting)
	delete(s.cutNext, n.index)
	s.cutFrom[n.index] = true
	s.w.after(lasting, func() { s.cutFrom[n.index] = false })
}

// write is a conditional write.
func (s *apiServer) write(n *node, write tenure.Write, fault *Fault, end func(tenure.Verdict, tenure.View)) {
	ended := false
	finish := func(verdict tenure.Verdict, view tenure.View) {
		if !ended {
			ended = true
			end(verdict, view)
		}
	}
	kind := FaultNone
	if fault != nil {
		kind = fault.Kind
	}
	astray := s.w.truth.astray(n) // What it learns while the write is on its way does not stop it.
	unsure := func() {
		s.w.after(s.w.between(10*time.Millisecond, callTimeout), func() { finish(tenure.WriteUnknown, tenure.View{}) })
	}
	s.w.after(callTimeout, func() { finish(tenure.WriteUnknown, tenure.View{}) })
	store := s.stores
	s.w.after(s.travel(), func() {
		switch {
		case s.stores != store: // What was on its way ended with the API server.
			unsure()
		case kind == FaultRefused || !s.reaches(n) && s.w.chance(0.5):
			finish(tenure.WriteRefused, tenure.View{})
		case kind == FaultNotApplied || !s.reaches(n):
			unsure()
		case kind == FaultLate:
			s.applyLate(n, write, astray, fault.For)
			unsure()
		case kind == FaultForgotten:
			s.applyLate(n, write, astray, fault.For)
			s.cutNext[n.index] = fault.For
			s.w.strike(n, &Fault{Kind: FaultCrash})
		case kind == FaultAppliedCut:
			s.apply(n, write, astray)
			s.cutFrom[n.index] = true
			s.w.after(fault.For, func() { s.cutFrom[n.index] = false })
			unsure()
		case kind == FaultApplied:
			s.apply(n, write, astray)
			unsure()
		default:
			done := s.apply(n, write, astray)
			view := s.lease
			s.w.after(s.travel(), func() {
				switch {
				case !s.reaches(n):
				case done:
					finish(tenure.WriteDone, view)
				default:
					finish(tenure.WriteConflict, tenure.View{})
				}
			})
		}
	})
}

// applyLate lets a write arrive late. None outlives a store that is put back: for that the API server is stopped.
func (s *apiServer) applyLate(n *node, write tenure.Write, astray bool, after time.Duration) {
	store := s.stores
	s.w.after(after, func() {
		if s.stores == store {
			s.apply(n, write, astray)
		}
	})
}

func (s *apiServer) apply(n *node, write tenure.Write, astray bool) bool {
	if s.lease.UID == "" || write.Version != s.lease.Version {
		s.w.note(n.index, "API: %s at %s conflicts, the lease is at %s", write.Kind, write.Version, s.lease.Version)
		return false
	}
	record := write.Record.Canonical()
	if err := record.Check(); err != nil {
		s.w.wrong(law.Readable, "%s writes a record that nobody can read: %v", n.name, err)
		return false
	}
	before := s.lease
	if before.Record == nil || before.Record.Revision != record.Revision || before.Term != record.Term {
		s.backups = append(s.backups, before)
	}
	if write.Holder.Name != "" {
		s.holder = write.Holder.Name
	}
	if !s.carryOut(write, record) {
		return false
	}
	if write.Kind != tenure.WriteRenew || before.Holder != write.Holder {
		s.w.note(n.index, "API: %s done, version %s -> %s, holder %s term %d timeline %d w %d of %v", write.Kind,
			write.Version, s.lease.Version, write.Holder, record.Term, record.Timeline, record.W, record.Members)
	}
	s.w.truth.leaseWritten(n, write, before, astray)
	return true
}

// carryOut makes the lease what a write says.
func (s *apiServer) carryOut(write tenure.Write, record wire.LeaseRecord) bool {
	if s.w.cluster != nil {
		return s.w.cluster.WriteLease(write)
	}
	if write.Kind == tenure.WriteSucceed || write.Kind == tenure.WriteRestore {
		s.lease.GivenUp = nil
	}
	s.lease.Holder, s.lease.Term, s.lease.Record = write.Holder, record.Term, &record
	s.lease.Duration = write.Duration
	s.bump()
	return true
}

// create is what the operator does once, and again in the place of a lease that is lost.
func (s *apiServer) create(succeeds string, before []string) {
	s.lease = tenure.View{UID: s.w.identity("lease-"), Succeeds: succeeds, Before: before}
	s.bump()
}

// lose takes the lease away, finalizer and all.
func (s *apiServer) lose() {
	s.lease, s.before, s.lost = tenure.View{}, nil, true
	s.version++
	for _, n := range s.w.nodes {
		s.tell(n)
	}
}

// restore puts the lease back to what it was at some time. Whether the versions go back too depends on how it is done.
func (s *apiServer) restore(which int, versions bool) {
	if s.lease.UID == "" || len(s.backups) == 0 {
		return
	}
	old := s.backups[len(s.backups)-1-which%min(len(s.backups), 4)]
	if old.UID != s.lease.UID {
		return
	}
	s.lease, s.before, s.putBack = old, nil, true
	s.w.note(-1, "the lease is at term %d again", old.Term)
	if versions {
		// The object has the version that it had then. The counter of the cluster goes on from there too, and what others
		// write moves it: that it comes to the very version of a write that is still on its way is left out, because
		// nothing could tell.
		s.before = []tenure.View{s.lease}
		s.version += 20
		s.stores++
		return
	}
	s.bump()
}

// giveUp is a user's word that copies which are gone will never come back.
func (s *apiServer) giveUp() {
	if s.lease.UID == "" || s.w.truth.record == nil {
		return
	}
	records := []*wire.LeaseRecord{s.w.truth.record}
	for _, view := range s.backups {
		records = append(records, view.Record)
	}
	for _, n := range s.w.nodes { // What an agent has begun to write it waits for too, and says so.
		records = append(records, n.volume.stored.LastRecord, n.volume.stored.NextRecord)
	}
	before := len(s.lease.GivenUp)
	for _, record := range records {
		if record == nil {
			continue
		}
		for _, member := range record.Members {
			here := s.w.named(member.Name).held()
			gone := here.incarnation != member.Incarnation || here.data == tenure.DataChanging
			if gone && !slices.Contains(s.lease.GivenUp, member) {
				s.lease.GivenUp = append(slices.Clone(s.lease.GivenUp), member)
			}
		}
	}
	if len(s.lease.GivenUp) > before {
		s.bump()
	}
}

func (w *World) connected(from, to *node) bool { return !w.cut[from.index][to.index] }

func (w *World) latency() time.Duration {
	if w.chance(0.03) {
		return w.between(20*time.Millisecond, 500*time.Millisecond)
	}
	return w.between(200*time.Microsecond, 4*time.Millisecond)
}

func (w *World) named(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// send carries a request to a peer and its reply back. A request may come so late that nobody waits for the reply.
func (w *World) send(a *agent, request wire.PeerRequest, address string, sent tenure.Instant) {
	fault := a.point(PointMessage)
	ended := false
	finish := func(event tenure.Event) {
		if !ended {
			ended = true
			a.take(event)
		}
	}
	w.after(peerTimeout, func() { finish(tenure.PeerLost{Request: request}) })
	to := w.named(request.To.Name)
	// An address that fails is tried by name the next time.
	if to == nil || to.address != address && address != "" && w.chance(0.5) {
		return
	}
	arrives := w.latency()
	var replyLost bool
	if fault != nil {
		switch fault.Kind {
		case FaultLost:
			return
		case FaultReplyLost:
			replyLost = true
		case FaultLate:
			arrives += fault.For
		case FaultTwice:
			w.arrive(a.n, to, request, fault.For, func(wire.PeerReply) {})
		default:
		}
	}
	w.arrive(a.n, to, request, arrives, func(reply wire.PeerReply) {
		w.after(w.latency(), func() {
			if w.connected(to, a.n) && !replyLost {
				finish(tenure.PeerReplied{Request: request, Reply: reply, Sent: sent})
			}
		})
	})
}

func (w *World) arrive(from, to *node, request wire.PeerRequest, in time.Duration, reply func(wire.PeerReply)) {
	w.after(in, func() {
		if !w.connected(from, to) || to.agent == nil {
			return
		}
		receiver := to.agent
		receiver.nextID++
		id := receiver.nextID
		receiver.replies[id] = func(answer wire.PeerReply) {
			w.truth.replied(to, request, answer)
			reply(answer)
			if request.Kind == wire.PeerFence && answer.Yes {
				if fault := receiver.point(PointAnswer); fault != nil {
					w.after(time.Millisecond, func() { w.strike(to, fault) })
				}
			}
		}
		receiver.take(tenure.PeerAsked{Request: tenure.Request{ID: id, PeerRequest: request}})
	})
}
