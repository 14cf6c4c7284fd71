package sim

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// entry is one record of a log: the timeline that it was written on, and the write, 0 for one of the server's own.
type entry struct {
	timeline int
	id       int
}

// dataCopy is a copy of the data on a volume. Its log is all flushed: what is not does not count.
type dataCopy struct {
	data        tenure.Data
	begun       bool // A first copy that nobody has led or followed with yet.
	incarnation string
	system      string
	log         []entry
}

func (c dataCopy) timeline() int {
	if len(c.log) == 0 {
		return 0
	}
	return c.log[len(c.log)-1].timeline
}

func (c dataCopy) position() tenure.Position {
	return tenure.Position{Timeline: c.timeline(), LSN: uint64(len(c.log))}
}

func (c dataCopy) has(id int) bool {
	return slices.ContainsFunc(c.log, func(e entry) bool { return e.id == id })
}

// fork compares two histories as PostgreSQL does, by timelines and never by content: where own leaves other, and
// whether own can go on with the log of other from its own end.
func fork(own, other []entry) (at int, fits bool) {
	last := 0
	if len(own) > 0 {
		last = own[len(own)-1].timeline
	}
	end := 0 // Where other left the timeline that own ended on.
	for index, e := range other {
		if e.timeline == last {
			end = index + 1
		}
	}
	if end > 0 && len(own) <= end || len(own) == 0 {
		return len(own), true
	}
	for at < len(own) && at < len(other) && own[at].timeline == other[at].timeline {
		at++
	}
	return at, false
}

type mode string

const (
	starting mode = "starting"
	standby  mode = "standby"
	primary  mode = "primary"
)

// server is the server's processes. It dies as a whole.
type server struct {
	n    *node
	mode mode
	dead bool
	// recovering says that a standby has not replayed yet what was there when it started (I3).
	recovering bool
	stream     *stream // What a standby takes.

	term      int64
	timeline  int
	claimed   int // What it says its timeline is.
	startID   string
	recovered int
	open      bool
	sessions  bool
	stopping  bool
	// preparing is the wish to make the stop short that was heard last, and prepared the one that was fulfilled.
	preparing, prepared tenure.Instant
	// file is the setting as written; the postmaster and each sender learn of it in their own time (B1).
	file       tenure.Setting
	postmaster tenure.Setting
	defined    bool
	sure       bool
	barrier    int
	senders    []*stream
	waiting    []int // Positions of commits that wait.
	// released is up to where commits were released. It only grows, ends with the server, and is all that the next commit
	// looks at: whoever has made it grow may be gone (B3).
	released int
}

// stream is one sender of the log with its receiver.
type stream struct {
	up, down *server
	member   wire.Member
	setting  tenure.Setting
	flushed  int
	flying   bool
	closed   bool
	cutSince time.Duration
	slow     time.Duration // How long a piece may take.
	// foreign says that the receiver has left the history of the sender. It is let in all the same, gets nothing, and what
	// it has of its own timeline counts as flushed (B3).
	foreign bool
}

func waits(setting tenure.Setting) bool { return setting.K > 0 && len(setting.Names) > 0 }

func sameSetting(a, b tenure.Setting) bool { return a.K == b.K && slices.Equal(a.Names, b.Names) }

func (s *server) die() {
	s.dead = true
	if s.n.w.bug == BugOrphanBackend && s.sessions {
		s.n.w.after(2500*time.Millisecond, func() { s.n.w.truth.acknowledged(s, -1) })
	}
	if s.n.server == s {
		s.n.server = nil
	}
	s.disconnect()
}

// disconnect ends what the server takes.
func (s *server) disconnect() {
	if s.stream != nil {
		s.stream.closed = true
		s.stream = nil
	}
}

// inServer runs something of the server's processes.
func (s *server) inServer(d time.Duration, run func()) {
	s.n.inPod(d, func() {
		if !s.dead {
			run()
		}
	})
}

// lead makes the server a primary.
func (s *server) lead(standing tenure.Standing) {
	log := &s.n.volume.copy.log
	s.disconnect()
	s.mode, s.recovering = primary, false
	s.term, s.timeline, s.startID = standing.Term, standing.Timeline, s.n.w.identity("start-")
	s.claimed = s.timeline
	if last := s.n.volume.copy.timeline(); s.n.w.bug == BugTimelineNotTaken && last < s.timeline {
		s.timeline = last + 1
	}
	*log = append(*log, entry{timeline: s.timeline})
	s.recovered = len(*log)
	s.file, s.postmaster, s.defined = standing.Setting, standing.Setting, waits(standing.Setting)
	s.n.w.note(s.n.index, "the server leads at term %d on timeline %d, recovered to %d", s.term, s.timeline, s.recovered)
	s.n.w.truth.promoted(s)
	s.learn()
}

// reload lets every process learn of the setting in its own time.
func (s *server) reload(setting tenure.Setting) {
	w := s.n.w
	s.file, s.sure = setting, false
	w.note(s.n.index, "the server reloads: %d of %v", setting.K, setting.Names)
	s.inServer(w.between(5*time.Millisecond, 80*time.Millisecond), func() {
		s.postmaster = s.file
		s.learn()
	})
	late := w.between(5*time.Millisecond, 500*time.Millisecond)
	if w.bug == BugNoCheckpoint {
		late = w.between(5*time.Second, 30*time.Second)
	}
	s.inServer(late, func() {
		s.defined = waits(s.file)
		if !s.defined {
			s.acknowledge(len(s.n.volume.copy.log))
		}
		s.learn()
	})
	for _, sender := range s.senders {
		slowest := 600 * time.Millisecond
		if w.Case.Lag && !w.calm {
			slowest = 5 * time.Second
		}
		s.inServer(w.between(5*time.Millisecond, slowest), func() {
			k := sender.setting.K
			sender.setting = s.file
			if w.bug == BugOldSenders {
				sender.setting.K = min(k, s.file.K)
			}
			s.release(sender)
			s.learn()
		})
	}
}

// learn finds out whether every process has the setting (B1).
func (s *server) learn() {
	if s.sure || !sameSetting(s.postmaster, s.file) || s.defined != waits(s.file) && s.n.w.bug != BugNoCheckpoint {
		return
	}
	for _, sender := range s.senders {
		if !sameSetting(sender.setting, s.file) && s.n.w.bug != BugReloadIsABarrier && s.n.w.bug != BugOldSenders {
			return
		}
	}
	s.sure, s.barrier = true, len(s.n.volume.copy.log)
}

// commit is a client's write.
func (s *server) commit(id int) {
	log := &s.n.volume.copy.log
	*log = append(*log, entry{s.timeline, id})
	s.waiting = append(s.waiting, len(*log))
	s.acknowledge(s.released)
	if !s.defined {
		s.acknowledge(len(*log))
	}
	for _, sender := range s.senders {
		sender.pump()
	}
}

// release is what a sender does with an acknowledgement: it counts by its own copy of the setting.
func (s *server) release(by *stream) {
	setting := by.setting
	if !waits(setting) || !slices.Contains(setting.Names, by.member) {
		return
	}
	var flushed []int
	for _, sender := range s.senders {
		if slices.Contains(setting.Names, sender.member) {
			flushed = append(flushed, sender.flushed)
		}
	}
	if len(flushed) < setting.K {
		return
	}
	slices.Sort(flushed)
	s.released = max(s.released, flushed[len(flushed)-setting.K])
	s.acknowledge(s.released)
}

func (s *server) acknowledge(upTo int) {
	kept := s.waiting[:0]
	for _, at := range s.waiting {
		if at <= upTo {
			s.n.w.truth.acknowledged(s, s.n.volume.copy.log[at-1].id)
		} else {
			kept = append(kept, at)
		}
	}
	s.waiting = kept
}

// attach makes the server take the log of another one.
func (s *server) attach(up *server, member wire.Member) {
	line := &stream{up: up, down: s, member: member, setting: up.postmaster, flushed: len(s.n.volume.copy.log)}
	_, fits := fork(s.n.volume.copy.log, up.n.volume.copy.log)
	line.foreign = !fits
	s.stream = line
	up.senders = append(up.senders, line)
	s.n.w.note(s.n.index, "streams from %s as %s at %d", up.n.name, member, line.flushed)
	// A sender that starts between the change of the file and the word to the postmaster hears of the latter too.
	if !sameSetting(line.setting, up.file) {
		up.inServer(s.n.w.between(5*time.Millisecond, 600*time.Millisecond), func() {
			line.setting = up.file
			up.learn()
		})
	}
	if line.foreign {
		line.acknowledge(line.flushed, s.n.w.latency())
	}
	line.pump()
}

// pump sends what the receiver lacks, one piece at a time.
func (l *stream) pump() {
	w := l.up.n.w
	if l.flying || l.closed || l.up.dead || l.down.dead || l.foreign {
		return
	}
	end := len(l.up.n.volume.copy.log)
	from := len(l.down.n.volume.copy.log)
	if from >= end && l.flushed >= end {
		return
	}
	l.flying = true
	piece := l.up.n.volume.copy.log[min(from, end):end]
	w.after(l.delay(), func() { l.deliver(from, piece) })
}

// delay is how long a piece takes. Some replicas lag by seconds, and not always the same ones.
func (l *stream) delay() time.Duration {
	w := l.up.n.w
	if w.calm || !w.Case.Lag {
		return w.latency()
	}
	if l.slow == 0 || w.chance(0.01) {
		l.slow = time.Millisecond
		if w.chance(0.35) {
			l.slow = w.between(200*time.Millisecond, 5*time.Second)
		}
	}
	return w.latency() + w.between(0, l.slow)
}

func (l *stream) deliver(from int, piece []entry) {
	w := l.up.n.w
	if l.down.dead || l.closed || l.down.n.server != l.down {
		return
	}
	if !w.connected(l.up.n, l.down.n) || w.now < l.down.n.frozenPod {
		w.after(200*time.Millisecond, func() { l.deliver(from, piece) })
		return
	}
	target := l.down.n
	if len(target.volume.copy.log) != from || target.volume.copy.data != tenure.DataWhole {
		return
	}
	w.truth.received(l)
	target.volume.copy.log = append(target.volume.copy.log, piece...)
	for _, sender := range l.down.senders {
		sender.pump()
	}
	l.acknowledge(from+len(piece), w.latency())
}

func (l *stream) acknowledge(upTo int, in time.Duration) {
	w := l.up.n.w
	w.after(in, func() {
		switch {
		case l.up.dead:
		case !w.connected(l.down.n, l.up.n) || w.now < l.up.n.frozenPod:
			if !l.closed {
				l.acknowledge(upTo, 200*time.Millisecond)
			}
		default:
			l.flying = false
			l.flushed = max(l.flushed, upTo)
			l.up.release(l)
			l.pump()
		}
	})
}

// prune forgets senders whose receiver is gone, after the time that a broken connection takes to be noticed.
func (s *server) prune() {
	s.senders = slices.DeleteFunc(s.senders, func(l *stream) bool {
		gone := l.closed || l.down.dead || l.down.stream != l
		if broken := l.broken(); !gone && !broken {
			return false
		}
		if l.cutSince == 0 {
			l.cutSince = s.n.w.now
		}
		over := s.n.w.now-l.cutSince > 3*time.Second || gone && s.n.w.now-l.cutSince > 100*time.Millisecond
		l.closed = l.closed || over
		return over
	})
	s.learn()
}

func (l *stream) broken() bool {
	w := l.up.n.w
	return !w.connected(l.up.n, l.down.n) || !w.connected(l.down.n, l.up.n)
}
