package plan

import (
	"fmt"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
)

// invariants are written from what must hold, without a look at the rules. Each goes through the actions in order.
var invariants = []struct {
	id     string
	broken func(redis.Snapshot, []redis.Action) string
}{
	{"R1", doNothingButStopWhenTold},
	{"R2", startOnlyAlone},
	{"R3", startWithABound},
	{"R4", stayWithinTheContainer},
	{"R5", stopNobodysCache},
	{"R6", letNobodyInBefore},
	{"R7", actOnWhatIsKnown},
}

// Check returns the invariants that the plan would break. A plan with a violation is refused as a whole.
func Check(snapshot redis.Snapshot, plan redis.Plan) []redis.Violation {
	var violations []redis.Violation
	for _, invariant := range invariants {
		if detail := invariant.broken(snapshot, plan.Actions); detail != "" {
			violations = append(violations, redis.Violation{Rule: invariant.id, Detail: detail})
		}
	}
	return violations
}

func doNothingButStopWhenTold(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		switch action.(type) {
		case redis.StopServer, redis.KillLeftover:
		default:
			if s.Stopping {
				return action.Verb() + " in a pod that was told to end"
			}
		}
	}
	return ""
}

func startOnlyAlone(s redis.Snapshot, actions []redis.Action) string {
	starts := 0
	for _, action := range actions {
		if _, ok := action.(redis.StartServer); ok {
			starts++
		}
	}
	if starts > 1 || starts == 1 && (s.Process.Running || s.Process.Leftover > 0) {
		return "a server would be started beside another"
	}
	return ""
}

// startWithABound refuses a server that could grow without end, that would speak without a certificate, or that is
// another than the settings name.
func startWithABound(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		start, ok := action.(redis.StartServer)
		switch {
		case !ok:
		case start.Memory <= 0:
			return "a server would be started without a bound of its memory"
		case start.Certificate == "" || start.Certificate != s.Certificate.Installed:
			return "a server would be started without its certificate"
		case s.Settings.Wanted == nil || start.Engine != s.Settings.Wanted.Engine:
			return "a server would be started that nobody asked for"
		}
	}
	return ""
}

func stayWithinTheContainer(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		var bytes int64
		switch action := action.(type) {
		case redis.StartServer:
			bytes = action.Memory
		case redis.SetMemory:
			bytes = action.Bytes
		default:
			continue
		}
		carries := s.Container.Limit <= 0 || wire.CacheLimit(bytes) <= s.Container.Limit || bytes == wire.LeastMemory
		if bytes <= 0 || !carries {
			return fmt.Sprintf("%d bytes of data in a container of %d", bytes, s.Container.Limit)
		}
		if s.Settings.Wanted != nil && bytes > max(s.Settings.Wanted.Memory, wire.LeastMemory) {
			return fmt.Sprintf("%d bytes of data, and only %d are wanted", bytes, s.Settings.Wanted.Memory)
		}
	}
	return ""
}

func stopNobodysCache(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		if _, stops := action.(redis.StopServer); stops && !s.Stopping && (s.Server.Open || !s.Server.Reachable) {
			return "a server that may have clients would be stopped, and its data with it"
		}
	}
	return ""
}

// letNobodyInBefore looks at the facts alone: what the same plan sets first may still fail to be in force.
func letNobodyInBefore(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		if _, opens := action.(redis.OpenDoor); !opens || s.Server.Open {
			continue
		}
		wanted := s.Settings.Wanted
		switch {
		case !s.Server.Reachable || s.NoPassword != "":
			return "the door would be opened of a server that does not answer, or without a password"
		case wanted == nil || s.Server.MaxMemory <= 0 || s.Server.MaxMemory > wanted.Memory ||
			s.Server.Policy != wanted.EvictionPolicy:
			return "the door would be opened before memory and policy are in force"
		}
	}
	return ""
}

// actOnWhatIsKnown refuses words to a server that was not seen to answer.
func actOnWhatIsKnown(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		switch action.(type) {
		case redis.LoadCertificate, redis.SetMemory, redis.SetPolicy, redis.SetParameter, redis.ResetParameter,
			redis.OpenDoor, redis.ReturnMemory:
			if !s.Process.Running || !s.Server.Reachable {
				return action.Verb() + " to a server that does not answer"
			}
		}
	}
	return ""
}
