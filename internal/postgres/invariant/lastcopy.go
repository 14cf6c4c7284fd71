package invariant

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// keepTheLastCopy: what may be the only copy is not given up. Another member, which leads, has one.
func keepTheLastCopy(s postgres.Snapshot, actions []postgres.Action) string {
	gives := has[postgres.BeginDiscard](actions) || has[postgres.BeginRewind](actions)
	if !gives && !has[postgres.BeginClone](actions) {
		return ""
	}
	switch upstream := s.Standing.Upstream; {
	case s.Standing.Role != tenure.RoleFollow || !s.Standing.Initialised:
		return "a copy would be given up, and the instance is not told to follow"
	case upstream.Name == s.Instance || upstream.Incarnation == "" || !slices.Contains(s.Standing.Members, upstream):
		return "a copy would be given up that may be the last one"
	}
	if why := rewindOnlyWhatOthersHave(s, actions); why != "" {
		return why
	}
	return keepWhatTheQuorumNeeds(s, actions)
}

// rewindOnlyWhatOthersHave: a copy is rewound when its primary has let applications in, or would not without it, or has
// not done so for a quarter of a minute.
func rewindOnlyWhatOthersHave(s postgres.Snapshot, actions []postgres.Action) string {
	without := len(s.Standing.Members) - 1
	waits := s.Standing.W > 1 && without >= s.Standing.W && !s.Upstream.Open
	if has[postgres.BeginRewind](actions) && waits && s.Now.Before(s.Upstream.Since.Add(15*time.Second)) {
		return "a copy would be rewound, and others may lack what it has"
	}
	return ""
}

// keepWhatTheQuorumNeeds: the whole copy of a member is discarded only while those that have nearly all of the
// primary's WAL can acknowledge writes and elect without it, by what the primary has just said. One that a rewind has
// left short, and whose rest the primary does not have any more, will never be a copy again.
func keepWhatTheQuorumNeeds(s postgres.Snapshot, actions []postgres.Action) string {
	discard, discards := first[postgres.BeginDiscard](actions)
	record := s.Volume.Record
	if !discards || discard.PutBack != "" || record == nil || record.InProgress != "" {
		return ""
	}
	if !s.WALGone() {
		return "a copy would be given up, and its upstream has not refused to stream the WAL that it needs"
	}
	if s.Standing.W < 2 || s.Data.Short {
		return ""
	}
	member, near := false, 0
	for _, other := range s.Standing.Members {
		switch has, told := s.Positions.Slots[render.Slot(other)]; {
		case other.Name == s.Instance:
			member = member || other.Incarnation == record.Incarnation
		case other == s.Standing.Upstream, told && s.Positions.LSN <= has+postgres.Near, !told && outranks(s, other):
			near++
		}
	}
	current := s.Positions.Of == s.Standing.Upstream && s.Positions.Term == s.Standing.Term &&
		!s.Positions.At.Before(s.Now.Add(-5*time.Second))
	enough := near >= s.Standing.W && near+s.Standing.W > len(s.Standing.Members)
	if member && !(current && enough) {
		return "a copy would be given up that the quorum may need"
	}
	return ""
}

// outranks says that a member has told of a whole copy which comes after this one in the order of giving way: by their
// places in the history of the one primary of this term, and then by name. It has what this one has.
func outranks(s postgres.Snapshot, member wire.Member) bool {
	end, history := endOf(s), s.Upstream.History
	if end == nil || !toldByThePrimary(s, history) {
		return false
	}
	for _, place := range s.Places {
		after := end.LSN < place.Position.LSN || end.LSN == place.Position.LSN && s.Instance < member.Name
		if place.Member == member && after && !place.CannotLead && place.Term >= s.Standing.Term &&
			within(history, place.Position) {
			return true
		}
	}
	return false
}
