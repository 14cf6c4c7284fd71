package plan

import (
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/access"
	"meridian.dev/meridian/internal/database/plan/backup"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/database/plan/roll"
	"meridian.dev/meridian/internal/database/plan/storage"
	"meridian.dev/meridian/kit/rule"
)

// rules are applied in this order. None relies on another having acted in the same pass: a pass may end anywhere.
var rules = []rule.Step[*draft.Draft]{
	step("database.leave-to-others", leaveToOthers,
		"a database that another installation works for is left alone", "DB18"),
	step("database.end-trials-of-the-deleted", backup.EndDeleted,
		"a deleted database leaves no restore on trial behind"),
	step("database.finish-deletion", storage.FinishDeletion,
		"a deleted database loses the claims that its spec does not keep, and nothing else", "DB1"),
	step("database.report-deleted-claims", storage.TellDeletedClaims,
		"a pod that alone keeps a deleted claim must not be stopped by anyone", "DB11"),
	step("database.refuse-an-invalid-spec", refuseInvalid,
		"nothing that comes from a spec that cannot be carried out is written", "DB2"),
	step("database.stop-while-paused", stopWhilePaused,
		"from here on changes are pending instead of done, if the user said so", "DB9"),
	step("database.adopt-kept-claims", storage.AdoptKept,
		"volumes of an earlier database are adopted only if the spec says so", "DB32"),
	step("database.warn-of-filling-volumes", storage.WarnOfFilling,
		"a user learns what will be full if nobody does anything"),
	step("database.grow-claims", storage.GrowClaims,
		"a volume grows before anything else, whatever else is broken", "DB5", "DB31"),
	step("database.keep-the-record", keepRecord,
		"what is known for good is stored twice more, and never rewritten", "DB6"),
	step("database.keep-the-identity", keepIdentity,
		"data with another identity than the recorded one needs a human", "DB6"),
	step("database.stop-at-foreign-objects", stopAtForeign,
		"a name that is taken is never overwritten, and nothing is built around it", "DB3"),
	step("database.add-the-finalizer", storage.Guard, "a finalizer comes before there is anything to clean up", "DB1"),
	step("database.create-the-lease", makeLease, "the lease is made once, for a database that never had one", "DB13"),
	step("database.keep-certificates", access.KeepCertificates,
		"the authority and its leaves are made once and replaced in time, also while paused", "DB12"),
	step("database.begin-from-the-repository", backup.Begin,
		"a database that shall begin with a repository never begins empty"),
	step("database.keep-repository-access", backup.KeepAccess,
		"credentials and keys of repositories are mounted, and follow the Secrets of the user"),
	step("database.create-the-app-secret", access.CreateBinding, "credentials are made once", "DB4"),
	step("database.publish-the-authority", access.PublishBundle,
		"applications know what is trusted before anything else may be presented to them", "DB12"),
	step("database.remove-certificates", access.RemoveCertificates,
		"the certificate of an instance that is gone, and one that all had in common, opens nothing any more"),
	step("database.rotate-the-login", access.RotateLogin,
		"the next login is known everywhere before it is published, once for a token", "DB27"),
	step("database.publish-cache-addresses", access.BindCaches,
		"beside the credentials stand the addresses of caches; nothing else depends on those", "DB4"),
	step("database.write-settings", writeSettings, "the agents read them and reload by themselves"),
	step("database.change-instances", changeRoster,
		"who has a copy changes by one step at a time, never the primary, never too few", "DB14"),
	step("database.carry-out-a-switchover", carryOutRequest,
		"another primary is asked for once, and only of the holder", "DB16"),
	step("database.annotate-pods", access.TellPods, "a new annotation makes the kubelet look for new settings"),
	step("database.write-services", writeAddresses,
		"the account of the agents, the addresses that never change, the disruption budget"),
	step("database.remove-optional-objects", removeSurplus,
		"only what the spec can ask for or not is removed: the network policy", "DB19"),
	step("database.write-claims", storage.WriteClaims,
		"a claim is made for new data only, never in place of a lost one", "DB6"),
	step("database.unlabel-claims", storage.UnlabelClaims,
		"a claim has no owner, so nobody may take it for theirs and prune it"),
	step("database.resize-pods", roll.ResizePods,
		"CPU and memory change in place, memory shrinks only after the buffers have", "DB26"),
	step("database.label-pods", roll.LabelPods, "labels and annotations of the user change in place"),
	step("database.roll-instances", roll.Instances,
		"what requires a restart restarts one instance at a time, the primary last", "DB20", "DB21", "DB23", "DB25"),
	step("database.make-base-backups", backup.MakeBase,
		"one base backup at a time is asked of one instance, until it is there"),
	step("database.write-stateful-sets", roll.WriteSets,
		"one StatefulSet for each pod; a template reaches an instance when its turn has come", "DB22"),
	step("database.replace-broken-pods", roll.ReplaceBroken,
		"an instance in which PostgreSQL cannot run waits for nobody", "DB20"),
	step("database.remove-leaving-instances", removeLeaving,
		"an instance goes when it is out of the write quorum", "DB15"),
	step("database.remove-lost-pods", removeLostPods,
		"a pod is force-deleted only if its node is gone or marked out of service", "DB17"),
	step("database.replace-stuck-pods", roll.ReplaceStuckPods,
		"a pod that never started is replaced once its template is corrected", "DB7", "DB11"),
	step("database.wait-for-volumes", storage.WaitForVolumes, "a user learns what an expansion waits for"),
	step("database.wait-for-instances", waitForInstances, "a user learns what the instances wait for"),
	step("database.report-hibernation", tellHibernation, "a user learns who is still to stop", "DB24"),
	step("database.wait-for-the-primary", waitForPrimary,
		"a user learns what stands between the lease and an accepted write"),
	step("database.wait-for-reads", waitForReads, "Ready means that the read address leads to the replicas"),
	step("database.report-backups", backup.Tell,
		"a user learns whether the database can be restored, and what is in the way"),
	step("database.restore-on-trial", backup.Try,
		"a restore is tried when one is due, once, beside the instances and never in their place"),
	step("database.report-the-login", access.TellLogin, "a user learns what a rotation of the password waits for"),
	step("database.report-libraries", tellLibraries, "a user learns what a new image has changed under the data"),
	step("database.report-lost-nodes", tellLostNodes, "a user learns how long a node is waited for"),
	step("database.report-missing-copies", tellShortage, "a user learns what a database with data lacks"),
	step("database.report-changed-objects", tellTolerated, "a user learns what admission has made of our objects"),
	step("database.report-pending-restarts", roll.TellPendingRestarts,
		"a user learns what takes effect at the next restart"),
}

// step is a rule that works on the draft. The plan ends with the rule that says so there.
func step(id string, apply func(*draft.Draft), why string, was ...string) rule.Step[*draft.Draft] {
	return rule.Do(id, func(d *draft.Draft) bool {
		apply(d)
		return d.Ended
	}, why, was...)
}

// steady is how often a database is looked at although nothing has happened: certificates end without an event.
const steady = 10 * time.Minute

// Rules are what the planner does, in order.
func Rules() []rule.Rule { return rule.Steps(rules) }

// Decide says what is to be done now.
func Decide(snapshot database.Snapshot) database.Plan {
	d := draft.Of(snapshot, steady)
	rule.Run(rules, d)
	d.SortHolds()
	d.Look(d.Now, snapshot.Certificates.Again)
	return *d.Plan
}
