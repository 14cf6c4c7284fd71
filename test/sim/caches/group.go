package caches

import (
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
)

// World is the simulated world, as far as this package needs it.
type World interface {
	Now() time.Duration
	After(d time.Duration, run func())
	Between(low, high time.Duration) time.Duration
	Chance(p float64) bool
	// Calm says that nothing goes wrong any more, Lag that some replicas are slow.
	Calm() bool
	Lag() bool
	Note(who int, format string, args ...any)
	// Act is an action of a loop.
	Act(who int, verb, why string)
	Wrong(broken rule.Rule, format string, args ...any)
	Identity(prefix string) string
	Connected(from, to int) bool
}

// Host is the machine and the pod that an instance lives in.
type Host interface {
	// Clock is the clock of the machine.
	Clock() time.Time
	Address() string
	// Mounted is what has come to the pod.
	Mounted() Mounted
	// InAgent runs something of the agent's process, after a freeze if there is one, and never in a later life of it.
	InAgent(run func())
	// Changed tells the loop of the lease that there are new facts.
	Changed()
	// Well is for how long nothing has been wrong with it: it could hear and say everything.
	Well() time.Duration
}

// Mounted is what a pod is given. Settings without a name of the cache are completed here.
type Mounted struct {
	Settings  wire.CacheSettings
	Passwords redis.Passwords
	// Certificate identifies it, and Limit is the memory of the container in bytes, 0 without one.
	Certificate string
	Limit       int64
}

// Flaw is what is broken on purpose.
type Flaw struct {
	// EmptyIsWhole takes an empty server for a copy that has everything.
	EmptyIsWhole bool
	// SameAgain starts a server that was killed again by itself, so that nobody notices that its data is gone.
	SameAgain bool
	// AgesNever lets a copy count however long ago it last heard of its primary.
	AgesNever bool
	// AnyReplica lets replicas in whichever copy they are looking for.
	AnyReplica bool
}

// Group is all instances of a cache.
type Group struct {
	w     World
	flaw  Flaw
	pods  []*Pod
	truth truth
}

// New makes a cache without instances.
func New(w World, flaw Flaw) *Group {
	g := &Group{w: w, flaw: flaw}
	g.truth = truth{g: g, acked: map[int]time.Duration{}, terms: map[int]int64{}, flushes: map[string]int{}}
	w.After(100*time.Millisecond, g.use)
	return g
}

// Add adds an instance.
func (g *Group) Add(name string, host Host) *Pod {
	p := &Pod{g: g, w: g.w, index: len(g.pods), name: name, host: host}
	g.pods = append(g.pods, p)
	return p
}

// use is what clients do: they write and read wherever they are let in.
func (g *Group) use() {
	for _, p := range g.pods {
		s := p.server
		if s == nil || !s.open || !s.answers() {
			continue
		}
		if !s.replica {
			g.truth.next++
			s.write(g.truth.next)
			g.truth.acknowledged(s, g.truth.next)
		}
		if !s.replica || s.up() {
			g.truth.read(s)
		}
	}
	g.w.After(g.w.Between(60*time.Millisecond, 180*time.Millisecond), g.use)
}

// Ask asks the primary to empty the cache.
func (g *Group) Ask(id string) {
	for _, p := range g.pods {
		if s := p.server; s != nil && !s.replica && s.open && p.loop != nil {
			p.Ask(id)
		}
	}
}

// Figures are how many writes were acknowledged, and the longest time between two.
func (g *Group) Figures() (acks int, longest time.Duration) { return g.truth.acks, g.truth.longest }

func (g *Group) named(name string) *Pod {
	for _, p := range g.pods {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Served says that applications were let in since the lease began.
func (g *Group) Served() bool { return g.truth.latest != nil }

// BeginAnew is another lease, of which terms begin again: nobody has obeyed the one before, and the terms of what was
// written are no longer those of now.
func (g *Group) BeginAnew() {
	g.truth.latest, g.truth.leads, g.truth.emptied = nil, nil, 0
	clear(g.truth.terms)
}
