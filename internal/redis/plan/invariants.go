package plan

import (
	"fmt"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
)

// invariants are written from what must hold, without a look at the rules. Each goes through the actions in order.
var invariants = []rule.Invariant[redis.Snapshot, []redis.Action]{
	rule.Never("redis.do-nothing-after-a-stop", doNothingButStopWhenTold,
		"a pod that was told to end begins nothing", "R1"),
	rule.Never("redis.start-only-alone", startOnlyAlone,
		"two servers in a container take its memory from each other", "R2"),
	rule.Never("redis.start-with-a-memory-limit", startWithABound,
		"a server without maxmemory, certificate or the wanted engine is not started", "R3"),
	rule.Never("redis.stay-within-the-container", stayWithinTheContainer,
		"a server that grows beyond its container is killed with its data", "R4"),
	rule.Never("redis.stop-no-used-server", stopNobodysCache, "the data of a cache ends with its process", "R5"),
	rule.Never("redis.let-in-only-when-ready", letNobodyInBefore,
		"applications meet neither a server without its limits nor one without data", "R6"),
	rule.Never("redis.command-only-a-server-that-answers", actOnWhatIsKnown,
		"what a silent server is told may take effect much later", "R7"),
	rule.Never("redis.hand-over-only-when-told", yieldOnlyWhenTold, "a primary hands over only by the lease", "R8"),
	rule.Never("redis.end-when-another-has-everything", endWhenAnotherHasAll, "a handover loses nothing", "R8"),
	rule.Never("redis.begin-only-what-is-told", beginOnlyWhatIsTold,
		"an empty server does not take the place of a copy", "R10"),
	rule.Never("redis.follow-only-the-holder", followOnlyTheHolder,
		"a full resync from anybody else replaces good data", "R11"),
	rule.Never("redis.lead-only-with-a-copy", leadOnlyWithACopy, "an empty server would pass for the cache", "R12"),
	rule.Never("redis.flush-only-a-primary", emptyOnlyAPrimary,
		"a flush is carried out once, when a user has asked for it", "R13"),
}

// Check returns the invariants that the plan would break. A plan with a violation is refused as a whole.
func Check(snapshot redis.Snapshot, plan redis.Plan) []rule.Violation {
	return rule.Check(invariants, snapshot, plan.Actions)
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
		case redis.SetWaiting:
			beside := s.Container.Limit - s.Allowed()
			if action.Bytes <= 0 || s.Container.Limit > 0 && s.Allowed() > wire.LeastMemory && action.Bytes > beside {
				return fmt.Sprintf("%d bytes could wait for each replica, and the container has %d beside the data",
					action.Bytes, beside)
			}
			continue
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

// stopNobodysCache protects what a server has: a primary that leads, a replica that could lead, and whoever is
// connected.
func stopNobodysCache(s redis.Snapshot, actions []redis.Action) string {
	role, copied := s.Standing.Role, s.Copy
	for _, action := range actions {
		if _, stops := action.(redis.StopServer); !stops || s.Stopping {
			continue
		}
		begins := role == tenure.RoleBegin && s.Process.Incarnation != s.Standing.Incarnation
		led := copied.Term > 0 && (role != tenure.RoleLead || s.Standing.Term != copied.Term)
		switch {
		case begins || led:
		case copied.Term > 0:
			return "a primary would be stopped"
		case copied.Whole:
			return "a replica that has a copy would be stopped"
		case s.Server.Open || !s.Server.Reachable && !copied.Begun:
			return "a server that may have clients would be stopped, and its data with it"
		}
	}
	return ""
}

func yieldOnlyWhenTold(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		if _, yields := action.(redis.YieldServer); yields && s.Standing.Role != tenure.RoleYield {
			return "a server would give its place away that nobody has told to"
		}
	}
	return ""
}

// endWhenAnotherHasAll: what a server that yields has written, another member has as well, if one can within seconds.
func endWhenAnotherHasAll(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		if _, ends := action.(redis.EndServer); !ends {
			continue
		}
		heirs := 0
		for _, member := range s.Standing.Members {
			if member.Name == s.Instance || s.Copy.Term == 0 {
				continue
			}
			heirs++
			for _, sent := range s.Server.Sent {
				if sent.Member == member && s.Server.Reachable && sent.Offset >= s.Copy.Final {
					return ""
				}
			}
		}
		switch {
		case s.Standing.Role != tenure.RoleYield || s.Copy.Yielded.IsZero():
			return "a server would end that may have clients"
		case heirs > 0 && s.Now.Sub(s.Copy.Yielded) < heirPatience:
			return "a server would end before another has what it has"
		}
	}
	return ""
}

// beginOnlyWhatIsTold keeps an empty server from standing where a copy was: it begins a dataset or follows, and leads
// nothing.
func beginOnlyWhatIsTold(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		start, ok := action.(redis.StartServer)
		switch {
		case !ok:
		case s.Standing.Role == tenure.RoleBegin && start.Incarnation != "" && start.Incarnation == s.Standing.Incarnation:
		case s.Standing.Role == tenure.RoleFollow && start.Incarnation == "":
		default:
			return "an empty server would be started in the place of a copy"
		}
	}
	return ""
}

func followOnlyTheHolder(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		follow, ok := action.(redis.Follow)
		switch {
		case !ok:
		case s.Standing.Role != tenure.RoleFollow || follow.Upstream != s.Standing.Upstream || follow.Upstream.Name == "":
			return "another one would be followed than the holder of the lease"
		case s.Standing.Serial <= s.Fenced:
			return "an election was answered under this standing"
		case s.Copy.Term > 0 || s.Copy.Begun:
			return "a server that has led would follow"
		case s.Copy.Whole && !follow.Whole:
			return "a copy would be given up without a look at the lease"
		}
	}
	return ""
}

func leadOnlyWithACopy(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		lead, ok := action.(redis.Lead)
		if !ok {
			continue
		}
		first := s.Copy.Begun && s.Copy.Incarnation == s.Standing.SystemIdentifier
		switch {
		case s.Standing.Role != tenure.RoleLead || lead.Term != s.Standing.Term || lead.Timeline != s.Standing.Timeline:
			return "a server would lead that nobody has told to"
		case !s.Copy.Whole && !first:
			return "an empty server would lead"
		case s.Copy.Term > 0:
			return "a server would lead twice"
		}
	}
	return ""
}

func emptyOnlyAPrimary(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		flush, ok := action.(redis.Flush)
		if ok && (!s.Leads() || flush.ID == "" || flush.ID != s.Flush || flush.ID == s.Emptied.ID ||
			flush.ID == s.Standing.Emptied) {
			return "a cache would be emptied that nobody has asked to, or twice"
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
		case s.Standing.Role == tenure.RoleLead && (s.Copy.Term != s.Standing.Term ||
			s.Standing.OpenStart != s.Copy.Start() || s.Standing.OpenStart == ""):
			return "the door would be opened of a start that was not named for it"
		case s.Standing.Role != tenure.RoleLead && (!s.Server.Replica || !s.Copy.Whole || !s.Standing.OpenReads):
			return "the door would be opened of a server that has nothing to tell"
		}
	}
	return ""
}

// actOnWhatIsKnown refuses words to a server that was not seen to answer.
func actOnWhatIsKnown(s redis.Snapshot, actions []redis.Action) string {
	for _, action := range actions {
		switch action.(type) {
		case redis.LoadCertificate, redis.SetMemory, redis.SetWaiting, redis.SetPolicy, redis.SetParameter,
			redis.ResetParameter, redis.OpenDoor, redis.CloseDoor, redis.ReturnMemory, redis.Follow, redis.Detach, redis.Lead,
			redis.AdmitReplicas, redis.Flush, redis.HearReplicas:
			if !s.Process.Running || !s.Server.Reachable {
				return action.Verb() + " to a server that does not answer"
			}
		}
	}
	return ""
}
