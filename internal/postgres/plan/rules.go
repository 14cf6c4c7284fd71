// Package plan decides what the agent does about its instance: Decide is a function from a Snapshot to a Plan and
// nothing else. The rules below are the table of contents; those of package invariant are written independently of
// them and are checked before every act. Neither may read a clock, a file or the network.
//
// Start reading at rules.
package plan

import (
	"fmt"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

// rules is every rule, safety first. A rule that ends the plan leaves the later ones for a pass that sees its effect.
var rules = []rule{
	// What must never happen.
	stopWhenTold,           // A pod that ends stops its server and does nothing else.
	killWithoutTheRight,    // C3: a primary that was told to be something else does not live on.
	waitForAReadableVolume, // What cannot be read is not empty.
	shareNoVolume,          // V1: one agent, and no server of another pod, at a time.
	refuseAnotherDatabase,  // V2: the volume of another database is not touched.
	refuseAnotherLog,       // V7: the log of another database is neither used nor removed.
	noteTheClaim,           // I1: which claim the volume has come with.
	waitForSettings,        // Without settings nothing new begins; what runs goes on.
	waitForAStanding,       // Nothing is begun before it is known what this instance shall be.
	giveUpWhatIsNotWanted,  // A long act ends when another is wanted.
	refuseALostVolume,      // V3: initdb never runs where data has been.
	refuseUnknownData,      // V4: data that nobody recorded is not ours.
	refuseAnotherVersion,   // V5: a server never meets the files of another major version.
	refuseAnotherIdentity,  // V6: the data has the system identifier that was recorded.
	killWhatTheServerLeft,  // C2: no old process writes beside a new server.

	replaceACopyThatWasPutBack, // I1: a volume under another claim may be an older state of the copy.
	killOnAnUnfinishedCopy,     // I2: no server lives on a copy that is being made or replaced.

	// Making a copy.
	claimAnEmptyVolume, // Only the first of a database begins with nothing.
	initialiseAClaimedVolume,
	noteACompleteVolume,
	discardACopy,     // I2: the marker first.
	cloneTheUpstream, // I1, I2, B2.
	rewindTheCopy,    // I2.

	// The files.
	waitForRoom, // A server that would find no room is not started, and not again and again.
	closeTheDataDirectory,
	installTheCertificate,
	recordNewSettings,
	writeFiles, // Q2: the quorum is in the file before a server leads. G1: the gate is a part of the files.
	tellOfRefusedParameters,
	chooseTheUpstream, // F1: nobody is followed by a standing that was fenced. B3: nor before the copy was judged.

	// Starting and stopping.
	yieldThePlace,  // Gate, checkpoint, stop.
	askTheUpstream, // Whether the copy is a part of the upstream's history.
	askForPositions,
	replaceADivergedCopy,
	startTheServer, // C3, T1.
	stopAShortCopy, // B3: it is judged by the end of its WAL.
	waitForTheServer,
	checkTheTimeline,          // T1: after a promotion, timeline and place of the fork.
	killAfterAForeignPosition, // B3: what was counted of another timeline ends with the server.
	reloadWhatChanged,
	tellOfRoom,
	promoteAReplica, // T1, Q2.
	restartAStuckReplica,
	prepareToYield, // What takes long comes before the gate is closed.
	restartWhenAsked,
	tellOfTheUpstream,
	keepAReserve,

	// What a primary does for the others.
	keepPlaces,
	leaveASharedSegment,
	makeAgents,
	enforceTheQuorum, // B1.
	writeAFirstCheckpoint,

	// What is inside. Each stands for itself: a missing extension does not keep a password from being changed.
	makeTheRole,
	makeTheDatabase, // A1: what was made once and is missing is a loss, and not made anew.
	recordTheApplication,
	makeExtensions,
	noteLibraries,
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
type draft struct {
	postgres.Plan
	contents []postgres.Content
	mark     string
}

// files returns the files that the server should have, and their mark. Several rules ask, and the answer is the same.
func (d *draft) files(s postgres.Snapshot) ([]postgres.Content, string) {
	if d.mark == "" {
		d.contents, d.mark = files(s)
	}
	return d.contents, d.mark
}

func (d *draft) do(action postgres.Action) { d.Actions = append(d.Actions, action) }

func (d *draft) wait(hold postgres.Hold) { d.Holds = append(d.Holds, hold) }

func (d *draft) hold(reason wire.Reason, detail string, arguments ...any) {
	d.wait(postgres.Hold{Reason: reason, Detail: fmt.Sprintf(detail, arguments...)})
}
