package pgmodel

import (
	"slices"
	"time"
)

// recovery is what a standby knows of what it replays.
type recovery struct {
	standby bool
	history History
	target  int
	file    int // The timeline of the file that was read last.
	// received is how far the log of a timeline was received and flushed since the server started.
	received         LSN
	receivedTimeline int
	promote          bool
	replaying        bool
	checkpoint       *Record // The last one that was replayed.
	retry            bool
	ended            bool // A receiver has ended during a pause.
	// pending is the record of running transactions that recovery began with, and that lacks some, until others tell more.
	pending *Record
	whole   bool // The copy is.
}

// recover replays what there is, and asks for more.
func (s *Server) recover() {
	r := &s.recovery
	if !r.standby || r.replaying || s.Mode == Down || s.Mode == Stopping {
		return
	}
	if s.Paused && !r.promote {
		return // The process that would connect, or hear of another upstream, waits.
	}
	s.Paused = false // A promotion ends the pause.
	if next, _ := s.Disk.Log.after(s.at, r.history, r.file); next != nil {
		r.replaying = true
		s.later(s.w.Between(0, s.ReplayLag), func() {
			r.replaying = false
			s.replay()
			s.recover()
		})
		return
	}
	s.open()
	switch {
	case r.promote:
		s.promoted()
	case s.receiver == nil && s.conf.Upstream != "" && !r.retry:
		s.connect()
	}
}

// replay goes on with everything that is there.
func (s *Server) replay() {
	if s.Paused {
		return
	}
	r := &s.recovery
	for {
		next, file := s.Disk.Log.after(s.at, r.history, r.file)
		if next == nil {
			break
		}
		s.at, r.file = next, file
		s.hearOfRunning(next)
		if next.redo != nil {
			r.checkpoint = next
		}
		if s.ReplayLag > 0 {
			break
		}
	}
	control := &s.Disk.Control
	if s.at.End > control.Minimum {
		control.Minimum, control.MinimumTimeline = s.at.End, s.at.Timeline // Not by the history that is aimed at.
	}
	if s.receiver != nil {
		s.receiver.reply()
	}
	for _, sender := range slices.Clone(s.senders) {
		if !sender.historic && sender.timeline != s.Timeline() {
			sender.leaveTimeline() // So does what this server follows, and with it this server.
		}
		sender.pump()
	}
}

// open lets readers in, once the copy is consistent and it is known which transactions run.
func (s *Server) open() {
	r := &s.recovery
	if s.Mode != Starting || s.at.End < s.Disk.Control.Minimum {
		return
	}
	s.Disk.label = nil
	if r.pending == nil {
		s.Mode = Standby
	}
	if news := !r.whole || s.Mode == Standby; news {
		r.whole = true
		s.tell()
	}
}

// restartPoint is the checkpoint of a standby: the last one that it has replayed.
func (s *Server) restartPoint() {
	r := &s.recovery
	if r.checkpoint == nil || r.checkpoint.Start <= s.Disk.Control.Checkpoint.Start {
		return
	}
	s.Disk.Control.Checkpoint = r.checkpoint
	s.Disk.keepLog(s.Flushed())
}

// follows is what a standby does with a new configuration.
func (s *Server) follows() {
	if !s.recovery.standby || s.Paused && !s.recovery.promote {
		return
	}
	if r := s.receiver; r != nil && (r.up != s.conf.Upstream || r.name != s.conf.Name || r.slot != s.conf.Slot) {
		s.hangUp(TroubleNone)
	}
	if s.conf.Upstream == "" {
		s.Trouble = TroubleNone
	}
	s.recover()
}

// EndReceiver ends the receiver, which may come again.
func (s *Server) EndReceiver() { s.hangUp(TroubleNone) }

// Receiving says that a standby says of its receiver that it streams: it does so from when it is connected, also if it
// is not let in a moment later.
func (s *Server) Receiving() bool { return s.receiver != nil && s.receiver.connected }

// Streams says that it does.
func (s *Server) Streams() bool { return s.receiver != nil && s.receiver.streams }

// Received is how far the log was received, and on which timeline.
func (s *Server) Received() (LSN, int) { return s.recovery.received, s.recovery.receivedTimeline }

// lost is what a standby does when there is nobody to take the log from: it looks for a later timeline, reads what is
// there, and tries again after a while.
func (s *Server) lost(why Trouble) {
	r := &s.recovery
	s.receiver = nil
	if why != TroubleNone {
		s.Trouble = why
	}
	if !r.standby || s.Mode == Down || s.Mode == Stopping {
		return
	}
	s.tell()
	if s.Paused {
		r.ended = true
		return
	}
	s.rescan()
	if r.retry {
		return
	}
	r.retry = true
	s.later(s.conf.Retry+s.w.Between(0, 10*time.Millisecond), func() {
		r.retry = false
		s.recover()
	})
	s.recover()
}

// rescan goes over to a later timeline, if that leaves the present one after what was replayed.
func (s *Server) rescan() {
	r := &s.recovery
	newest := s.Disk.Log.newest(r.target)
	if newest == r.target {
		return
	}
	history := s.Disk.Log.history(newest)
	end, open, found := history.end(r.target)
	switch {
	case !found || open:
		s.Trouble = TroubleNotAChild
	case end < s.at.End:
		s.Trouble = TroubleForked
	default:
		r.target, r.history = newest, history
	}
}

// Promote makes a standby a primary, once it has replayed everything that it has.
func (s *Server) Promote() error {
	if !s.Running() {
		return ErrDown
	}
	if !s.recovery.standby || s.Mode == Stopping {
		return ErrRunning
	}
	s.recovery.promote = true
	s.later(s.w.Between(time.Millisecond, 20*time.Millisecond), func() {
		if s.Mode == Standby || s.Silent() {
			s.recover()
		}
	})
	return nil
}

// promoted begins a timeline of its own.
func (s *Server) promoted() {
	if s.Mode != Standby && !s.Silent() || s.waitsForTheDisk(s.recover) {
		return
	}
	r, log := &s.recovery, s.Disk.Log
	s.hangUp(TroubleNone)
	s.timeline = log.newest(r.target) + 1
	// It comes from the timeline that was waited for, also if that begins later.
	log.Histories[s.timeline] = append(slices.Clone(r.history), Branch{s.timeline, s.at.End})
	// The part of the file up to here is copied, and what comes later is of no use.
	last := log.number(s.at.End)
	if s.at.End%log.segment != 0 {
		for _, record := range log.files[place{log.fileOf(s.at, r.history), last}] {
			if record.End <= s.at.End {
				log.write(s.timeline, record)
			}
		}
	}
	for name := range log.files {
		if name.timeline != s.timeline && name.segment > last {
			delete(log.files, name)
		}
	}
	r.standby = false
	s.Disk.Standby = false
	s.Trouble = TroubleNone
	s.written, s.flushed = s.at.End, s.at.End
	s.Mode = Primary
	end := s.insert(KindEndOfRecovery, 0)
	if end == nil {
		return
	}
	s.Disk.Control.State = StateProduction
	s.Disk.Control.Minimum, s.Disk.Control.MinimumTimeline = end.End, s.timeline
	s.flush(end.End)
	for _, sender := range slices.Clone(s.senders) {
		sender.leaveTimeline()
	}
	s.writeInBackground()
	if s.Spread == 0 {
		_ = s.Checkpoint(nil)
	} else {
		s.later(s.Spread, func() { _ = s.Checkpoint(nil) })
	}
	s.tell()
}

// fileOf is the timeline of the file from which recovery reads a record once more when it ends: the latest that has it.
// The history may have later timelines, of which there is no record.
func (l Log) fileOf(record *Record, history History) int {
	for index := len(history) - 1; index > 0; index-- {
		if l.find(place{history[index].Timeline, l.number(record.Start)}, record.Start) == record {
			return history[index].Timeline
		}
	}
	return history[0].Timeline
}

// Pause stops replay, or lets it go on.
func (s *Server) Pause(pause bool) {
	if s.Paused = pause; pause {
		return
	}
	if s.recovery.ended {
		s.recovery.ended = false
		s.rescan()
	}
	s.follows()
}
