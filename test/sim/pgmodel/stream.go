package pgmodel

import (
	"slices"
	"time"
)

// Trouble is why a standby does not get the log.
type Trouble string

// Troubles, as classes of what a server logs.
const (
	TroubleNone      Trouble = ""
	TroubleConnect   Trouble = "could not connect"
	TroubleSystem    Trouble = "another system"
	TroubleBehind    Trouble = "primary is on an earlier timeline"
	TroubleHistory   Trouble = "history file is missing"
	TroubleNoSlot    Trouble = "slot does not exist"
	TroubleSlotBusy  Trouble = "slot is in use"
	TroubleNotInHist Trouble = "not in this server's history"
	TroubleAhead     Trouble = "ahead of the flush position"
	TroubleRemoved   Trouble = "segment was removed"
	TroubleForked    Trouble = "forked before the recovery point"
	TroubleNotAChild Trouble = "new timeline is not a child"
	TroubleNoSpace   Trouble = "no space"
	TroubleEnded     Trouble = "connection ended"
)

// pipe brings messages from one server to another, in their order, and keeps them while nothing gets through.
type pipe struct {
	w        World
	from, to *Server
	last     time.Duration
	held     []func()
	closed   bool
}

func (p *pipe) send(run func()) {
	at := max(p.last, p.w.Now()+p.w.Between(200*time.Microsecond, 4*time.Millisecond))
	p.last = at
	p.w.After(at-p.w.Now(), func() { p.arrive(run) })
}

func (p *pipe) arrive(run func()) {
	switch {
	case p.closed:
	case len(p.held) > 0 || !p.w.Connected(p.from.Name, p.to.Name):
		p.held = append(p.held, run)
	default:
		p.to.awake(run)
	}
}

// flow lets through what was held.
func (p *pipe) flow() {
	if p.closed || !p.w.Connected(p.from.Name, p.to.Name) {
		return
	}
	held := p.held
	p.held = nil
	for _, run := range held {
		p.to.awake(run)
	}
}

// receiver takes the log of another server.
type receiver struct {
	s              *Server
	conf           Conf // As it was when it began: the key in it may be gone since.
	up, name, slot string
	timeline       int
	start          LSN
	// write and flush are what it tells. They begin with what was replayed, of whatever timeline.
	write, flush LSN
	connected    bool
	streams      bool
	sender       *sender
}

func (s *Server) connect() {
	position := LSN(0)
	if s.at != nil {
		position = s.at.End
	}
	timeline := s.recovery.history.at(position)
	r := &receiver{
		s: s, conf: s.conf, up: s.conf.Upstream, name: s.conf.Name, slot: s.conf.Slot, timeline: timeline,
		start: s.Disk.Log.begin(position),
	}
	s.receiver = r
	if s.w.Connected(s.Name, r.up) && s.w.Connected(r.up, s.Name) {
		s.later(s.w.Between(time.Millisecond, 20*time.Millisecond), r.dial)
		return
	}
	s.later(dialPatience, func() { r.end(TroubleConnect) })
}

// dialPatience is connect_timeout.
const dialPatience = 3 * time.Second

// end is the end of a receiver, of its own accord or because nobody answers any more.
func (r *receiver) end(why Trouble) {
	if r.s.receiver == r {
		r.s.lost(why)
	}
}

// dial begins to stream, or finds out why not.
func (r *receiver) dial() {
	if r.s.receiver != r {
		return
	}
	s, up := r.s, r.s.w.Find(r.up)
	if s.Enters != nil && !s.Enters(r.conf) {
		r.end(TroubleConnect)
		return
	}
	if up == nil || up.Answers() != nil || !s.w.Connected(s.Name, r.up) || !s.w.Connected(r.up, s.Name) {
		r.end(TroubleConnect)
		return
	}
	r.connected = true
	s.later(s.w.Between(time.Millisecond, 5*time.Millisecond), func() { r.enter(up) })
}

// enter asks to be sent the log.
func (r *receiver) enter(up *Server) {
	s := r.s
	if s.receiver != r {
		return
	}
	if !s.w.Connected(s.Name, r.up) || !s.w.Connected(r.up, s.Name) {
		s.later(s.conf.Timeout, func() { r.end(TroubleConnect) })
		return
	}
	why := TroubleConnect
	if up.Answers() == nil {
		why = r.handshake(up)
	}
	if why != TroubleNone {
		r.end(why)
		return
	}
	r.write, r.flush = s.at.End, s.at.End
	if s.recovery.received == 0 || s.recovery.receivedTimeline != r.timeline {
		s.recovery.received, s.recovery.receivedTimeline = r.start, r.timeline
	}
	r.streams = true
	s.tell()
	r.reply()
	r.sender.pump()
}

// handshake is what both say to each other first.
func (r *receiver) handshake(up *Server) Trouble {
	s, theirs := r.s, up.Timeline()
	switch {
	case up.Disk.System != s.Disk.System:
		return TroubleSystem
	case theirs < r.timeline:
		return TroubleBehind
	}
	if why := r.fetchHistories(up); why != TroubleNone {
		return why
	}
	if up.Answers() != nil {
		return TroubleConnect // It was lost right then.
	}
	slot := up.Disk.Slots[r.slot]
	switch {
	case r.slot == "":
	case slot == nil:
		return TroubleNoSlot
	case slot.user != nil:
		return TroubleSlotBusy
	case slot.Lost:
		return TroubleRemoved
	}
	up.numbers++
	line := &sender{
		s: up, r: r, Name: r.name, Number: up.numbers, Began: up.clock(), timeline: r.timeline, sent: r.start, slot: slot,
		there: pipe{w: s.w, from: up, to: s}, back: pipe{w: s.w, from: s, to: up},
	}
	if r.timeline != theirs {
		end, open, found := up.Disk.Log.history(theirs).end(r.timeline)
		if !found || open || end < r.start {
			return TroubleNotInHist
		}
		line.historic, line.until = true, end
		line.next = up.Disk.Log.history(theirs).next(r.timeline)
	} else if up.Flushed() < r.start {
		return TroubleAhead
	}
	line.configure()
	if slot != nil {
		slot.user = line
	}
	r.sender = line
	up.senders = append(up.senders, line)
	return TroubleNone
}

// Ahead is how far the log of the sender was when a standby last heard of it.
func (s *Server) Ahead() LSN {
	if !s.Streams() {
		return 0
	}
	return s.receiver.sender.sent
}

// fetchHistories gets those that are missing, up to the timeline of the other.
func (r *receiver) fetchHistories(up *Server) Trouble {
	news := false
	for timeline := max(2, r.timeline); timeline <= up.Timeline(); timeline++ {
		if _, there := r.s.Disk.Log.Histories[timeline]; there {
			continue
		}
		history, there := up.Disk.Log.Histories[timeline]
		if !there {
			return TroubleHistory
		}
		r.s.Disk.Log.Histories[timeline] = history
		news = true
	}
	if news && r.s.Learned != nil {
		r.s.Learned(up)
	}
	return TroubleNone
}

// take writes what has come.
func (r *receiver) take(records []*Record, end LSN) {
	s := r.s
	if s.receiver != r {
		return
	}
	if s.Took != nil && len(records) > 0 {
		s.Took(r.sender.s, r.sender.Name, r.sender.priority)
	}
	for _, record := range records {
		name := place{r.timeline, s.Disk.Log.number(record.Start)}
		if _, there := s.Disk.Log.files[name]; !there && s.Full {
			s.hangUp(TroubleNoSpace)
			s.lost(TroubleNoSpace)
			return
		}
		s.Disk.Log.write(r.timeline, record)
	}
	r.write = end
	r.reply()
	s.later(s.w.Between(0, 2*time.Millisecond), r.flushed)
}

func (r *receiver) flushed() {
	s := r.s
	if s.receiver != r || s.NoFlush {
		return
	}
	// What was told before is not taken back, even if it was of another timeline.
	if r.flush < r.write {
		r.flush = r.write
		s.recovery.received = max(s.recovery.received, r.flush)
	}
	r.reply()
	s.recover()
	for _, sender := range slices.Clone(s.senders) {
		sender.pump()
	}
}

// reply tells the sender how far it has come.
func (r *receiver) reply() {
	if r.sender == nil || !r.streams {
		return
	}
	line, write, flush, apply := r.sender, r.write, r.flush, r.s.at.End
	line.back.send(func() { line.heard(write, flush, apply) })
}

// finished is the end of the timeline that was streamed: both say so, and the histories that follow are asked for.
func (r *receiver) finished() {
	if r.s.receiver != r {
		return
	}
	r.reply()
	line := r.sender
	line.back.send(func() { line.there.send(r.complete) })
}

func (r *receiver) complete() {
	if r.s.receiver != r {
		return
	}
	line := r.sender
	line.remove()
	if up := line.s; up.Answers() == nil {
		_ = r.fetchHistories(up)
	}
	r.s.lost(TroubleNone)
}

// hangUp ends the receiver of a standby.
func (s *Server) hangUp(why Trouble) {
	r := s.receiver
	if r == nil {
		return
	}
	s.receiver = nil
	if why != TroubleNone {
		s.Trouble = why
	}
	if line := r.sender; line != nil {
		line.there.closed = true
		if !s.silent {
			line.back.send(line.remove)
		}
		s.w.After(line.s.conf.Timeout, line.remove)
	}
	if s.recovery.standby && s.Mode != Down && s.Mode != Stopping && !s.recovery.retry {
		s.recovery.retry = true
		s.later(s.w.Between(time.Millisecond, 10*time.Millisecond), func() {
			s.recovery.retry = false
			s.recover()
		})
	}
}
