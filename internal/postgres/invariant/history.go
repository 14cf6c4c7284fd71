package invariant

import (
	"slices"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
)

// holdsCopy says that the WAL of this copy, stopped or running, ends within a history.
func holdsCopy(s postgres.Snapshot, history postgres.History) bool {
	end := endOf(s)
	return end != nil && within(history, *end)
}

// endOf is where the WAL of this copy ends, nil if that is not known.
func endOf(s postgres.Snapshot) *tenure.Position {
	switch {
	case !s.Process.Running:
		return s.Data.End
	case !s.Server.Reachable || !s.Server.Replica:
		return nil
	}
	return s.Server.Replication.Place
}

// within says that a place lies in a history: on one of its timelines, and not after the place where the next one
// branches off.
func within(history postgres.History, end tenure.Position) bool {
	for index := len(history) - 1; index >= 0; index-- {
		if history[index].Timeline != end.Timeline {
			continue
		}
		return index+1 == len(history) || history[index+1].Begin >= end.LSN
	}
	return false
}

// toldByThePrimary says that a history is what the upstream of this very standing has told as a primary, on a timeline
// that is not before that of the term.
func toldByThePrimary(s postgres.Snapshot, history postgres.History) bool {
	told := s.Upstream
	return told.Known && told.Leads && told.Of == s.Standing.Upstream && told.Term == s.Standing.Term &&
		len(history) > 0 && slices.Equal(told.History, history) &&
		history[len(history)-1].Timeline >= s.Standing.Timeline
}

// followOnlyAHistoryThatHoldsTheCopy: the name and the slot of a member are used only when the primary of this term has
// told a history that holds the position of the copy. A server is not started with an upstream of an earlier standing
// in its files.
func followOnlyAHistoryThatHoldsTheCopy(s postgres.Snapshot, actions []postgres.Action) string {
	key := render.KeyName(s.Standing, s.Certificate.Installed)
	// Without the file nobody is followed.
	present := slices.Contains(s.Certificate.Lent, key) || !slices.ContainsFunc(s.Files, func(file postgres.File) bool {
		return file.Name == render.UpstreamFile && file.Hash != render.Hash(render.Alone())
	})
	for _, action := range actions {
		switch action := action.(type) {
		case postgres.FollowNobody:
			present = true
		case postgres.FollowUpstream:
			if present = true; s.Standing.Role != tenure.RoleFollow {
				continue
			}
			if !toldByThePrimary(s, action.History) || !holdsCopy(s, action.History) && !becameWhole(s) {
				return "a primary would be followed that has not told a history which holds this copy"
			}
		case postgres.StartServer:
			if !action.Primary && !present {
				return "a server would be started that follows by an earlier standing"
			}
		}
	}
	return ""
}

// becameWhole says that the server follows the upstream of this standing already, as one that joins, and that its copy,
// which a rewind had left short, has become one, and does not tell where it is yet. It was judged before it began.
func becameWhole(s postgres.Snapshot) bool {
	key := render.KeyName(s.Standing, s.Certificate.Installed)
	alone := slices.ContainsFunc(s.Files, func(file postgres.File) bool {
		return file.Name == render.UpstreamFile && file.Hash == render.Hash(render.Alone())
	})
	silent := endOf(s) == nil && s.Process.Running && s.Process.Consistent
	return silent && !s.Data.Short && !alone && slices.Contains(s.Certificate.Lent, key)
}

// startNoUnjudgedTail: the data of a primary, which may end with what nobody else has, is started as a replica only to
// lead again, to give its log to a ballot that it has answered under this standing, or as a part of the history of the
// one that it follows.
func startNoUnjudgedTail(s postgres.Snapshot, actions []postgres.Action) string {
	start, starts := first[postgres.StartServer](actions)
	if !starts || start.Primary || s.Data.Standby || s.Standing.Role == tenure.RoleLead {
		return ""
	}
	told := s.Upstream.Known && s.Upstream.Of == s.Standing.Upstream && s.Upstream.Term == s.Standing.Term
	switch s.Standing.Role {
	case tenure.RoleIdle:
		if s.Fenced >= s.Standing.Serial {
			return ""
		}
	case tenure.RoleFollow:
		if toldByThePrimary(s, s.Upstream.History) && holdsCopy(s, s.Upstream.History) {
			return ""
		}
	case tenure.RoleCatchUp:
		if told && holdsCopy(s, s.Upstream.History) {
			return ""
		}
	case tenure.RoleLead, tenure.RoleBegin, tenure.RoleYield:
	}
	return "the data of a primary would be started as a replica before it was judged"
}
