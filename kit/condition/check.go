package condition

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Problem is one way in which conditions mislead their readers.
type Problem struct {
	// Rule names the rule that is broken, for tests and alerts.
	Rule Rule
	// Type is the condition in question, or empty when it is about the object.
	Type string
	// Says is the problem as a sentence.
	Says string
}

// String returns the problem in one line.
func (p Problem) String() string {
	return fmt.Sprintf("%s: %s", p.Rule, p.Says)
}

// Rule names one of the rules that Check applies.
type Rule string

const (
	// WellFormed demands what the schema of a condition demands, because the API
	// server would otherwise refuse the status as a whole; and a reason in
	// CamelCase.
	WellFormed Rule = "WellFormed"
	// OneOfEach demands that no type is in the list twice.
	OneOfEach Rule = "OneOfEach"
	// SameGeneration demands that status.observedGeneration is set, is not ahead
	// of the object, and is repeated by each condition.
	SameGeneration Rule = "SameGeneration"
	// ReadyPresent demands a Ready condition, because without one an object reads
	// as Current.
	ReadyPresent Rule = "ReadyPresent"
	// ReadyAlone demands that Ready is not True while Reconciling, Progressing or
	// Stalled is: some tools would believe the one, some the other.
	ReadyAlone Rule = "ReadyAlone"
	// NotBoth demands that Reconciling and Stalled are not both True, because the
	// reading would depend on the order of the list.
	NotBoth Rule = "NotBoth"
)

// rules is the list of all that Check looks at, the shape before the meaning.
var rules = []func(View) []Problem{
	findMalformed,
	findTwice,
	findWrongGeneration,
	findReadyMissing,
	findReadyContradicted,
	findStalledReconciling,
}

// Check returns the problems of the view, in a stable order; none means that all
// tools read it alike, and as the package comment promises.
func Check(view View) []Problem {
	var problems []Problem
	for _, rule := range rules {
		problems = append(problems, rule(view)...)
	}
	return problems
}

func findMalformed(view View) []Problem {
	var problems []Problem
	for _, c := range view.Conditions {
		report := func(format string, args ...any) {
			says := fmt.Sprintf("condition %q: ", c.Type) + fmt.Sprintf(format, args...)
			problems = append(problems, Problem{Rule: WellFormed, Type: c.Type, Says: says})
		}
		if wrong := validation.IsQualifiedName(c.Type); len(wrong) > 0 {
			report("the type is not valid: %s", strings.Join(wrong, "; "))
		}
		switch c.Status {
		case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
		default:
			report("the status %q is none of True, False, Unknown", c.Status)
		}
		if err := Reason(c.Reason).Validate(); err != nil {
			report("%s", err)
		}
		if len(c.Message) > maxMessage {
			report("the message has %d bytes, at most %d are stored", len(c.Message), maxMessage)
		}
		if c.LastTransitionTime.IsZero() {
			report("the transition time is missing")
		}
	}
	return problems
}

func findTwice(view View) []Problem {
	var problems []Problem
	count := map[string]int{}
	for _, c := range view.Conditions {
		count[c.Type]++
		if count[c.Type] == 2 {
			says := fmt.Sprintf("%s is stated more than once", c.Type)
			problems = append(problems, Problem{Rule: OneOfEach, Type: c.Type, Says: says})
		}
	}
	return problems
}

func findWrongGeneration(view View) []Problem {
	if view.ObservedGeneration == 0 {
		return []Problem{{Rule: SameGeneration, Says: "the status does not say which generation was observed"}}
	}
	var problems []Problem
	if view.ObservedGeneration > view.Generation {
		problems = append(problems, Problem{Rule: SameGeneration, Says: fmt.Sprintf(
			"the status claims to have observed generation %d of an object at %d",
			view.ObservedGeneration, view.Generation)})
	}
	for _, c := range view.Conditions {
		if c.ObservedGeneration != view.ObservedGeneration {
			problems = append(problems, Problem{Rule: SameGeneration, Type: c.Type, Says: fmt.Sprintf(
				"%s is about generation %d, the status about %d", c.Type, c.ObservedGeneration, view.ObservedGeneration)})
		}
	}
	return problems
}

func findReadyMissing(view View) []Problem {
	if Find(view.Conditions, Ready) != nil {
		return nil
	}
	return []Problem{{Rule: ReadyPresent, Type: Ready, Says: "without a Ready condition the object reads as Current"}}
}

func findReadyContradicted(view View) []Problem {
	if !IsTrue(view.Conditions, Ready) {
		return nil
	}
	var problems []Problem
	for _, typ := range []string{Reconciling, Progressing, Stalled} {
		if IsTrue(view.Conditions, typ) {
			says := fmt.Sprintf("Ready and %s are both True", typ)
			problems = append(problems, Problem{Rule: ReadyAlone, Type: typ, Says: says})
		}
	}
	return problems
}

func findStalledReconciling(view View) []Problem {
	if !IsTrue(view.Conditions, Stalled) || !IsTrue(view.Conditions, Reconciling) {
		return nil
	}
	return []Problem{{Rule: NotBoth, Type: Stalled,
		Says: "Reconciling and Stalled are both True, so the reading depends on their order"}}
}
