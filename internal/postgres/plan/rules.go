// Package plan decides what the agent does about its instance: Decide is a function from a Snapshot to a Plan and
// nothing else. The rules below are the table of contents; the invariants in invariants.go are written independently
// of them and are checked before every act. Neither may read a clock, a file or the network.
//
// Start reading at rules.
package plan

import "meridian.dev/meridian/internal/postgres"

// rules is every rule, safety first. A rule that ends the plan leaves the later ones for a pass that sees its effect.
var rules = []rule{
	// What must never happen.
	stopWhenTold,           // A pod that ends stops its server and does nothing else.
	waitForAReadableVolume, // What cannot be read is not empty.
	shareNoVolume,          // V1: one agent, and no server of another pod, at a time.
	refuseAnotherDatabase,  // V2: the volume of another database is not touched.
	waitForSettings,        // Without settings nothing new begins; what runs goes on.
	refuseALostVolume,      // V3: initdb never runs where data has been.
	refuseUnknownData,      // V4: data that nobody recorded is not ours.
	refuseAnotherVersion,   // V5: a server never meets the files of another major version.
	refuseAnotherIdentity,  // V6: the data has the system identifier that was recorded.
	killWhatTheServerLeft,  // C2: no old process writes beside a new server.

	// Making an instance.
	claimAnEmptyVolume,
	initialiseAClaimedVolume,
	noteACompleteVolume,

	// Running it.
	closeTheDataDirectory,
	installTheCertificate,
	recordNewSettings,
	writeFiles,
	tellOfRefusedParameters,
	startTheServer,
	waitForTheServer,
	reloadWhatChanged,
	waitForTheRecord,

	// What is inside. Each stands for itself: a missing extension does not keep a password from being changed.
	makeTheRole,
	makeTheDatabase, // A1: what was made once and is missing is a loss, and not made anew.
	recordTheApplication,
	makeExtensions,
}

// rule adds actions and holds to the draft. It reports whether the plan ends with it.
type rule func(postgres.Snapshot, *draft) (end bool)

// Decide makes the plan.
func Decide(snapshot postgres.Snapshot) postgres.Plan {
	var plan draft
	for _, rule := range rules {
		if rule(snapshot, &plan) {
			break
		}
	}
	return plan.Plan
}

// draft is a plan in the making.
type draft struct{ postgres.Plan }

func (d *draft) do(action postgres.Action) { d.Actions = append(d.Actions, action) }

func (d *draft) wait(hold postgres.Hold) { d.Holds = append(d.Holds, hold) }
