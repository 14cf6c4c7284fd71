package postgres

import "meridian.dev/meridian/kit/rule"

// Outcome is what came of a plan.
type Outcome struct {
	// Done are the verbs that were carried out, in order.
	Done []string
	// Failed is the first one that was not, empty if there is none, and Problem why.
	Failed  string
	Problem string
	// Kept says that it was about new settings, and that the rest was done with those that are on the disk.
	Kept bool
	// Violations are why the plan was refused as a whole, empty if it was not.
	Violations []rule.Violation
}
