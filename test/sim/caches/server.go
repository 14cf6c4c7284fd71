package caches

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
)

// linkTimeout is how long both ends of a link believe in it without a word (repl-timeout).
const linkTimeout = 10 * time.Second

// server is a process with its data. Each write is a number that is never used again; what the servers say to each
// other to stay in touch is one below zero.
type server struct {
	p           *Pod
	incarnation string
	dead        bool
	silent      bool // It has ended with its machine: nobody hears of it.
	started     time.Duration
	ready       time.Duration // It answers from then on.

	replica bool
	// host is whom it follows, empty for nobody, and user the copy that it looks for there.
	host, user string
	link       *link
	links      []*link // Those that follow it.
	admits     []string

	// id is the history that log belongs to, and former the one before a promotion, up to formerEnd.
	id, former string
	formerEnd  int
	log        []int
	// full says that it has all that was written before the end of log, and goes says that it can go on from there.
	full, goes bool
	loading    bool
	heard      time.Duration // When it last had a word of its primary.
	linked     time.Duration // When it last found one.
	lagged     time.Duration // When more was last on its way than what had come.

	open      bool
	term      int64
	memory    int64
	policy    string
	loaded    string // The certificate that it was last told to read.
	said      map[string]string
	recovered int
}

func (s *server) answers() bool { return !s.dead && s.p.w.Now() >= s.ready }

func (s *server) up() bool { return s.replica && s.link != nil && !s.link.syncing && !s.loading }

// later runs something of the process.
func (s *server) later(d time.Duration, run func()) {
	s.p.w.After(d, func() {
		if !s.dead {
			run()
		}
	})
}

// cron is what a server does each second.
func (s *server) cron() {
	w := s.p.w
	if s.replica {
		s.keepTheLink()
	} else if len(s.links) > 0 {
		s.p.g.truth.next++
		s.write(-s.p.g.truth.next)
		s.links = slices.DeleteFunc(s.links, func(l *link) bool {
			late := w.Now()-l.heardBack > linkTimeout
			l.closed = l.closed || late
			return late || l.gone
		})
	}
	s.later(time.Second, s.cron)
}

func (s *server) keepTheLink() {
	w, l := s.p.w, s.link
	switch {
	case l == nil:
		s.connect()
	case w.Now()-l.heard > linkTimeout && !s.loading || l.closed && !s.loading:
		s.hangUp()
	case l.refused():
		w.After(s.p.latency(), func() {
			if s.link == l && !s.loading {
				s.hangUp()
			}
		})
	default:
		offset := len(s.log)
		w.After(s.p.latency(), func() {
			if !l.closed && !l.up.dead && w.Connected(s.p.index, l.up.p.index) && !l.syncing {
				l.acked, l.online, l.heardBack = max(l.acked, offset), true, w.Now()
			}
		})
	}
}

// hangUp ends what the server takes. It can go on from there later, unless it was about to take all of the data.
func (s *server) hangUp() {
	l := s.link
	if l == nil {
		return
	}
	l.closed, s.link = true, nil
	s.p.w.After(s.p.latency(), func() {
		if s.p.w.Connected(s.p.index, l.up.p.index) && !s.silent {
			l.gone = true
		}
	})
}

func (s *server) follow(host, user string) {
	if !s.replica {
		// A server that follows has no history but that of its primary; what it had of its own it tries to go on with.
		s.replica, s.goes = true, true
	}
	s.hangUp()
	s.host, s.user = host, user
	if host != "" {
		s.later(s.p.w.Between(time.Millisecond, 20*time.Millisecond), s.connect)
	}
}

func (s *server) promote() {
	s.hangUp()
	s.former, s.formerEnd, s.id = s.id, len(s.log), s.p.w.Identity("history-")
	s.replica, s.host = false, ""
	s.recovered = len(s.log)
}

// write is one of a client, or of the server's own.
func (s *server) write(id int) {
	s.log = append(s.log, id)
	for _, l := range s.links {
		l.pump()
	}
}

func (s *server) die(silently bool) {
	s.dead, s.silent = true, silently
	if s.p.server == s {
		s.p.server = nil
	}
	s.hangUp()
	for _, l := range s.links {
		if !silently {
			l.hangsUp()
		}
	}
	s.links = nil
}

// link is a connection of a replica to its primary.
type link struct {
	up, down  *server
	at        string // The address of the primary.
	closed    bool
	syncing   bool
	online    bool
	flying    bool
	gone      bool // The primary has heard that the replica has hung up.
	acked     int
	heard     time.Duration
	heardBack time.Duration
	slow      time.Duration
	// narrow is how long it takes to send one entry, 0 for a link that sends all at once. It ends with the calm.
	narrow time.Duration
}

// refused says that the other end is reached, and the process there is gone: whatever is sent comes back.
func (l *link) refused() bool {
	w, here, there := l.up.p.w, l.down.p, l.up.p
	return l.up.dead && l.at == there.host.Address() && w.Connected(here.index, there.index) &&
		w.Connected(there.index, here.index)
}

// connect looks who is at the address.
func (s *server) connect() {
	w := s.p.w
	if !s.replica || s.host == "" || s.link != nil {
		return
	}
	up := s.p.primaryAt(s.host)
	if up == nil || up == s || !slices.Contains(up.admits, s.user) && !s.p.g.flaw.AnyReplica {
		return
	}
	l := &link{up: up, down: s, at: s.host, heard: w.Now(), heardBack: w.Now()}
	if w.Lag() && !w.Calm() && w.Chance(0.1) {
		l.narrow = w.Between(20*time.Millisecond, 400*time.Millisecond)
	}
	s.link, up.links = l, append(up.links, l)
	same := s.id == up.id && len(s.log) <= len(up.log) || s.id == up.former && len(s.log) <= up.formerEnd
	if s.goes && same && !(w.Lag() && !w.Calm() && w.Chance(0.1)) {
		s.p.g.truth.goesOn(s, up)
		s.id, s.former, s.formerEnd, s.full = up.id, s.id, len(s.log), true
		s.linked = w.Now()
		if len(s.log) == len(up.log) {
			s.heard = w.Now() // It lacks nothing.
		}
		w.Note(s.p.index, "goes on from %s at %d", up.p.name, len(s.log))
		l.pump()
		return
	}
	s.takeAll(l)
}

// primaryAt is the primary that is reached at an address from here, nil if there is none.
func (p *Pod) primaryAt(address string) *server {
	up := p.g.at(address)
	if up == nil || !up.answers() || up.replica || !p.w.Connected(p.index, up.p.index) ||
		!p.w.Connected(up.p.index, p.index) {
		return nil
	}
	return up
}

// takeAll takes all of the data. What the replica had is kept until that has come, and gone while it is read.
func (s *server) takeAll(l *link) {
	w := s.p.w
	s.p.g.truth.wiped(s, l.up)
	w.Note(s.p.index, "takes all data of %s, %d entries", l.up.p.name, len(l.up.log))
	l.syncing, s.goes = true, false
	took := w.Between(20*time.Millisecond, 400*time.Millisecond)
	if w.Lag() && !w.Calm() && w.Chance(0.3) {
		took = w.Between(400*time.Millisecond, 4*time.Second)
	}
	if w.Lag() && !w.Calm() && w.Chance(0.1) {
		took = w.Between(4*time.Second, 30*time.Second)
	}
	l.trickle()
	taken, from := slices.Clone(l.up.log), l.up.id
	s.later(took, func() { s.load(l, taken, from) })
}

// load reads all of the data that has come, if it has.
func (s *server) load(l *link, taken []int, from string) {
	w := s.p.w
	switch {
	case l.closed || s.link != l || l.up.dead:
		return // It never comes to an end, and the link to one of its own.
	case !w.Connected(l.up.p.index, s.p.index):
		s.later(200*time.Millisecond, func() { s.load(l, taken, from) })
		return
	}
	s.log, s.full, s.loading = nil, false, true
	s.later(w.Between(5*time.Millisecond, 100*time.Millisecond), func() {
		s.log, s.full, s.goes, s.loading, s.id, s.former = taken, true, true, false, from, ""
		l.syncing, l.heard, s.heard, s.linked = false, w.Now(), w.Now(), w.Now()
		if l.closed {
			s.hangUp()
		}
		l.pump()
	})
}

// trickle keeps the link up while all of the data is on its way: there is a word of it each second.
func (l *link) trickle() {
	w := l.up.p.w
	if l.closed || !l.syncing || l.up.dead || l.down.dead {
		return
	}
	if w.Connected(l.up.p.index, l.down.p.index) && w.Connected(l.down.p.index, l.up.p.index) {
		l.heard, l.heardBack = w.Now(), w.Now()
	}
	w.After(time.Second, l.trickle)
}

func (l *link) hangsUp() {
	w := l.up.p.w
	w.After(l.up.p.latency(), func() {
		if w.Connected(l.up.p.index, l.down.p.index) && l.down.link == l {
			if l.closed = true; !l.down.loading {
				l.down.hangUp()
			}
		}
	})
}

// pump sends what the replica lacks, one piece at a time.
func (l *link) pump() {
	if l.flying || l.closed || l.syncing || l.up.dead || l.down.dead || len(l.down.log) >= len(l.up.log) {
		return
	}
	l.flying = true
	from := len(l.down.log)
	piece := slices.Clone(l.up.log[from:])
	if l.narrow > 0 && !l.up.p.w.Calm() {
		piece = piece[:1]
	}
	l.up.p.w.After(l.delay(), func() { l.deliver(from, piece) })
}

func (l *link) delay() time.Duration {
	w := l.up.p.w
	if l.narrow > 0 && !w.Calm() {
		return l.narrow
	}
	if w.Calm() || !w.Lag() {
		return l.up.p.latency()
	}
	if l.slow == 0 || w.Chance(0.01) {
		l.slow = time.Millisecond
		if w.Chance(0.3) {
			l.slow = w.Between(200*time.Millisecond, 3*time.Second)
		}
	}
	return l.up.p.latency() + w.Between(0, l.slow)
}

func (l *link) deliver(from int, piece []int) {
	w := l.up.p.w
	if l.closed || l.down.dead || l.down.link != l {
		return
	}
	if !w.Connected(l.up.p.index, l.down.p.index) {
		w.After(200*time.Millisecond, func() { l.deliver(from, piece) })
		return
	}
	l.flying = false
	if len(l.down.log) == from {
		l.down.log = append(l.down.log, piece...)
	}
	if w.Now()-l.heard > slack {
		l.down.linked = w.Now() // What was on its way comes first: as if it had just found its primary, it may lack the rest.
	}
	l.heard, l.down.heard = w.Now(), w.Now()
	if l.narrow > 0 && len(l.down.log) < len(l.up.log) {
		l.down.lagged = w.Now()
	}
	l.pump()
}

// offsetOf is how far a server has come that has so many entries. Offsets count bytes, and the smallest word has some:
// one byte is what a server says that has nothing.
func offsetOf(entries int) int64 { return int64(entries) * 14 }

// replication is what the server says of it.
func (s *server) replication() redis.Replication {
	facts := redis.Replication{Replica: s.replica, Offset: offsetOf(len(s.log)), Knows: true}
	if s.replica {
		facts.Host, facts.Up, facts.Syncing = s.host, s.up(), s.link != nil && s.link.syncing || s.loading
		if !s.full {
			facts.Offset = 1
		}
		if s.link != nil {
			facts.Quiet = (s.p.w.Now() - s.link.heard).Truncate(time.Second)
		}
	}
	facts.Admits = slices.Contains(s.admits, s.incarnation)
	for _, l := range s.links {
		if !l.gone && !l.syncing {
			facts.Sent = append(facts.Sent, redis.Sent{
				Member: wire.Member{Name: l.down.p.name, Incarnation: l.down.incarnation}, Online: l.online,
				Offset: offsetOf(l.acked), Quiet: (s.p.w.Now() - l.heardBack).Truncate(time.Second),
			})
		}
	}
	return facts
}

// at is the server that is reached at an address.
func (g *Group) at(address string) *server {
	for _, p := range g.pods {
		if p.host.Address() == address {
			return p.server
		}
	}
	return nil
}
