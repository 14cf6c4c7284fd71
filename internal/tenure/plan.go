package tenure

import (
	"fmt"
	"strings"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Plan is what shall be done, in this order, and what is waited for.
type Plan struct {
	Actions []Action
	Holds   []Hold
	// Again is when to look again at the latest, 0 if an ordinary pass will do.
	Again time.Duration
	// Finished says that an instance that was told to end has nothing left to give away.
	Finished bool
}

// Hold is a named reason to wait.
type Hold struct {
	Reason wire.Reason
	// Detail is one sentence for a user.
	Detail string
	// Stalled says that waiting will not help: a human is needed.
	Stalled bool
}

// String is the plan for people and golden tests: one line for each action and hold.
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
		fmt.Fprintf(&text, "%s %s: %s\n", verb, hold.Reason, hold.Detail)
	}
	if p.Finished {
		text.WriteString("finished\n")
	}
	if text.Len() == 0 {
		return "nothing to do\n"
	}
	return text.String()
}
