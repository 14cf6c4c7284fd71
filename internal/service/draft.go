package service

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Draft is a plan while the rules work on it. A pause, an invalid spec and the end of a plan are respected here and
// nowhere else: a rule says of which sort an action is, and not whether it is allowed now.
type Draft[Step any] struct {
	// Drawn is what is decided so far.
	Drawn *Plan[Step]
	// Verbs are the steps that write children.
	Verbs Verbs[Step]
	// Stopped turns changes into pending ones. Safety goes on.
	Stopped bool
	// Invalid leaves out what comes from the spec. Safety goes on.
	Invalid bool
	// Ended leaves the rest of the rules out.
	Ended bool
}

// Do adds an action that is a matter of safety.
func (d *Draft[Step]) Do(action Action[Step]) { d.Drawn.Actions = append(d.Drawn.Actions, action) }

// Change adds an action that comes from the spec, or makes something new: a stop holds it back. An invalid spec
// promises nothing, so nothing is pending for it.
func (d *Draft[Step]) Change(action Action[Step]) {
	if !d.Invalid {
		d.Upkeep(action)
	}
}

// Upkeep adds an action that a stop holds back and an invalid spec does not: it follows from the name alone.
func (d *Draft[Step]) Upkeep(action Action[Step]) {
	if d.Stopped {
		what := strings.TrimSpace(action.Verb() + " " + action.Kind)
		d.Drawn.Pending = append(d.Drawn.Pending, what+" "+action.Name+": "+action.Why)
		return
	}
	d.Do(action)
}

// Writes says that the plan writes an object already. What else there is to write to it follows in the next pass.
func (d *Draft[Step]) Writes(kind, name string) bool {
	return slices.ContainsFunc(d.Drawn.Actions, func(action Action[Step]) bool {
		return action.Kind == kind && action.Name == name
	})
}

// Hold says what is waited for, and when to look again at the latest.
func (d *Draft[Step]) Hold(weight Weight, recheck time.Duration, name, message string) {
	d.Drawn.Holds = append(d.Drawn.Holds, Hold{Name: name, Message: message, Weight: weight, Recheck: recheck})
}

// SortHolds puts first what needs a human. Among equals the order of the rules stays.
func (d *Draft[Step]) SortHolds() {
	slices.SortStableFunc(d.Drawn.Holds, func(a, b Hold) int {
		return cmp.Compare(slices.Index(urgency, a.Weight), slices.Index(urgency, b.Weight))
	})
}

// Look brings the next look forward to the given moment.
func (d *Draft[Step]) Look(now, at time.Time) {
	if !at.IsZero() {
		d.Drawn.Again = max(min(d.Drawn.Again, at.Sub(now)), time.Second)
	}
	for _, action := range d.Drawn.Actions {
		// Secrets are not watched, so no event says that they were written.
		if action.Kind == KindSecret {
			d.Drawn.Again = time.Second
		}
	}
}

// StopWhilePaused turns what follows into pending changes, if the user said so.
func (d *Draft[Step]) StopWhilePaused(paused bool) {
	if paused {
		d.Stopped = true
		d.Hold(Paused, 0, "Paused", "spec.paused is true; set it to false to have pending changes carried out")
	}
}
