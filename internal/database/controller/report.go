package controller

import (
	"slices"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/status"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
)

// report translates between the words of the runner and those of the status. A conflict is no trouble: the pass is
// repeated, and nobody has to hear of it.
func report(object *v1alpha1.GeoDatabase, done pass) []loop.Event {
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
	if !released(done) {
		object.Status = after
	}
	list := make([]loop.Event, 0, len(events))
	for _, event := range events {
		list = append(list, loop.Event(event))
	}
	return list
}

// released says that this pass has let a deleted database go: there is nothing left to write a status to.
func released(done pass) bool {
	return done.Snapshot.Deleting && slices.ContainsFunc(done.Outcome.Results, func(result database.Result) bool {
		return result.Action.Verb == database.Release && result.Done
	})
}
