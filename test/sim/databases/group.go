// Package databases is a database in a simulated world: the loop of production that runs a server, internal/postgres,
// on ports of this package, and the model of PostgreSQL behind them. The loop of the lease beside it, and everything
// that goes wrong, belong to the package that uses this one. Start reading at Pod, then at the ports.
package databases

import (
	"strconv"
	"strings"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/pgmodel"
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
	Truth
}

// Truth is who sees everything.
type Truth interface {
	// Acknowledged is a write that a client believes in, of a primary of this term.
	Acknowledged(who int, term int64, sessions bool, id int)
	// Opened is a primary that lets applications in, and what they see.
	Opened(who int, term int64, seen []int)
	// Leads is a server that writes on a timeline.
	Leads(who int, term int64, timeline int, incarnation string)
	// Destroys is a copy that gives up writes.
	Destroys(who int, lost []int)
	// Rewinds is a copy that is about to be rewound, and has these writes until then.
	Rewinds(who int, has []int)
	// GivesUp is a whole copy that is about to be made anew, and has these writes until then.
	GivesUp(who int, has []int)
	// Took is a copy that gets WAL of another server, and whether that leads; Alike says that it goes on from the same.
	Took(who, from int, leads, alike bool)
	// Tells is a server from which another one has just got the history of a timeline.
	Tells(who int)
	// Fresh is an id for a copy that is made new.
	Fresh(who int) string
	// NextWrite is the number of another write.
	NextWrite() int
}

// Host is the machine and the pod that an instance lives in.
type Host interface {
	// Clock is the wall clock of the machine, Instant the other one.
	Clock() time.Time
	Instant() tenure.Instant
	Address() string
	// Settings are those that have come to the pod, with its certificate and the credentials of the application.
	Settings() wire.Settings
	Certificate() string
	Logins() postgres.Logins
	// Yield asks the loop of the lease to give the place away, so that the server can be started anew with this token.
	Yield(token string)
	// InAgent runs something of the agent's process, after a freeze if there is one, and never in a later life of it.
	InAgent(run func())
	// Changed tells the loop of the lease that there are new facts.
	Changed()
	// Frozen is until when nothing in the pod does anything.
	Frozen() time.Duration
}

// Name is that of the database that all pods belong to.
const Name = "cities"

// Major is the version of all servers.
const Major = 17

// segment is the size of a file of the log.
const segment = 16 << 20

// Group is all instances of a database.
type Group struct {
	w       World
	major   int
	flaw    Flaw
	pods    []*Pod
	running *job // The job that runs now.
	// discards counts copies that were given up.
	discards int
}

// New makes a database without instances.
func New(w World, major int, flaw Flaw) *Group {
	g := &Group{w: w, major: major, flaw: flaw}
	w.After(100*time.Millisecond, g.use)
	return g
}

// spread is how long a server writes its checkpoint after a promotion, which is not in a hurry: most of
// checkpoint_timeout, if there is much to write.
const spread = 4 * time.Minute

// Add adds an instance.
func (g *Group) Add(name string, host Host) *Pod {
	p := &Pod{
		g: g, w: g.w, index: len(g.pods), name: name, host: host, files: map[string]file{}, claim: g.w.Identity("claim-"),
	}
	p.server = pgmodel.New(within{g}, name)
	p.server.Took = p.took
	p.server.Told, p.server.Spread = p.told, spread
	p.server.Learned = func(up *pgmodel.Server) { g.w.Tells(g.named(up.Name).index) }
	p.server.Clock = func() time.Duration { return time.Duration(host.Instant()) }
	p.server.Enters = p.enters
	g.pods = append(g.pods, p)
	return p
}

// use is what clients do: they write wherever a session lives.
func (g *Group) use() {
	for _, p := range g.pods {
		if s := p.server; p.sessions && s.Mode == pgmodel.Primary && s.Answers() == nil {
			p.write()
		}
	}
	g.w.After(g.w.Between(60*time.Millisecond, 180*time.Millisecond), g.use)
}

// write is a commit. Of one in thirty the client has said that it may be lost.
func (p *Pod) write() {
	id, level := p.w.NextWrite(), pgmodel.LevelOn
	if p.w.Chance(1.0 / 30) {
		level = pgmodel.LevelOff
	}
	_, _ = p.server.Begin(id, level, p.client(id, level))
}

// client is told what has become of its commit.
func (p *Pod) client(id int, level pgmodel.Level) (told func(pgmodel.Result)) {
	term := p.term
	return func(result pgmodel.Result) {
		if result == pgmodel.Acknowledged && level == pgmodel.LevelOn {
			p.w.Acknowledged(p.index, term, p.sessions, id)
		}
	}
}

// NetworkChanged tells that what gets through has changed.
func (g *Group) NetworkChanged() {
	for _, p := range g.pods {
		p.server.NetworkChanged()
	}
}

// took looks at what comes of the log of another server. By a name that tells another timeline than the primary's own
// it counts for nothing, and may have left that history: nobody has judged it since, because its agent stands still.
// Such a primary sends what both have, and no more.
func (p *Pod) took(up *pgmodel.Server, name string, counts bool) {
	leads := up.Mode == pgmodel.Primary
	_, judged, told := strings.Cut(name, "@")
	ignored := told && !counts && judged != strconv.Itoa(up.Timeline())
	p.w.Took(p.index, p.g.named(up.Name).index, leads, !leads || ignored || up.Last().Holds(p.server.Last()))
}

func (g *Group) named(name string) *Pod {
	for _, p := range g.pods {
		if p.name == name {
			return p
		}
	}
	return nil
}

// within implements pgmodel.World.
type within struct{ g *Group }

func (w within) Now() time.Duration                            { return w.g.w.Now() }
func (w within) After(d time.Duration, run func())             { w.g.w.After(d, run) }
func (w within) Between(low, high time.Duration) time.Duration { return w.g.w.Between(low, high) }
func (w within) Connected(from, to string) bool {
	one, two := w.g.named(from), w.g.named(to)
	return one != nil && two != nil && w.g.w.Connected(one.index, two.index)
}

func (w within) Find(name string) *pgmodel.Server {
	if p := w.g.named(name); p != nil {
		return p.server
	}
	return nil
}
