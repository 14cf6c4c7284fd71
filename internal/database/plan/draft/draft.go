package draft

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
)

// Draft is a plan while the rules work on it.
type Draft struct {
	database.Snapshot
	Plan database.Plan
	// Stopped turns changes into pending ones. Safety goes on.
	Stopped bool
	// Invalid leaves out what comes from the spec. Safety goes on.
	Invalid bool
	// Ended leaves the rest of the rules out.
	Ended bool
	// Turn is the instance that is restarted next, empty if none is.
	Turn string
	// InForce are the settings that count as the wanted ones.
	InForce []string
}

// Of is the draft of a plan in which nothing is decided yet, and that looks again after the given time.
func Of(snapshot database.Snapshot, again time.Duration) *Draft {
	plan := database.Plan{Again: again, Design: design.Of(snapshot)}
	return &Draft{Snapshot: snapshot, Plan: plan, InForce: settingsInForce(plan.Design)}
}

// Do adds an action that is a matter of safety.
func (d *Draft) Do(action database.Action) { d.Plan.Actions = append(d.Plan.Actions, action) }

// Change adds an action that comes from the spec, or makes something new: a stop holds it back. An invalid spec
// promises nothing, so nothing is pending for it.
func (d *Draft) Change(action database.Action) {
	if !d.Invalid {
		d.Upkeep(action)
	}
}

// Upkeep adds an action that a stop holds back and an invalid spec does not: it follows from the name of the database.
func (d *Draft) Upkeep(action database.Action) {
	if d.Stopped {
		d.Plan.Pending = append(d.Plan.Pending, describe(action))
		return
	}
	d.Do(action)
}

// Writes says that the plan writes an object already. What else there is to write to it follows in the next pass.
func (d *Draft) Writes(kind, name string) bool {
	return slices.ContainsFunc(d.Plan.Actions, func(action database.Action) bool {
		return action.Kind == kind && action.Name == name
	})
}

// Hold says what is waited for, and when to look again at the latest.
func (d *Draft) Hold(weight database.Weight, recheck time.Duration, name, message string) {
	d.Plan.Holds = append(d.Plan.Holds, database.Hold{Name: name, Message: message, Weight: weight, Recheck: recheck})
}

// SortHolds puts first what needs a human. Among equals the order of the rules stays.
func (d *Draft) SortHolds() {
	var sorted []database.Hold
	weights := []database.Weight{
		database.Stalled, database.Paused, database.Progressing, database.Degraded, database.Background,
	}
	for _, weight := range weights {
		for _, hold := range d.Plan.Holds {
			if hold.Weight == weight {
				sorted = append(sorted, hold)
			}
		}
	}
	d.Plan.Holds = sorted
}

// Look brings the next look forward to the given moment.
func (d *Draft) Look(at time.Time) {
	if !at.IsZero() {
		d.Plan.Again = max(min(d.Plan.Again, at.Sub(d.Now)), time.Second)
	}
	for _, action := range d.Plan.Actions {
		// Secrets are not watched, so no event says that they were written.
		if action.Kind == database.KindSecret {
			d.Plan.Again = time.Second
		}
	}
}

func describe(action database.Action) string {
	text := action.Verb()
	if action.Kind != "" {
		text += " " + action.Kind
	}
	return text + " " + action.Name + ": " + action.Why
}

const (
	// AtOnce is for what applications wait for.
	AtOnce = 500 * time.Millisecond
	// Soon is for what an agent can say and no event tells.
	Soon = 3 * time.Second
	// Later is for what an event should tell, in case it is something that has none.
	Later = 30 * time.Second
)
