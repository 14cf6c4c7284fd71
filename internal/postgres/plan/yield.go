package plan

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Times of a handover. The transfer of the lease needs only the WAL: whatever else a stop waits for, such as a
// checkpoint that goes on or a sender whose replica does not answer, is given up after a moment.
const (
	// shipToAll is how long every replica that is near may take to get the rest of the WAL, shipToOne how long the first.
	shipToAll = 500 * time.Millisecond
	shipToOne = 5 * time.Second
	// handoverStop is how long a clean stop may take, and hurriedStop while a checkpoint goes on that it would wait for. A
	// server that is killed recovers at its next start.
	handoverStop = time.Second
	hurriedStop  = 200 * time.Millisecond
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

// handsOver says that the server stops so that another member can take its place: nothing may hold that up. One that is
// alone, or that was told to end without being prepared for it, takes the time for a clean stop.
func handsOver(s postgres.Snapshot) bool {
	return s.Standing.Prepare > 0 && len(s.Standing.Members) > 1
}

// yieldThePlace lets nobody in, ends the sessions, lets the others have all of the WAL, and stops.
func yieldThePlace(s postgres.Snapshot, plan *draft) bool {
	if s.Standing.Role != tenure.RoleYield {
		return false
	}
	_, mark := plan.files(s)
	stop := postgres.StopServer{Why: "this instance gives its place away"}
	if handsOver(s) {
		stop.Within = handoverStop
		if s.JobOf(postgres.JobCheckpoint).Running {
			stop.Within = hurriedStop
		}
	}
	drain := s.JobOf(postgres.JobDrain)
	switch {
	case s.JobOf(postgres.JobStop).Running || !s.Process.Running:
	case !s.Primary() || !s.Server.Reachable:
		plan.do(stop)
	case s.Server.Proven != mark:
		plan.do(postgres.Reload{Why: "nobody is let in any more"})
	case !handsOver(s):
		plan.do(stop)
	case drain.Running:
		plan.wait(handover("the sessions of applications end"))
	case drain.For != s.Parting():
		plan.do(postgres.DrainSessions{Why: "nobody writes any more, and the replicas get the rest", For: s.Parting()})
	case drain.Problem == "" && !shipped(s, drain):
		plan.wait(handover("the replicas get the rest of the WAL"))
	default:
		plan.do(stop)
	}
	return true
}

func handover(detail string) postgres.Hold {
	return postgres.Hold{Reason: wire.ReasonSwitchover, Detail: detail, Recheck: 20 * time.Millisecond}
}

// shipped says that the replicas have flushed what the sessions had written, or that they are not waited for any more.
func shipped(s postgres.Snapshot, drain postgres.Job) bool {
	waited := s.Now.Sub(drain.Ended)
	one, all := false, true
	for _, sender := range s.Server.Replication.Senders {
		if !sender.Stream || sender.Joining || !slices.Contains(s.Standing.Members, sender.Member) {
			continue
		}
		has := sender.Flushed >= drain.LSN
		one = one || has
		all = all && (has || sender.Flushed+postgres.Near < drain.LSN)
	}
	return one && (all || waited >= shipToAll) || waited >= shipToOne
}
