package pgmodel

import (
	"errors"
	"fmt"
	"time"
)

// World is what surrounds the servers.
type World interface {
	Now() time.Duration
	After(d time.Duration, run func())
	Between(low, high time.Duration) time.Duration
	// Connected says that what one server sends gets to another.
	Connected(from, to string) bool
	// Find is the server that has a name, nil if there is none.
	Find(name string) *Server
}

// Mode is what a server does.
type Mode string

// What a server does.
const (
	Down     Mode = "down"
	Starting Mode = "starting" // It recovers, and lets nobody in.
	Standby  Mode = "standby"
	Primary  Mode = "primary"
	Stopping Mode = "stopping"
)

// Server is a server: its data directory, and its processes if they run.
type Server struct {
	Name string
	Disk *Disk
	// Mode is what the processes do, Exit how they have ended, empty if that was in order.
	Mode Mode
	Exit string
	// Faults.
	Paused          bool // Replay stands still.
	NoCheckpoint    bool // The checkpointer stands still.
	NoFlush         bool // The disk does not answer a flush.
	Full            bool // There is no room for another file of the log.
	ReplayLag       time.Duration
	CheckpointTakes time.Duration
	Spread          time.Duration // How long the checkpoint of a promotion takes, unless a session asks for one.
	// Enters says whether the server that is followed would let this one in. It may be nil.
	Enters func(Conf) bool
	// Clock is that of its machine, nil for that of the world.
	Clock func() time.Duration
	// Took is called when the log of another server has come, with the name by which this one is known there and whether
	// that counts for commits. It may be nil.
	Took func(up *Server, name string, counts bool)
	// Learned is called when the history of a timeline of another server has come, before any WAL. It may be nil.
	Learned func(up *Server)
	// Told is called when something has happened that others may want to look at. It may be nil.
	Told func()

	w      World
	life   int // Each start and each end begins another one.
	frozen time.Duration
	silent bool // The machine ends, so that nobody hears of it.
	// conf is the configuration of the first process.
	conf Conf

	// at is how far a standby has replayed; of a primary it is the last record.
	at       *Record
	timeline int
	// written and flushed are how far the log of a primary has come.
	written, flushed LSN
	checkpoint       *checkpointing
	stop             *stopping

	recovery recovery
	receiver *receiver
	// Trouble is why the last receiver has ended.
	Trouble Trouble

	senders  []*sender
	numbers  int
	defined  bool // What the checkpointer has told of synchronous_standby_names.
	released [modes]LSN
	waiting  []*Commit
	long     []*Long
	// partial says that the last record of running transactions lacks some, background that there will be another one.
	partial, background bool
}

// New makes a server without a data directory.
func New(w World, name string) *Server { return &Server{Name: name, Mode: Down, w: w} }

// ErrNoData and others are why something cannot be done.
var (
	ErrNoData   = errors.New("there is no data directory")
	ErrRunning  = errors.New("the server runs")
	ErrDown     = errors.New("the server does not run")
	ErrStarting = errors.New("the database system is starting up")
	ErrReadOnly = errors.New("cannot execute in a read-only transaction")
	ErrStopping = errors.New("the database system is shutting down")
	ErrFrozen   = errors.New("the server does not answer")
)

// Running says that there are processes.
func (s *Server) Running() bool { return s.Mode != Down }

// Answers says that somebody can speak with it, and why not.
func (s *Server) Answers() error {
	switch s.Mode {
	case Down:
		return ErrDown
	case Starting:
		return ErrStarting
	case Stopping:
		return ErrStopping
	case Standby, Primary:
	}
	if s.Frozen() {
		return ErrFrozen
	}
	return nil
}

// later runs something of the present processes.
func (s *Server) later(d time.Duration, run func()) {
	life := s.life
	s.w.After(d, func() {
		s.awake(func() {
			if s.life == life {
				run()
			}
		})
	})
}

// clock is the time of its machine.
func (s *Server) clock() time.Duration {
	if s.Clock != nil {
		return s.Clock()
	}
	return s.w.Now()
}

func (s *Server) tell() {
	if s.Told != nil {
		s.Told()
	}
}

// Start starts the server on what is in its data directory.
func (s *Server) Start() error {
	switch {
	case s.Disk == nil:
		return ErrNoData
	case s.Running():
		return ErrRunning
	}
	s.life++
	s.Mode, s.Exit, s.Trouble, s.Paused, s.NoCheckpoint = Starting, "", TroubleNone, false, false
	s.conf = s.Disk.Conf
	s.recovery, s.receiver, s.senders, s.waiting, s.stop, s.checkpoint = recovery{}, nil, nil, nil, nil, nil
	s.released = [modes]LSN{}
	s.defined, s.long, s.background = false, nil, false
	s.later(s.w.Between(5*time.Millisecond, 50*time.Millisecond), s.begin)
	return nil
}

// begin is the start-up process.
func (s *Server) begin() {
	if s.waitsForTheDisk(s.begin) {
		return
	}
	d := s.Disk
	timeline := d.Control.Timeline()
	if d.Standby {
		timeline = d.Log.newest(timeline)
	}
	history := d.Log.history(timeline)
	checkpoint := d.Control.Checkpoint
	if d.label != nil {
		checkpoint = d.label
	}
	if history.at(checkpoint.Start) != checkpoint.Timeline {
		s.fail("requested timeline is not a child of this server's history")
		return
	}
	if d.Control.Minimum > 0 && d.Standby && history.at(d.Control.Minimum-1) != d.Control.MinimumTimeline {
		s.fail("requested timeline does not contain minimum recovery point")
		return
	}
	if !s.finds(checkpoint) {
		s.fail("could not locate a valid checkpoint record")
		return
	}
	s.defined = s.conf.Sync.defined()
	s.recovery = recovery{history: history, target: timeline, standby: d.Standby, pending: checkpoint.running}
	s.partial = checkpoint.running != nil
	s.at = d.begin()
	if d.Standby {
		d.Control.State = StateArchiveRecovery
		s.recover()
		return
	}
	s.at, s.recovery.file = d.Log.follow(s.at, history)
	s.timeline = timeline
	clean := d.Control.State == StateShutDown && s.at == d.Control.Checkpoint
	if s.at.End < d.Control.Minimum {
		s.fail("WAL ends before consistent recovery point")
		return
	}
	d.label, d.Control.Minimum, d.Control.MinimumTimeline = nil, 0, 0
	d.Log.cut(timeline, s.at.End)
	s.lead(clean)
}

// finds says that the checkpoint is in the log, in the file of its timeline or of a later one. A standby may get it
// from elsewhere.
func (s *Server) finds(checkpoint *Record) bool {
	log := s.Disk.Log
	return s.Disk.Standby || log.holds(checkpoint, log.history(log.newest(s.Disk.Control.Timeline())))
}

// lead opens a server as a primary. Clean says that there was nothing to recover.
func (s *Server) lead(clean bool) {
	s.Mode = Primary
	s.Disk.Control.State = StateProduction
	s.written, s.flushed = s.at.End, s.at.End
	if !clean {
		s.insertCheckpoint(KindShutdown)
		s.flush(s.at.End)
		s.Disk.keepLog(s.at.End)
	}
	for _, sender := range s.senders {
		sender.pump()
	}
	s.tell()
}

// waitsForTheDisk says that the disk does not answer, and tries again later.
func (s *Server) waitsForTheDisk(again func()) bool {
	if s.NoFlush {
		s.later(100*time.Millisecond, again)
	}
	return s.NoFlush
}

// fail ends the processes at once, by their own choice.
func (s *Server) fail(why string) { s.die(why, false) }

// Kill ends every process at once. What was given to the system to write is there.
func (s *Server) Kill() { s.die("killed", false) }

// PowerOff is the end of the machine: what was not flushed is gone.
func (s *Server) PowerOff() { s.die("power off", true) }

func (s *Server) die(why string, power bool) {
	if !s.Running() {
		return
	}
	if s.Disk != nil && power && s.recovery.standby && s.receiver != nil && s.receiver.streams {
		// What came and was not flushed is gone. What was replayed was flushed before.
		s.Disk.Log.cutFile(s.receiver.timeline, max(s.receiver.flush, s.at.End))
	}
	if s.Disk != nil && s.timeline > 0 && (s.Mode == Primary || s.Mode == Stopping) && !s.recovery.standby {
		kept := s.written
		if power {
			kept = s.flushed
		}
		s.Disk.Log.cut(s.timeline, kept)
	}
	s.silent = power
	s.ended(why)
	s.silent = false
}

// ended closes everything.
func (s *Server) ended(why string) {
	s.life++
	s.Mode, s.Exit = Down, why
	s.hangUp(TroubleNone)
	for len(s.senders) > 0 {
		s.senders[0].close(TroubleNone)
	}
	for _, slot := range s.Disk.Slots {
		slot.user = nil
	}
	for _, commit := range s.waiting {
		commit.tell(Broken)
	}
	s.waiting, s.long, s.timeline, s.at = nil, nil, 0, nil
	s.tell()
}

// How says how a server is stopped.
type How string

// Ways to stop.
const (
	Smart     How = "smart"
	Fast      How = "fast"
	Immediate How = "immediate"
)

type stopping struct {
	how How
	// written says that the last checkpoint is.
	written bool
}

// Stop tells the server to stop. It is over when it is down.
func (s *Server) Stop(how How) error {
	if !s.Running() {
		return ErrDown
	}
	if how == Immediate {
		s.die("", false)
		s.Exit = ""
		return nil
	}
	if s.Frozen() {
		s.later(0, func() { _ = s.Stop(how) }) // The signal is pending.
		return nil
	}
	if s.stop != nil && (s.stop.how == how || s.stop.how == Fast) {
		return nil
	}
	s.stop = &stopping{how: how}
	s.proceedToStop()
	return nil
}

// proceedToStop ends sessions, then the receiver, writes a checkpoint, and waits until it was sent.
func (s *Server) proceedToStop() {
	if s.stop == nil {
		return
	}
	if s.stop.how == Smart && len(s.waiting) > 0 {
		return // It waits for its clients.
	}
	if s.Mode == Starting && !s.recovery.standby {
		s.ended("")
		return
	}
	leads := !s.recovery.standby
	s.Mode = Stopping
	for _, commit := range s.waiting {
		commit.tell(Broken)
	}
	s.waiting, s.long = nil, nil
	s.hangUp(TroubleNone)
	if s.NoCheckpoint || s.NoFlush || s.stop.written {
		s.finishStop()
		return
	}
	if leads {
		s.insertCheckpoint(KindShutdown)
		s.flush(s.at.End)
		s.Disk.Control.State = StateShutDown
		s.Disk.keepLog(s.at.End)
	} else {
		s.restartPoint()
		s.Disk.Control.State = StateShutDownInRecovery
	}
	s.stop.written = true
	s.finishStop()
}

// finishStop ends a server whose senders have sent everything, and were told that it has come.
func (s *Server) finishStop() {
	if s.stop == nil || !s.stop.written {
		return
	}
	for _, sender := range s.senders {
		if !sender.done() {
			sender.pump()
			return
		}
	}
	s.ended("")
}

// Reload makes every process read the configuration, each in its time.
func (s *Server) Reload() error {
	if !s.Running() {
		return ErrDown
	}
	s.later(s.w.Between(time.Millisecond, 50*time.Millisecond), func() {
		s.conf = s.Disk.Conf
		for _, sender := range s.senders {
			s.later(s.w.Between(time.Millisecond, sloth), sender.configure)
		}
		s.later(s.w.Between(time.Millisecond, sloth), s.define)
		s.later(s.w.Between(time.Millisecond, 50*time.Millisecond), s.follows)
		s.tell()
	})
	return nil
}

// sloth is how long a process may take to hear of a new configuration.
const sloth = 500 * time.Millisecond

// Conf is the configuration that a new session shows.
func (s *Server) Conf() Conf { return s.conf }

// define is what the checkpointer does with a new configuration.
func (s *Server) define() {
	if s.NoCheckpoint {
		return
	}
	s.defined = s.conf.Sync.defined()
	if !s.defined && s.Mode == Primary {
		for mode := range s.released {
			s.release(mode, s.at.End)
		}
	}
}

// Timeline is that of what it writes or replays.
func (s *Server) Timeline() int {
	switch {
	case s.Mode == Down || s.at == nil:
		return 0
	case !s.recovery.standby:
		return s.timeline
	}
	return s.recovery.history.at(s.at.End)
}

// Last is the last record that is replayed, or written by a primary.
func (s *Server) Last() *Record { return s.at }

// Flushed is how far the log is flushed, of whatever timeline.
func (s *Server) Flushed() LSN {
	if s.recovery.standby {
		flushed := s.recovery.received
		if s.at != nil {
			flushed = max(flushed, s.at.End)
		}
		return flushed
	}
	return s.flushed
}

// String is for people.
func (s *Server) String() string {
	return fmt.Sprintf("%s %s on %d at %x", s.Name, s.Mode, s.Timeline(), s.Flushed())
}
