package service

import "time"

// Plan is what is to be done now. Without actions and holds the world is as the spec wishes.
type Plan[Step any] struct {
	// Actions are carried out in this order, each independent of the success of the others.
	Actions []Action[Step] `json:"actions,omitempty"`
	// Holds are what is waited for, the most important first.
	Holds []Hold `json:"holds,omitempty"`
	// Pending are changes that are asked for and not carried out now, one sentence each.
	Pending []string `json:"pending,omitempty"`
	// Restarts are those of Pending that come from Meridian and not from the spec: nothing is missing without them.
	Restarts []string `json:"restarts,omitempty"`
	// Again is when to look again although nothing has happened.
	Again time.Duration `json:"-"`
}

// First is the first hold of a weight.
func (p Plan[Step]) First(weight Weight) (Hold, bool) {
	for _, hold := range p.Holds {
		if hold.Weight == weight {
			return hold, true
		}
	}
	return Hold{}, false
}

// Hold is a named reason to wait.
type Hold struct {
	// Name is a CamelCase word that becomes the reason of a condition.
	Name string `json:"name"`
	// Message is one sentence for a user.
	Message string `json:"message"`
	// Weight says what the hold means for the conditions.
	Weight Weight `json:"weight"`
	// Recheck is when to look again, zero if an event will come.
	Recheck time.Duration `json:"-"`
}

// Weight says what a hold means.
type Weight string

// The weights.
const (
	// Progressing holds end by themselves.
	Progressing Weight = "Progressing"
	// Degraded holds say that there is less than was asked for.
	Degraded Weight = "Degraded"
	// Stalled holds end when a human acts.
	Stalled Weight = "Stalled"
	// Paused is the user's own wish: nothing is wrong and nothing moves.
	Paused Weight = "Paused"
	// Background holds take their time on purpose: nothing is missing meanwhile, and the resource is ready.
	Background Weight = "Background"
)

// urgency is the order in which holds are told: first what needs a human.
var urgency = []Weight{Stalled, Paused, Progressing, Degraded, Background}
