// Package plan decides what the agent does about its instance of a cache: Decide is a function from a Snapshot to a
// Plan and nothing else. The rules below are the table of contents; the invariants in invariants.go are written
// independently of them and are checked before every act. Neither may read a clock, a file or the network.
//
// Start reading at rules.
package plan

import "meridian.dev/meridian/internal/redis"

// rules is every rule, safety first. A rule that ends the plan leaves the later ones for a pass that sees its effect.
var rules = []rule{
	// What must never happen.
	stopWhenTold,          // R1: a pod that ends stops its server and does nothing else.
	killWhatTheServerLeft, // R2: no old process takes memory beside a new server.
	waitForSettings,       // Without settings nothing begins; what runs goes on with those of before.
	yieldThePlace,         // R8: a primary that hands over lets nobody in, and ends when another has all that it has.
	stopAStray,            // R9: a server that led or was begun is never anything else afterwards.

	// Running it.
	installTheCertificate,
	startTheServer, // R3: it is born closed, and within its memory; R10: only to begin or to follow.
	waitForTheServer,
	loadTheCertificate, // Without a restart; what is presented is looked at.
	setTheMemory,       // R4: never more than the container can carry.
	boundWhatWaits,     // R4: what waits for a replica is beside the data.
	setThePolicy,
	setParameters,
	resetParameters,
	restartAClosedServer, // R5: only a server that never let anybody in and has no copy is stopped for a parameter.
	followTheUpstream,    // R11: exactly the copy that holds the lease, and nobody behind a fence.
	detachFromAll,        // R11: one that is told to follow nobody takes nothing.
	leadAsTold,           // R12: a primary by the lease alone, and only with a copy.
	admitReplicas,
	openTheDoor,  // R6: applications come in when all of the above is in force.
	flushOnce,    // A request to empty the cache is carried out once, by the primary.
	returnMemory, // What was evicted goes back to the container, so that it can shrink.

	// What a user should know.
	tellOfMissingRoom,
	tellOfRefusals,
}

// rule adds actions and holds to the draft. It reports whether the plan ends with it.
type rule func(redis.Snapshot, *draft) (end bool)

// Decide makes the plan.
func Decide(snapshot redis.Snapshot) redis.Plan {
	var plan draft
	for _, rule := range rules {
		if rule(snapshot, &plan) {
			break
		}
	}
	return plan.Plan
}

// draft is a plan in the making.
type draft struct{ redis.Plan }

func (d *draft) do(action redis.Action) { d.Actions = append(d.Actions, action) }

func (d *draft) wait(hold redis.Hold) { d.Holds = append(d.Holds, hold) }
