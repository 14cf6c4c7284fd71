package caches

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/act"
	"meridian.dev/meridian/internal/redis/controller"
	"meridian.dev/meridian/internal/redis/observe"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/law"
)

// Pod is one instance: the loop of its server in each life of the agent, and the server.
type Pod struct {
	g     *Group
	w     World
	index int
	name  string
	host  Host

	// noted is the copy that was started last. It lies in a folder that lives as long as the pod.
	noted string
	// installed is the certificate that the server reads. It lies there too.
	installed string
	server    *server
	ended     time.Duration
	failures  int
	ran       bool // A server was started in this life of the agent.

	life    int
	loop    *controller.Loop
	track   *observe.Track
	facts   tenure.Engine
	planned int
	shown   int
	hung    time.Duration
	leads   redis.Lead // What the loop has last begun.
	flush   redis.Flush

	// looked is when the loop was last at work, resumed when it last began to be after it had stood still, and fresh when
	// it last knew that its copy was. Told is when it last asked how far the primary has come, and got an answer. Blind
	// means that it was not at work for too long, see truth.
	looked, resumed, fresh, told time.Duration
	blind                        bool
}

// Start begins a life of the agent.
func (p *Pod) Start(authority tenure.Authority) {
	p.life++
	p.facts, p.ran, p.failures, p.hung = tenure.Engine{}, false, 0, 0
	p.looked, p.resumed, p.fresh, p.told, p.blind = 0, 0, 0, 0, false
	p.track = &observe.Track{}
	said, around := speaker{p}, mounts{p}
	p.loop = controller.New(&observe.Observer{
		Instance: p.name, Cache: Name, Clock: around, Mounts: around, Room: around, Runner: runner{p}, Link: said,
		Track: p.track,
	}, &act.Actor{
		Mounts: around, Runner: runner{p}, Link: said, Memory: p.track, Clock: around, Names: names{p}, Authority: authority,
		Before: p.before,
	}, logr.New(&teller{p: p}))
	p.soon(p.w.Between(10*time.Millisecond, 200*time.Millisecond))
}

func (p *Pod) before(action redis.Action) {
	p.w.Act(p.index, action.Verb(), action.Because())
	if lead, ok := action.(redis.Lead); ok {
		p.leads = lead
	}
	if flush, ok := action.(redis.Flush); ok {
		p.flush = flush
	}
}

// End ends the container. Silently is for a machine that ends with it.
func (p *Pod) End(silently bool) {
	p.life++
	p.loop = nil
	if p.server != nil {
		p.server.die(silently)
	}
}

// Forget is another pod in the place of this one.
func (p *Pod) Forget() { p.noted, p.installed = "", "" }

// Report is what the loop tells of the server, if it has told anything, and Ready what the kubelet is told.
func (p *Pod) Report() (wire.CacheReport, bool) {
	if p.loop == nil {
		return wire.CacheReport{}, false
	}
	state, ok := p.loop.State()
	return state.Report, ok
}

// Ready says that applications can use it.
func (p *Pod) Ready() bool {
	if p.loop == nil {
		return false
	}
	state, ok := p.loop.State()
	return ok && state.Ready
}

// Copy is the incarnation of what it has, empty if it has no server, and Leading the term at which applications write.
func (p *Pod) Copy() string {
	if p.server == nil {
		return ""
	}
	return p.server.incarnation
}

// Leading tells it, if they do.
func (p *Pod) Leading() (term int64, leads bool) {
	s := p.server
	if s == nil || s.replica || !s.open || !s.answers() {
		return 0, false
	}
	return s.term, true
}

// Ask asks the agent to empty the cache.
func (p *Pod) Ask(id string) {
	p.loop.Ask(id)
	p.soon(p.w.Between(0, 10*time.Millisecond))
}

// Noted is what another container of the same pod finds, and Remember puts it back.
func (p *Pod) Noted() string { return p.noted }

// Remember is for a pod that comes back after its machine was off.
func (p *Pod) Remember(noted string) { p.noted = noted }

// Hang keeps the loop of the server from doing anything.
func (p *Pod) Hang(until time.Duration) { p.hung = until }

// soon plans a pass. A later plan replaces an earlier one.
func (p *Pod) soon(in time.Duration) {
	p.planned++
	planned, life := p.planned, p.life
	p.w.After(in, func() {
		p.host.InAgent(func() {
			if p.planned == planned && p.life == life {
				p.pass()
			}
		})
	})
}

// quiet is how long a pass waits at least if there was nothing to do. Here it waits three times as long, as on a
// machine that has much to do: most passes see nothing new, and they are what a run costs.
const quiet = 100 * time.Millisecond

func (p *Pod) pass() {
	if now := p.w.Now(); now < p.hung {
		p.soon(p.hung - now)
		return
	}
	p.g.truth.looks(p)
	life := p.life
	_, next := p.loop.Pass(context.Background(), false)
	if p.g.flaw.EmptyIsWhole {
		p.claimToBeWhole()
	}
	if next >= quiet {
		next *= 3
	}
	p.soon(next)
	p.shown++
	shown, facts := p.shown, p.loop.Facts()
	if s := p.server; s != nil && s.term > 0 && facts.Leading != nil && facts.Leading.Term > s.term {
		p.g.truth.leadsOn(s, facts.Leading.Term)
	}
	// The loop of the lease hears of it a little later.
	p.w.After(p.w.Between(0, 30*time.Millisecond), func() {
		p.host.InAgent(func() {
			if p.life == life && shown == p.shown {
				p.hear(facts)
			}
		})
	})
}

func (p *Pod) hear(facts tenure.Engine) {
	before := p.facts
	p.facts = facts
	if before.Known != facts.Known || before.Data != facts.Data || before.Processes != facts.Processes ||
		(before.Leading == nil) != (facts.Leading == nil) || before.Obeyed != facts.Obeyed ||
		before.Incarnation != facts.Incarnation || before.Lost != facts.Lost {
		p.host.Changed()
	}
}

// Facts implements tenure.Server.
func (p *Pod) Facts() tenure.Engine { return p.facts }

// Obey implements tenure.Server.
func (p *Pod) Obey(standing tenure.Standing) {
	p.loop.Obey(standing)
	p.soon(p.w.Between(0, 10*time.Millisecond))
}

// Fence implements tenure.Server.
func (p *Pod) Fence(ctx context.Context) (tenure.Position, error) {
	p.soon(p.w.Between(0, 10*time.Millisecond))
	return p.loop.Fence(ctx)
}

// Kill implements tenure.Server.
func (p *Pod) Kill() { p.Die("the agent kills it", true) }

// Die ends the server. Asked says that the agent has wanted it.
func (p *Pod) Die(why string, asked bool) {
	if p.server == nil {
		return
	}
	p.w.Note(p.index, "the server is gone: %s", why)
	p.count(asked)
	s := p.server
	s.die(false)
	if p.g.flaw.SameAgain && !asked && p.loop != nil {
		p.again(s)
		return
	}
	if p.loop != nil {
		p.soon(p.w.Between(time.Millisecond, 10*time.Millisecond))
	}
}

// count judges an end as the runner of production does.
func (p *Pod) count(asked bool) {
	now := p.w.Now()
	p.ended = now
	if asked || now-p.server.started > time.Minute {
		p.failures = 0
	}
	if !asked {
		p.failures++
	}
}

func (p *Pod) latency() time.Duration {
	if p.w.Chance(0.03) {
		return p.w.Between(20*time.Millisecond, 500*time.Millisecond)
	}
	return p.w.Between(200*time.Microsecond, 4*time.Millisecond)
}

// again is the flaw of a server that somebody else starts again.
func (p *Pod) again(before *server) {
	s := p.newServer(before.incarnation)
	s.replica, s.host, s.user, s.admits = before.replica, before.host, before.user, before.admits
	s.open, s.term, s.memory, s.policy, s.said = before.open, before.term, before.memory, before.policy, before.said
	s.ready = p.w.Now()
}

// claimToBeWhole is the flaw of an empty server that counts as a copy.
func (p *Pod) claimToBeWhole() {
	if s := p.server; s != nil && s.answers() && s.replica && !s.full {
		p.track.Change(func(copied redis.Copy) redis.Copy {
			copied.Whole, copied.Fresh = true, p.host.Clock()
			copied.Timeline, copied.Dataset = copied.Followed.Timeline, copied.Followed.Dataset
			return copied
		})
	}
}

// teller hears what the loop logs.
type teller struct{ p *Pod }

func (t *teller) Init(logr.RuntimeInfo)          {}
func (t *teller) Enabled(int) bool               { return true }
func (t *teller) WithValues(...any) logr.LogSink { return t }
func (t *teller) WithName(string) logr.LogSink   { return t }
func (t *teller) Error(error, string, ...any)    {}

func (t *teller) Info(_ int, message string, pairs ...any) {
	t.p.w.Note(t.p.index, "%s %v", message, pairs)
	for at := 0; at+1 < len(pairs); at += 2 {
		if refused, ok := pairs[at+1].(bool); ok && refused {
			t.p.w.Wrong(law.RedisCheck, "%s: %v", t.p.name, pairs)
		}
	}
}
