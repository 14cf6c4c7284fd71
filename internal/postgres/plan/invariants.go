package plan

import (
	"fmt"

	"meridian.dev/meridian/internal/postgres"
)

// invariants are written from what must hold, without a look at the rules. Each goes through the actions in order.
var invariants = []struct {
	id     string
	broken func(postgres.Snapshot, []postgres.Action) string
}{
	{"V1", writeOnlyUnderTheLock},
	{"V2", touchOnlyTheOwnDatabase},
	{"V3", initialiseOnlyWhereNothingWas},
	{"V5", startOnlyTheVersionOfTheData},
	{"V6", startOnlyTheRecordedData},
	{"C2", startOnlyAlone},
	{"A1", makeTheApplicationOnce},
	{"S1", stopOnlyWhenTold},
	{"S2", doNothingAfterAStop},
}

// Check returns the invariants that the plan would break. A plan with a violation is refused as a whole.
func Check(snapshot postgres.Snapshot, plan postgres.Plan) []postgres.Violation {
	var violations []postgres.Violation
	for _, invariant := range invariants {
		if detail := invariant.broken(snapshot, plan.Actions); detail != "" {
			violations = append(violations, postgres.Violation{Rule: invariant.id, Detail: detail})
		}
	}
	return violations
}

// first returns the first action of a verb.
func first[A postgres.Action](actions []postgres.Action) (found A, ok bool) {
	for _, action := range actions {
		if found, ok = action.(A); ok {
			return found, true
		}
	}
	return found, false
}

func has[A postgres.Action](actions []postgres.Action) bool {
	_, ok := first[A](actions)
	return ok
}

func writeOnlyUnderTheLock(s postgres.Snapshot, actions []postgres.Action) string {
	if s.Volume.Lock == postgres.LockOurs {
		return ""
	}
	for _, action := range actions {
		switch action.(type) {
		case postgres.LockVolume, postgres.StopServer, postgres.KillLeftover:
		default:
			return fmt.Sprintf("%s without the lock of the volume", action.Verb())
		}
	}
	return ""
}

func touchOnlyTheOwnDatabase(s postgres.Snapshot, actions []postgres.Action) string {
	record, mounted := s.Volume.Record, s.Settings.Mounted
	foreign := record != nil && mounted != nil && record.DatabaseUID != mounted.DatabaseUID
	for _, action := range actions {
		switch action := action.(type) {
		case postgres.LockVolume, postgres.StopServer, postgres.KillLeftover:
			continue
		case postgres.ClaimVolume:
			if record != nil {
				return "a volume is claimed that has a record"
			}
			if mounted == nil || action.DatabaseUID != mounted.DatabaseUID {
				return "a volume is claimed for a database that is not the mounted one"
			}
		case postgres.RecordSettings:
			if record == nil || action.Settings.DatabaseUID != record.DatabaseUID {
				return "settings of another database are recorded"
			}
		}
		if foreign {
			return fmt.Sprintf("%s on the volume of another database", action.Verb())
		}
	}
	return ""
}

func initialiseOnlyWhereNothingWas(s postgres.Snapshot, actions []postgres.Action) string {
	claim, initialise := has[postgres.ClaimVolume](actions), has[postgres.Initialise](actions)
	if !claim && !initialise {
		return ""
	}
	record := s.Volume.Record
	switch {
	case s.Volume.Problem != "":
		return "a volume that cannot be read is taken for an empty one"
	case s.Data.Presence != postgres.DataAbsent:
		return "there is something in the place of the data directory"
	case s.Settings.Mounted == nil || s.Settings.Mounted.Initialised:
		return "the database has had data, or it is not known whether it has"
	case s.Process.Running || s.Process.Leftover > 0:
		return "a server is alive"
	case initialise && (record == nil || record.InProgress != postgres.StepInitialise || record.SystemIdentifier != ""):
		return "the record does not say that the volume was never completed"
	}
	return ""
}

func startOnlyTheVersionOfTheData(s postgres.Snapshot, actions []postgres.Action) string {
	fits := s.Data.Presence == postgres.DataPresent && s.Data.Major == s.Programs.Major
	if has[postgres.StartServer](actions) && !fits {
		return fmt.Sprintf("version %d would be started on data of version %d", s.Programs.Major, s.Data.Major)
	}
	return ""
}

func startOnlyTheRecordedData(s postgres.Snapshot, actions []postgres.Action) string {
	if !has[postgres.StartServer](actions) {
		return ""
	}
	record := s.Volume.Record
	switch {
	case record == nil || record.InProgress != "":
		return "a server would be started on data that is not recorded as complete"
	case record.SystemIdentifier != s.Data.SystemIdentifier:
		return "a server would be started on other data than was recorded"
	case s.Settings.Mounted != nil && s.Settings.Mounted.SystemIdentifier != "" &&
		s.Settings.Mounted.SystemIdentifier != s.Data.SystemIdentifier:
		return "a server would be started on data that is not a copy of this database"
	}
	return ""
}

func startOnlyAlone(s postgres.Snapshot, actions []postgres.Action) string {
	alone := !s.Process.Running && s.Process.Leftover == 0
	if (has[postgres.StartServer](actions) || has[postgres.RemovePIDFile](actions)) && !alone {
		return "a server would be started, or its traces removed, while one is alive"
	}
	return ""
}

func makeTheApplicationOnce(s postgres.Snapshot, actions []postgres.Action) string {
	again := has[postgres.CreateRole](actions) || has[postgres.CreateDatabase](actions)
	if again && (s.Volume.Record == nil || s.Volume.Record.Application != nil) {
		return "a new role or database would take the place of one that was made before"
	}
	return ""
}

func stopOnlyWhenTold(s postgres.Snapshot, actions []postgres.Action) string {
	if has[postgres.StopServer](actions) && !s.Stopping {
		return "a server would be stopped although nobody asked for it"
	}
	return ""
}

func doNothingAfterAStop(s postgres.Snapshot, actions []postgres.Action) string {
	if !s.Stopping {
		return ""
	}
	for _, action := range actions {
		switch action.(type) {
		case postgres.StopServer, postgres.KillLeftover:
		default:
			return fmt.Sprintf("%s in a pod that was told to end", action.Verb())
		}
	}
	return ""
}
