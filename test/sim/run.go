// Package sim runs the real loops by which agents agree on a primary in a hostile world: one thread, virtual time, and
// models of the API server, network, volumes, clocks, watchdogs and PostgreSQL. What may go wrong is decided before a
// run, by a seed or by an exhaustive list, so that one schedule is one trace, bit for bit.
//
// The loop is internal/tenure/controller as it is in production, on ports of this package. The models say what a real
// server may do at its worst, and never more than that: a replica answers for what it has flushed, senders of the log
// learn of a new setting one by one, what is written to the API server may be applied without an answer, or later.
//
// It may not be imported by production code. Start reading at [Run], then at invariants in truth.go.
package sim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/agenda"
	"meridian.dev/meridian/test/sim/law"
)

// Case is one schedule: a world, and what goes wrong in it.
type Case struct {
	Name       string
	Seed       uint64
	Nodes      int // How many there may ever be.
	Instances  int // How many are wanted at first.
	Durability tenure.Durability
	// Volatile is a cache instead of a database.
	Volatile bool
	// Whole has the loop of production run the servers, on the model of PostgreSQL, instead of a model of both.
	Whole bool
	// Major is the version of PostgreSQL there, 0 for the latest.
	Major  int
	Faults []Fault
	// Last is when the last fault begins at the latest; faults at places have their moment by then.
	Last time.Duration
	// WildClocks lets clocks run at any speed: what is promised by quorum must hold all the same.
	WildClocks bool
	// SlowClock lets the clock of the first machine go so slowly, and the others fast, that it is deposed while it leads.
	SlowClock bool
	// Lease is how long the lease lasts, 10 s if it is 0.
	Lease time.Duration
	// Lag lets some replicas be seconds behind.
	Lag bool
	// Unsettled allows that the wished state is not reached.
	Unsettled bool
	// Budget is how long the world may take to settle.
	Budget time.Duration
	// Around makes what surrounds the agents, nil for a lease and a write address alone.
	Around func(*World) Cluster
	Loud   bool
	Bug    Bug
	// Plans asks for a digest of every plan.
	Plans bool
}

// Outcome is what a run has shown.
type Outcome struct {
	Problems []string
	Hash     uint64
	Story    []string
	Steps    int
	Passes   int
	Acks     int
	Takes    int
	// Transfers counts leases that were handed over.
	Transfers int
	// Contested counts elections that were won while another server still led.
	Contested int
	Fired     int
	Gap       time.Duration
	Took      time.Duration
	Points    map[pointKey]int
	// Early are the places that were passed before the scenario itself began.
	Early map[pointKey]int
	// Astray says that the run has ended where nothing is promised any more: see README.md.
	Astray bool
	// PutBack counts volumes that were put back to an older state.
	PutBack int
	// Refusals counts plans that the check of production would have refused.
	Refusals int
	// Discards counts copies that were given up to be made anew.
	Discards int
	// Plans is a digest of every plan of every pass, to the last field, if the case asks for it.
	Plans uint64
}

// Met is how often a place was passed that belongs to no machine.
func (o Outcome) Met(kind PointKind) int { return o.Points[pointKey{nowhere, kind}] }

// Run runs a case. With tell it writes down the story.
func Run(c Case, tell bool) Outcome {
	w := newWorld(c, tell)
	w.plant(c.Faults)
	w.after(began-100*time.Millisecond, func() { w.early = maps.Clone(w.points) })
	w.live()
	if w.caches != nil {
		w.truth.acks, w.truth.longest = w.caches.Figures()
	}
	out := Outcome{
		Problems: w.problems, Hash: w.hash, Story: w.story, Steps: w.steps, Passes: w.passes, Acks: w.truth.acks,
		Takes: w.truth.takes, Transfers: w.truth.transfers, Contested: w.truth.contested, Fired: w.fired,
		Gap: w.truth.longest, Took: w.now, Points: w.points, Early: w.early,
		Refusals: w.truth.refusals, Astray: w.astray, PutBack: w.putBack,
		Plans: w.plans.Sum64(),
	}
	if w.database != nil {
		out.Discards = w.database.Discards()
	}
	return out
}

func newWorld(c Case, tell bool) *World {
	if c.Volatile {
		c.Durability = tenure.Async
	}
	if c.Durability == "" {
		c.Durability = tenure.Strict
	}
	if c.Lease == 0 {
		c.Lease = 10 * time.Second
	}
	if c.Budget == 0 {
		c.Budget = 90 * time.Second
	}
	w := &World{
		Case: c, bug: c.Bug, telling: tell, hash: 14695981039346656037, points: map[pointKey]int{},
		random: agenda.Chosen(c.Seed, 0x5eed), plans: fnv.New64a(),
	}
	w.blind = flawOf(c.Bug).Blind
	w.truth = truth{w: w, keptSet: map[int]bool{}, timelines: map[int]string{}, promises: map[int]promised{},
		holders:  map[int64][]string{},
		answered: map[string][]wire.Member{}, fencedAt: map[int]tenure.Fence{}, known: map[int]wire.LeaseRecord{}}
	w.api = &apiServer{w: w, version: 990, cutFrom: make([]bool, c.Nodes), cutNext: map[int]time.Duration{}}
	w.cut = make([][]bool, c.Nodes)
	for index := range c.Nodes {
		w.cut[index] = make([]bool, c.Nodes)
		n := &node{w: w, index: index, name: fmt.Sprintf("cities-%d", index+1)}
		n.address = "ip-" + n.name
		n.volume.copy.data = tenure.DataNone
		n.bootUp()
		w.nodes = append(w.nodes, n)
	}
	if c.Around == nil {
		w.api.create("", nil)
	}
	w.policy = tenure.Policy{
		Known: true, LeaseUID: w.api.lease.UID, Durability: c.Durability, MaxFailoverLag: 1 << 20,
	}
	if c.Volatile {
		w.asCache(flawOf(c.Bug).Cache)
	}
	if c.Whole {
		w.asDatabase()
	}
	w.setLease(c.Lease)
	if c.Around != nil {
		w.cluster = c.Around(w)
	} else {
		w.wish(c.Instances)
		w.after(3*time.Second, w.operate)
	}
	w.after(100*time.Millisecond, w.write)
	if HasKind(c.Faults, FaultPutBack) {
		w.after(2*time.Second, w.remember)
	}
	return w
}

// live lets the world run until it has settled and stays so.
func (w *World) live() {
	if !w.until(w.Case.Last) {
		return
	}
	w.calm = true
	end := w.now + w.Case.Budget
	var reason string
	for w.now < end {
		if !w.until(w.now + time.Second) {
			return
		}
		if !w.undisturbed() {
			end = w.now + w.Case.Budget
		} else if reason = w.truth.unsettled(); reason == "" {
			if !w.Case.Unsettled {
				w.stay()
			}
			return
		}
	}
	if w.truth.nobodyServed() {
		// Its lease was lost with the beginning of the database in it. A user makes the database again.
		w.astray = true
		return
	}
	if !w.Case.Unsettled {
		w.wrong(law.Settle, "after %s the world has not settled: %s", w.Case.Budget, reason)
	}
}

func (w *World) undisturbed() bool {
	for _, n := range w.nodes {
		if n.wanted && n.agent == nil || w.now < max(n.watchDead, n.frozen, n.frozenPod, n.hungUntil) || n.leaving {
			return false
		}
	}
	for _, row := range append(w.cut, w.api.cutFrom) {
		if slices.Contains(row, true) {
			return false
		}
	}
	return !w.api.away && w.now >= w.operatorAway
}

// stay checks that a settled world stays as it is.
func (w *World) stay() {
	// Promises run out, what a loop knows late it has heard of by then, and what was sent before the calm has arrived.
	if !w.until(max(w.now+w.policy.Duration+8*time.Second, w.Case.Last+longestWay+time.Second)) {
		return
	}
	before, lastAck := w.lively, w.acks()
	if !w.until(w.now + 5*time.Second) {
		return
	}
	if reason := w.truth.unsettled(); reason != "" {
		w.wrong(law.StaySettled, "a settled world did not stay so: %s", reason)
	}
	if w.lively != before {
		w.wrong(law.BeQuiet, "%d actions in a world in which nothing is to be done", w.lively-before)
	}
	if w.acks() == lastAck && (w.cluster == nil || w.cluster.Serves()) {
		w.wrong(law.Acknowledge, "nothing is acknowledged")
	}
}

// write is what clients do: they write wherever they are let in, and go on for as long as their session lives.
func (w *World) write() {
	for _, n := range w.nodes {
		if s := n.server; s != nil && s.mode == primary && s.sessions && w.now >= n.frozenPod {
			w.truth.nextID++
			s.commit(w.truth.nextID)
		}
	}
	w.after(w.between(60*time.Millisecond, 180*time.Millisecond), w.write)
}

func (w *World) acks() int {
	if w.caches != nil {
		acks, _ := w.caches.Figures()
		return acks
	}
	return w.truth.acks
}

func (w *World) initialised() {
	if w.caches != nil || w.cluster != nil {
		return // The settings of a cache do not tell, and those of a cluster are told by its operator.
	}
	w.after(w.between(time.Second, 5*time.Second), func() {
		w.policy.Initialised = true
		w.publishPolicy()
	})
}
