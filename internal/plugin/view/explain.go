package view

import (
	"fmt"
	"io"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// Explanation is why the operator does nothing right now, or what it does. Scripts read it as JSON, so fields are
// added, never renamed.
type Explanation struct {
	// Answer is the most important cause, in one sentence.
	Answer string `json:"answer"`
	// Causes are all that were found, the most important first.
	Causes []Cause `json:"causes,omitempty"`
}

// Cause is one reason to wait.
type Cause struct {
	// Hold is its name, which has a page in the runbook unless the cause lies outside of the operator.
	Hold    string `json:"hold,omitempty"`
	Message string `json:"message"`
	// Ends says when it ends: by itself, when a human acts, or when the user takes back a wish.
	Ends  string    `json:"ends"`
	Since time.Time `json:"since,omitzero"`
}

const (
	byItself = "by itself"
	byHuman  = "when somebody acts; the page of the runbook says how"
)

// ExplainFacts finds what keeps the operator from doing more.
func ExplainFacts(facts Facts) Explanation {
	causes := slices.Concat(outsideCauses(facts), wishCauses(facts), conditionCauses(facts.Now, facts.Database))
	for _, one := range facts.Companions {
		for _, cause := range holds(one.state().conditions) {
			cause.Message = one.Kind().One + " " + one.GetName() + ": " + cause.Message
			causes = append(causes, cause)
		}
	}
	if len(causes) == 0 {
		return Explanation{Answer: "There is nothing to do: everything is as the spec wishes."}
	}
	return Explanation{Answer: causes[0].Message, Causes: causes}
}

// outsideCauses are those of which a database that nobody looks at cannot tell.
func outsideCauses(facts Facts) []Cause {
	var causes []Cause
	for _, finding := range checkOperator(facts) {
		if finding.Outcome == Failed {
			causes = append(causes, Cause{Message: finding.Message, Ends: "when the operator runs; look at its pods and logs"})
		}
	}
	if len(facts.Database.Status.Conditions) == 0 && len(causes) == 0 {
		causes = append(causes, Cause{
			Message: "no operator has looked at it yet", Since: facts.Database.CreationTimestamp.Time,
			Ends: "within seconds, if an operator works in this namespace",
		})
	}
	return causes
}

// wishCauses are those that a user asked for.
func wishCauses(facts Facts) []Cause {
	var causes []Cause
	if facts.Database.Spec.Paused {
		causes = append(causes, Cause{
			Hold: "Paused", Message: "spec.paused is true: the operator changes nothing; failover goes on",
			Ends: "when spec.paused is false",
		})
	}
	if target := facts.Database.Annotations[AnnotationSwitchover]; target != "" {
		causes = append(causes, Cause{
			Hold: "SwitchingOver", Message: "another primary was asked for: " + target, Ends: byItself + ", within a minute",
		})
	}
	return causes
}

func conditionCauses(now time.Time, database v1alpha1.GeoDatabase) []Cause {
	causes := holds(database.Status.Conditions)
	if database.Status.ObservedGeneration != database.Generation && len(database.Status.Conditions) > 0 {
		causes = append(causes, Cause{
			Message: fmt.Sprintf("generation %d of the spec is new and was not looked at yet", database.Generation),
			Ends:    byItself,
		})
	}
	waiting := database.Status.WaitingFor
	if waiting != "" && !slices.ContainsFunc(causes, func(c Cause) bool { return c.Message == waiting }) {
		causes = append(causes, Cause{Message: waiting, Ends: byItself, Since: now})
	}
	for _, pending := range database.Status.PendingChanges {
		causes = append(causes, Cause{Message: pending, Ends: "at the next restart, or when the pause ends"})
	}
	return causes
}

// holds are the conditions that name one.
func holds(conditions []metav1.Condition) []Cause {
	var causes []Cause
	for _, one := range []struct{ typ, ends string }{
		{v1alpha1.ConditionStalled, byHuman},
		{v1alpha1.ConditionProgressing, byItself},
		{v1alpha1.ConditionDegraded, byItself + ", once what is missing is back"},
	} {
		found := condition.Find(conditions, one.typ)
		if found == nil || found.Status != metav1.ConditionTrue ||
			slices.ContainsFunc(causes, func(c Cause) bool { return c.Hold == found.Reason }) {
			continue
		}
		causes = append(causes, Cause{
			Hold: found.Reason, Message: found.Message, Ends: one.ends, Since: found.LastTransitionTime.Time,
		})
	}
	return causes
}

// Explain writes an explanation.
func Explain(out io.Writer, style Style, now time.Time, explanation Explanation) {
	fmt.Fprintln(out, style.paint(strong, explanation.Answer))
	for _, cause := range explanation.Causes {
		fmt.Fprintln(out)
		lines := &table{style: style, indent: "  "}
		if cause.Hold != "" {
			lines.add(cell{"Hold", faint}, cell{cause.Hold, busy})
		}
		lines.add(cell{"Waits for", faint}, text("%s", cause.Message))
		if !cause.Since.IsZero() && cause.Since.Before(now) {
			lines.add(cell{"Since", faint}, text("%s", ago(now, cause.Since)))
		}
		lines.add(cell{"Ends", faint}, text("%s", cause.Ends))
		if cause.Hold != "" {
			lines.add(cell{"Read", faint}, text("kubectl meridian runbook %s", cause.Hold))
		}
		lines.write(out)
	}
}

// Events writes changes, the newest last.
func Events(out io.Writer, style Style, now time.Time, changes []Change) {
	lines := &table{style: style}
	lines.head("AGO", "OBJECT", "REASON", "NOTE")
	for _, change := range changes {
		reason := cell{text: change.Reason}
		if change.Warning {
			reason.tone = bad
		}
		note := change.Note
		if change.Count > 1 {
			note = fmt.Sprintf("%s (%d times)", note, change.Count)
		}
		lines.add(text("%s", ago(now, change.At)), text("%s", change.Object), reason, text("%s", note))
	}
	lines.write(out)
}
