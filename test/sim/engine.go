package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// engine is a model of the loop that makes the server what it was told to be.
type engine struct {
	a        *agent
	n        *node
	standing tenure.Standing
	facts    tenure.Engine
	// busy is a long work that is under way.
	busy   string
	final  *tenure.Position
	cannot string
	shown  uint64
	hung   time.Duration // The loop does nothing until then.
}

func (e *engine) soon(in time.Duration) {
	e.n.w.after(in, func() { e.a.inAgent(e.tick) })
}

func (e *engine) tick() {
	if e.n.w.now < e.hung {
		e.soon(e.hung - e.n.w.now)
		return
	}
	if e.n.server != nil {
		e.n.server.prune()
	}
	if e.busy == "" && e.standing.Serial > 0 {
		e.advance()
	}
	e.publish()
	e.soon(e.n.w.between(60*time.Millisecond, 160*time.Millisecond))
}

// obey hears the standing. The loop itself looks at it in its next turn.
func (e *engine) obey(standing tenure.Standing) {
	e.standing = standing
	e.n.w.after(e.n.w.between(0, 10*time.Millisecond), func() {
		e.a.inAgent(func() {
			if e.busy == "" && e.standing.Serial == standing.Serial && e.n.w.now >= e.hung {
				e.advance()
				e.publish()
			}
		})
	})
}

func (e *engine) advance() {
	c := &e.n.volume.copy
	switch e.standing.Role {
	case tenure.RoleIdle:
		e.beIdle()
	case tenure.RoleBegin:
		e.begin()
	case tenure.RoleFollow:
		e.follow()
	case tenure.RoleCatchUp:
		if c.data == tenure.DataWhole && e.stands() {
			e.connect(false)
		}
	case tenure.RoleLead:
		e.lead()
	case tenure.RoleYield:
		e.yield()
	}
}

func (e *engine) exclude(act func()) {
	_ = e.a.loop.Exclude(e.standing.Serial, func() error { act(); return nil })
}

// long runs the rest of a work later, if the process still lives.
func (e *engine) long(name string, d time.Duration, rest func()) {
	e.busy = name
	e.n.w.after(d, func() {
		e.a.inAgent(func() {
			e.busy = ""
			rest()
			e.publish()
		})
	})
}

func (e *engine) beIdle() {
	s := e.n.server
	switch {
	case s != nil && s.mode == primary:
		e.n.killServer("it was told to be idle")
	case s != nil && s.stream != nil:
		if e.n.w.bug != BugFenceWithoutProof || e.n.volume.stored.Fence == nil {
			e.exclude(s.disconnect)
		}
	case s == nil && e.n.volume.copy.data == tenure.DataWhole && !e.standing.Down:
		e.startStandby()
	}
}

func (e *engine) startStandby() {
	s := &server{n: e.n, mode: standby, recovering: true}
	e.n.server = s
	e.final = nil
	took := e.n.w.between(30*time.Millisecond, 400*time.Millisecond)
	switch {
	case e.n.w.Case.Lag && !e.n.w.calm && e.n.w.chance(0.3):
		took = e.n.w.between(time.Second, 8*time.Second)
	case e.n.w.chance(0.1):
		took = e.n.w.between(400*time.Millisecond, 3*time.Second)
	}
	s.inServer(took, func() { s.recovering = false })
}

// stands says that a standby runs; it sees to it that one does.
func (e *engine) stands() bool {
	s := e.n.server
	switch {
	case s == nil:
		e.startStandby()
		return false
	case s.mode == primary:
		e.n.killServer("it was told not to lead any more")
		return false
	}
	return s.mode == standby
}

func (e *engine) begin() {
	c := &e.n.volume.copy
	if c.data == tenure.DataWhole || c.data == tenure.DataChanging || c.begun && c.incarnation == e.standing.Incarnation {
		return
	}
	standing := e.standing
	e.long("initdb", e.n.w.between(100*time.Millisecond, time.Second), func() {
		if c.data != tenure.DataNone {
			return
		}
		*c = dataCopy{
			data: tenure.DataNone, begun: true, incarnation: standing.Incarnation, system: e.n.w.identity("system-"),
			log: []entry{{timeline: 1}},
		}
	})
}

// adopt makes a first copy count once it is recorded.
func (e *engine) adopt() {
	c, standing := &e.n.volume.copy, e.standing
	if !c.begun || !standing.Initialised {
		return
	}
	if c.system == standing.SystemIdentifier {
		c.begun, c.data = false, tenure.DataWhole
	} else if standing.Role == tenure.RoleFollow {
		*c = dataCopy{data: tenure.DataNone}
	}
}

func (e *engine) follow() {
	e.adopt()
	switch c := &e.n.volume.copy; {
	case !e.standing.Initialised || e.standing.Upstream.Name == e.n.name:
	case c.data == tenure.DataNone, c.data == tenure.DataPutBack:
		e.destroy("clone") // If the upstream leads.
	case c.data == tenure.DataChanging:
		e.destroy("rewind")
	case e.stands():
		e.connect(true)
	}
}

// upstream is the server to take the log from, nil if it is not reached or is not what it shall be.
func (e *engine) upstream() *server {
	w := e.n.w
	up := w.named(e.standing.Upstream.Name)
	if up == nil || up.server == nil || !w.connected(e.n, up) || !w.connected(up, e.n) || w.now < up.frozenPod {
		return nil
	}
	if address := e.standing.UpstreamAddress; address != "" && address != up.address {
		return nil
	}
	if up.volume.copy.incarnation != e.standing.Upstream.Incarnation || up.server.dead {
		return nil
	}
	if e.standing.Role == tenure.RoleFollow && (up.server.mode != primary || up.server.claimed != e.standing.Timeline) {
		return nil
	}
	return up.server
}

// connect takes the log of the upstream, or finds that the own copy has left its history.
func (e *engine) connect(rewind bool) {
	s := e.n.server
	if line := s.stream; line != nil {
		if line.up.dead || line.closed || line.up.n.name != e.standing.Upstream.Name || line.foreign {
			e.exclude(s.disconnect)
		} else if line.broken() {
			if line.cutSince == 0 {
				line.cutSince = e.n.w.now
			} else if e.n.w.now-line.cutSince > 2*time.Second {
				s.disconnect()
			}
		} else {
			line.cutSince = 0
			line.pump()
		}
		return
	}
	up := e.upstream()
	if up == nil || s.recovering {
		return
	}
	c := &e.n.volume.copy
	_, fits := fork(c.log, up.n.volume.copy.log)
	switch {
	case fits || e.n.w.bug == BugFollowUnjudged && rewind && e.n.w.chance(0.5):
		member := wire.Member{Name: e.n.name, Incarnation: c.incarnation}
		taken := slices.ContainsFunc(up.senders, func(l *stream) bool { return l.member == member })
		if !taken {
			e.n.w.truth.joined(e.n, up.n)
			e.exclude(func() { s.attach(up, member) })
		}
	case rewind && e.n.w.chance(0.7):
		e.destroy("rewind")
	case rewind:
		e.destroy("clone")
	}
}

// destroy makes the copy anew from the holder, which a consistent read has just shown to be that (I2).
func (e *engine) destroy(how string) {
	serial := e.standing.Serial
	e.busy = how
	e.n.w.api.read(e.n, e.a.point(PointRead), func(view tenure.View, err error) {
		e.a.inAgent(func() {
			e.busy = ""
			e.a.got.view, e.a.got.err = view, err
			if e.a.loop.Confirm(context.Background(), serial) != nil {
				return
			}
			up := e.upstream()
			if up == nil {
				return
			}
			_ = e.a.loop.Exclude(serial, func() error { e.copyFrom(how, up); return nil })
		})
	})
}

func (e *engine) copyFrom(how string, up *server) {
	c := &e.n.volume.copy
	e.n.killServer("its copy is made anew by " + how)
	at, _ := fork(c.log, up.n.volume.copy.log)
	if how == "rewind" && c.data == tenure.DataWhole {
		e.n.w.truth.truncated(e.n, at)
		c.data, c.log = tenure.DataChanging, slices.Clone(c.log[:at])
	} else if how == "clone" {
		e.n.w.truth.truncated(e.n, 0)
		*c = dataCopy{data: tenure.DataNone}
	}
	e.n.w.note(e.n.index, "%s from %s begins, common up to %d", how, up.n.name, at)
	e.long(how, e.n.w.between(200*time.Millisecond, 3*time.Second), func() {
		if up.dead || !e.n.w.connected(e.n, up.n) || !e.n.w.connected(up.n, e.n) || e.n.w.chance(0.05) {
			e.n.w.note(e.n.index, "%s fails", how)
			return
		}
		if how == "clone" {
			c.incarnation, c.system = e.n.freshCopy(), up.n.volume.copy.system
		}
		c.data, c.log = tenure.DataWhole, slices.Clone(up.n.volume.copy.log)
		e.n.w.note(e.n.index, "%s is done, as %s at %s", how, c.incarnation, c.position())
	})
}

func (e *engine) lead() {
	e.adopt()
	c, s, standing := &e.n.volume.copy, e.n.server, e.standing
	if c.data != tenure.DataWhole || e.a.loop.MayLead(standing.Serial) != nil {
		return
	}
	direct := c.timeline() == standing.Timeline
	switch {
	case c.timeline() > standing.Timeline:
		e.cannot = "its timeline is later than the reserved one"
	case s != nil && s.mode == primary && s.claimed == standing.Timeline:
		// A holder that has written its lease anew goes on at another term.
		s.term = max(s.term, standing.Term)
		e.serve(s)
	case s != nil && s.mode == primary, s != nil && s.mode == standby && direct:
		e.n.killServer("it starts anew as a primary")
	case s == nil && direct:
		s = &server{n: e.n, mode: starting}
		e.n.server, e.final = s, nil
		e.promote(s)
	case s == nil:
		e.startStandby()
	case s.mode == standby && !s.recovering:
		e.exclude(s.disconnect)
		e.promote(s)
	}
}

func (e *engine) promote(s *server) {
	standing := e.standing
	e.busy = "promote"
	took := e.n.w.between(20*time.Millisecond, 400*time.Millisecond)
	s.inServer(took, func() { s.lead(standing) })
	e.long("promote", took+5*time.Millisecond, func() {})
}

// serve keeps a primary as its standing says.
func (e *engine) serve(s *server) {
	if !sameSetting(s.file, e.standing.Setting) {
		s.reload(e.standing.Setting)
	}
	open := e.standing.OpenStart == s.startID || e.n.w.bug == BugOpenAtOnce
	if open && !s.open {
		e.n.w.note(e.n.index, "the gate opens at %d", len(e.n.volume.copy.log))
		e.n.w.truth.opened(s)
		s.sessions = true
	}
	s.open = open
	e.prepare(s)
}

// prepare writes what a primary has in memory, once for each time that it is told to.
func (e *engine) prepare(s *server) {
	wish := e.standing.Prepare
	if wish == 0 || s.preparing == wish {
		return
	}
	s.preparing = wish
	took := e.n.w.between(10*time.Millisecond, 300*time.Millisecond)
	if !e.n.w.calm && e.n.w.chance(0.1) {
		took = e.n.w.between(time.Second, 20*time.Second)
	}
	s.inServer(took, func() { s.prepared = max(s.prepared, wish) })
}

// yield stops the server in order, and says where it ended.
func (e *engine) yield() {
	s := e.n.server
	if s == nil {
		if e.final == nil && e.n.volume.copy.data == tenure.DataWhole {
			end := e.n.volume.copy.position()
			e.final = &end
		}
		return
	}
	if s.mode != primary {
		e.n.killServer("it was told to yield and does not lead")
		return
	}
	s.open = false
	if s.stopping {
		return
	}
	s.stopping = true
	w := e.n.w
	// Sessions live on through the checkpoint.
	took := w.between(20*time.Millisecond, 300*time.Millisecond)
	if w.chance(0.2) && !w.calm {
		took = w.between(300*time.Millisecond, 4*time.Second)
	}
	s.inServer(took, func() {
		s.sessions, s.waiting = false, nil // What waited is of unknown outcome to its client.
		e.n.volume.copy.log = append(e.n.volume.copy.log, entry{timeline: s.timeline})
		for _, sender := range s.senders {
			sender.pump()
		}
		s.inServer(w.between(5*time.Millisecond, 100*time.Millisecond), func() { s.dieInOrder(w.now + 8*time.Second) })
	})
}

// dieInOrder ends a server that has sent all of its log to those that take it, or that has no more time.
func (s *server) dieInOrder(latest time.Duration) {
	lacks := func(l *stream) bool { return l.flushed < len(s.n.volume.copy.log) && !l.broken() && !l.closed }
	if slices.ContainsFunc(s.senders, lacks) && s.n.w.now < latest {
		s.inServer(50*time.Millisecond, func() { s.dieInOrder(latest) })
		return
	}
	s.n.w.note(s.n.index, "the server has stopped at %s", s.n.volume.copy.position())
	s.die()
}

// fence cuts the server off, and reads its position only then (F1).
func (e *engine) fence() (tenure.Position, error) {
	c, s := &e.n.volume.copy, e.n.server
	switch {
	case c.data != tenure.DataWhole || e.busy != "" && e.busy != "promote":
		return tenure.Position{}, errors.New("the copy is not whole")
	case s == nil:
		return c.position(), nil
	case s.mode != standby:
		return tenure.Position{}, errors.New("the server leads")
	}
	if line := s.stream; line != nil && e.n.w.bug == BugFenceWithoutProof {
		s.inServer(2*time.Second, s.disconnect)
	} else {
		s.disconnect()
	}
	if s.recovering {
		if e.n.w.bug == BugAnswerBeforeReplay {
			return tenure.Position{Timeline: c.timeline(), LSN: uint64(len(c.log) / 2)}, nil
		}
		return tenure.Position{}, errors.New("I3: local replay has not ended")
	}
	return c.position(), nil
}

// publish samples the facts. They are heard of a little later.
func (e *engine) publish() {
	e.shown++
	shown, facts := e.shown, e.sample()
	e.n.w.after(e.n.w.between(0, 40*time.Millisecond), func() {
		e.a.inAgent(func() {
			if e.shown < shown || shown+1 < e.shown && e.facts.Obeyed > facts.Obeyed {
				return
			}
			before := e.facts
			e.facts = facts
			if before.Known != facts.Known || before.Data != facts.Data || before.Processes != facts.Processes ||
				(before.Leading == nil) != (facts.Leading == nil) || before.Obeyed != facts.Obeyed {
				e.a.soon(time.Millisecond)
			}
		})
	})
}

func (e *engine) sample() tenure.Engine {
	c, s := e.n.volume.copy, e.n.server
	facts := tenure.Engine{
		Known: true, At: e.n.clock(), Obeyed: e.standing.Serial,
		Data: c.data, Incarnation: c.incarnation, SystemIdentifier: c.system,
		Processes: s != nil, Final: e.final, CannotLead: e.cannot,
	}
	if s == nil || s.mode == starting {
		return facts
	}
	if c.data == tenure.DataWhole && !s.recovering {
		at := c.position()
		facts.Flushed = &at
	}
	if s.stream != nil && !s.stream.broken() && !s.stream.up.dead {
		facts.Streams = true
		facts.Lag = uint64(max(0, len(s.stream.up.n.volume.copy.log)-len(c.log)))
	}
	if s.mode == primary {
		facts.Leading = s.sample()
	}
	return facts
}

func (s *server) sample() *tenure.Leading {
	end := len(s.n.volume.copy.log)
	leading := &tenure.Leading{
		Term: s.term, Timeline: s.claimed, Start: s.startID, Recovered: uint64(s.recovered), Flushed: uint64(end),
		Open: s.open, Prepared: s.prepared,
	}
	if s.sure {
		setting := s.file
		leading.Setting, leading.Barrier = &setting, uint64(s.barrier)
	}
	for _, sender := range s.senders {
		leading.Replicas = append(leading.Replicas, tenure.Replica{
			Member: sender.member, Flushed: uint64(sender.flushed), Near: end-sender.flushed <= 20 && sender.cutSince == 0,
		})
	}
	return leading
}
