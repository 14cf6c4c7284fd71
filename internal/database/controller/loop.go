// Package controller puts the stages of the database loop together: it is the only package that knows all of them. It
// decides nothing: loop.go is the list of stages, watches.go says what triggers a pass, rights.go what the loop may do.
//
// Start reading at New.
package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	"meridian.dev/meridian/internal/database/invariant"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/internal/database/plan"
	"meridian.dev/meridian/kit/loop"
)

type pass = loop.Pass[database.Snapshot, database.Plan, database.Outcome]

// Loop is the control loop of databases.
type Loop = loop.Loop[*v1alpha1.GeoDatabase, database.Snapshot, database.Plan, database.Outcome]

// New puts the loop together. Gone is called for a database that no longer exists, and may be nil.
func New(
	config loop.Config, observer observe.Observer, actor act.Actor, gone func(types.NamespacedName),
) (*Loop, error) {
	return loop.New(config, loop.Stages[*v1alpha1.GeoDatabase, database.Snapshot, database.Plan, database.Outcome]{
		Observe: observer.Observe,
		Decide:  plan.Decide,
		Check:   invariant.Check,
		Writes:  func(decided database.Plan) bool { return len(decided.Actions) > 0 },
		Act:     actor.Act,
		Report: func(object *v1alpha1.GeoDatabase, done pass) []loop.Event {
			if observer.Fleet != nil && done.Snapshot.Name != "" {
				observer.Fleet.Note(client.ObjectKeyFromObject(object), done.Plan.Roll)
			}
			if observer.Crowd != nil && done.Snapshot.Name != "" {
				observer.Crowd.Note(client.ObjectKeyFromObject(object), done.Plan.Need, done.Snapshot.Now)
			}
			return report(object, done)
		},
		Holds: holds,
		Gone: func(ctx context.Context, key types.NamespacedName) error {
			if gone != nil {
				gone(key)
			}
			return actor.FreeLeft(ctx, key)
		},
	})
}

// holds are what is waited for, and the next look at a database for which nothing is.
func holds(decided database.Plan) []loop.Hold {
	list := []loop.Hold{{Name: "NextLook", Recheck: decided.Again}}
	for _, hold := range decided.Holds {
		list = append(list, loop.Hold{Name: hold.Name, Recheck: hold.Recheck})
	}
	return list
}
