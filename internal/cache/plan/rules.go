package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
)

// rules are applied in this order. None relies on another having acted in the same pass: a pass may end anywhere.
var rules = []func(*draft){
	leaveTheDead,        // GC1: nothing is made or changed for a deleted cache; what it has goes with it
	refuseInvalid,       // GC2: nothing that comes from a spec that cannot be carried out is written
	stopWhilePaused,     // GC3: from here on changes are pending instead of done, if the user said so
	endWithDatabase,     // GC14: a cache that follows its database is deleted when that is gone, and never before
	stopAtForeign,       // GC4: a name that is taken is never overwritten, and nothing is built around it
	waitForTheDatabase,  // a cache is not built before its database exists; one that is built goes on without it
	keepCertificates,    // GC5: the authority and its leaf, made once and replaced in time, also while paused
	createBinding,       // GC6: credentials are made once and never rewritten
	makeLease,           // GC10: the lease by which the agents agree is made once, and not again while an agent knows it
	followDatabase,      // the cache is deleted with its database, if the spec says so
	writeAccess,         // what the agents may do
	writeSettings,       // what the agents read; they put it in force live
	writeServices,       // the addresses that never change
	writeSets,           // the pods, one StatefulSet each
	removeLeaving,       // GC11: an instance goes when it is neither the primary nor one that could be
	resizePods,          // GC7: a container grows at once, and shrinks only as far as the server fits in
	replaceStuckPods,    // GC8: a pod that never started is replaced once its template is corrected
	restartPods,         // GC13: one at a time, replicas first, and only when another instance has everything
	tellPods,            // new settings reach the agents at once
	waitForInstances,    // what the instances are waiting for
	tellMissing,         // what has been away for longer than a restart takes
	waitForPrimary,      // what stands between the lease and an accepted write
	waitForReads,        // what keeps the read address from leading to the replicas
	carryOutFlush,       // GC12: a request to empty the cache is carried out once, by the primary
	tellTolerated,       // what admission has made of our children
	tellPendingRestarts, // what takes effect at the next restart
}

// steady is how often a cache is looked at although nothing has happened: certificates end without an event.
const steady = 10 * time.Minute

// Decide says what is to be done now.
func Decide(snapshot cache.Snapshot) cache.Plan {
	draft := &draft{Snapshot: snapshot, plan: cache.Plan{Again: steady, Design: render.DesignOf(snapshot)}}
	for _, rule := range rules {
		rule(draft)
		if draft.ended {
			break
		}
	}
	slices.SortStableFunc(draft.plan.Holds, func(a, b cache.Hold) int {
		return cmp.Compare(urgency(a.Weight), urgency(b.Weight))
	})
	draft.look(snapshot.Certificates.Again)
	return draft.plan
}

// urgency puts first what needs a human.
func urgency(weight cache.Weight) int {
	return slices.Index([]cache.Weight{cache.Stalled, cache.Paused, cache.Progressing, cache.Degraded}, weight)
}

// draft is a plan while the rules work on it.
type draft struct {
	cache.Snapshot
	plan cache.Plan
	// stopped turns changes into pending ones. Safety goes on.
	stopped bool
	// invalid leaves out what comes from the spec. Safety goes on.
	invalid bool
	// ended leaves the rest of the rules out.
	ended bool
}

// do adds an action that is a matter of safety.
func (d *draft) do(action cache.Action) { d.plan.Actions = append(d.plan.Actions, action) }

// change adds an action that comes from the spec, or makes something new: a stop holds it back. An invalid spec
// promises nothing, so nothing is pending for it.
func (d *draft) change(action cache.Action) {
	if !d.invalid {
		d.upkeep(action)
	}
}

// upkeep adds an action that a stop holds back and an invalid spec does not: it follows from the name of the cache.
func (d *draft) upkeep(action cache.Action) {
	if !d.stopped {
		d.do(action)
		return
	}
	words := []string{string(action.Verb), action.Kind, action.Name + ": " + action.Why}
	d.plan.Pending = append(d.plan.Pending, strings.Join(words, " "))
}

func (d *draft) hold(weight cache.Weight, recheck time.Duration, name, message string) {
	d.plan.Holds = append(d.plan.Holds, cache.Hold{Name: name, Message: message, Weight: weight, Recheck: recheck})
}

// look brings the next look forward to the given moment.
func (d *draft) look(at time.Time) {
	if !at.IsZero() {
		d.plan.Again = max(min(d.plan.Again, at.Sub(d.Now)), time.Second)
	}
	for _, action := range d.plan.Actions {
		// Secrets are not watched, so no event says that they were written.
		if action.Kind == cache.KindSecret {
			d.plan.Again = time.Second
		}
	}
}
