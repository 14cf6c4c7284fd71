package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/kit/rule"
)

// rules are applied in this order. None relies on another having acted in the same pass: a pass may end anywhere.
var rules = []rule.Step[*draft]{
	do("cache.leave-a-deleted-cache", leaveTheDead,
		"nothing is made or changed for a deleted cache; what it has goes with it", "GC1"),
	do("cache.refuse-an-invalid-spec", refuseInvalid,
		"nothing that comes from a spec that cannot be carried out is written", "GC2"),
	do("cache.stop-while-paused", stopWhilePaused,
		"from here on changes are pending instead of done, if the user said so", "GC3"),
	do("cache.end-with-the-database", endWithDatabase,
		"a cache that follows its database is deleted when that is gone, and never before", "GC14"),
	do("cache.stop-at-foreign-objects", stopAtForeign,
		"a name that is taken is never overwritten, and nothing is built around it", "GC4"),
	do("cache.wait-for-the-database", waitForTheDatabase,
		"a cache is not built before its database exists; one that is built goes on without it"),
	do("cache.keep-certificates", keepCertificates,
		"the authority and its leaf are made once and replaced in time, also while paused", "GC5"),
	do("cache.create-the-app-secret", createBinding, "credentials are made once", "GC6"),
	do("cache.rotate-the-password", rotatePassword,
		"another password is told to applications when every instance accepts it"),
	do("cache.create-the-lease", makeLease, "the lease is made once, and not again while an agent knows it", "GC10"),
	do("cache.follow-the-database", followDatabase, "the cache is deleted with its database, if the spec says so"),
	do("cache.write-rights", writeAccess, "what the agents may do"),
	do("cache.write-settings", writeSettings, "the agents read them and put them in force live"),
	do("cache.write-services", writeServices, "the addresses never change"),
	do("cache.write-stateful-sets", writeSets, "one StatefulSet for each pod"),
	do("cache.remove-leaving-instances", removeLeaving,
		"an instance goes when it is neither the primary nor one that could be", "GC11"),
	do("cache.resize-pods", resizePods,
		"a container grows at once, and shrinks only as far as the server fits in", "GC7"),
	do("cache.replace-stuck-pods", replaceStuckPods,
		"a pod that never started is replaced once its template is corrected", "GC8"),
	do("cache.restart-pods", restartPods,
		"one at a time, replicas first, and only when another instance has everything", "GC13"),
	do("cache.annotate-pods", tellPods, "new settings reach the agents at once"),
	do("cache.wait-for-instances", waitForInstances, "a user learns what the instances wait for"),
	do("cache.report-missing-instances", tellMissing,
		"a user learns what has been away for longer than a restart takes"),
	do("cache.wait-for-the-primary", waitForPrimary,
		"a user learns what stands between the lease and an accepted write"),
	do("cache.wait-for-reads", waitForReads, "Ready means that the read address leads to the replicas"),
	do("cache.carry-out-a-flush", carryOutFlush,
		"a request to empty the cache is carried out once, by the primary", "GC12"),
	do("cache.report-allowed-scripts", tellScripting, "a user learns that a refusal is not in force yet"),
	do("cache.report-changed-objects", tellTolerated, "a user learns what admission has made of our objects"),
	do("cache.report-pending-restarts", tellPendingRestarts, "a user learns what takes effect at the next restart"),
}

// do is a rule that works on the draft. The plan ends with the rule that says so there.
func do(id string, apply func(*draft), why string, was ...string) rule.Step[*draft] {
	return rule.Do(id, func(d *draft) bool {
		apply(d)
		return d.ended
	}, why, was...)
}

// steady is how often a cache is looked at although nothing has happened: certificates end without an event.
const steady = 10 * time.Minute

// Rules are what the planner does, in order.
func Rules() []rule.Rule { return rule.Steps(rules) }

// Invariants are what no plan may break.
func Invariants() []rule.Rule { return rule.Invariants(invariants) }

// Decide says what is to be done now.
func Decide(snapshot cache.Snapshot) cache.Plan {
	draft := &draft{Snapshot: snapshot, plan: cache.Plan{Again: steady, Design: render.DesignOf(snapshot)}}
	rule.Run(rules, draft)
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
