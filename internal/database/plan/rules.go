package plan

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// rules are applied in this order. None relies on another having acted in the same pass: a pass may end anywhere.
var rules = []func(*draft){
	leaveToOthers,       // DB18: a database that another installation works for is left alone
	finishDeletion,      // DB1: a deleted database loses the claims that its spec does not keep, and nothing else
	tellDeletedClaims,   // DB11: a pod that alone keeps a deleted claim is not to be stopped by anyone
	refuseInvalid,       // DB2: nothing that comes from a spec that cannot be carried out is written
	stopWhilePaused,     // DB9: from here on changes are pending instead of done, if the user said so
	adoptKept,           // DB32: volumes of an earlier database are taken over by the word of the spec alone
	warnOfFilling,       // what will be full if nobody does anything
	growClaims,          // DB5, DB31: a volume grows before anything else, whatever else is broken
	keepRecord,          // DB6: what is known for good is stored twice more, and never rewritten
	keepIdentity,        // DB6: data with another identity than the recorded one needs a human
	stopAtForeign,       // DB3: a name that is taken is never overwritten, and nothing is built around it
	guard,               // DB1: a finalizer before there is anything to undo
	makeLease,           // DB13: the lease is made once, for a database that never had one
	keepCertificates,    // DB12: the authority and its leaves, made once and replaced in time, also while paused
	createBinding,       // DB4: credentials are made once
	publishBundle,       // DB12: applications know what is trusted before anything else may be presented to them
	rotateLogin,         // DB27: the next login is known everywhere before it is published, once for a token
	bindCaches,          // DB4: beside the credentials stand the addresses of caches; nothing else depends on those
	writeSettings,       // what the agents read; they reload by themselves
	changeRoster,        // DB14: who has a copy changes by one step at a time, never the primary, never too few
	carryOutRequest,     // DB16: another primary is asked for once, and only of the holder
	tellPods,            // what makes the kubelets look for new settings
	writeAddresses,      // the account of the agents, the addresses that never change, the budget
	removeSurplus,       // DB19: only what the spec can ask for or not is removed: the network policy
	writeClaims,         // DB6: a claim is made for new data only, never in place of a lost one
	unlabelClaims,       // a claim has no owner, so nobody may take it for theirs and prune it
	resizePods,          // DB26: CPU and memory change in place, memory shrinks only after the buffers have
	labelPods,           // labels and annotations of the user, in place
	rollInstances,       // DB20, DB21, DB23, DB25: the user's wish restarts one at a time, the primary last
	writeSets,           // DB22: the pods, one StatefulSet each; a template reaches an instance when its turn has come
	replaceBroken,       // DB20: an instance in which PostgreSQL cannot run waits for nobody
	removeLeaving,       // DB15: an instance goes when nothing counts on its copy
	removeLostPods,      // DB17: a pod is removed without its node's word only if that node is gone or vouched for
	replaceStuckPods,    // DB7, DB11: a pod that never started is replaced once its template is corrected
	waitForVolumes,      // what a growth is waiting for
	waitForInstances,    // what the instances are waiting for
	tellHibernation,     // DB24: who is still to stop
	waitForPrimary,      // what stands between the lease and an accepted write
	waitForReads,        // what keeps the read address from leading to the replicas
	tellLogin,           // what a rotation of the password waits for
	tellLibraries,       // what a new image has changed under the data
	tellLostNodes,       // how long a node is waited for
	tellShortage,        // what a database with data lacks
	tellTolerated,       // what admission has made of our children
	tellPendingRestarts, // what takes effect at the next restart
}

// steady is how often a database is looked at although nothing has happened: certificates end without an event.
const steady = 10 * time.Minute

// Decide says what is to be done now.
func Decide(snapshot database.Snapshot) database.Plan {
	draft := &draft{Snapshot: snapshot, plan: database.Plan{Again: steady, Design: render.DesignOf(snapshot)}}
	draft.inForce = settingsInForce(draft.plan.Design)
	for _, rule := range rules {
		rule(draft)
		if draft.ended {
			break
		}
	}
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
	text := string(action.Verb)
	if action.Kind != "" {
		text += " " + action.Kind
	}
	return text + " " + action.Name + ": " + action.Why
}
