package pgmodel

import (
	"slices"
	"time"
)

// sender sends the log to a standby, and counts for commits by its own copy of the configuration.
type sender struct {
	s        *Server
	r        *receiver
	Name     string
	Number   int
	Began    time.Duration
	timeline int
	// historic says that the server has left this timeline, at until, for next.
	historic    bool
	until       LSN
	next        int
	sent        LSN
	flying      bool
	ended       bool
	streaming   bool
	sync        Sync
	priority    bool
	write       LSN
	flush       LSN
	apply       LSN
	slot        *Slot
	there, back pipe
	broken      time.Duration
	closed      bool
}

// configure is what a sender does with a new configuration.
func (l *sender) configure() {
	if l.closed {
		return
	}
	l.sync = l.s.conf.Sync
	l.priority = l.sync.counts(l.Name) && !l.s.recovery.standby
}

// limit is how far there is something to send.
func (l *sender) limit() LSN {
	if l.historic {
		return l.until
	}
	if l.s.recovery.standby {
		if received, timeline := l.s.Received(); timeline == l.s.Timeline() {
			return max(l.s.at.End, received)
		}
		return l.s.at.End
	}
	return l.s.flushed
}

// pump sends what there is, one piece at a time.
func (l *sender) pump() {
	if l.closed || l.flying || l.ended || !l.r.streams {
		return
	}
	limit := l.limit()
	if l.sent >= limit {
		l.streaming = true
		if l.historic {
			l.ended = true
			l.there.send(l.r.finished)
		} else {
			l.r.s.Trouble = TroubleNone
		}
		return
	}
	records, end, found := l.read(limit)
	if !found {
		l.close(TroubleRemoved)
		return
	}
	if len(records) == 0 {
		return
	}
	l.flying, l.sent = true, end
	l.streaming = l.streaming || end >= limit && !l.historic
	l.there.send(func() {
		l.flying = false
		l.r.take(records, end)
		l.pump()
	})
}

// Removed is the end of the file of the log that a standby would be sent first which has come so far on a timeline, if
// that file is gone, and 0 if it is there.
func (s *Server) Removed(timeline int, from LSN) LSN {
	log, present := s.Disk.Log, s.Timeline()
	number := log.number(from)
	name := place{timeline, number}
	if timeline != present {
		end, open, found := log.history(present).end(timeline)
		if found && !open && log.number(end) == number {
			name.timeline = log.history(present).next(timeline)
		}
	}
	if _, there := log.files[name]; there {
		return 0
	}
	return (number + 1) * log.segment
}

// read takes the next records of one file. That of a timeline which was left within it is the next timeline's.
func (l *sender) read(limit LSN) (records []*Record, end LSN, found bool) {
	log := l.s.Disk.Log
	number := log.number(l.sent)
	name := place{l.timeline, number}
	if l.historic && number == log.number(l.until) {
		name.timeline = l.next
	}
	file, there := log.files[name]
	if !there {
		return nil, 0, false
	}
	end = l.sent
	for _, record := range file {
		if record.Start < end || record.End > limit {
			continue
		}
		if record.Start != end {
			break
		}
		records, end = append(records, record), record.End
	}
	return records, end, true
}

// heard takes what the standby says of itself.
func (l *sender) heard(write, flush, apply LSN) {
	if l.closed {
		return
	}
	l.write, l.flush, l.apply = write, flush, apply
	if l.slot != nil && !l.slot.Lost && flush > 0 {
		l.slot.Restart = flush
	}
	if !l.s.recovery.standby {
		l.release()
	}
	l.s.finishStop()
}

// release lets commits go, by how far those have come that count, each by its own word.
func (l *sender) release() {
	if !l.priority || !l.streaming || l.flush == 0 {
		return
	}
	var places [modes][]LSN
	for _, other := range l.s.senders {
		if other.priority && other.streaming && other.flush > 0 {
			for mode, at := range [modes]LSN{other.write, other.flush, other.apply} {
				places[mode] = append(places[mode], at)
			}
		}
	}
	if len(places[modeFlush]) < l.sync.K {
		return
	}
	for mode, all := range places {
		slices.Sort(all)
		l.s.release(mode, all[len(all)-l.sync.K])
	}
}

// leaveTimeline is for a sender of a server that was promoted.
func (l *sender) leaveTimeline() {
	history := l.s.Disk.Log.history(l.s.Timeline())
	end, open, found := history.end(l.timeline)
	if !found || open {
		return
	}
	l.historic, l.until, l.next = true, end, history.next(l.timeline)
	l.pump()
}

// done says that a server which stops need not wait for it.
func (l *sender) done() bool {
	return l.closed || l.sent >= l.limit() && !l.flying && l.flush >= l.sent
}

// close ends a sender, and tells the standby why.
func (l *sender) close(why Trouble) {
	if l.closed {
		return
	}
	if why == TroubleNone {
		why = TroubleEnded
	}
	if !l.s.silent {
		l.there.send(func() { l.r.end(why) })
	}
	l.s.w.After(l.r.s.conf.Timeout, func() { l.r.end(why) })
	l.remove()
}

// remove forgets the sender.
func (l *sender) remove() {
	if l.closed {
		return
	}
	l.closed, l.back.closed = true, true
	if l.slot != nil && l.slot.user == l {
		l.slot.user = nil
	}
	l.s.senders = slices.DeleteFunc(l.s.senders, func(other *sender) bool { return other == l })
	l.s.tell()
	l.s.finishStop()
}
