package plan

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/kit/rule"
)

// rules are applied in this order. None relies on another having acted in the same pass: a pass may end anywhere.
var rules = []rule.Step[*draft]{
	do("database.leave-to-others", leaveToOthers,
		"a database that another installation works for is left alone", "DB18"),
	do("database.finish-deletion", finishDeletion,
		"a deleted database loses the claims that its spec does not keep, and nothing else", "DB1"),
	do("database.report-deleted-claims", tellDeletedClaims,
		"a pod that alone keeps a deleted claim must not be stopped by anyone", "DB11"),
	do("database.refuse-an-invalid-spec", refuseInvalid,
		"nothing that comes from a spec that cannot be carried out is written", "DB2"),
	do("database.stop-while-paused", stopWhilePaused,
		"from here on changes are pending instead of done, if the user said so", "DB9"),
	do("database.adopt-kept-claims", adoptKept,
		"volumes of an earlier database are adopted only if the spec says so", "DB32"),
	do("database.warn-of-filling-volumes", warnOfFilling, "a user learns what will be full if nobody does anything"),
	do("database.grow-claims", growClaims,
		"a volume grows before anything else, whatever else is broken", "DB5", "DB31"),
	do("database.keep-the-record", keepRecord,
		"what is known for good is stored twice more, and never rewritten", "DB6"),
	do("database.keep-the-identity", keepIdentity,
		"data with another identity than the recorded one needs a human", "DB6"),
	do("database.stop-at-foreign-objects", stopAtForeign,
		"a name that is taken is never overwritten, and nothing is built around it", "DB3"),
	do("database.add-the-finalizer", guard, "a finalizer comes before there is anything to clean up", "DB1"),
	do("database.create-the-lease", makeLease, "the lease is made once, for a database that never had one", "DB13"),
	do("database.keep-certificates", keepCertificates,
		"the authority and its leaves are made once and replaced in time, also while paused", "DB12"),
	do("database.create-the-app-secret", createBinding, "credentials are made once", "DB4"),
	do("database.publish-the-authority", publishBundle,
		"applications know what is trusted before anything else may be presented to them", "DB12"),
	do("database.rotate-the-login", rotateLogin,
		"the next login is known everywhere before it is published, once for a token", "DB27"),
	do("database.publish-cache-addresses", bindCaches,
		"beside the credentials stand the addresses of caches; nothing else depends on those", "DB4"),
	do("database.write-settings", writeSettings, "the agents read them and reload by themselves"),
	do("database.change-instances", changeRoster,
		"who has a copy changes by one step at a time, never the primary, never too few", "DB14"),
	do("database.carry-out-a-switchover", carryOutRequest,
		"another primary is asked for once, and only of the holder", "DB16"),
	do("database.annotate-pods", tellPods, "a new annotation makes the kubelet look for new settings"),
	do("database.write-services", writeAddresses,
		"the account of the agents, the addresses that never change, the disruption budget"),
	do("database.remove-optional-objects", removeSurplus,
		"only what the spec can ask for or not is removed: the network policy", "DB19"),
	do("database.write-claims", writeClaims, "a claim is made for new data only, never in place of a lost one", "DB6"),
	do("database.unlabel-claims", unlabelClaims, "a claim has no owner, so nobody may take it for theirs and prune it"),
	do("database.resize-pods", resizePods,
		"CPU and memory change in place, memory shrinks only after the buffers have", "DB26"),
	do("database.label-pods", labelPods, "labels and annotations of the user change in place"),
	do("database.roll-instances", rollInstances,
		"what requires a restart restarts one instance at a time, the primary last", "DB20", "DB21", "DB23", "DB25"),
	do("database.write-stateful-sets", writeSets,
		"one StatefulSet for each pod; a template reaches an instance when its turn has come", "DB22"),
	do("database.replace-broken-pods", replaceBroken,
		"an instance in which PostgreSQL cannot run waits for nobody", "DB20"),
	do("database.remove-leaving-instances", removeLeaving, "an instance goes when it is out of the write quorum", "DB15"),
	do("database.remove-lost-pods", removeLostPods,
		"a pod is force-deleted only if its node is gone or marked out of service", "DB17"),
	do("database.replace-stuck-pods", replaceStuckPods,
		"a pod that never started is replaced once its template is corrected", "DB7", "DB11"),
	do("database.wait-for-volumes", waitForVolumes, "a user learns what an expansion waits for"),
	do("database.wait-for-instances", waitForInstances, "a user learns what the instances wait for"),
	do("database.report-hibernation", tellHibernation, "a user learns who is still to stop", "DB24"),
	do("database.wait-for-the-primary", waitForPrimary,
		"a user learns what stands between the lease and an accepted write"),
	do("database.wait-for-reads", waitForReads, "Ready means that the read address leads to the replicas"),
	do("database.report-the-login", tellLogin, "a user learns what a rotation of the password waits for"),
	do("database.report-libraries", tellLibraries, "a user learns what a new image has changed under the data"),
	do("database.report-lost-nodes", tellLostNodes, "a user learns how long a node is waited for"),
	do("database.report-missing-copies", tellShortage, "a user learns what a database with data lacks"),
	do("database.report-changed-objects", tellTolerated, "a user learns what admission has made of our objects"),
	do("database.report-pending-restarts", tellPendingRestarts, "a user learns what takes effect at the next restart"),
}

// do is a rule that works on the draft. The plan ends with the rule that says so there.
func do(id string, apply func(*draft), why string, was ...string) rule.Step[*draft] {
	return rule.Do(id, func(d *draft) bool {
		apply(d)
		return d.ended
	}, why, was...)
}

// steady is how often a database is looked at although nothing has happened: certificates end without an event.
const steady = 10 * time.Minute

// Rules are what the planner does, in order.
func Rules() []rule.Rule { return rule.Steps(rules) }

// Decide says what is to be done now.
func Decide(snapshot database.Snapshot) database.Plan {
	draft := &draft{Snapshot: snapshot, plan: database.Plan{Again: steady, Design: design.Of(snapshot)}}
	draft.inForce = settingsInForce(draft.plan.Design)
	rule.Run(rules, draft)
	draft.sortHolds()
	draft.look(snapshot.Certificates.Again)
	return draft.plan
}

// draft is a plan while the rules work on it.
type draft struct {
	database.Snapshot
	plan database.Plan
	// stopped turns changes into pending ones. Safety goes on.
	stopped bool
	// invalid leaves out what comes from the spec. Safety goes on.
	invalid bool
	// ended leaves the rest of the rules out.
	ended bool
	// turn is the instance that is restarted next, empty if none is.
	turn string
	// inForce are the settings that count as the wanted ones.
	inForce []string
}

// do adds an action that is a matter of safety.
func (d *draft) do(action database.Action) { d.plan.Actions = append(d.plan.Actions, action) }

// change adds an action that comes from the spec, or makes something new: a stop holds it back. An invalid spec
// promises nothing, so nothing is pending for it.
func (d *draft) change(action database.Action) {
	if !d.invalid {
		d.upkeep(action)
	}
}

// upkeep adds an action that a stop holds back and an invalid spec does not: it follows from the name of the database.
func (d *draft) upkeep(action database.Action) {
	if d.stopped {
		d.plan.Pending = append(d.plan.Pending, describe(action))
		return
	}
	d.do(action)
}

// writes says that the plan writes an object already. What else there is to write to it follows in the next pass.
func (d *draft) writes(kind, name string) bool {
	return slices.ContainsFunc(d.plan.Actions, func(action database.Action) bool {
		return action.Kind == kind && action.Name == name
	})
}

func (d *draft) hold(weight database.Weight, recheck time.Duration, name, message string) {
	d.plan.Holds = append(d.plan.Holds, database.Hold{Name: name, Message: message, Weight: weight, Recheck: recheck})
}

// sortHolds puts first what needs a human. Among equals the order of the rules stays.
func (d *draft) sortHolds() {
	var sorted []database.Hold
	weights := []database.Weight{
		database.Stalled, database.Paused, database.Progressing, database.Degraded, database.Background,
	}
	for _, weight := range weights {
		for _, hold := range d.plan.Holds {
			if hold.Weight == weight {
				sorted = append(sorted, hold)
			}
		}
	}
	d.plan.Holds = sorted
}

// look brings the next look forward to the given moment.
func (d *draft) look(at time.Time) {
	if !at.IsZero() {
		d.plan.Again = max(min(d.plan.Again, at.Sub(d.Now)), time.Second)
	}
	for _, action := range d.plan.Actions {
		// Secrets are not watched, so no event says that they were written.
		if action.Kind == database.KindSecret {
			d.plan.Again = time.Second
		}
	}
}

func describe(action database.Action) string {
	text := action.Verb()
	if action.Kind != "" {
		text += " " + action.Kind
	}
	return text + " " + action.Name + ": " + action.Why
}
