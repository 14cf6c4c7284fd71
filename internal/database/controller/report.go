package controller

import (
	"fmt"
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
	if done.Snapshot.Elsewhere() {
		return elsewhere(done)
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

// elsewhere tells, once in the life of a process, that another installation works for a database. Its status is that
// one's to write.
func elsewhere(done pass) []loop.Event {
	if done.Reading.Answer != expect.ReadLive {
		return nil
	}
	return []loop.Event{{
		Warning: true, Reason: "OtherInstallation", Action: "Leave",
		Note: fmt.Sprintf("%s works for this database, so %s leaves it alone; to hand it over, change the annotation %s",
			done.Snapshot.StampedBy, done.Snapshot.Installation, database.AnnotationInstallation),
	}}
}

// released says that this pass has let a deleted database go: there is nothing left to write a status to.
func released(done pass) bool {
	return done.Snapshot.Deleting && slices.ContainsFunc(done.Outcome.Results, func(result database.Result) bool {
		return database.Does[database.Release](result.Action) && result.Done
	})
}
