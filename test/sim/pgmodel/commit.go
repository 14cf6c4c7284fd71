package pgmodel

import (
	"slices"
	"time"
)

// Level is synchronous_commit.
type Level string

// Levels of synchronous_commit.
const (
	LevelOff   Level = "off"
	LevelLocal Level = "local"
	LevelWrite Level = "remote_write"
	LevelOn    Level = "on"
	LevelApply Level = "remote_apply"
)

// Levels are all of them.
var Levels = []Level{LevelOff, LevelLocal, LevelWrite, LevelOn, LevelApply}

// What a commit waits for; each has a mark of its own, which only grows.
const (
	modeWrite = iota
	modeFlush
	modeApply
	modes
)

var modeOf = map[Level]int{LevelWrite: modeWrite, LevelOn: modeFlush, LevelApply: modeApply}

// Result is what a client is told of its commit.
type Result string

// Results.
const (
	Waiting      Result = "waiting"
	Acknowledged Result = "acknowledged"
	// Cancelled is a wait that somebody has ended: the write is there, and may be nowhere else.
	Cancelled Result = "cancelled"
	// Broken is a connection that has ended without a word.
	Broken Result = "broken"
)

// Commit is a write of a client.
type Commit struct {
	ID     int
	Level  Level
	Result Result
	Record *Record
	done   func(Result)
}

func (c *Commit) tell(result Result) {
	if c.Result != Waiting {
		return
	}
	c.Result = result
	if c.done != nil {
		c.done(result)
	}
}

// insert appends a record to the log of a primary, nil if there is no room for it.
func (s *Server) insert(kind Kind, id int) *Record {
	log := s.Disk.Log
	record := &Record{Timeline: s.timeline, Start: s.at.End, End: s.at.End + smallest, Prev: s.at, Kind: kind, ID: id}
	_, there := log.files[place{s.timeline, log.number(record.Start)}]
	if s.Full && !there {
		s.fail("PANIC: no space left on device")
		return nil
	}
	end := log.begin(record.Start) + log.segment
	if kind == KindSwitch || end-record.End < smallest {
		record.End = end
	}
	log.write(s.timeline, record)
	s.at = record
	return record
}

// flush makes the log of a primary durable up to a place, and lets senders send it. Where the disk does not answer, it
// is written and no more, and whoever comes later waits for that.
func (s *Server) flush(end LSN) {
	if s.NoFlush {
		if s.written == s.flushed {
			s.written = end
		}
		return
	}
	s.written, s.flushed = max(s.written, end), max(s.flushed, end)
	for _, sender := range slices.Clone(s.senders) {
		sender.pump()
	}
}

// walWriter is how long the log may lie unwritten.
const walWriter = 200 * time.Millisecond

// Begin begins a commit. Done is told of the result once.
func (s *Server) Begin(id int, level Level, done func(Result)) (*Commit, error) {
	if err := s.Answers(); err != nil {
		return nil, err
	}
	if s.Mode != Primary {
		return nil, ErrReadOnly
	}
	commit := &Commit{ID: id, Level: level, Result: Waiting, done: done}
	if commit.Record = s.insert(KindCommit, id); commit.Record == nil {
		commit.tell(Broken)
		return commit, nil
	}
	if level == LevelOff {
		s.flushSoon()
		commit.tell(Acknowledged)
		return commit, nil
	}
	s.waiting = append(s.waiting, commit)
	s.flush(commit.Record.End)
	s.acknowledge()
	return commit, nil
}

// acknowledge answers whoever waits for nothing more. A commit below the mark is acknowledged at once, also if nobody
// is there.
func (s *Server) acknowledge() {
	s.waiting = slices.DeleteFunc(s.waiting, func(c *Commit) bool {
		mode, remote := modeOf[c.Level]
		flushed := s.flushed >= c.Record.End
		if !flushed || remote && s.defined && s.released[mode] < c.Record.End {
			return false
		}
		c.tell(Acknowledged)
		return true
	})
	if s.stop != nil && s.stop.how == Smart {
		s.proceedToStop()
	}
}

// release moves a mark, which is shared by all senders.
func (s *Server) release(mode int, upTo LSN) {
	if upTo <= s.released[mode] {
		return
	}
	s.released[mode] = upTo
	s.acknowledge()
}

// Cancel ends the wait of a commit: its client is told so, and its write is visible.
func (s *Server) Cancel(commit *Commit, terminate bool) {
	at := slices.Index(s.waiting, commit)
	if at < 0 || s.flushed < commit.Record.End {
		return
	}
	s.waiting = slices.Delete(s.waiting, at, at+1)
	if terminate {
		commit.tell(Broken)
	} else {
		commit.tell(Cancelled)
	}
	s.acknowledge()
}

// EndSessions ends those of clients: whoever waits hears nothing any more, and its write is there.
func (s *Server) EndSessions() {
	s.long = nil
	for _, commit := range slices.Clone(s.waiting) {
		s.Cancel(commit, true)
	}
}

// Waits are the commits that wait.
func (s *Server) Waits() []*Commit { return slices.Clone(s.waiting) }

// Visible are the writes that a reader sees: all, but those that wait.
func (s *Server) Visible() []int {
	all := s.at.Writes()
	return slices.DeleteFunc(all, func(id int) bool {
		return slices.ContainsFunc(s.waiting, func(c *Commit) bool { return c.ID == id })
	})
}

// SwitchSegment begins another file of the log, unless nothing was written to this one.
func (s *Server) SwitchSegment() error {
	if err := s.writes(); err != nil {
		return err
	}
	if s.at.End%s.Disk.Log.segment == 0 {
		return nil
	}
	if s.insert(KindSwitch, 0) != nil {
		s.flush(s.at.End)
	}
	return nil
}

func (s *Server) writes() error {
	if err := s.Answers(); err != nil {
		return err
	}
	if s.Mode != Primary {
		return ErrReadOnly
	}
	return nil
}

// checkpointing is a checkpoint that is being written or waited for.
type checkpointing struct {
	done []func()
	busy bool
}

// Checkpoint asks for one; done is told when it is written, and never if the server ends before.
func (s *Server) Checkpoint(done func()) error {
	if err := s.Answers(); err != nil {
		return err
	}
	if s.checkpoint == nil {
		s.checkpoint = &checkpointing{}
	}
	if done != nil {
		s.checkpoint.done = append(s.checkpoint.done, done)
	}
	s.writeCheckpoint()
	return nil
}

func (s *Server) writeCheckpoint() {
	if s.checkpoint == nil || s.NoCheckpoint || s.NoFlush || s.checkpoint.busy {
		return
	}
	writing := s.checkpoint
	writing.busy = true
	redo := s.at
	running, written := s.tellOfRunning()
	if !written {
		return
	}
	s.later(s.CheckpointTakes, func() {
		if s.NoFlush {
			writing.busy = false // It begins again when the disk answers.
			return
		}
		s.checkpoint = nil
		switch {
		case s.recovery.standby:
			s.restartPoint()
		default:
			if s.insertCheckpoint(KindCheckpoint) == nil {
				return
			}
			checkpoint := s.Disk.Control.Checkpoint
			checkpoint.redo, checkpoint.from, checkpoint.running = redo, redo.End, running
			s.flush(s.at.End)
			s.Disk.keepLog(s.at.End)
		}
		for _, done := range writing.done {
			done()
		}
		s.proceedToStop()
	})
}

// insertCheckpoint writes a checkpoint of what there is now.
func (s *Server) insertCheckpoint(kind Kind) *Record {
	record := s.insert(kind, 0)
	if record == nil {
		return nil
	}
	if kind == KindShutdown {
		s.partial = false
	}
	record.redo, record.from = record, record.Start
	s.Disk.Control.Checkpoint = record
	s.Disk.Control.Minimum, s.Disk.Control.MinimumTimeline = 0, 0
	return record
}

// HoldCheckpoints stops the checkpointer, as a disk does that hangs, and lets it go on.
func (s *Server) HoldCheckpoints(hold bool) {
	s.NoCheckpoint = hold
	if hold || !s.Running() {
		return
	}
	s.define()
	s.writeCheckpoint()
	s.proceedToStop()
}

// HoldFlush stops the disk, and lets it go on.
func (s *Server) HoldFlush(hold bool) {
	s.NoFlush = hold
	if hold || !s.Running() {
		return
	}
	if s.Mode == Primary {
		s.flush(s.at.End)
		s.acknowledge()
	}
	if s.receiver != nil {
		s.receiver.flushed()
	}
	s.writeCheckpoint()
	s.proceedToStop()
}

// CreateSlot makes a slot that keeps the log from now on.
func (s *Server) CreateSlot(name string) bool {
	if s.Answers() != nil || s.Disk.Slots[name] != nil {
		return false
	}
	s.Disk.Slots[name] = &Slot{Name: name, Restart: s.Disk.Control.Checkpoint.from}
	return true
}

// AdvanceSlot moves one that is not in use, as far as the server has replayed and never back.
func (s *Server) AdvanceSlot(name string, to LSN) {
	slot := s.Disk.Slots[name]
	if s.Answers() == nil && slot != nil && slot.user == nil && !slot.Lost && slot.Restart < to {
		slot.Restart = max(slot.Restart, min(to, s.at.End))
	}
}

// DropSlot removes one that is not in use.
func (s *Server) DropSlot(name string) bool {
	slot := s.Disk.Slots[name]
	if s.Answers() != nil || slot == nil || slot.user != nil {
		return false
	}
	delete(s.Disk.Slots, name)
	return true
}
