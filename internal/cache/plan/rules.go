package plan

import (
	"time"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/design"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/rule"
)

// rules are applied in this order. None relies on another having acted in the same pass: a pass may end anywhere.
var rules = []rule.Step[*draft]{
	step("cache.leave-a-deleted-cache", leaveTheDead,
		"nothing is made or changed for a deleted cache; what it has goes with it", "GC1"),
	step("cache.refuse-an-invalid-spec", refuseInvalid,
		"nothing that comes from a spec that cannot be carried out is written", "GC2"),
	step("cache.stop-while-paused", stopWhilePaused,
		"from here on changes are pending instead of done, if the user said so", "GC3"),
	step("cache.end-with-the-database", endWithDatabase,
		"a cache that follows its database is deleted when that is gone, and never before", "GC14"),
	step("cache.stop-at-foreign-objects", stopAtForeign,
		"a name that is taken is never overwritten, and nothing is built around it", "GC4"),
	step("cache.wait-for-the-database", waitForTheDatabase,
		"a cache is not built before its database exists; one that is built goes on without it"),
	step("cache.keep-certificates", keepCertificates,
		"the authority and its leaf are made once and replaced in time, also while paused", "GC5"),
	step("cache.create-the-app-secret", createBinding, "credentials are made once", "GC6"),
	step("cache.publish-the-authority", publishBundle,
		"applications are told of every authority before a certificate of it is presented to them"),
	step("cache.rotate-the-password", rotatePassword,
		"another password is told to applications when every instance accepts it"),
	step("cache.create-the-lease", makeLease, "the lease is made once, and not again while an agent knows it", "GC10"),
	step("cache.follow-the-database", followDatabase, "the cache is deleted with its database, if the spec says so"),
	step("cache.write-rights", writeAccess, "what the agents may do"),
	step("cache.write-settings", writeSettings, "the agents read them and put them in force live"),
	step("cache.write-services", writeServices, "the addresses never change"),
	step("cache.write-stateful-sets", writeSets, "one StatefulSet for each pod"),
	step("cache.remove-leaving-instances", removeLeaving,
		"an instance goes when it is neither the primary nor one that could be", "GC11"),
	step("cache.resize-pods", resizePods,
		"a container grows at once, and shrinks only as far as the server fits in", "GC7"),
	step("cache.replace-stuck-pods", replaceStuckPods,
		"a pod that never started is replaced once its template is corrected", "GC8"),
	step("cache.restart-pods", restartPods,
		"one at a time, replicas first, and only when another instance has everything", "GC13"),
	step("cache.annotate-pods", tellPods, "new settings reach the agents at once"),
	step("cache.wait-for-instances", waitForInstances, "a user learns what the instances wait for"),
	step("cache.report-missing-instances", tellMissing,
		"a user learns what has been away for longer than a restart takes"),
	step("cache.wait-for-the-primary", waitForPrimary,
		"a user learns what stands between the lease and an accepted write"),
	step("cache.wait-for-reads", waitForReads, "Ready means that the read address leads to the replicas"),
	step("cache.carry-out-a-flush", carryOutFlush,
		"a request to empty the cache is carried out once, by the primary", "GC12"),
	step("cache.report-allowed-scripts", tellScripting, "a user learns that a refusal is not in force yet"),
	step("cache.report-changed-objects", tellTolerated, "a user learns what admission has made of our objects"),
	step("cache.report-pending-restarts", tellPendingRestarts, "a user learns what takes effect at the next restart"),
}

// step is a rule that works on the draft. The plan ends with the rule that says so there.
func step(id string, apply func(*draft), why string, was ...string) rule.Step[*draft] {
	return rule.Do(id, func(d *draft) bool {
		apply(d)
		return d.Ended
	}, why, was...)
}

// steady is how often a cache is looked at although nothing has happened: certificates end without an event.
const steady = 10 * time.Minute

// Rules are what the planner does, in order.
func Rules() []rule.Rule { return rule.Steps(rules) }

// Decide says what is to be done now.
func Decide(snapshot cache.Snapshot) cache.Plan {
	plan := &cache.Plan{Design: design.Of(snapshot)}
	plan.Again = steady
	verbs := service.Verbs[cache.Step]{
		Create: cache.Create{}, Update: cache.Update{}, Repair: cache.Update{Repair: true},
	}
	d := &draft{Snapshot: snapshot, Plan: plan, Draft: service.Draft[cache.Step]{Drawn: &plan.Decided, Verbs: verbs}}
	rule.Run(rules, d)
	d.SortHolds()
	d.Look(d.Now, snapshot.Certificates.Again)
	return *plan
}

// draft is the plan of a cache while the rules work on it.
type draft struct {
	cache.Snapshot
	service.Draft[cache.Step]
	Plan *cache.Plan
}
