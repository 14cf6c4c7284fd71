package sim

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/law"
)

const (
	databaseUID = "database-uid"
	peerTimeout = time.Second
)

// newLoop makes the loop of production on the ports of the world.
func newLoop(a *agent, log logr.Logger) loop {
	ports := tenure.Ports{
		Clock: clockPort{a.n}, Leases: leasePort{a}, Peers: peerPort{a}, Volume: volumePort{a}, Watchdog: guardPort{a},
		Surroundings: routePort{a}, Door: doorPort{a}, Wishes: wishPort{a}, Server: a.server(),
		Fresh: func() string { return a.n.freshCopy() },
	}
	if a.n.w.bug != "" {
		return newSloppyLoop(a, ports, log)
	}
	return controller.New(ports, a.n.name, a.n.address, log)
}

// point is a place where something may go wrong: each call of a port is one.
func (a *agent) point(kind PointKind) *Fault {
	w := a.n.w
	key := pointKey{a.n.index, kind}
	count := w.points[key]
	w.points[key] = count + 1
	fault := w.faults[key][count]
	if fault == nil || w.calm {
		return nil
	}
	w.fired++
	a.n.hurt = w.now
	w.note(a.n.index, "FAULT at %s %d: %s", kind, count, fault.Kind)
	return fault
}

// boundary lets the process end right before or after an effect.
func (a *agent) boundary(effect func()) {
	before := a.point(PointBefore)
	if before != nil && before.Kind != FaultFreeze && before.Kind != FaultFreezePod {
		panic(crash{before})
	}
	if before != nil {
		a.n.w.strike(a.n, before)
	}
	effect()
	if after := a.point(PointAfter); after != nil {
		if after.Kind != FaultFreeze && after.Kind != FaultFreezePod {
			panic(crash{after})
		}
		a.n.w.strike(a.n, after)
	}
}

// crashBefore ends the process, if that is what goes wrong at a call that is not sent yet.
func (f *Fault) crashBefore() {
	if f != nil && f.Kind == FaultCrashBefore {
		panic(crash{f})
	}
}

// crashAfter ends the process, if that is what goes wrong at a call that is on its way.
func (f *Fault) crashAfter() {
	if f != nil && f.Kind == FaultCrashAfter {
		panic(crash{f})
	}
}

type clockPort struct{ n *node }

func (p clockPort) Now() tenure.Instant { return p.n.clock() }
func (p clockPort) Boot() string        { return p.n.boot }
func (p clockPort) Jumps() tenure.Jumps { return p.n.jumps }

type leasePort struct{ a *agent }

func (p leasePort) Read(began tenure.Instant) {
	p.a.n.w.api.read(p.a.n, p.a.point(PointRead), func(view tenure.View, err error) {
		p.a.take(tenure.LeaseRead{View: view, Began: began, Problem: err})
	})
}

func (p leasePort) Write(write tenure.Write) {
	p.a.boundary(func() {
		if write.Kind == tenure.WriteTake && p.a.told == write.Version {
			p.a.n.w.wrong(law.NotRestored, "%s takes a lease that was put back, and an answer has told so", p.a.n.name)
		}
		fault := p.a.point(PointWrite)
		fault.crashBefore()
		special := map[tenure.WriteKind]PointKind{
			tenure.WriteTake: PointTake, tenure.WriteTransfer: PointTransfer, tenure.WriteRecord: PointChange,
		}
		if kind := special[write.Kind]; kind != "" {
			if of := p.a.point(kind); of != nil {
				fault = of
			}
		}
		p.a.n.w.api.write(p.a.n, write, fault, func(verdict tenure.Verdict, view tenure.View) {
			p.a.n.w.note(p.a.n.index, "lease write %s: %s", write.Kind, verdict)
			if write.Kind == tenure.WriteRecord && verdict == tenure.WriteDone {
				if fault := p.a.point(PointRecord); fault != nil {
					p.a.n.w.after(time.Millisecond, func() { p.a.n.w.strike(p.a.n, fault) })
				}
			}
			p.a.take(tenure.LeaseWritten{Verdict: verdict, View: view})
		})
		fault.crashAfter()
	})
}

// Get returns what the model of the server has read just before: in one thread nobody can wait.
func (p leasePort) Get(context.Context) (tenure.View, error) {
	if n := p.a.n; n.cache != nil || n.database != nil {
		if fault := p.a.point(PointRead); fault != nil || !n.w.api.reaches(n) {
			return tenure.View{}, errAway
		}
		return n.w.api.lease, nil
	}
	return p.a.got.view, p.a.got.err
}

type peerPort struct{ a *agent }

func (p peerPort) Send(request wire.PeerRequest, address string, sent tenure.Instant) {
	p.a.boundary(func() { p.a.n.w.send(p.a, request, address, sent) })
}

func (p peerPort) Reply(id uint64, reply wire.PeerReply) {
	p.a.boundary(func() {
		if send := p.a.replies[id]; send != nil {
			delete(p.a.replies, id)
			send(reply)
		}
	})
}

// Decide implements tenure.Peers. The operator asks again, whatever the answer was.
func (p peerPort) Decide(id uint64, reply wire.SwitchoverReply) {
	p.a.boundary(func() {
		p.a.n.w.note(p.a.n.index, "the switchover is accepted: %t %s", reply.Accepted, reply.Why)
		if hear := p.a.decided[id]; hear != nil {
			delete(p.a.decided, id)
			hear(reply)
		}
	})
}

type doorPort struct{ a *agent }

// Usher implements tenure.Door. Clients of this world know where sessions live and need nobody to lead them there; what
// must hold is that nobody is led past a server.
func (p doorPort) Usher(to string) {
	p.a.boundary(func() { p.a.n.w.note(p.a.n.index, "leads whoever comes on to %s", to) })
}

type volumePort struct{ a *agent }

func (p volumePort) Load() (tenure.Stored, error) { return p.a.n.volume.stored, nil }

func (p volumePort) Store(stored tenure.Stored) error {
	var err error
	p.a.boundary(func() {
		if fault := p.a.point(PointStore); fault != nil {
			err = errors.New("no space left on the volume")
			return
		}
		// That what is stored can be read again is looked at often enough to be found out, and not each time.
		if p.a.n.w.stores++; p.a.n.w.stores%8 != 1 {
			p.a.keep(stored)
			return
		}
		document, problem := stored.Encode()
		if problem != nil {
			p.a.n.w.wrong(law.Storable, "%s stores what cannot be written: %v", p.a.n.name, problem)
			return
		}
		again, problem := tenure.DecodeStored(document)
		if problem != nil {
			p.a.n.w.wrong(law.Storable, "%s stores what cannot be read: %v", p.a.n.name, problem)
		}
		p.a.keep(again)
	})
	return err
}

// keep puts it on the volume.
func (a *agent) keep(stored tenure.Stored) {
	switch a.n.w.bug {
	case BugFenceInMemory:
		stored.Fence = nil
	case BugStoreLast:
		life := a.n.life
		a.n.w.after(50*time.Millisecond, func() {
			if a.n.life == life {
				a.n.volume.stored = stored
			}
		})
		return
	default:
	}
	a.n.w.truth.stored(a.n, stored)
	a.n.volume.stored = stored
}

type guardPort struct{ a *agent }

func (p guardPort) Look() tenure.Guard { return p.a.n.guard }

func (p guardPort) Arm(until tenure.Instant) error {
	p.a.boundary(func() { p.a.n.arm(until) })
	return nil
}

type wishPort struct{ a *agent }

func (p wishPort) Look() (string, tenure.Policy) {
	if mounted := p.a.n.mounted; mounted != nil {
		return mounted.DatabaseUID, p.a.n.policy
	}
	return databaseUID, p.a.n.policySeen()
}

// longestWay is how long a write of the write address may be on its way.
const longestWay = 15 * time.Second

type routePort struct{ a *agent }

func (p routePort) ReadRoute() {
	w, n := p.a.n.w, p.a.n
	fault := p.a.point(PointLook)
	w.after(w.api.travel(), func() {
		if !w.api.reaches(n) || fault != nil {
			p.a.take(tenure.RouteSeen{})
			return
		}
		if w.now < w.api.route.gone {
			p.a.take(tenure.RouteSeen{Known: true, Absent: true})
			return
		}
		p.a.take(tenure.RouteSeen{Known: true, Address: w.api.route.address, Term: w.api.route.term})
	})
}

// WriteRoute is conditional on the version: a later term is never overwritten. As in the port of production, the right
// to lead is asked for after the version was read.
func (p routePort) WriteRoute(address string, term int64) {
	w, n := p.a.n.w, p.a.n
	fault := p.a.point(PointShow)
	fault.crashBefore()
	failed := func() { p.a.take(tenure.RouteSeen{}) }
	refused := fault != nil && fault.Kind == FaultRefused
	way := w.api.travel()
	if w.chance(0.1) && !w.calm {
		way = w.between(0, longestWay)
	}
	version := w.api.route.version
	p.a.boundary(func() {
		if address != "" && !p.a.leads(term) {
			w.after(500*time.Millisecond, p.ReadRoute)
			return
		}
		w.after(way, func() {
			if w.now < w.api.route.gone && w.api.reaches(n) {
				p.a.take(tenure.RouteSeen{Known: true, Absent: true})
				return
			}
			changed := w.api.route.version != version || w.api.route.term > term
			if !w.api.reaches(n) || refused || changed && w.bug != BugRouteOfAnyTerm {
				// The port pauses before it says that it has failed.
				w.after(500*time.Millisecond, failed)
				return
			}
			w.truth.routed(n, term)
			switch c := w.cluster; {
			case c == nil:
				w.api.route.address, w.api.route.term = address, term
				w.api.routeChanged()
			case !c.WriteRoute(n.index, address, term):
				w.after(500*time.Millisecond, failed)
				return
			}
			if fault != nil {
				w.after(callTimeout, failed) // It was done, and nobody hears of it.
				return
			}
			p.a.take(tenure.RouteSeen{Known: true, Address: address, Term: term})
		})
	})
	fault.crashAfter()
}

// leads says whether the agent has the right to lead at a term. A loop with a flaw may do without it.
func (a *agent) leads(term int64) bool {
	asked, ok := a.loop.(interface{ Leads(term int64) bool })
	return !ok || asked.Leads(term)
}

func (p routePort) WriteLabels(role string, read bool, cut string, use int) {
	w, n := p.a.n.w, p.a.n
	fault := p.a.point(PointShow)
	fault.crashBefore()
	w.after(w.api.travel(), func() {
		reached := w.api.reaches(n)
		if reached && (fault == nil || fault.Kind != FaultRefused) {
			n.cut = cut
			if c := w.cluster; c != nil {
				reached = c.Label(n.index, tenure.Labelled{Role: role, Read: read, Cut: cut, Use: use})
			}
		}
		p.a.take(tenure.Labelled{Done: reached && fault == nil, Role: role, Read: read, Cut: cut, Use: use})
	})
	fault.crashAfter()
}

func (p routePort) ReadCuts(instances []string) {
	w, n := p.a.n.w, p.a.n
	fault := p.a.point(PointLook)
	w.after(w.api.travel(), func() {
		var seen tenure.CutsSeen
		for _, name := range instances {
			if cut, found := wire.DecodeCutOff(w.named(name).cut); found && w.api.reaches(n) && fault == nil {
				seen.Cuts = append(seen.Cuts, cut)
			}
		}
		w.after(w.api.travel(), func() { p.a.take(seen) })
	})
}

type serverPort struct{ a *agent }

func (p serverPort) Facts() tenure.Engine { return p.a.engine.facts }

func (p serverPort) Obey(standing tenure.Standing) {
	p.a.boundary(func() { p.a.engine.obey(standing) })
}

func (p serverPort) Fence(context.Context) (position tenure.Position, err error) {
	p.a.boundary(func() {
		if fault := p.a.point(PointFence); fault != nil {
			err = errors.New("the receiver cannot be proven gone")
			return
		}
		position, err = p.a.engine.fence()
		if fence := p.a.n.volume.stored.Fence; err == nil && fence != nil {
			p.a.n.w.truth.fencedAt[p.a.n.index] = *fence
		}
	})
	return position, err
}

func (p serverPort) Kill() {
	p.a.boundary(func() { p.a.n.killServer("the agent kills it") })
}

// teller hears what the loop logs.
type teller struct{ a *agent }

func (t *teller) Init(logr.RuntimeInfo)          {}
func (t *teller) Enabled(int) bool               { return true }
func (t *teller) WithValues(...any) logr.LogSink { return t }
func (t *teller) WithName(string) logr.LogSink   { return t }
func (t *teller) Error(error, string, ...any)    {}

func (t *teller) Info(level int, message string, pairs ...any) {
	w, who := t.a.n.w, t.a.n.index
	if message != "carrying out an action" {
		w.note(who, "%s %v", message, pairs)
		return
	}
	verb, _ := pairs[1].(string)
	w.mix(who, verb)
	if level == 0 {
		w.lively++
	}
	if w.telling && (level == 0 || w.Case.Loud) {
		w.tell(who, "%v  (%v)", pairs[1], pairs[3])
	}
}
