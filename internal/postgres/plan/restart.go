package plan

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// token is the word by which a start of this instance's server is asked for, empty if none is.
func token(s postgres.Snapshot) string {
	settings, _ := wanted(s)
	return settings.RestartOf(s.Instance)
}

// stays says that a primary is to keep its place meanwhile.
func stays(s postgres.Snapshot) bool {
	settings, _ := wanted(s)
	return settings.StaysIn(s.Instance)
}

// asked says that a start was asked for that the running server is not.
func asked(s postgres.Snapshot) bool {
	return s.Process.Running && token(s) != "" && s.Process.Restart != token(s)
}

// stuck names a parameter by which a replica cannot go on: its primary has more than it was started with.
func stuck(s postgres.Snapshot) string {
	for _, own := range s.Server.Own {
		if own.Value < postgres.Of(s.Data.Floors, own.Name) {
			return own.Name
		}
	}
	return ""
}

// restartAStuckReplica starts a replica anew whose replay waits for ever. What its primary has is in the files already.
func restartAStuckReplica(s postgres.Snapshot, plan *draft) bool {
	name := stuck(s)
	if name == "" || !s.Server.Replica || s.Standing.Role != tenure.RoleFollow || !loaded(s, plan) {
		return false
	}
	if !s.JobOf(postgres.JobStop).Running {
		why := "its primary has more of " + name + ", and its log cannot be replayed with less"
		plan.do(postgres.StopServer{Why: postgres.Why(why)})
	}
	plan.wait(postgres.Hold{
		Reason: wire.ReasonRestarting, Detail: "the server is restarted with more of " + name + ", as its primary has it",
	})
	return true
}

// Times of a replica that has strayed: what it may still learn by itself, and how often it is started anew at most.
const (
	strayedPatience = 2 * time.Second
	strayedPause    = 10 * time.Second
)

// restartAStrayedReplica starts a server anew that went over to the timeline of a primary which was lost before its
// first record came. The server looks only for children of that one, and never goes back; a new start goes by the copy.
func restartAStrayedReplica(s postgres.Snapshot, plan *draft) bool {
	strayed := s.Server.Replication.Strayed
	early := s.Now.Sub(s.Upstream.Since) < strayedPatience || s.Now.Sub(s.Process.Started) < strayedPause
	if strayed == 0 || early || !connected(s) || !s.Judged() {
		return false
	}
	if !s.JobOf(postgres.JobStop).Running {
		plan.do(postgres.StopServer{Why: postgres.Why(fmt.Sprintf(
			"it waits for timeline %d, of which it has no record and which its primary does not come from", strayed))})
	}
	plan.wait(postgres.Hold{
		Reason: wire.ReasonRestarting, Detail: "the server is restarted, to leave a timeline that nobody leads any more",
	})
	return true
}

// loaded says that the server has the configuration that it should have.
func loaded(s postgres.Snapshot, plan *draft) bool {
	_, mark := plan.files(s)
	return s.Server.Loaded == mark && s.Server.Proven == mark
}

// Times of a restart that waits for another primary.
const (
	yieldPatience = 30 * time.Second
	yieldPause    = 2 * time.Second
)

// restartWhenAsked starts the server anew, with whatever waits for that. A primary gives its place away before, if
// somebody can take it; the start as a replica that follows is the one that was asked for.
func restartWhenAsked(s postgres.Snapshot, plan *draft) bool {
	role := s.Standing.Role
	replica := role == tenure.RoleFollow && s.Server.Replica
	primary := role == tenure.RoleLead && s.Primary() && !s.Server.Replica
	if !asked(s) || !loaded(s, plan) || !replica && !primary {
		return false
	}
	purpose := "restart " + token(s) + " " + s.Process.Start
	checkpoint := s.JobOf(postgres.JobCheckpoint)
	hold := postgres.Hold{Reason: wire.ReasonRestarting, Detail: "the server is restarted, as was asked for"}
	switch {
	case s.JobOf(postgres.JobStop).Running:
	case s.Standing.Prepare > 0:
		// The place is about to be given away, however long the checkpoint before that takes.
		hold.Detail, hold.Recheck = "before the server is restarted, another member takes over", yieldPause
		plan.wait(hold)
		return false
	case primary && !stays(s) && canTakeOver(s) && (s.Asked.IsZero() || s.Now.Sub(s.Asked) < yieldPatience):
		if s.Now.Sub(s.AskedLast) >= yieldPause {
			plan.do(postgres.AskToYield{Why: "another member can take over while this server is restarted", Token: token(s)})
		}
		hold.Detail, hold.Recheck = "before the server is restarted, another member takes over", yieldPause
		plan.wait(hold)
		return false
	case primary && (checkpoint.For != purpose || checkpoint.Running):
		if !checkpoint.Running {
			plan.do(postgres.Checkpoint{Why: "it makes the stop short", For: purpose})
		}
	default:
		plan.do(postgres.StopServer{Why: postgres.Why(fmt.Sprintf("a new start was asked for (%s)", token(s)))})
	}
	plan.wait(hold)
	return true
}

// canTakeOver says that a member has nearly everything.
func canTakeOver(s postgres.Snapshot) bool {
	for _, sender := range s.Server.Replication.Senders {
		near := sender.Flushed+postgres.Near >= s.Server.Replication.Flushed
		if sender.Stream && near && sender.Member.Name != s.Instance && slices.Contains(s.Standing.Members, sender.Member) {
			return true
		}
	}
	return false
}
