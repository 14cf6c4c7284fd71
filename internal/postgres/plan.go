package postgres

import (
	"fmt"
	"strings"
	"time"

	"meridian.dev/meridian/internal/wire"
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
	// Stalled says that waiting will not help: a human is needed.
	Stalled bool
	// Recheck is when to look again, zero if an ordinary pass will do.
	Recheck time.Duration
}

// String is the plan for people and for golden tests: one line for each action and hold.
func (p Plan) String() string {
	var text strings.Builder
	for _, action := range p.Actions {
		fmt.Fprintf(&text, "do %s: %s\n", action.Verb(), action.Because())
	}
	for _, hold := range p.Holds {
		verb := "wait"
		if hold.Stalled {
			verb = "stall"
		}
		fmt.Fprintf(&text, "%s %s: %s", verb, hold.Reason, hold.Detail)
		if hold.Recheck > 0 {
			fmt.Fprintf(&text, " (again in %s)", hold.Recheck)
		}
		text.WriteByte('\n')
	}
	if text.Len() == 0 {
		return "nothing to do\n"
	}
	return text.String()
}
