package databases

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/pgmodel"
)

// runner is the process of the server.
type runner struct{ p *Pod }

func (r runner) Look() postgres.Process {
	facts, s := r.p.process, r.p.server
	if !facts.ran {
		return postgres.Process{}
	}
	found := postgres.Process{
		Running: s.Running(), Failures: facts.failures, Mark: facts.mark, Started: facts.started, Reached: facts.reached,
		Start: facts.start, Lost: facts.lost, LostAtStart: facts.lostAtStart,
	}
	if found.Running {
		found.Restart, found.Consistent, found.LetsIn = facts.restart, facts.whole, facts.letsIn || r.p.g.flaw.Mute
	} else {
		found.Ended, found.Exit = facts.ended, facts.exit
	}
	return found
}

func (r runner) Start(mark, restart string) error {
	p := r.p
	if p.server.Running() {
		p.w.Wrong(law.StartAlone, "%s starts a server beside another", p.name)
		return nil
	}
	p.process = process{
		ran: true, started: p.Now(), startedAt: p.w.Now(), start: p.w.Identity("start-"), mark: mark, restart: restart,
		failures: p.process.failures,
	}
	p.pid, p.proven = true, ""
	p.configure()
	if more, ok := p.server.Disk.Conf.More.(loaded); ok {
		p.process.starters = more.starters
	}
	p.server.ReplayLag = 0
	if p.w.Lag() && !p.w.Calm() && p.w.Chance(0.2) {
		p.server.ReplayLag = p.w.Between(time.Millisecond, 20*time.Millisecond)
	}
	p.w.Note(p.index, "a server starts, standby %t", p.server.Disk.Standby)
	return p.server.Start()
}

// fastPatience is how long a stop in order may take.
const fastPatience = 10 * time.Second

func (r runner) Stop(ctx context.Context, within time.Duration) error {
	p := r.p
	p.process.asked = true
	_ = p.server.Stop(pgmodel.Fast) // Whoever is down needs none.
	start := p.process.start
	ended := func() bool { return !p.server.Running() || p.process.start != start }
	if err := p.wait(ctx, cmp.Or(within, fastPatience), ended); err != nil {
		return err
	}
	if !ended() {
		_ = p.server.Stop(pgmodel.Immediate)
	}
	return nil
}

func (r runner) KillLeftover() error { return nil }

func (r runner) Reload() error {
	if !r.p.server.Running() {
		return errors.New("reload: there is no server")
	}
	r.p.configure()
	return r.p.server.Reload()
}

func (r runner) Promote() error { return r.p.server.Promote() }

var errNotProven = errors.New("processes cannot be proven to be gone")

func (r runner) EndReceiver(context.Context) error {
	p := r.p
	if p.server.Running() && p.server.Frozen() || p.g.flaw.Silent && p.w.Now() < p.silent {
		return errNotProven
	}
	p.server.EndReceiver()
	return nil
}

func (r runner) EndEntering(context.Context) error { return nil }

func (r runner) Kill() error {
	r.p.Die("it is killed", true)
	return nil
}

// link is what is said to the server.
type link struct{ p *Pod }

func (l link) Server(context.Context) postgres.Server {
	p, s := l.p, l.p.server
	if err := s.Answers(); err != nil {
		return postgres.Server{Problem: err.Error()}
	}
	more, _ := s.Conf().More.(loaded)
	server := postgres.Server{
		Reachable: true, Replica: s.Mode == pgmodel.Standby, Version: "17.6", SystemIdentifier: s.Disk.System,
		Timeline: s.Disk.Control.Checkpoint.Timeline, LSN: postgres.FormatLSN(s.Flushed()), Loaded: more.mark,
		Settings: more.settings, Proven: more.mark, Open: more.open, Compared: more.mark,
	}
	server.PendingRestart = pending(p.process.starters, more.starters)
	facts := &server.Replication
	if p.proven != more.mark {
		p.proven, p.provenAt = more.mark, p.host.Instant()
	}
	facts.Roles, facts.Names, facts.Loaded = true, more.names, p.provenAt
	if p.sessions {
		facts.Sessions = 1
	}
	if server.Replica {
		received, timeline := s.Received()
		facts.Receiving, facts.Received, facts.Replayed = s.Receiving(), received, s.Last().End
		facts.Ahead = s.Ahead()
		if facts.Receiving {
			server.Timeline = max(server.Timeline, timeline)
		}
	} else {
		server.Timeline, facts.Flushed = s.Timeline(), s.Flushed()
		if s.Disk.Log.Shared(s.Timeline(), s.Last().End) && !p.g.flaw.Unjudged {
			facts.Twin = p.process.started
		}
	}
	l.senders(facts)
	return server
}

// pending names the parameters that wait for a start.
func pending(started, wanted []string) []string {
	var names []string
	for _, line := range wanted {
		if name, _, _ := strings.Cut(line, " = "); !slices.Contains(started, line) {
			names = append(names, name)
		}
	}
	return names
}

func (l link) senders(facts *postgres.Replication) {
	s := l.p.server
	for _, line := range s.Senders() {
		if l.p.g.flaw.Unjudged {
			line.Flush = min(line.Flush, s.Flushed())
		}
		sender := postgres.Sender{
			PID: line.Number, Stream: line.Streaming, Flushed: line.Flush, Began: tenure.Instant(line.Began),
		}
		if line.Counts {
			sender.Priority = 1
		}
		sender.Member, sender.Joining, sender.Timeline = render.Streamer(line.Name)
		facts.Senders = append(facts.Senders, sender)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Disk.Slots)) {
		slot := s.Disk.Slots[name]
		if !render.OurSlot(name) {
			continue
		}
		facts.Slots = append(facts.Slots, name)
		if slot.Busy() {
			facts.Busy = append(facts.Busy, name)
		}
		if slot.Lost {
			facts.Lost = append(facts.Lost, name)
		}
		if facts.Since == nil {
			facts.Since = map[string]uint64{}
		}
		facts.Since[name] = slot.Restart
	}
}

// Application is always there: what is inside has its own tests.
func (l link) Application(_ context.Context, wanted wire.Settings, logins postgres.Logins) postgres.Application {
	application := postgres.Application{
		Known: true, Role: true, Login: true, PasswordMatches: true, Database: true, Owner: wanted.Application.Owner,
		Rotation: logins.Present.Rotation,
	}
	for _, name := range wanted.Extensions {
		application.Extensions = append(application.Extensions, postgres.Extension{
			Name: name, Installed: "1.0", Available: "1.0",
		})
	}
	if next := logins.Next; next != nil {
		application.Next = &postgres.NextLogin{Name: next.Name, Rotation: next.Rotation, Set: true, Works: true}
	}
	return application
}

func (l link) CreateRole(context.Context, postgres.Login) error              { return nil }
func (l link) SetLogin(context.Context, postgres.Login, string) error        { return nil }
func (l link) CreateDatabase(context.Context, string, string) error          { return nil }
func (l link) CreateAgents(context.Context) error                            { return nil }
func (l link) CreateExtension(context.Context, string, string) error         { return nil }
func (l link) UpdateExtension(context.Context, string, string, string) error { return nil }
func (l link) GrantExtension(context.Context, string, string) error          { return nil }
func (l link) NoteLibraries(context.Context, string, string) error           { return nil }

func (l link) KeepPlaces(_ context.Context, how postgres.KeepPlaces) error {
	s, wanted := l.p.server, how.Slots
	if err := s.Answers(); err != nil {
		return err
	}
	if l.p.g.flaw.NoPlaces && s.Mode == pgmodel.Standby {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Disk.Slots)) {
		slot := s.Disk.Slots[name]
		if slot.Lost || !slices.Contains(wanted, name) && render.OurSlot(name) {
			s.DropSlot(name)
		}
	}
	for _, name := range wanted {
		s.CreateSlot(name)
	}
	for name, to := range how.Positions {
		s.AdvanceSlot(name, to)
	}
	return nil
}

// Drain implements postgres.SQL.
func (l link) Drain(ctx context.Context) (uint64, error) {
	if err := l.p.server.Answers(); err != nil {
		return 0, err
	}
	l.p.sessions = false
	l.p.server.EndSessions()
	return l.p.server.Flushed(), l.p.sleep(ctx, l.p.w.Between(time.Millisecond, 20*time.Millisecond))
}

func (l link) EndSessions(context.Context) error {
	l.p.sessions = false
	return l.p.server.Answers()
}

func (l link) EndSenders(_ context.Context, numbers []int) error {
	for _, number := range numbers {
		l.p.server.EndSender(number)
	}
	return l.p.server.Answers()
}

// Checkpoint implements postgres.SQL.
func (l link) Checkpoint(ctx context.Context) error {
	s, start, done := l.p.server, l.p.process.start, false
	if err := s.Checkpoint(func() { done = true }); err != nil {
		return err
	}
	over := func() bool { return done || !s.Running() || l.p.process.start != start }
	if err := l.p.wait(ctx, time.Hour, over); err != nil || done {
		return err
	}
	return errors.New("the server has ended")
}

func (l link) LeaveSegment(context.Context) error { return l.p.server.SwitchSegment() }
