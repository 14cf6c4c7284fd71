// Package controller puts the stages of the cache loop together: it is the only package that knows all of them. It
// decides nothing: loop.go is the list of stages, watches.go says what triggers a pass, rights.go what the loop may do.
//
// Start reading at New.
package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/act"
	"meridian.dev/meridian/internal/cache/invariant"
	"meridian.dev/meridian/internal/cache/observe"
	"meridian.dev/meridian/internal/cache/plan"
	"meridian.dev/meridian/internal/cache/status"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
)

type pass = loop.Pass[cache.Snapshot, cache.Plan, cache.Outcome]

// Loop is the control loop of caches.
type Loop = loop.Loop[*v1alpha1.GeoCache, cache.Snapshot, cache.Plan, cache.Outcome]

// New puts the loop together. Gone is called for a cache that no longer exists, and may be nil.
func New(
	config loop.Config, observer observe.Observer, actor act.Actor, gone func(types.NamespacedName),
) (*Loop, error) {
	return loop.New(config, loop.Stages[*v1alpha1.GeoCache, cache.Snapshot, cache.Plan, cache.Outcome]{
		Observe: observer.Observe, Decide: plan.Decide, Check: invariant.Check,
		Writes: func(decided cache.Plan) bool { return len(decided.Actions) > 0 },
		Act:    actor.Act, Report: report, Holds: holds,
		Gone: func(_ context.Context, key types.NamespacedName) error {
			if gone != nil {
				gone(key)
			}
			return nil
		},
	})
}

// holds are what is waited for, and the next look at a cache for which nothing is.
func holds(decided cache.Plan) []loop.Hold {
	list := []loop.Hold{{Name: "NextLook", Recheck: decided.Again}}
	for _, hold := range decided.Holds {
		list = append(list, loop.Hold{Name: hold.Name, Recheck: hold.Recheck})
	}
	return list
}

// report translates between the words of the runner and those of the status. A conflict is no trouble: the pass is
// repeated, and nobody has to hear of it.
func report(object *v1alpha1.GeoCache, done pass) []loop.Event {
	told := status.Pass{Snapshot: done.Snapshot, Plan: done.Plan, Outcome: done.Outcome}
	for _, violation := range done.Violations {
		told.Violations = append(told.Violations, violation.Rule+": "+violation.Detail)
	}
	switch {
	case done.Class == loop.Transient:
		told.Problem = done.Err.Error()
	case done.Class == loop.Terminal && len(done.Violations) == 0:
		told.Refused = done.Err.Error()
	}
	if done.Reading.Cause == expect.CacheBehind {
		told.CacheBehind = done.Reading.Reason
	}
	after, events := status.Report(object.Status, told)
	object.Status = after
	list := make([]loop.Event, 0, len(events))
	for _, event := range events {
		list = append(list, loop.Event(event))
	}
	return list
}
