package invariant

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/rule"
)

// judged is what an action is judged by: what was observed, the plan that it is a part of, and what comes before it.
type judged struct {
	database.Snapshot
	plan   database.Plan
	before []database.Action
}

// invariants are written from what must never happen, not from the rules. They see a plan as a stranger would.
var invariants = []rule.Invariant[judged, database.Action]{
	never("database.delete-only-released-claims", deletesOnlyWhatMayGo,
		"a claim is deleted only by the word of the spec, by its UID, when nothing needs it", "DB1"),
	never("database.release-only-when-done", releasesOnlyWhenDone,
		"the finalizer stays while the lease is held, or a claim that must go is there", "DB1"),
	never("database.write-nothing-invalid", touchesNothingInvalid,
		"nothing that comes from an invalid spec is written", "DB2"),
	never("database.touch-nothing-foreign", touchesNothingForeign, "an object of another owner is never touched", "DB3"),
	never("database.create-credentials-once", makesCredentialsOnce,
		"credentials that exist are rewritten by a rotation only", "DB4"),
	never("database.begin-as-asked", beginsAsAsked,
		"a database that shall begin with a repository never gets settings or pods that begin an empty one"),
	never("database.ask-for-one-base-backup", asksForOneBase,
		"a base backup is asked for only when the one of before is there"),
	never("database.try-beside-the-instances", triesBeside,
		"a restore on trial is one pod of a name of its own, and touches no other"),
	never("database.forget-no-trial", forgetsNoTrial,
		"the pod of a restore on trial goes when it is written down how it has ended"),
	never("database.mix-no-repositories", keepsAccess,
		"while paused, credentials follow only for the repository that the agents use"),
	never("database.rotate-once", rotatesOnce, "new credentials are made for a new token, once", "DB27"),
	never("database.publish-only-a-confirmed-login", publishesWhatIsKnown,
		"a login is published when the primary and all that take sessions have confirmed it", "DB27"),
	never("database.sign-only-what-is-trusted", signsWhatIsKnown,
		"a rotation goes on when everyone has what its last step has brought", "DB12"),
	never("database.remove-no-mounted-certificate", removesNoMounted,
		"a certificate stays while a pod mounts it, or would when it is made"),
	never("database.replace-no-authority", replacesNoAuthority,
		"no new authority takes the place of one that is trusted", "DB12"),
	never("database.shrink-no-claim", shrinksNothing, "no claim asks for less than it has", "DB5"),
	never("database.grow-within-the-limit", growsWithinLimit,
		"no claim asks for more than the spec, its limit, or another claim has", "DB31"),
	never("database.grow-one-step", growsOneStep,
		"no volume begins to grow by itself while another growth of it is under way", "DB31"),
	never("database.replace-no-volume", replacesNoVolume, "no empty claim takes the place of one that had data", "DB6"),
	never("database.keep-every-record", keepsCopies,
		"the record of the data is written where it is missing, and never changes", "DB6"),
	never("database.change-only-what-was-read", changesWhatWasSeen,
		"a claim is changed only by whoever has seen what it tells of its data", "DB6"),
	never("database.adopt-only-when-told", adoptsByTheWord,
		"a claim of an earlier database is adopted by the word of the spec, before any data", "DB32"),
	never("database.note-before-parting", partsWithANote,
		"the lease of a deleted database goes after the claims that it keeps have a note of it", "DB32"),
	never("database.delete-only-stuck-pods", deletesOnlyStuckPods,
		"a pod in which PostgreSQL may run is not deleted", "DB7"),
	never("database.keep-pods-of-deleted-claims", keepsDataOfDeletedClaims,
		"no pod is deleted while its claim is gone, unseen or being deleted", "DB11"),
	never("database.write-conditionally", isConditional,
		"a write names the version that it was decided on, a create names none", "DB8"),
	never("database.respect-the-pause", respectsPause,
		"while the database is paused nothing but safety is written", "DB9"),
	never("database.create-the-lease-once", makesLeaseOnce,
		"a lease is made for a database that has never had one, or in the place of a lost one", "DB13"),
	never("database.free-no-living-lease", freesNoLivingLease,
		"the finalizer of the lease stays as long as the database is wanted", "DB13"),
	never("database.keep-to-the-lease", keepsToItsLease,
		"the settings name the lease that was made, and never another", "DB13"),
	never("database.name-only-a-successor-lease", adoptsSuccessors,
		"another lease is named only when the agents have taken it over", "DB13"),
	never("database.change-instances-safely", changesRosterSafely,
		"who has a copy changes by new names or one that leaves, never the primary or too few", "DB14"),
	never("database.remove-no-counted-copy", removesNoCopy,
		"an instance that is in the write quorum, or wanted, is not removed", "DB15"),
	never("database.ask-only-the-holder", asksTheHolder,
		"only the holder of the lease is asked to hand over, once in a plan", "DB16"),
	never("database.force-delete-only-lost-pods", forcesOnlyTheLost,
		"a pod is removed without its node's word only if that node is gone or out of service", "DB17"),
	never("database.leave-other-installations-alone", leavesOthersAlone,
		"a database of another installation is left alone", "DB18"),
	never("database.remove-only-optional-objects", removesOnlySurplus,
		"nothing is removed but a network policy that the spec does not ask for", "DB19"),
	never("database.restart-one-at-a-time", restartsOneAtATime,
		"a server that works is stopped only while all the others work, one at a time", "DB20"),
	never("database.restart-the-primary-last", restartsPrimaryLast,
		"a primary that others can take over from is not stopped", "DB21"),
	never("database.spread-no-harm", spreadsNoHarm,
		"a template reaches one working instance at a time, and none after it has done harm", "DB22"),
	never("database.count-before-restarting", countsFirst,
		"a restart begins when other databases allow it, and when it is written down that it does"),
	never("database.restart-only-for-the-user", restartsForTheUser,
		"nothing is restarted that no user has asked for, but in the maintenance window", "DB23"),
	never("database.stop-the-primary-last", stopsPrimaryLast,
		"nobody is stopped but for hibernation, and then the primary last", "DB24"),
	never("database.try-before-replacing", triesFirst,
		"no pod is replaced by one that the API server would not take", "DB25"),
	never("database.shrink-no-used-memory", shrinksNoBuffers,
		"the memory of a container is not taken away while its server has buffers for more", "DB26"),
	never("database.build-nothing-for-a-deleted-database", buildsNothingForTheDead,
		"nothing is made or changed for a database that is being deleted", "DB10"),
	rule.Never("database.write-once", repeats,
		"the second write of an object was decided on a state that the first one ends",
		"DB8"),
}

// Rules are what no plan may break.
func Rules() []rule.Rule { return rule.Invariants(invariants) }

func never(
	id string, holds func(database.Snapshot, database.Plan, database.Action) bool, why string, was ...string,
) rule.Invariant[judged, database.Action] {
	return rule.Never(id, func(by judged, action database.Action) string {
		if holds(by.Snapshot, by.plan, action) {
			return ""
		}
		return describeBroken(action, why)
	}, why, was...)
}

func describeBroken(action database.Action, why string) string {
	return fmt.Sprintf("%s %s %s: %s", action.Verb(), action.Kind, action.Name, why)
}

// Check says which invariants the plan would break. It is asked before every write.
func Check(snapshot database.Snapshot, plan database.Plan) []rule.Violation {
	var violations []rule.Violation
	for index, action := range plan.Actions {
		violations = append(violations, rule.Check(invariants, judged{snapshot, plan, plan.Actions[:index]}, action)...)
	}
	return violations
}

func repeats(by judged, action database.Action) string {
	if !slices.ContainsFunc(by.before, func(earlier database.Action) bool {
		return earlier.Kind == action.Kind && earlier.Name == action.Name
	}) {
		return ""
	}
	return describeBroken(action, "an object is written once in a plan")
}
