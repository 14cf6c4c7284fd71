package pgmodel

import (
	"errors"
	"maps"
	"slices"
)

// Why a copy was not made.
var (
	ErrNotReached  = errors.New("the source does not answer")
	ErrNotClean    = errors.New("the target cannot be shut down cleanly")
	ErrNoAncestor  = errors.New("no common ancestor")
	ErrLogMissing  = errors.New("could not find previous WAL record")
	ErrOtherSystem = errors.New("source and target are from different systems")
	ErrHangs       = errors.New("a checkpoint does not come to an end")
)

// controlTimeline is the timeline that pg_rewind takes a server to be on. Before 16 that was the one of the last
// checkpoint, which a new primary has yet to make.
func (d *Disk) controlTimeline() int {
	if d.Major < 16 {
		return d.Control.Checkpoint.Timeline
	}
	return d.Control.Timeline()
}

// Rewind is pg_rewind of this server, which must be down. Needed is false where it finds nothing to do.
func (s *Server) Rewind(source *Server) (needed bool, err error) {
	switch {
	case s.Disk == nil:
		return false, ErrNoData
	case s.Running():
		return false, ErrRunning
	case source.Answers() != nil || !s.w.Connected(s.Name, source.Name) || !s.w.Connected(source.Name, s.Name):
		return false, ErrNotReached
	case source.Disk.System != s.Disk.System:
		return false, ErrOtherSystem
	}
	if err := s.Disk.shutDown(); err != nil {
		return false, err
	}
	d := s.Disk
	theirs, ours := source.Disk.controlTimeline(), d.controlTimeline()
	if theirs == ours {
		return false, nil
	}
	fork, found := forkOf(source.Disk.Log.history(theirs), d.Log.history(ours))
	if !found {
		return false, ErrNoAncestor
	}
	end := d.Control.Checkpoint.End
	if d.Control.Minimum > end {
		end = d.Control.Minimum
	}
	if end <= fork {
		return false, nil
	}
	common := d.commonCheckpoint(fork)
	if common == nil {
		return false, ErrLogMissing
	}
	fresh := source.Disk.Clone()
	fresh.Conf, fresh.Slots, fresh.label = d.Conf, map[string]*Slot{}, common
	fresh.Control.State = StateArchiveRecovery
	fresh.Control.Minimum, fresh.Control.MinimumTimeline = source.Flushed(), theirs
	if !source.recovery.standby {
		fresh.Control.Minimum = source.at.End
		fresh.Log.cut(0, source.written) // Files are copied as they are, with what was not flushed.
	}
	s.Disk = fresh
	return true, nil
}

// shutDown is what pg_rewind does first: it recovers a copy that was not stopped in order, alone.
func (d *Disk) shutDown() error {
	if d.Control.State == StateShutDown || d.Control.State == StateShutDownInRecovery {
		return nil
	}
	if d.Standby {
		return ErrNotClean
	}
	timeline := d.Control.Timeline()
	end, _ := d.Log.follow(d.begin(), d.Log.history(timeline))
	d.Log.cut(timeline, end.End)
	// Recovery ends with a checkpoint, and so does the shutdown after it.
	for range 2 {
		record := &Record{Timeline: timeline, Start: end.End, End: end.End + smallest, Prev: end, Kind: KindShutdown}
		if rest := d.Log.begin(record.Start) + d.Log.segment - record.End; rest < smallest {
			record.End += rest
		}
		record.redo, record.from = record, record.Start
		d.Log.write(timeline, record)
		end = record
	}
	d.Control = Control{State: StateShutDown, Checkpoint: end}
	d.label = nil
	d.keepLog(end.End) // As after every checkpoint. What the rewind itself will look for may be among it.
	return nil
}

// forkOf is where two histories part.
func forkOf(a, b History) (fork LSN, found bool) {
	for index := 0; index < len(a) && index < len(b) && a[index] == b[index]; index++ {
		endA, openA, _ := a.end(a[index].Timeline)
		endB, openB, _ := b.end(b[index].Timeline)
		switch found = true; {
		case openA:
			fork = endB
		case openB:
			fork = endA
		default:
			fork = min(endA, endB)
		}
	}
	return fork, found
}

// commonCheckpoint is the last one before a place, nil if the log does not reach back so far. It is looked for from the
// record that begins there, which the files of the wrong timeline may lack.
func (d *Disk) commonCheckpoint(fork LSN) *Record {
	history := d.Log.history(d.controlTimeline())
	if !slices.ContainsFunc(history, func(branch Branch) bool {
		return d.Log.find(place{branch.Timeline, d.Log.number(fork)}, fork) != nil
	}) {
		return nil
	}
	record := d.Control.Checkpoint
	for record != nil && (record.Start >= fork || record.Kind != KindCheckpoint && record.Kind != KindShutdown) {
		record = record.Prev
		if record != nil && !d.Log.holds(record, history) {
			return nil
		}
	}
	return record
}

// holds says that a file of a history has the record.
func (l Log) holds(record *Record, history History) bool {
	for _, branch := range history {
		if l.find(place{branch.Timeline, l.number(record.Start)}, record.Start) == record {
			return true
		}
	}
	return false
}

// Clone is pg_basebackup: a copy of another server in the place of this one's data, which must be gone.
func (s *Server) Clone(source *Server) error {
	switch {
	case s.Disk != nil:
		return ErrRunning
	case source.Answers() != nil || !s.w.Connected(s.Name, source.Name) || !s.w.Connected(source.Name, s.Name):
		return ErrNotReached
	case source.NoCheckpoint || source.NoFlush:
		return ErrHangs
	}
	from := source.Disk.Control.Checkpoint
	if !source.recovery.standby {
		_ = source.SwitchSegment()
		redo := source.at
		running, written := source.tellOfRunning()
		if !written || source.insertCheckpoint(KindCheckpoint) == nil {
			return ErrNotReached
		}
		from = source.Disk.Control.Checkpoint
		from.redo, from.from, from.running = redo, redo.End, running
		source.flush(source.at.End)
		source.Disk.keepLog(source.at.End)
		_ = source.SwitchSegment()
	}
	fresh := source.Disk.Clone()
	fresh.Slots, fresh.label, fresh.Standby = map[string]*Slot{}, from, false
	fresh.Control.Minimum, fresh.Control.MinimumTimeline = source.Flushed(), source.Timeline()
	fresh.Log.remove(fresh.Log.number(from.from))
	maps.DeleteFunc(fresh.Log.Histories, func(timeline int, _ History) bool { return timeline != source.Timeline() })
	if !source.recovery.standby {
		fresh.Log.cut(0, source.flushed) // Its WAL is streamed.
	}
	s.Disk = fresh
	return nil
}
