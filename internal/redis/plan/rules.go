// Package plan decides what the agent does about its instance of a cache: Decide is a function from a Snapshot to a
// Plan and nothing else. The rules below are the table of contents; the invariants in invariants.go are written
// independently of them and are checked before every act. Neither may read a clock, a file or the network.
//
// Start reading at rules.
package plan

import (
	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/kit/rule"
)

// rules is every rule, safety first. A rule that ends the plan leaves the later ones for a pass that sees its effect.
var rules = []rule.Step[*draft]{
	// What must never happen.
	do("redis.stop-when-told", stopWhenTold, "a pod that ends stops its server and does nothing else", "R1"),
	do("redis.kill-leftover-processes", killWhatTheServerLeft, "no old process takes memory beside a new server", "R2"),
	do("redis.wait-for-settings", waitForSettings,
		"without settings nothing begins; what runs goes on with those of before"),
	do("redis.hand-over", yieldThePlace,
		"a primary that hands over lets nobody in, and ends when another has all that it has", "R8"),
	do("redis.stop-a-former-primary", stopAStray,
		"a server that led or was begun is never anything else afterwards", "R9"),

	// Running it.
	do("redis.install-the-certificate", installTheCertificate, "a server presents only what it can read as a whole"),
	do("redis.start-the-server", startTheServer,
		"it starts closed and within its memory, and only to begin a dataset or to follow", "R3", "R10"),
	do("redis.wait-for-the-server", waitForTheServer, "a server that does not answer is told nothing"),
	do("redis.load-the-certificate", loadTheCertificate,
		"a new certificate needs no restart; what is presented is looked at"),
	do("redis.set-maxmemory", setTheMemory, "never more than the container can carry", "R4"),
	do("redis.limit-replica-buffers", boundWhatWaits, "what waits for a replica takes memory beside the data", "R4"),
	do("redis.set-the-eviction-policy", setThePolicy, "the spec names it"),
	do("redis.set-parameters", setParameters, "the spec names them"),
	do("redis.reset-parameters", resetParameters, "a parameter that left the spec goes back to its default"),
	do("redis.restart-an-unused-server", restartAClosedServer,
		"only a server that never let anybody in and has no copy is stopped for a parameter", "R5"),
	do("redis.follow-the-upstream", followTheUpstream,
		"exactly the copy that holds the lease is followed, and nobody behind a fence", "R11"),
	do("redis.follow-nobody", detachFromAll, "a server that is told to follow nobody receives nothing", "R11"),
	do("redis.lead-as-told", leadAsTold, "a primary by the lease alone, and only with a copy", "R12"),
	do("redis.admit-replicas", admitReplicas, "replicas log in with a password of their own"),
	do("redis.let-applications-in", openTheDoor, "applications come in when all of the above is in force", "R6"),
	do("redis.flush-once", flushOnce, "a request to empty the cache is carried out once, by the primary"),
	do("redis.return-memory", returnMemory, "what was evicted goes back to the container, so that it can shrink"),

	// What a user should know.
	do("redis.report-missing-memory", tellOfMissingRoom, "a user learns that the container is too small"),
	do("redis.report-refused-parameters", tellOfRefusals, "a user learns which parameter the server did not take"),
}

// do is a rule that adds actions and holds to the draft, and reports whether the plan ends with it.
func do(id string, apply func(redis.Snapshot, *draft) bool, why string, was ...string) rule.Step[*draft] {
	return rule.Do(id, func(d *draft) bool { return apply(d.seen, d) }, why, was...)
}

// Rules are what the planner does, in order.
func Rules() []rule.Rule { return rule.Steps(rules) }

// Invariants are what no plan may break.
func Invariants() []rule.Rule { return rule.Invariants(invariants) }

// Decide makes the plan.
func Decide(snapshot redis.Snapshot) redis.Plan {
	plan := draft{seen: snapshot}
	rule.Run(rules, &plan)
	return plan.Plan
}

// draft is a plan in the making.
type draft struct {
	redis.Plan
	seen redis.Snapshot
}

func (d *draft) do(action redis.Action) { d.Actions = append(d.Actions, action) }

func (d *draft) wait(hold redis.Hold) { d.Holds = append(d.Holds, hold) }
