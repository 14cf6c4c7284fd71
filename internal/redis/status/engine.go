package status

import (
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

const (
	// near is how many bytes of writes a replica may lack and still count as near.
	near = 1 << 20
	// silence is how long a replica may say nothing and still count as near: a link that is cut stays up for longer.
	silence = 3 * time.Second
	// startsInVain is how often a server must have ended soon after its start to be one that cannot lead.
	startsInVain = 3
)

// Engine makes the facts for the loop of the lease. Silent is how long a server that runs has not answered.
func Engine(s redis.Snapshot, silent time.Duration) tenure.Engine {
	process, copied := s.Process, s.Copy
	engine := tenure.Engine{
		Known: true, Obeyed: s.Standing.Serial, Data: tenure.DataNone, Processes: process.Running || process.Leftover > 0,
		Leading: leading(s), Emptied: emptied(s),
	}
	yielded := s.Standing.Role == tenure.RoleYield && copied.Final > 0
	switch {
	case !process.Running && !yielded:
		engine.Lost = lost(s)
	case copied.Whole:
		engine.Data, engine.Incarnation, engine.SystemIdentifier = tenure.DataWhole, copied.Incarnation, copied.Dataset
	case copied.Begun && begun(s):
		engine.Incarnation, engine.SystemIdentifier = copied.Incarnation, copied.Incarnation
	}
	if copied.Whole && copied.Term == 0 {
		position := copied.Position()
		engine.Flushed = &position
		engine.Streams = s.Standing.Role == tenure.RoleFollow && s.Follows() && s.Server.Up && s.Standing.Serial > s.Fenced
	}
	if yielded && !engine.Processes {
		engine.Final = &tenure.Position{Timeline: copied.Timeline, LSN: uint64(copied.Final)}
	}
	// A server may be busy with one command for long: only one that is silent for much longer than a lease hangs.
	engine.Hung = copied.Term > 0 && process.Running && silent > 3*s.Lease()
	if process.Failures >= startsInVain {
		engine.CannotLead = "the server ends again and again soon after its start"
	}
	return engine
}

// emptied is the last flush that this server has carried out as the primary that it is, nil if it has none.
func emptied(s redis.Snapshot) *wire.Emptied {
	if s.Emptied.ID == "" || s.Copy.Term == 0 || !s.Process.Running || s.Emptied.Timeline != s.Copy.Timeline {
		return nil
	}
	return &s.Emptied
}

// lost is the copy that has ended with its process. A first copy that has served nobody is begun again under the same
// id: nothing is lost.
func lost(s redis.Snapshot) string {
	if s.Standing.Role == tenure.RoleBegin && s.Process.Incarnation == s.Standing.Incarnation {
		return ""
	}
	return s.Process.Incarnation
}

// begun says that the first copy is complete: an empty server that answers, with its settings in force.
func begun(s redis.Snapshot) bool {
	return s.Standing.Role == tenure.RoleLead ||
		s.Server.Reachable && s.Settings.Wanted != nil && s.Carried() && len(s.Pending()) == 0
}

func leading(s redis.Snapshot) *tenure.Leading {
	copied := s.Copy
	if copied.Term == 0 || !s.Process.Running {
		return nil
	}
	setting := s.Standing.Setting
	found := &tenure.Leading{
		Term: copied.Term, Timeline: copied.Timeline, Start: copied.Start(), Recovered: uint64(copied.Recovered),
		Flushed: uint64(copied.Offset), Setting: &setting, Barrier: uint64(max(copied.Offset, 1)),
		Open: s.Server.Reachable && s.Server.Open,
	}
	for _, sent := range s.Server.Sent {
		if sent.Online && sent.Member.Incarnation != "" {
			found.Replicas = append(found.Replicas, tenure.Replica{
				Member: sent.Member, Flushed: uint64(max(sent.Offset, 0)),
				Near: sent.Offset+near >= copied.Offset && sent.Quiet <= silence,
			})
		}
	}
	return found
}
