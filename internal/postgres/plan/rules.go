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
	"meridian.dev/meridian/kit/rule"
)

// rules is every rule, safety first. A rule that ends the plan leaves the later ones for a pass that sees its effect.
var rules = []rule.Step[*draft]{
	// What must never happen.
	do("postgres.stop-when-told", stopWhenTold, "a pod that ends stops its server and does nothing else"),
	do("postgres.kill-without-the-right", killWithoutTheRight,
		"a primary that was told to be something else does not live on", "C3"),
	do("postgres.wait-for-a-readable-volume", waitForAReadableVolume, "what cannot be read is not empty"),
	do("postgres.share-no-volume", shareNoVolume,
		"one agent, and no server of another pod, uses a volume at a time", "V1"),
	do("postgres.refuse-another-database", refuseAnotherDatabase, "the volume of another database is not touched", "V2"),
	do("postgres.refuse-another-wal", refuseAnotherLog, "the WAL of another database is neither used nor removed", "V7"),
	do("postgres.note-the-claim", noteTheClaim, "a volume that later comes with another claim was restored", "I1"),
	do("postgres.wait-for-settings", waitForSettings, "without settings nothing new begins; what runs goes on"),
	do("postgres.wait-for-a-role", waitForAStanding, "nothing is begun before it is known what this instance shall be"),
	do("postgres.abort-what-is-not-wanted", giveUpWhatIsNotWanted, "a long act ends when another is wanted"),
	do("postgres.refuse-a-lost-volume", refuseALostVolume, "initdb never runs where data has been", "V3"),
	do("postgres.refuse-unknown-data", refuseUnknownData, "data that nobody recorded belongs to somebody else", "V4"),
	do("postgres.refuse-another-version", refuseAnotherVersion,
		"a server never meets the files of another major version", "V5"),
	do("postgres.refuse-another-identity", refuseAnotherIdentity,
		"the data has the system identifier that was recorded", "V6"),
	do("postgres.kill-leftover-processes", killWhatTheServerLeft, "no old process writes beside a new server", "C2"),
	do("postgres.replace-a-restored-copy", replaceACopyThatWasPutBack,
		"a volume under another claim may be an older state of the copy", "I1"),
	do("postgres.kill-on-an-unfinished-copy", killOnAnUnfinishedCopy,
		"no server lives on a copy that is being made or replaced", "I2"),

	// Making a copy.
	do("postgres.claim-an-empty-volume", claimAnEmptyVolume,
		"only the first instance of a database begins with nothing"),
	do("postgres.run-initdb", initialiseAClaimedVolume, "the first copy of a database is made by initdb"),
	do("postgres.record-a-complete-copy", noteACompleteVolume, "what is not recorded as complete is made again"),
	do("postgres.discard-a-copy", discardACopy, "the marker is on the volume before files go", "I2"),
	do("postgres.clone-the-upstream", cloneTheUpstream,
		"an instance without a copy takes one from the primary by pg_basebackup", "I1", "I2", "B2"),
	do("postgres.rewind-the-copy", rewindTheCopy, "a diverged copy that is recent enough is kept by pg_rewind", "I2"),

	// The files.
	do("postgres.wait-for-room", waitForRoom,
		"a server that would find no room is not started, and not again and again"),
	do("postgres.close-the-data-directory", closeTheDataDirectory,
		"PostgreSQL refuses a directory that others may read"),
	do("postgres.install-the-certificate", installTheCertificate, "a server presents only what it can read as a whole"),
	do("postgres.record-new-settings", recordNewSettings,
		"an agent that finds the mounted settings spoilt knows what the files should hold"),
	do("postgres.write-files", writeFiles,
		"the quorum is in the file before a server leads, and the gate is a part of the files", "Q2", "G1"),
	do("postgres.report-refused-parameters", tellOfRefusedParameters,
		"a user learns which parameter PostgreSQL did not take"),
	do("postgres.choose-the-upstream", chooseTheUpstream,
		"nobody is followed by a role that was fenced, nor before the copy was judged", "F1", "B3"),

	// Starting and stopping.
	do("postgres.hand-over", yieldThePlace, "a switchover closes the gate, writes a checkpoint, and stops"),
	do("postgres.ask-the-upstream", askTheUpstream,
		"whether the copy is a part of the upstream's history is asked before it is followed"),
	do("postgres.ask-for-positions", askForPositions,
		"whether the quorum needs this copy is told by the primary's slots"),
	do("postgres.replace-a-diverged-copy", replaceADivergedCopy,
		"a copy that is no part of the primary's history cannot stream"),
	do("postgres.start-the-server", startTheServer,
		"a server starts in the role that was given, on the timeline that was given out", "C3", "T1"),
	do("postgres.stop-a-short-copy", stopAShortCopy, "a copy is judged by the end of its WAL", "B3"),
	do("postgres.wait-for-the-server", waitForTheServer, "a server that does not answer is told nothing"),
	do("postgres.check-the-timeline", checkTheTimeline,
		"a promotion must have led to the reserved timeline, forked at the known place", "T1"),
	do("postgres.kill-after-a-foreign-position", killAfterAForeignPosition,
		"what was counted of another timeline ends with the server", "B3"),
	do("postgres.reload-what-changed", reloadWhatChanged, "a file is in force when the server has loaded it"),
	do("postgres.report-a-filling-volume", tellOfRoom, "a user learns of a filling volume before it is full"),
	do("postgres.promote-a-replica", promoteAReplica,
		"the quorum is in force and the gate closed before the promotion", "T1", "Q2"),
	do("postgres.restart-a-stuck-replica", restartAStuckReplica,
		"a replica whose replay waits for ever goes on after a restart"),
	do("postgres.restart-a-strayed-replica", restartAStrayedReplica,
		"a replica that waits for the timeline of a lost primary follows the present one after a restart"),
	do("postgres.prepare-to-hand-over", prepareToYield, "what takes long comes before the gate is closed"),
	do("postgres.restart-when-asked", restartWhenAsked,
		"a parameter that requires a restart takes effect when the user has asked for one"),
	do("postgres.report-the-upstream", tellOfTheUpstream, "a replica that cannot stream says why"),
	do("postgres.keep-a-reserve", keepAReserve, "a full volume can still be started when a reserve is given up"),

	// What a primary does for the others.
	do("postgres.keep-slots", keepPlaces, "WAL that a member still needs is kept for it, and for nobody else"),
	do("postgres.leave-a-shared-segment", leaveASharedSegment,
		"a segment of each timeline with the same number stays, so failovers without writes would fill the volume"),
	do("postgres.create-agent-roles", makeAgents, "the agents of replicas stream and ask under a role of their own"),
	do("postgres.enforce-the-quorum", enforceTheQuorum,
		"old WAL senders that count by an older setting are ended", "B1"),
	do("postgres.write-a-first-checkpoint", writeAFirstCheckpoint,
		"until the control file tells of the new timeline, no diverged copy can be rewound"),

	// What is inside the database. Each stands for itself: a missing extension does not keep a password from being
	// changed.
	do("postgres.create-the-owner", makeTheRole, "the application logs in as the owner of the database"),
	do("postgres.create-the-database", makeTheDatabase,
		"what was made once and is missing is a loss, and not made anew", "A1"),
	do("postgres.record-the-application", recordTheApplication, "what is recorded as made is never made again"),
	do("postgres.create-extensions", makeExtensions, "the extensions of the spec are there"),
	do("postgres.note-library-versions", noteLibraries, "a new image may change libraries that the data depends on"),
}

// do is a rule that adds actions and holds to the draft, and reports whether the plan ends with it.
func do(id string, apply func(postgres.Snapshot, *draft) bool, why string, was ...string) rule.Step[*draft] {
	return rule.Do(id, func(d *draft) bool { return apply(d.seen, d) }, why, was...)
}

// Rules are what the planner does, in order.
func Rules() []rule.Rule { return rule.Steps(rules) }

// Decide makes the plan.
func Decide(snapshot postgres.Snapshot) postgres.Plan {
	plan := draft{seen: snapshot}
	rule.Run(rules, &plan)
	return plan.Plan
}

// draft is a plan in the making.
type draft struct {
	postgres.Plan
	seen     postgres.Snapshot
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
