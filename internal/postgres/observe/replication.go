package observe

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
)

// Asked takes what an upstream said of itself, from any goroutine.
func (o *Observer) Asked(upstream postgres.Upstream) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if upstream.Leads {
		if o.led.of != upstream.Of || o.led.term != upstream.Term {
			o.led = led{of: upstream.Of, term: upstream.Term, since: upstream.At}
		}
		upstream.Since = o.led.since
	}
	o.upstream = upstream
}

// Positioned takes what an upstream said of how far the others are, from any goroutine.
func (o *Observer) Positioned(positions postgres.Positions) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.positions = positions
}

// Promoting takes how far the copy had come right before a promotion to a timeline, from any goroutine.
func (o *Observer) Promoting(reached tenure.Position, timeline int) {
	start := o.Ports.Runner.Look().Start
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.promotion = promotion{start: start, reached: reached, timeline: timeline}
}

// Rewinding takes what the marker of a rewind was written for, from any goroutine.
func (o *Observer) Rewinding(essence string) {
	now := o.Ports.Clock.Now()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.rewinding, o.marked = essence, now
}

// Asking takes that this start of the server has asked to give its place away for a restart, from any goroutine.
func (o *Observer) Asking(token string) {
	start, now := o.Ports.Runner.Look().Start, o.Ports.Clock.Now()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.asking.start != start || o.asking.token != token {
		o.asking = asking{start: start, token: token, since: now}
	}
	o.asking.last = now
}

// rememberAhead keeps where the sender was: once it is dead, the server does not know any more.
func (o *Observer) rememberAhead(server *postgres.Server) {
	if o.ahead.timeline != server.Timeline {
		o.ahead = ahead{timeline: server.Timeline}
	}
	o.ahead.lsn = max(o.ahead.lsn, server.Replication.Ahead)
	server.Replication.Ahead = o.ahead.lsn
}

// lookAtReplication adds what takes a memory to know.
func (o *Observer) lookAtReplication(s *postgres.Snapshot) {
	o.mutex.Lock()
	s.Upstream, s.Positions = o.upstream, o.positions
	s.Rewinding, s.Marked = o.rewinding, o.marked
	promoted := o.promotion
	if o.asking.start == s.Process.Start && s.Process.Running {
		s.Asked, s.AskedLast = o.asking.since, o.asking.last
	}
	o.mutex.Unlock()
	s.Promoting = s.Process.Running && promoted.start == s.Process.Start && promoted.start != ""
	s.Data.End = o.endOf(*s)
	o.short.look(s, func() *tenure.Position { return o.readPlace("start "+s.Process.Start, 0) })
	o.silent.look(s)
	if s.Server.Reachable && s.Server.Replica {
		s.Server.Replication.Place = o.placeOf(*s)
		o.rememberAhead(&s.Server)
		s.Server.Replication.Strayed = o.strayed(*s)
	}
	o.places.look(s)
	o.ran.look(s)
	start := s.LeadingStart()
	if start != "" {
		if o.leading.start != start {
			o.leading = leading{
				start: start, process: s.Process.Start, recovered: s.Server.Replication.Flushed, since: s.Now,
			}
		}
		s.Server.Replication.Led = o.leading.since
		s.Server.Replication.Recovered = o.leading.recovered
		s.Quorum = o.barrier.look(*s)
		s.Foreign = o.foreign.look(*s, start)
	}
	s.Trouble = o.troubleOf(*s, promoted)
	if s.Process.Running && o.leading.process == s.Process.Start {
		s.Remembered = o.leading.start
	}
	watched := ""
	if s.Standing.Role == tenure.RoleLead {
		watched = s.KnownStart()
	}
	o.Ports.Probe.Watch(watched)
	s.Hung = o.Ports.Probe.Hung()
}

// foreign remembers a position of another timeline that a start of a primary may have counted: the server itself keeps
// it until it ends.
type foreign struct{ start, text string }

func (f *foreign) look(s postgres.Snapshot, start string) string {
	if f.start != start {
		*f = foreign{start: start}
	}
	own := s.Server.Replication.Flushed
	for _, sender := range s.Server.Replication.Senders {
		// The senders were read first, so that all they were sent is behind what was flushed here since.
		counts := sender.Priority > 0 ||
			sender.Counts(s.Server.Timeline) && slices.Contains(s.Standing.Setting.Names, sender.Member)
		if counts && sender.Flushed > own && f.text == "" {
			f.text = fmt.Sprintf("%s has told that it has flushed %s, and the WAL here ends at %s: that is another timeline's",
				sender.Member, postgres.FormatLSN(sender.Flushed), postgres.FormatLSN(own))
		}
	}
	return f.text
}

// look forgets what a server has said of a copy that was replaced since: it would be replaced again and again.
func (r *ran) look(s *postgres.Snapshot) {
	if s.Volume.Record == nil {
		s.Process.Lost, s.Process.LostAtStart = false, false
		return
	}
	now := ran{start: s.Process.Start, incarnation: s.Volume.Record.Incarnation}
	if s.Process.Running {
		*r = now
	}
	s.Process.Lost = s.Process.Lost && *r == now
	s.Process.LostAtStart = s.Process.LostAtStart && s.Process.Lost
}

// places remembers which places in the log were those of members, and since when each was used by nobody.
type places struct {
	members map[string]bool
	idle    map[string]time.Time
}

func (p *places) look(s *postgres.Snapshot) {
	if !s.Server.Reachable || s.Standing.Role != tenure.RoleLead {
		return
	}
	if p.members == nil {
		p.members = map[string]bool{}
	}
	present := map[string]bool{}
	for _, member := range s.Standing.Members {
		p.members[render.Slot(member)], present[render.Slot(member)] = true, true
	}
	idle := map[string]time.Time{}
	facts := &s.Server.Replication
	for _, name := range facts.Slots {
		if p.members[name] && !present[name] {
			facts.Former = append(facts.Former, name)
		}
		if slices.Contains(facts.Busy, name) {
			continue
		}
		if idle[name] = p.idle[name]; idle[name].IsZero() {
			idle[name] = s.Now
		}
		if facts.Idle == nil {
			facts.Idle = map[string]time.Duration{}
		}
		facts.Idle[name] = s.Now.Sub(idle[name])
	}
	p.idle = idle
}

// short is whether the copy lacks what makes it whole. A rewind leaves a copy that needs the log up to where its source
// was, which may be dead before it has sent that: whoever takes such a copy for a whole one waits for ever.
type short struct{ known, lacks bool }

// look takes the end of the WAL that was read while no server ran. Where that could not be read, it is read beside the
// server: as long as nobody knows that the copy is short, nobody does anything about it.
func (m *short) look(s *postgres.Snapshot, beside func() *tenure.Position) {
	end, runs := s.Data.End, s.Process.Running
	switch {
	case !s.Volume.Record.Whole():
		*m = short{}
	case s.Server.Reachable || runs && s.Process.Consistent:
		*m = short{known: true}
	case runs && !m.known && s.Data.Standby:
		end = beside()
	case !runs && end == nil:
		m.known = false
	}
	if end != nil {
		*m = short{known: true, lacks: s.Data.Consistent > end.LSN}
	}
	s.Data.Short = m.lacks
}

// silent is since when a server has been consistent without letting anybody in.
type silent time.Time

func (m *silent) look(s *postgres.Snapshot) {
	process := &s.Process
	if !process.Running || !process.Consistent || process.LetsIn || s.Server.Reachable || !s.Data.Standby {
		*m = silent{}
		return
	}
	if time.Time(*m).IsZero() {
		*m = silent(s.Now)
	}
	process.Silent = s.Now.Sub(time.Time(*m))
}

// endOf reads the end of the log once for each end of a server or of a job that changes the copy.
func (o *Observer) endOf(s postgres.Snapshot) *tenure.Position {
	record := s.Volume.Record
	quiet := !s.Process.Running && s.Process.Leftover == 0 && s.Volume.Problem == "" && s.Volume.Lock == postgres.LockOurs
	if !quiet || s.Data.Presence != postgres.DataPresent || !record.Whole() {
		o.end = end{}
		return nil
	}
	key := fmt.Sprint(s.Process.Start, s.Process.Ended, record.Incarnation, s.Data.Timeline, s.Data.State)
	if o.end.key != key || o.end.position == nil {
		position, err := o.Ports.Disk.Position(0)
		if err != nil {
			return nil
		}
		o.end = end{key: key, position: &position}
	}
	return o.end.position
}

// placeOf is how far a replica has come. While it takes the log it says so itself. One that takes none may have come
// from another timeline than that of its last checkpoint, which is all that it tells, so its log is read.
func (o *Observer) placeOf(s postgres.Snapshot) *tenure.Position {
	server := s.Server
	lsn := max(server.Replication.Received, server.Replication.Replayed)
	if lsn == 0 {
		return nil
	}
	if !server.Replication.Receiving {
		return o.readPlace(fmt.Sprint(s.Process.Start, lsn), server.Replication.Replayed)
	}
	history, err := o.Ports.Disk.History(server.Timeline)
	if err != nil {
		return nil
	}
	return &tenure.Position{Timeline: history.At(lsn), LSN: lsn}
}

// strayed looks for a timeline of which the copy has the history alone: it comes from the present one, so that the
// server may have gone over to it, also if the copy has passed the place since, and it is not that of the upstream.
// That of the upstream has to be there: without it a new start of the server would change nothing.
func (o *Observer) strayed(s postgres.Snapshot) int {
	replication, theirs := s.Server.Replication, s.Upstream.History
	if s.Standing.Role == tenure.RoleLead && replication.Place != nil && !s.Promoting {
		return o.waitsFor(*replication.Place, s.Standing.Timeline)
	}
	if replication.Receiving || replication.Place == nil || !s.Judged() || s.Standing.Role != tenure.RoleFollow {
		return 0
	}
	own, err := o.Ports.Disk.History(theirs.Timeline())
	if err != nil || own.Placeholder() {
		return 0
	}
	for timeline := replication.Place.Timeline + 1; timeline < theirs.Timeline(); timeline++ {
		other, err := o.Ports.Disk.History(timeline)
		if err == nil && !other.Placeholder() && !theirs.Has(timeline) && other.Has(replication.Place.Timeline) {
			return timeline
		}
	}
	return 0
}

// waitsFor is a timeline before another that comes from the copy's and does not begin where the copy ends. A server
// that has gone over to it and is promoted writes down that its own timeline comes from that one: others could not tell
// then what of their WAL is a part of it, and neither PostgreSQL nor pg_rewind could.
func (o *Observer) waitsFor(reached tenure.Position, before int) int {
	for timeline := reached.Timeline + 1; timeline < before; timeline++ {
		history, err := o.Ports.Disk.History(timeline)
		if err == nil && history.Strays(reached) {
			return timeline
		}
	}
	return 0
}

func (o *Observer) readPlace(key string, from uint64) *tenure.Position {
	if o.place.key != key || o.place.position == nil {
		position, err := o.Ports.Disk.Position(from)
		if err != nil {
			return nil
		}
		o.place = end{key: key, position: &position}
	}
	return o.place.position
}

// troubleOf keeps in mind what went wrong in a term.
func (o *Observer) troubleOf(s postgres.Snapshot, promoted promotion) string {
	if s.Standing.Role != tenure.RoleLead {
		return ""
	}
	if o.trouble.term == s.Standing.Term && o.trouble.text != "" {
		return o.trouble.text
	}
	text := ""
	if s.LeadingStart() != "" {
		text = o.wrongBranch(s, promoted)
	}
	o.trouble = trouble{term: s.Standing.Term, text: text}
	return text
}

// wrongBranch checks a primary against what was reserved and against what the copy had before (T1).
func (o *Observer) wrongBranch(s postgres.Snapshot, promoted promotion) string {
	mine := s.Promoting && promoted.timeline == s.Standing.Timeline
	if s.Server.Timeline > s.Standing.Timeline || mine && s.Server.Timeline != s.Standing.Timeline {
		return fmt.Sprintf("the server leads on timeline %d, and %d was given out", s.Server.Timeline, s.Standing.Timeline)
	}
	if !mine {
		return ""
	}
	history, err := o.Ports.Disk.History(s.Server.Timeline)
	if err != nil {
		return err.Error()
	}
	if begin := history[len(history)-1].Begin; begin < promoted.reached.LSN || !history.Has(promoted.reached.Timeline) {
		return fmt.Sprintf("timeline %d began at %s, and the copy had come to %s", s.Server.Timeline,
			postgres.FormatLSN(begin), promoted.reached)
	}
	return ""
}

// barrier remembers which quorum was in force before, to know what a reload does not do (B1).
type barrier struct {
	start string
	value string
	k     int
	// before is until when a sender must have begun to be replaced, checkpoint whether one is needed.
	before     tenure.Instant
	checkpoint bool
	// sure says that an earlier look has found every part of the server to follow the value, lsn where the log ended at
	// the first look after that: what an older value acknowledged ends before it.
	sure bool
	lsn  uint64
}

func (b *barrier) look(s postgres.Snapshot) postgres.Quorum {
	setting, seen := s.Standing.Setting, s.Server.Replication
	value := render.StandbyNames(&setting, s.Standing.Timeline)
	if seen.Names != value || s.Standing.Role != tenure.RoleLead && s.Standing.Role != tenure.RoleYield {
		return postgres.Quorum{}
	}
	b.note(s.LeadingStart(), value, setting.K, seen.Loaded)
	b.checkpoint = b.checkpoint && !written(s.JobOf(postgres.JobCheckpoint), b.start+" "+value)
	quorum := postgres.Quorum{Checkpoint: b.checkpoint}
	wished := true
	for _, sender := range seen.Senders {
		counts := setting.K > 0 && sender.Counts(s.Standing.Timeline) && slices.Contains(setting.Names, sender.Member)
		if counts && b.before > 0 && sender.Began <= b.before {
			quorum.Replace = append(quorum.Replace, sender.PID)
		}
		// One that began later has the present value from its first moment.
		if sender.Began <= seen.Loaded && counts != (sender.Priority > 0) {
			wished = false
		}
	}
	if !wished || len(quorum.Replace) > 0 || quorum.Checkpoint {
		b.sure, b.lsn = false, 0
		return quorum
	}
	if !b.sure {
		// The end of the log was read before the senders were: only that of a later look is beyond them.
		b.sure = true
		return quorum
	}
	if b.lsn == 0 {
		b.lsn = seen.Flushed
	}
	quorum.Setting, quorum.Barrier = &tenure.Setting{K: setting.K, Names: slices.Clone(setting.Names)}, b.lsn
	return quorum
}

// written says that the checkpoint for that purpose was done.
func written(job postgres.Job, purpose string) bool {
	return job.For == purpose && !job.Running && job.Problem == "" && !job.Ended.IsZero()
}

// note keeps in mind what a change of the quorum needs besides the reload.
func (b *barrier) note(start, value string, k int, loaded tenure.Instant) {
	if b.start != start {
		// Before a promotion the server waited for nobody that exists, and before a start there was none.
		*b = barrier{start: start, value: render.StandbyNames(nil, 0)}
	}
	if b.value == value {
		return
	}
	// What an earlier change needs and did not get yet is still needed.
	b.checkpoint = value != "" && (b.checkpoint || b.value == "")
	switch {
	case k > b.k:
		b.before = loaded
	case k < b.k:
		b.before = 0
	}
	b.value, b.k, b.sure, b.lsn = value, k, false, 0
}
