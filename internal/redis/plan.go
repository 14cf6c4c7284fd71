package redis

import (
	"fmt"
	"strings"
	"time"

	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
)

// Plan is what shall be done, in this order, and what is waited for. An empty plan means that all is as wished.
type Plan struct {
	Actions []Action
	Holds   []Hold
}

// Hold is a named reason to wait.
type Hold struct {
	Reason wire.Reason
	// Detail is one sentence for a user.
	Detail string
	// Recheck is when to look again, zero if an ordinary pass will do.
	Recheck time.Duration
}

// Outcome is what came of a plan.
type Outcome struct {
	Violations []rule.Violation
	Done       []string
	// Failed is the first action that failed, and Problem why.
	Failed, Problem string
}

// String is the plan for people and for golden tests: one line for each action and hold.
func (p Plan) String() string {
	var lines []string
	for _, action := range p.Actions {
		lines = append(lines, fmt.Sprintf("do %s: %s\n", action.Verb(), action.Because()))
	}
	for _, hold := range p.Holds {
		line := fmt.Sprintf("wait %s: %s", hold.Reason, hold.Detail)
		if hold.Recheck > 0 {
			line += fmt.Sprintf(" (again in %s)", hold.Recheck)
		}
		lines = append(lines, line+"\n")
	}
	if len(lines) == 0 {
		return "nothing to do\n"
	}
	return strings.Join(lines, "")
}
