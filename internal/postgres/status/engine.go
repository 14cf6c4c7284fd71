package status

import (
	"fmt"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
)

// Engine makes the facts for the loop of the lease. Failing says why acts that lead fail again and again, empty if they
// do not.
func Engine(s postgres.Snapshot, failing string) tenure.Engine {
	engine := tenure.Engine{
		Known:  s.Volume.Problem == "" && s.Volume.Lock == postgres.LockOurs && !s.Volume.Claim.Asked,
		Obeyed: s.Standing.Serial, Data: data(s),
		Processes: s.Process.Running || s.Process.Leftover > 0, Hung: s.Hung, Leading: leading(s),
		Use: s.Volume.Room.Use(s.Server.Full),
	}
	first := s.Volume.Record != nil && s.Volume.Record.InProgress == postgres.StepInitialise &&
		s.Data.Presence == postgres.DataPresent
	if engine.Data == tenure.DataWhole || engine.Data == tenure.DataChanging || engine.Data == tenure.DataNone && first {
		engine.Incarnation, engine.SystemIdentifier = s.Volume.Record.Incarnation, s.Data.SystemIdentifier
	}
	if first {
		engine.First = s.Data.Timeline
	}
	replication := s.Server.Replication
	follows := s.Standing.Role == tenure.RoleFollow || s.Standing.Role == tenure.RoleCatchUp
	if s.Server.Replica {
		engine.Streams = follows && replication.Receiving && s.Standing.Serial > s.Fenced
		if has := max(replication.Received, replication.Replayed); replication.Ahead > has {
			engine.Lag = replication.Ahead - has
		}
		engine.Flushed = replication.Place
	}
	engine.Stuck = s.Standing.Role == tenure.RoleFollow && s.LacksWAL()
	if engine.Data == tenure.DataWhole && !engine.Processes {
		engine.Flushed = s.Data.End
		if s.Standing.Role == tenure.RoleYield {
			engine.Final = s.Data.End
		}
	}
	engine.CannotLead = cannotLead(s, failing)
	return engine
}

// data says how much of a copy there is. What was begun and never completed is none; what cannot be told is unknown.
func data(s postgres.Snapshot) tenure.Data {
	record := s.Volume.Record
	present := s.Data.Presence == postgres.DataPresent
	switch {
	case s.Volume.Problem != "" || s.Volume.Lock != postgres.LockOurs:
		return tenure.DataUnknown
	case record == nil && s.Data.Presence == postgres.DataAbsent && !s.Data.Draft:
		return tenure.DataNone
	case record == nil:
		return tenure.DataUnknown
	case s.Volume.PutBack() || s.Volume.ToAccept():
		return tenure.DataPutBack
	case record.InProgress == postgres.StepRewind:
		return tenure.DataChanging
	case record.InProgress == postgres.StepDiscard || record.InProgress == postgres.StepClone:
		return tenure.DataNone
	case record.InProgress == postgres.StepInitialise:
		// Also a first copy that is complete: it counts only once it was told to lead or follow.
		return tenure.DataNone
	case present:
		return tenure.DataWhole
	}
	return tenure.DataUnknown
}

func leading(s postgres.Snapshot) *tenure.Leading {
	start := s.LeadingStart()
	if start == "" {
		return nil
	}
	replication := s.Server.Replication
	found := &tenure.Leading{
		Term: s.Standing.Term, Timeline: s.Server.Timeline, Start: start, Recovered: replication.Recovered,
		Flushed: replication.Flushed, Setting: s.Quorum.Setting, Barrier: s.Quorum.Barrier,
		Open: s.Server.Open, Prepared: s.Prepared(),
	}
	for _, sender := range replication.Senders {
		// A position beyond the own one is of another timeline (B3).
		if sender.Member.Incarnation == "" || !sender.Stream || sender.Flushed > replication.Flushed {
			continue
		}
		if !sender.Joining && !sender.Counts(s.Server.Timeline) {
			continue // It was judged for another timeline.
		}
		replica := tenure.Replica{Member: sender.Member, Near: sender.Flushed+postgres.Near >= replication.Flushed}
		if !sender.Joining {
			// Whoever goes by another name than a member's may become one, and counts for nothing until then (B2).
			replica.Flushed = sender.Flushed
		}
		found.Replicas = append(found.Replicas, replica)
	}
	return found
}

// startsInVain is how often a server must have ended soon after its start.
const startsInVain = 3

func cannotLead(s postgres.Snapshot, failing string) string {
	switch {
	case s.Trouble != "":
		return s.Trouble
	case s.Standing.Role == tenure.RoleLead && s.Data.Standby && !s.Promoting && s.Data.Timeline > s.Standing.Timeline:
		return fmt.Sprintf("the copy is on timeline %d, and was to lead on %d", s.Data.Timeline, s.Standing.Timeline)
	case s.MayRepeat():
		return "the copy was restored, and others may have more of its timeline"
	case s.Data.Short:
		return "the copy was made to fit that of a primary that did not send it all"
	case !s.Volume.Room.Starts() || s.Standing.Role != tenure.RoleLead && s.Volume.Room.Full(false):
		// Others are asked first. Whoever has the lease goes on as long as its server can.
		return "the volume is full"
	case s.Process.Failures >= startsInVain:
		return "PostgreSQL ends again and again soon after its start"
	}
	return failing
}
