package pgmodel

import (
	"slices"
	"time"
)

// Long is a transaction with more than 64 subtransactions that write: a record of running transactions does not name
// them all, and a standby whose recovery begins with such a record lets nobody in before it knows more.
type Long struct {
	begin  LSN
	commit *Commit
}

// OpenLong begins such a transaction. It is gone with its session, for which a smart stop does not wait here.
func (s *Server) OpenLong() (*Long, error) {
	if err := s.writes(); err != nil {
		return nil, err
	}
	record := s.insert(KindOther, 0)
	if record == nil {
		return nil, ErrDown
	}
	long := &Long{begin: record.Start}
	s.long = append(s.long, long)
	s.flushSoon()
	s.writeInBackground()
	return long, nil
}

// CommitLong commits one as Begin does. Over says that it was gone before.
func (s *Server) CommitLong(long *Long, id int, level Level, done func(Result)) (over bool, err error) {
	if !slices.Contains(s.long, long) || long.commit != nil {
		return true, nil
	}
	commit, err := s.Begin(id, level, done)
	if err == nil {
		long.commit = commit
	}
	return false, err
}

// forgetLong forgets transactions that have ended. One that waits for standbys has not.
func (s *Server) forgetLong() {
	s.long = slices.DeleteFunc(s.long, func(l *Long) bool { return l.commit != nil && l.commit.Result != Waiting })
}

func (s *Server) flushSoon() {
	s.later(s.w.Between(walWriter/2, 2*walWriter), func() {
		if s.Mode == Primary {
			s.flush(s.at.End)
		}
	})
}

// tellOfRunning writes which transactions run, as a primary does with each checkpoint, and returns what was written if
// that lacks some; written is false if there is no room. Where all are named, now and in the record before, another
// one makes no difference to anybody, and is left out.
func (s *Server) tellOfRunning() (lacks *Record, written bool) {
	if s.forgetLong(); s.Mode != Primary || len(s.long) == 0 && !s.partial {
		return nil, s.Running()
	}
	oldest := s.at.End
	for _, long := range s.long {
		oldest = min(oldest, long.begin)
	}
	for _, commit := range s.waiting {
		oldest = min(oldest, commit.Record.Start)
	}
	record := s.insert(KindRunning, 0)
	if record == nil {
		return nil, false
	}
	record.partial, record.oldest = len(s.long) > 0, oldest
	if s.partial = record.partial; s.partial {
		lacks = record
	}
	return lacks, true
}

// snapshots is how often the background writer tells of running transactions.
const snapshots = 15 * time.Second

// writeInBackground does so as long as it matters.
func (s *Server) writeInBackground() {
	if s.forgetLong(); s.background || len(s.long) == 0 && !s.partial {
		return
	}
	s.background = true
	s.later(s.w.Between(snapshots/2, snapshots), func() {
		s.background = false
		if s.Mode != Primary {
			return
		}
		if _, written := s.tellOfRunning(); written {
			s.flushSoon()
			s.writeInBackground()
		}
	})
}

// hearOfRunning is the replay of such a record. A shutdown tells that nothing runs.
func (s *Server) hearOfRunning(record *Record) {
	switch record.Kind {
	case KindRunning:
		s.partial = record.partial
	case KindShutdown:
		s.partial = false
	default:
		return
	}
	if pending := s.recovery.pending; pending != nil && (!s.partial || record.oldest > pending.Start) {
		s.recovery.pending = nil
	}
}

// Silent says that a standby is consistent, and lets nobody in.
func (s *Server) Silent() bool {
	return s.Mode == Starting && s.recovery.standby && s.recovery.whole && s.recovery.pending != nil
}
