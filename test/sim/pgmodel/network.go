package pgmodel

import (
	"slices"
	"time"
)

// awake runs something when the processes of the server are not frozen.
func (s *Server) awake(run func()) {
	if until := s.frozen; until > s.w.Now() {
		s.w.After(until-s.w.Now(), func() { s.awake(run) })
		return
	}
	run()
}

// Freeze stops all processes for a while.
func (s *Server) Freeze(until time.Duration) { s.frozen = max(s.frozen, until) }

// Frozen says that the processes are stopped.
func (s *Server) Frozen() bool { return s.frozen > s.w.Now() }

// Reset ends the connection of a standby with this server, as a cut that both notice.
func (s *Server) Reset(standby *Server) {
	for _, line := range slices.Clone(s.senders) {
		if line.r.s == standby {
			line.r.end(TroubleEnded)
			line.there.closed = true
			line.remove()
		}
	}
}

// NetworkChanged tells the senders of a server that what gets through has changed. A connection that is silent for too
// long is given up by each end for itself.
func (s *Server) NetworkChanged() {
	if r := s.receiver; r != nil && r.sender != nil {
		r.sender.there.flow()
		r.sender.back.flow()
	}
	for _, line := range slices.Clone(s.senders) {
		whole := s.w.Connected(s.Name, line.r.s.Name) && s.w.Connected(line.r.s.Name, s.Name)
		switch {
		case whole:
			line.broken = 0
			line.there.flow()
			line.back.flow()
		case line.broken == 0:
			line.broken = s.w.Now()
			s.w.After(s.conf.Timeout, func() { line.giveUp() })
		}
	}
}

func (l *sender) giveUp() {
	if l.closed || l.broken == 0 || l.s.w.Now()-l.broken < l.s.conf.Timeout {
		return
	}
	l.there.closed = true
	l.remove()
	l.r.end(TroubleConnect)
}

// Sent is what a server says of one that takes its log.
type Sent struct {
	Name, Slot string
	Number     int
	// Began is when it did, by the clock of the machine.
	Began               time.Duration
	Streaming, Counts   bool
	Write, Flush, Apply LSN
	// Historic says that what is sent is of a timeline that the server has left.
	Historic bool
}

// Senders are those that take the log, in the order in which they came.
func (s *Server) Senders() []Sent {
	var all []Sent
	for _, line := range s.senders {
		all = append(all, Sent{
			Name: line.Name, Slot: line.r.slot, Number: line.Number, Began: line.Began, Streaming: line.streaming,
			Counts: line.priority, Write: line.write, Flush: line.flush, Apply: line.apply, Historic: line.historic,
		})
	}
	return all
}

// EndSender ends one of them.
func (s *Server) EndSender(number int) {
	for _, line := range slices.Clone(s.senders) {
		if line.Number == number {
			line.close(TroubleNone)
		}
	}
}
