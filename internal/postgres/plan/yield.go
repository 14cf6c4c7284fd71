package plan

import (
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// prepareToYield writes a checkpoint while applications are served: the one of the stop has little left to write then,
// however much the server has in memory.
func prepareToYield(s postgres.Snapshot, plan *draft) bool {
	checkpoint := s.JobOf(postgres.JobCheckpoint)
	if s.Standing.Prepare > 0 && s.LeadingStart() != "" && checkpoint.For != s.Parting() && !checkpoint.Running {
		plan.do(postgres.Checkpoint{Why: "it makes the stop short", For: s.Parting()})
	}
	return false
}

// yieldThePlace lets nobody in and stops. A checkpoint comes before, unless one was written for that already.
func yieldThePlace(s postgres.Snapshot, plan *draft) bool {
	if s.Standing.Role != tenure.RoleYield {
		return false
	}
	_, mark := files(s)
	purpose := s.Parting()
	checkpoint := s.JobOf(postgres.JobCheckpoint)
	switch {
	case s.JobOf(postgres.JobStop).Running || !s.Process.Running:
	case !s.Primary() || !s.Server.Reachable:
		plan.do(postgres.StopServer{Why: "this instance gives its place away"})
	case s.Server.Proven != mark:
		plan.do(postgres.Reload{Why: "nobody is let in any more"})
	case checkpoint.For != purpose && !checkpoint.Running:
		plan.do(postgres.Checkpoint{Why: "it makes the stop short", For: purpose})
	case checkpoint.Running:
		plan.wait(postgres.Hold{Reason: wire.ReasonSwitchover, Detail: "a checkpoint is written before the stop"})
	default:
		plan.do(postgres.StopServer{Why: "this instance gives its place away"})
	}
	return true
}
