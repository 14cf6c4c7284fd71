package recall

import (
	"fmt"
	"io"
	"strings"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/invariant"
	"meridian.dev/meridian/internal/database/plan"
	"meridian.dev/meridian/internal/database/status"
	"meridian.dev/meridian/kit/rule"
)

// Decision is what this version of the operator decides on a story.
type Decision struct {
	Plan       database.Plan
	Violations []rule.Violation
	Status     v1alpha1.GeoDatabaseStatus
}

// Play decides. It is pure.
func Play(story Story) Decision {
	decided := plan.Decide(story.Seen)
	after, _ := status.Report(v1alpha1.GeoDatabaseStatus{}, status.Pass{Snapshot: story.Seen, Plan: decided})
	return Decision{Plan: decided, Violations: invariant.Check(story.Seen, decided), Status: after}
}

// Print writes a story and what is decided on it for a person.
func Print(out io.Writer, story Story, decision Decision) error {
	var text strings.Builder
	fmt.Fprintf(&text, "GeoDatabase %s/%s at %s\n", story.Seen.Namespace, story.Seen.Name,
		story.Seen.Now.UTC().Format("2006-01-02 15:04:05"))
	var does, waits, breaks, claims []string
	for _, action := range decision.Plan.Actions {
		does = append(does, strings.TrimSpace(action.Verb()+" "+action.Kind)+" "+action.Name+": "+action.Why)
	}
	for _, hold := range decision.Plan.Holds {
		waits = append(waits, fmt.Sprintf("%s (%s): %s", hold.Name, hold.Weight, hold.Message))
	}
	for _, violation := range decision.Violations {
		breaks = append(breaks, violation.Rule+": "+violation.Detail)
	}
	for _, condition := range decision.Status.Conditions {
		claims = append(claims, fmt.Sprintf("%s is %s: %s: %s", condition.Type, condition.Status, condition.Reason,
			condition.Message))
	}
	section(&text, "Could not be read, so the operator may see more", story.Unread, "")
	section(&text, "Was assumed", story.Assumed, "")
	section(&text, "It would do", does, "nothing")
	section(&text, "It would wait for", waits, "nothing")
	section(&text, "It would leave for later", decision.Plan.Pending, "")
	section(&text, "Invariants", breaks, "all hold")
	section(&text, "It would say", claims, "nothing")
	_, err := io.WriteString(out, text.String())
	return err
}

// section prints a list under its heading; an empty one only if there is a word for it.
func section(out *strings.Builder, heading string, list []string, none string) {
	if len(list) == 0 && none == "" {
		return
	}
	fmt.Fprintf(out, "\n%s\n", heading)
	if len(list) == 0 {
		fmt.Fprintf(out, "  %s\n", none)
	}
	for _, line := range list {
		fmt.Fprintf(out, "  %s\n", line)
	}
}
