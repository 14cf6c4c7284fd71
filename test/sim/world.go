package sim

import (
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/agenda"
	"meridian.dev/meridian/test/sim/caches"
	"meridian.dev/meridian/test/sim/databases"
	"meridian.dev/meridian/test/sim/law"
)

// World is one run.
type World struct {
	now    time.Duration
	queue  agenda.Queue
	seq    uint64
	random *rand.Rand

	Case   Case
	bug    Bug
	blind  []rule.Rule
	api    *apiServer
	nodes  []*node
	cut    [][]bool // cut[i][j]: nothing gets from i to j.
	truth  truth
	points map[pointKey]int
	early  map[pointKey]int
	faults map[pointKey]map[int]*Fault
	fired  int
	// published counts the editions of the settings.
	published int
	// putBack counts volumes that were put back to an older state.
	putBack int

	policy       tenure.Policy
	operatorAway time.Duration
	// lostBefore are the leases that the operator knows of besides the one in the policy.
	lostBefore []string
	// caches is the cache that this world is about, nil if it is about a database, and toldUser until when somebody was
	// told that its lease is lost.
	caches   *caches.Group
	cluster  Cluster          // What surrounds the agents, nil if that is a lease and a write address alone.
	database *databases.Group // A database with the loop of production, nil if that is modelled.
	flush    string           // The request to empty it that the operator carries out.
	toldUser time.Duration

	hash     uint64
	plans    hash.Hash64
	telling  bool
	story    []string
	problems []string
	steps    int
	stores   int
	// passes counts passes of loops, lively the actions that are no renewals.
	passes int
	lively int
	calm   bool
	// astray says that somebody was led astray by a lease that was put back, and could not know.
	astray bool
}

// Now is the virtual time. It and the others are what those need of the world who bring a part of it.
func (w *World) Now() time.Duration { return w.now }

// After schedules something.
func (w *World) After(in time.Duration, run func()) { w.after(in, run) }

// Between is a random duration.
func (w *World) Between(low, high time.Duration) time.Duration { return w.between(low, high) }

// Chance throws a coin.
func (w *World) Chance(p float64) bool { return w.chance(p) }

// Calm says that nothing goes wrong any more.
func (w *World) Calm() bool { return w.calm }

// Lag says that some replicas are slow.
func (w *World) Lag() bool { return w.Case.Lag }

// Identity is an id that is random as far as anybody in the world is concerned.
func (w *World) Identity(prefix string) string { return w.identity(prefix) }

// Connected says that something gets from one machine to another.
func (w *World) Connected(from, to int) bool { return !w.cut[from][to] }

// Note puts a line into the trace.
func (w *World) Note(who int, format string, args ...any) { w.note(who, format, args...) }

// Wrong is a broken rule. The run ends with it.
func (w *World) Wrong(broken rule.Rule, format string, args ...any) { w.wrong(broken, format, args...) }

// after schedules something.
func (w *World) after(d time.Duration, run func()) {
	w.seq++
	w.queue.Push(agenda.Event{At: w.now + max(d, 0), Seq: w.seq, Run: run})
}

// between is a random duration.
func (w *World) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)+1))
}

func (w *World) chance(p float64) bool { return w.random.Float64() < p }

// until runs events until the moment, or until something is wrong.
func (w *World) until(end time.Duration) bool {
	for len(w.queue) > 0 && w.queue[0].At <= end {
		next := w.queue.Pop()
		w.now = next.At
		w.steps++
		next.Run()
		if len(w.problems) > 0 || w.astray {
			return false
		}
		if w.steps > 2_000_000 {
			w.wrong(law.Settle, "the run does not come to an end")
			return false
		}
	}
	w.now = end
	return true
}

// note puts a line into the trace. What it costs to write it is spent only when somebody reads it.
func (w *World) note(who int, format string, args ...any) {
	w.mix(who, format)
	if w.telling {
		w.tell(who, format, args...)
	}
}

// mix puts something into the hash of the trace.
func (w *World) mix(who int, text string) {
	const prime = 1099511628211
	w.hash = (w.hash ^ uint64(w.now)) * prime
	w.hash = (w.hash ^ uint64(who+1)) * prime
	for i := range len(text) {
		w.hash = (w.hash ^ uint64(text[i])) * prime
	}
}

// tell puts a line into the story alone.
func (w *World) tell(who int, format string, args ...any) {
	name := "world"
	if who >= 0 {
		name = w.nodes[who].name
	}
	w.story = append(w.story, fmt.Sprintf("%9.3fs %-8s %s", w.now.Seconds(), name, fmt.Sprintf(format, args...)))
}

// wrong is a broken invariant. The run ends with it.
func (w *World) wrong(broken rule.Rule, format string, args ...any) {
	if slices.ContainsFunc(w.blind, func(blind rule.Rule) bool { return blind.ID == broken.ID }) {
		return
	}
	text := broken.ID + ": " + fmt.Sprintf(format, args...)
	w.problems = append(w.problems, text)
	w.note(-1, "VIOLATION %s", text)
}

// identity is an id that is random as far as anybody in the world is concerned.
func (w *World) identity(prefix string) string {
	w.seq++
	return prefix + strconv.FormatUint(w.seq, 10)
}
