package condition

import (
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types of condition that have a meaning of their own in this package. A
// caller adds types of its own freely; they mean nothing to kstatus.
const (
	// Ready says that the object is as its spec wishes.
	Ready = "Ready"
	// Reconciling says that a change is under way. It should be absent or False
	// otherwise.
	Reconciling = "Reconciling"
	// Progressing says the same as Reconciling under the name that people know
	// from Deployments. Tools do not look at it, so it may not be True while
	// Ready is: they would report the change as done.
	Progressing = "Progressing"
	// Stalled says that no progress will be made until a human acts.
	Stalled = "Stalled"
	// Degraded says that the object works, but worse than its spec wishes.
	Degraded = "Degraded"
)

// maxMessage is the longest message that the schema of a condition admits. A
// longer one would make the API server refuse the whole status, so that the
// object would go on claiming what was true before the trouble.
const maxMessage = 32768

const ellipsis = "…"

// Claim is what a controller says about one aspect of an object.
type Claim struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  Reason
	Message string
}

// True claims that typ holds.
func True(typ string, reason Reason, message string) Claim {
	return Claim{Type: typ, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False claims that typ does not hold.
func False(typ string, reason Reason, message string) Claim {
	return Claim{Type: typ, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Unknown claims that it is not known whether typ holds.
func Unknown(typ string, reason Reason, message string) Claim {
	return Claim{Type: typ, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// At is the moment for which conditions are derived: which generation of the
// spec the claims are about, and what time it is.
type At struct {
	Generation int64
	Now        time.Time
}

// Merge returns the conditions that state the claims, given the previous ones.
// The result has one condition per claim, in the order of the claims. It shares
// no memory with previous, which is left as it is.
//
// Merge does not judge: a type that is claimed twice is in the result twice, and
// [Check] reports it.
func Merge(previous []metav1.Condition, at At, claims ...Claim) []metav1.Condition {
	merged := make([]metav1.Condition, 0, len(claims))
	for _, claim := range claims {
		merged = append(merged, metav1.Condition{
			Type:               claim.Type,
			Status:             claim.Status,
			ObservedGeneration: at.Generation,
			LastTransitionTime: transition(previous, claim, at.Now),
			Reason:             string(claim.Reason),
			Message:            shorten(claim.Message),
		})
	}
	return merged
}

// Find returns the condition of the given type, or nil. The result points into
// the list.
func Find(conditions []metav1.Condition, typ string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == typ {
			return &conditions[i]
		}
	}
	return nil
}

// IsTrue reports whether the list holds the given type with the status True.
func IsTrue(conditions []metav1.Condition, typ string) bool {
	found := Find(conditions, typ)
	return found != nil && found.Status == metav1.ConditionTrue
}

// transition returns the time of the last change of status. Times are cut to
// seconds, because that is what the API server keeps: a finer time would differ
// from what is read back, and the status would be written again on every pass.
func transition(previous []metav1.Condition, claim Claim, now time.Time) metav1.Time {
	before := Find(previous, claim.Type)
	if before != nil && before.Status == claim.Status && !before.LastTransitionTime.IsZero() {
		return before.LastTransitionTime
	}
	return metav1.NewTime(now.Truncate(time.Second))
}

// shorten cuts a message to what the schema admits, between two characters, and
// replaces bytes that are not UTF-8 and would be replaced on the way anyway.
func shorten(message string) string {
	if !utf8.ValidString(message) {
		message = string([]rune(message))
	}
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len(ellipsis)
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + ellipsis
}
