package caches

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/law"
)

// Name is that of the cache.
const Name = "cities"

var (
	errDown    = errors.New("the server does not answer")
	errLoading = errors.New("LOADING the server is reading its data")
)

// mounts is what surrounds the server. That it is found out who knows which password has its own tests.
type mounts struct{ p *Pod }

func (m mounts) Settings() (wire.CacheSettings, error) {
	settings := m.p.host.Mounted().Settings
	if m.p.g.flaw.AgesNever {
		settings.LeaseMilliseconds *= 1000
	}
	if settings.Cache == "" {
		settings.Cache, settings.Engine, settings.Memory = Name, "redis", 64<<20
		settings.EvictionPolicy = "allkeys-lru"
	}
	return settings, nil
}

// Certificate has the first one installed: that takes a pass, and nothing here is about it.
func (m mounts) Certificate() redis.Certificate {
	mounted := m.p.host.Mounted().Certificate
	m.p.installed = cmp.Or(m.p.installed, mounted)
	return redis.Certificate{Mounted: mounted, Installed: m.p.installed, Leaf: m.p.installed}
}

func (m mounts) InstallCertificate(identity string) error {
	m.p.installed = identity
	return nil
}

func (m mounts) Passwords() (redis.Passwords, error) { return m.p.host.Mounted().Passwords, nil }

func (m mounts) Limit() int64 { return m.p.host.Mounted().Limit }

func (m mounts) Now() time.Time { return m.p.host.Clock() }

type names struct{ p *Pod }

// Find implements redis.Names.
func (n names) Find(_ context.Context, instance string) (string, error) {
	if other := n.p.g.named(instance); other != nil {
		return other.host.Address(), nil
	}
	return "", errors.New("no such host")
}

type runner struct{ p *Pod }

// Look implements redis.Runner.
func (r runner) Look() redis.Process {
	p := r.p
	if s := p.server; s != nil {
		return redis.Process{Running: true, Incarnation: s.incarnation, Failures: p.failures}
	}
	facts := redis.Process{Incarnation: p.noted}
	if p.ran {
		now := p.w.Now()
		facts.Failures, facts.Exit = p.failures, "ended"
		facts.Ended = p.host.Clock().Add(-(now - p.ended))
	}
	return facts
}

// Start implements redis.Runner.
func (r runner) Start(how redis.StartServer) error {
	p := r.p
	if p.server != nil {
		p.w.Wrong(law.StartAlone, "%s starts a server beside another", p.name)
		return nil
	}
	s := p.newServer(cmp.Or(how.Incarnation, p.w.Identity("copy-")))
	s.memory, s.policy = how.Memory, how.Policy
	p.w.Note(p.index, "an empty server starts as %s", s.incarnation)
	return nil
}

func (p *Pod) newServer(incarnation string) *server {
	s := &server{
		p: p, incarnation: incarnation, started: p.w.Now(), said: map[string]string{}, id: p.w.Identity("history-"),
		loaded: p.installed,
		ready:  p.w.Now() + p.w.Between(20*time.Millisecond, 300*time.Millisecond),
	}
	p.server, p.noted, p.ran = s, incarnation, true
	s.later(p.w.Between(0, time.Second), s.cron)
	return s
}

// Stop implements redis.Runner.
func (r runner) Stop(context.Context) error {
	r.p.Die("it is stopped", true)
	return nil
}

// Kill implements redis.Runner.
func (r runner) Kill() error {
	r.p.Die("it is killed", true)
	return nil
}

// KillLeftover implements redis.Runner.
func (r runner) KillLeftover() error { return nil }

// speaker is what is said to the server.
type speaker struct{ p *Pod }

// tell says something to a server that answers.
func (l speaker) tell(words func(*server)) error {
	s := l.p.server
	if s == nil || !s.answers() {
		return errDown
	}
	words(s)
	return nil
}

// order is for words that a server which reads its data does not hear.
func (l speaker) order(words func(*server)) error {
	if s := l.p.server; s != nil && s.loading {
		return errLoading
	}
	return l.tell(words)
}

// Server implements redis.Link.
func (l speaker) Server(_ context.Context, parameters []string, _ redis.Logins) redis.Server {
	s := l.p.server
	if s == nil || !s.answers() {
		return redis.Server{Problem: errDown.Error()}
	}
	facts := redis.Server{
		Reachable: true, Replication: s.replication(), MaxMemory: s.memory, Waiting: redis.Waiting(s.memory),
		Policy: s.policy, Loaded: s.loaded, Open: s.open, Matches: s.open,
	}
	for _, name := range parameters {
		facts.Parameters = append(facts.Parameters, redis.Parameter{
			Name: name, Set: s.said[name], InForce: s.said[name] != "",
		})
	}
	return facts
}

// Replication implements redis.Replicas.
func (l speaker) Replication(context.Context) (facts redis.Replication, err error) {
	err = l.tell(func(s *server) { facts = s.replication() })
	return facts, err
}

// Follow implements redis.Replicas.
func (l speaker) Follow(_ context.Context, upstream wire.Member, address, _ string) error {
	return l.order(func(s *server) {
		l.p.w.Note(l.p.index, "follows %s at %s", upstream, address)
		s.follow(address, upstream.Incarnation)
	})
}

// Detach implements redis.Replicas.
func (l speaker) Detach(context.Context) error { return l.order(func(s *server) { s.follow("", "") }) }

// Promote implements redis.Replicas.
func (l speaker) Promote(context.Context) error {
	return l.order(func(s *server) {
		l.p.g.truth.promoted(s, l.p.leads.Term)
		s.promote()
		s.term = l.p.leads.Term
		if s.open {
			l.p.g.truth.opened(s) // Whoever reads here writes from now on.
		}
		l.p.w.Note(l.p.index, "the server leads at term %d with %d entries", s.term, len(s.log))
	})
}

// Admit implements redis.Replicas.
func (l speaker) Admit(_ context.Context, incarnation string, _ redis.Logins) error {
	return l.tell(func(s *server) {
		if !slices.Contains(s.admits, incarnation) {
			s.admits = append(s.admits, incarnation)
		}
	})
}

// OpenDoor implements redis.Link.
func (l speaker) OpenDoor(context.Context, redis.Logins) error {
	return l.tell(func(s *server) {
		s.open = true
		l.p.w.Note(l.p.index, "the door opens at %d entries", len(s.log))
		if !s.replica {
			l.p.g.truth.opened(s)
		}
	})
}

// CloseDoor implements redis.Link.
func (l speaker) CloseDoor(context.Context) error { return l.tell(func(s *server) { s.open = false }) }

// HearReplicas implements redis.Link.
func (l speaker) HearReplicas(context.Context) error {
	return l.tell(func(s *server) {
		for _, to := range s.links {
			if to.closed || to.syncing {
				continue
			}
			l.p.w.After(l.p.latency(), func() {
				if to.down.link == to && !to.closed && !to.up.dead && l.p.w.Connected(to.down.p.index, l.p.index) {
					to.acked, to.online, to.heardBack = max(to.acked, len(to.down.log)), true, l.p.w.Now()
				}
			})
		}
	})
}

// End implements redis.Link: what is written goes out before the process ends.
func (l speaker) End(context.Context) error {
	return l.tell(func(s *server) {
		for _, to := range s.links {
			if !to.closed && !to.syncing && l.p.w.Connected(l.p.index, to.down.p.index) && l.p.w.Chance(0.9) {
				to.flush()
			}
		}
		l.p.Die("it has ended in order", true)
	})
}

// flush sends on what the replica lacks: it is in the buffers of the kernel when the process ends.
func (l *link) flush() {
	from := len(l.down.log)
	if from >= len(l.up.log) || l.down.link != l {
		return
	}
	piece := slices.Clone(l.up.log[from:])
	l.up.p.w.After(l.up.p.latency()/8, func() {
		if l.down.id == l.up.id && len(l.down.log) == from && !l.down.dead && l.down.replica {
			l.down.log = append(l.down.log, piece...)
		}
	})
}

// Far implements redis.Link.
func (l speaker) Far(upstream wire.Member, host string, _ redis.Logins, tell func(int64, error)) {
	w, p, asked := l.p.w, l.p, l.p.w.Now()
	w.After(p.latency(), func() {
		up := p.primaryAt(host)
		if up == nil || !slices.Contains(up.admits, upstream.Incarnation) {
			w.After(time.Second, func() { tell(0, errDown) })
			return
		}
		offset := offsetOf(len(up.log))
		w.After(p.latency(), func() {
			p.told = asked
			tell(offset, nil)
		})
	})
}

// SetParameter implements redis.Link.
func (l speaker) SetParameter(_ context.Context, parameter wire.Parameter) error {
	return l.tell(func(s *server) { s.said[parameter.Name] = parameter.Value })
}

// ResetParameter implements redis.Link.
func (l speaker) ResetParameter(_ context.Context, name string) error {
	return l.tell(func(s *server) { delete(s.said, name) })
}

// SetMemory implements redis.Link.
func (l speaker) SetMemory(_ context.Context, bytes int64) error {
	return l.tell(func(s *server) { s.memory = bytes })
}

// SetWaiting implements redis.Link: it goes with the memory here.
func (l speaker) SetWaiting(context.Context, int64) error { return nil }

// SetPolicy implements redis.Link.
func (l speaker) SetPolicy(_ context.Context, policy string) error {
	return l.tell(func(s *server) { s.policy = policy })
}

// Fixed implements redis.Link, and what follows what nothing here is about.
func (l speaker) Fixed() []string                    { return nil }
func (l speaker) ReturnMemory(context.Context) error { return nil }

// Presented implements redis.Link.
func (l speaker) Presented(context.Context) (shown string, err error) {
	err = l.tell(func(s *server) { shown = s.loaded })
	return shown, err
}

// LoadCertificate implements redis.Link.
func (l speaker) LoadCertificate(_ context.Context, identity string) error {
	return l.tell(func(s *server) { s.loaded = identity })
}

// Flush implements redis.Link: it is a write like any other.
func (l speaker) Flush(context.Context) error {
	return l.tell(func(s *server) {
		t := &l.p.g.truth
		t.next++
		t.flushes[l.p.flush.ID] = -t.next
		s.write(-t.next)
		l.p.w.Note(l.p.index, "the cache is emptied at entry %d", len(s.log))
	})
}
