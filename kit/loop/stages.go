package loop

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/rule"
)

// Stages are the functions of one loop over objects of type O. Observe, Decide, Act and Report are required.
type Stages[O client.Object, Snapshot, Plan, Outcome any] struct {
	// Observe reads everything that the pass needs through the reader, which is the cache or the API server. A source that
	// cannot be reached is a fact of the Snapshot; an error is for when there is no Snapshot to speak of.
	Observe func(ctx context.Context, reader client.Reader, object O) (Snapshot, error)
	// Decide is pure.
	Decide func(Snapshot) Plan
	// Check states the invariants of a plan, independently of the rules that made it. It is pure, and may be nil.
	Check func(Snapshot, Plan) []rule.Violation
	// Writes says that the plan changes something in the world. Right before it is carried out, the object is read live
	// then: if it is gone, or asks for something else, the plan ends as a conflict. It is pure, and may be nil: then plans
	// are carried out whatever has happened since.
	Writes func(Plan) bool
	// Act carries out the plan and records every write in the ledger. It may return an Outcome together with an error:
	// one thing that failed does not undo the others. Several errors are joined by errors.Join.
	Act func(ctx context.Context, ledger expect.Ledger, object O, plan Plan) (Outcome, error)
	// Report is pure but for the status of the object, a copy, which it sets. It changes nothing else of it.
	Report func(object O, pass Pass[Snapshot, Plan, Outcome]) []Event
	// Holds names what the plan waits for. It is pure, and may be nil if the loop never waits.
	Holds func(Plan) []Hold
	// Gone is called when the object does not exist, to drop what is kept in memory for it, and to undo what only it can.
	// It may be nil.
	Gone func(ctx context.Context, key types.NamespacedName) error
}

// Pass is what Report gets to know.
type Pass[Snapshot, Plan, Outcome any] struct {
	Snapshot Snapshot
	Plan     Plan
	// Outcome is the zero value when the plan was refused.
	Outcome Outcome
	// Violations are why the plan was refused, empty if it was not.
	Violations []rule.Violation
	// Err is the error of Act and Class its class; nil and OK if there was none.
	Err   error
	Class Class
	// Reading says how the pass read. A Cause of expect.CacheBehind deserves an event: a cache is stuck.
	Reading expect.Verdict
}

// Hold is a named reason to wait.
type Hold struct {
	Name string
	// Recheck is when to look again. Zero means that an event will come: nothing is scheduled.
	Recheck time.Duration
}

// Event is something that happened to the object.
type Event struct {
	// Warning makes it an event of type Warning, Normal otherwise.
	Warning bool
	// Reason and Action are CamelCase words, Note is one sentence.
	Reason, Action, Note string
}

// kind is the type of the event in the API.
func (e Event) kind() string {
	if e.Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
