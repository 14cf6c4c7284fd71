package draft

import (
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/service"
)

// Draft is the plan of a database while the rules work on it.
type Draft struct {
	database.Snapshot
	service.Draft[database.Step]
	Plan *database.Plan
	// Turn is the instance that is restarted next, empty if none is.
	Turn string
	// InForce are the settings that count as the wanted ones.
	InForce []string
}

// Of is the draft of a plan in which nothing is decided yet, and that looks again after the given time.
func Of(snapshot database.Snapshot, again time.Duration) *Draft {
	plan := &database.Plan{Design: design.Of(snapshot)}
	plan.Again = again
	verbs := service.Verbs[database.Step]{
		Create: database.Create{}, Update: database.Update{}, Repair: database.Update{Repair: true},
		Marks: []string{database.AnnotationTemplate, database.AnnotationWish},
	}
	return &Draft{
		Snapshot: snapshot, Plan: plan, Draft: service.Draft[database.Step]{Drawn: &plan.Decided, Verbs: verbs},
		InForce: settingsInForce(plan.Design),
	}
}

// Rolls says that instances are being restarted, or will be as soon as the others of this database are well.
func (d *Draft) Rolls() bool {
	return d.Plan.Roll == database.RollRunning || d.Plan.Roll == database.RollDue && d.Fleet.Held == ""
}

const (
	// AtOnce is for what applications wait for.
	AtOnce = 500 * time.Millisecond
	// Soon is for what an agent can say and no event tells.
	Soon = 3 * time.Second
	// Later is for what an event should tell, in case it is something that has none.
	Later = 30 * time.Second
)
