package databases

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/pgmodel"
)

// Pod is one instance: the loop of its server in each life of the agent, the volume and the server.
type Pod struct {
	g     *Group
	w     World
	index int
	name  string
	host  Host

	// The volume.
	record *postgres.Record
	files  map[string]file
	server *pgmodel.Server
	claim  string
	pid    bool // postmaster.pid is there.

	// The container.
	life      int
	locked    bool
	installed string
	proven    string // The configuration that a new session has shown, and when.
	provenAt  tenure.Instant
	lent      []string
	process   process
	loop      *controller.Loop
	jobs      []*job
	facts     tenure.Engine
	standing  tenure.Standing
	planned   int
	shown     int
	hung      time.Duration

	// What its server is to the world.
	term     int64
	sessions bool
	leads    bool
	watched  string // The start that the probe is about, and since when.
	watching time.Duration
	stuckAt  time.Duration // Since when its disk or its processes do not answer.
	// diskHangs and its neighbours are until when, and rewound is when its copy was.
	diskHangs, silent, replaysSlowly time.Duration
	rewound                          []time.Duration
}

// file is a file of the configuration.
type file struct{ text, hash string }

// process is what the runner knows of the server.
type process struct {
	started, ended time.Time
	startedAt      time.Duration
	start          string
	mark, restart  string
	failures       int
	ran, asked     bool
	counted        bool
	reached, lost  bool
	lostAtStart    bool
	whole, letsIn  bool // What it has told of its recovery.
	exit           string
	starters       []string // The parameters that it was started with.
}

// Start begins a life of the agent.
func (p *Pod) Start(authority tenure.Authority) {
	p.life++
	p.locked, p.installed, p.lent, p.process = false, "", nil, process{}
	p.facts, p.standing, p.hung = tenure.Engine{}, tenure.Standing{}, 0
	p.loop = controller.New(postgres.Ports{
		Clock: p, Mounts: mounts{p}, Disk: disk{p}, Runner: runner{p}, SQL: link{p}, Copies: copies{p}, Probe: probe{p},
		Claim:     func(string) postgres.Claim { return postgres.Claim{UID: p.claim} },
		ReadClaim: func(context.Context) (postgres.Claim, error) { return postgres.Claim{UID: p.claim}, nil },
		Go:        p.begin,
	}, controller.Identity{
		Instance: p.name, Database: Name, Runtime: "/run/meridian",
		Fresh: func() string { return p.w.Fresh(p.index) },
	}, logr.New(&teller{p: p}))
	p.loop.Authority = authority
	if p.g.flaw.Mutual {
		p.loop.Authority = generous{authority, p}
	}
	p.loop.Instant, p.loop.Yield = p.host.Instant, p.host.Yield
	p.soon(p.w.Between(10*time.Millisecond, 200*time.Millisecond))
}

// Now implements postgres.Clock.
func (p *Pod) Now() time.Time { return p.host.Clock() }

// End ends the container. Silently is for a machine that ends with it: what was not flushed is gone.
func (p *Pod) End(silently bool) {
	p.life++
	p.loop = nil
	for _, each := range slices.Clone(p.jobs) {
		each.stop()
	}
	p.jobs = nil
	if silently {
		p.server.PowerOff()
	} else {
		p.server.Kill()
	}
}

// Lose is another volume in the place of this one.
func (p *Pod) Lose() {
	p.record, p.files, p.server.Disk, p.pid = nil, map[string]file{}, nil, false
	p.claim = p.w.Identity("claim-")
}

// Hang keeps the loop of the server from doing anything.
func (p *Pod) Hang(until time.Duration) { p.hung = until }

// Freeze stops the processes of the server.
func (p *Pod) Freeze(until time.Duration) { p.server.Freeze(until) }

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

// quiet is how long a pass waits at least if there was nothing to do. Here it waits longer, as on a machine that has
// much to do: most passes see nothing new, and they are what a run costs.
const (
	quiet   = 100 * time.Millisecond
	longest = 2 * time.Second
)

func (p *Pod) pass() {
	if now := p.w.Now(); now < p.hung {
		p.soon(p.hung - now)
		return
	}
	life := p.life
	_, next := p.loop.Pass(context.Background(), false)
	if p.life != life {
		return
	}
	if next >= quiet {
		next = p.w.Between(next, max(next, min(4*next, longest)))
	}
	p.soon(next)
	p.shown++
	shown, facts := p.shown, p.loop.Facts()
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
		before.Incarnation != facts.Incarnation {
		p.host.Changed()
	}
}

// Facts implements tenure.Server.
func (p *Pod) Facts() tenure.Engine {
	facts := p.facts
	if p.loop != nil && facts.Known {
		live := p.loop.Facts() // Whether the server writes is known also while a pass is held up.
		facts.Hung, facts.Probed = live.Hung, live.Probed
	}
	if p.g.flaw.Midway && facts.Data == tenure.DataChanging {
		facts.Data = tenure.DataWhole
	}
	return facts
}

// Obey implements tenure.Server.
func (p *Pod) Obey(standing tenure.Standing) {
	p.standing = standing
	if standing.Role == tenure.RoleLead {
		p.term = standing.Term
	}
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
	if !p.server.Running() {
		return
	}
	p.process.asked = p.process.asked || asked
	p.w.Note(p.index, "the server is gone: %s", why)
	p.server.Kill()
}

// told is what the server has to say.
func (p *Pod) told() {
	s := p.server
	switch s.Mode {
	case pgmodel.Down:
		p.countEnd()
		p.sessions, p.leads = false, false
	case pgmodel.Primary:
		p.process.reached, p.process.letsIn = true, true
		p.lead()
	case pgmodel.Standby:
		p.process.reached, p.process.whole, p.process.letsIn = true, true, true
	case pgmodel.Starting:
		p.process.whole = p.process.whole || s.Silent()
	case pgmodel.Stopping:
	}
	if s.Trouble == pgmodel.TroubleRemoved {
		p.process.lost, p.process.lostAtStart = true, p.process.lostAtStart || !p.process.reached
	}
	if p.loop != nil {
		p.soon(p.w.Between(time.Millisecond, 10*time.Millisecond))
	}
}

// lead looks at a server that leads.
func (p *Pod) lead() {
	s := p.server
	if !p.leads {
		p.leads = true
		p.w.Note(p.index, "the server leads at term %d on timeline %d from %d", p.term, s.Timeline(), s.Flushed())
		p.w.Leads(p.index, p.term, s.Timeline(), p.incarnation())
	}
	if loaded, ok := s.Conf().More.(loaded); ok && loaded.open && !p.sessions {
		p.sessions = true
		p.w.Note(p.index, "the gate opens at %d", s.Flushed())
		p.w.Opened(p.index, p.term, s.Visible())
	}
}

// countEnd judges an end as the runner of production does.
func (p *Pod) countEnd() {
	facts := &p.process
	if !facts.ran || facts.counted {
		return
	}
	facts.counted, facts.ended, facts.exit = true, p.Now(), p.server.Exit
	p.pid = p.server.Exit != ""
	if facts.asked || p.w.Now()-facts.startedAt > 10*time.Second {
		facts.failures = 0
	}
	if !facts.asked {
		facts.failures++
	}
}

func (p *Pod) incarnation() string {
	if p.record == nil {
		return ""
	}
	return p.record.Incarnation
}

// job is a long act of the loop, which waits in virtual time.
type job struct {
	yield func(time.Duration) bool
	stop  func()
}

// abandoned is thrown through a job whose process has ended.
type abandoned struct{}

// begin runs a job beside the passes.
func (p *Pod) begin(work func()) {
	each, life := &job{}, p.life
	next, stop := iter.Pull(func(yield func(time.Duration) bool) {
		defer func() {
			if thrown := recover(); thrown != nil {
				if _, ok := thrown.(abandoned); !ok {
					panic(thrown)
				}
			}
		}()
		each.yield = yield
		work()
	})
	each.stop = stop
	p.jobs = append(p.jobs, each)
	var step func()
	step = func() {
		if p.life != life {
			return
		}
		before := p.g.running
		p.g.running = each
		pause, more := next()
		p.g.running = before
		if more {
			p.w.After(pause, func() { p.host.InAgent(step) })
			return
		}
		p.jobs = slices.DeleteFunc(p.jobs, func(other *job) bool { return other == each })
		p.soon(p.w.Between(0, 5*time.Millisecond))
	}
	p.w.After(0, func() { p.host.InAgent(step) })
}

// sleep lets time pass within a job.
func (p *Pod) sleep(ctx context.Context, d time.Duration) error {
	if !p.g.running.yield(d) {
		panic(abandoned{})
	}
	return ctx.Err()
}

// wait lets time pass within a job until something is so, or for as long as this.
func (p *Pod) wait(ctx context.Context, longest time.Duration, so func() bool) error {
	for end := p.w.Now() + longest; !so() && p.w.Now() < end; {
		if err := p.sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// teller hears what the loop logs.
type teller struct{ p *Pod }

func (t *teller) Init(logr.RuntimeInfo)          {}
func (t *teller) Enabled(int) bool               { return true }
func (t *teller) WithValues(...any) logr.LogSink { return t }
func (t *teller) WithName(string) logr.LogSink   { return t }
func (t *teller) Error(error, string, ...any)    {}

func (t *teller) Info(_ int, message string, pairs ...any) {
	if message == "carrying out an action" {
		verb, _ := pairs[1].(string)
		t.p.w.Act(t.p.index, verb, why(pairs[3]))
		return
	}
	t.p.w.Note(t.p.index, "%s %v", message, pairs)
	for at := 0; at+1 < len(pairs); at += 2 {
		if refused, ok := pairs[at+1].(bool); ok && refused {
			t.p.w.Wrong(law.PostgresCheck, "%s: %v", t.p.name, pairs)
		}
	}
}

func why(reason any) string {
	text, _ := reason.(string)
	return text
}

// Data is how much of a copy there is.
func (p *Pod) Data() tenure.Data {
	switch {
	case p.record == nil || p.server.Disk == nil || p.record.InProgress == postgres.StepInitialise:
		return tenure.DataNone
	case p.record.InProgress == postgres.StepRewind:
		return tenure.DataChanging
	case p.record.InProgress != "":
		return tenure.DataNone
	}
	return tenure.DataWhole
}

// Report is what the agent tells of its instance, and Ready whether it takes sessions of applications.
func (p *Pod) Report() (wire.Report, bool) {
	if p.loop == nil {
		return wire.Report{}, false
	}
	state, ok := p.loop.State()
	return state.Report, ok
}

// Ready is what the probe of the kubelet is told.
func (p *Pod) Ready() bool {
	if p.loop == nil {
		return false
	}
	state, ok := p.loop.State()
	return ok && state.Ready
}

// Incarnation is that of the copy, empty if there is none.
func (p *Pod) Incarnation() string {
	first := p.record != nil && p.record.InProgress == postgres.StepInitialise // The lease may call it whole already.
	if p.Data() == tenure.DataNone && !first {
		return ""
	}
	return p.record.Incarnation
}

// Writes are those that the copy has, on its volume.
func (p *Pod) Writes() []int {
	if p.server.Disk == nil {
		return nil
	}
	end, _ := p.server.Disk.Position()
	return end.Writes()
}

// Stored are the writes that the copy has even if its machine loses power now.
func (p *Pod) Stored() []int {
	if p.server.Disk == nil {
		return nil
	}
	end, _ := p.server.Disk.Position()
	for p.server.Running() && end != nil && end.End > p.server.Flushed() {
		end = end.Prev
	}
	return end.Writes()
}

// Leading is the term at which applications write here, if they do.
func (p *Pod) Leading() (term int64, leads bool) {
	return p.term, p.sessions && p.server.Mode == pgmodel.Primary
}
