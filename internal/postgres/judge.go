package postgres

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Position is where the flushed WAL of the copy ends, nil while that is not known.
func (s Snapshot) Position() *tenure.Position {
	switch {
	case !s.Process.Running:
		return s.Data.End
	case s.Server.Reachable && s.Server.Replica:
		return s.Server.Replication.Place
	}
	return nil
}

// Told says that the upstream of this standing has told its history. One that is followed as a primary has told it as
// one, on the timeline of this term.
func (s Snapshot) Told() bool {
	return s.Upstream.Known && s.Upstream.Of == s.Standing.Upstream && s.Upstream.Term == s.Standing.Term &&
		s.Upstream.History.Timeline() >= s.Standing.Timeline &&
		(s.Upstream.Leads || s.Standing.Role == tenure.RoleCatchUp)
}

// Judged says that the copy is a part of the history of the primary of this term (B3).
func (s Snapshot) Judged() bool {
	reached := s.Position()
	return reached != nil && s.Told() && s.Upstream.History.Holds(*reached) && !s.lacksWhatIsLost()
}

// Diverged says that the copy is no part of that history, or could never become a copy by it.
func (s Snapshot) Diverged() bool {
	reached := s.Position()
	return reached != nil && s.Told() && (!s.Upstream.History.Holds(*reached) || s.lacksWhatIsLost())
}

// lacksWhatIsLost says of a copy that was rewound that it needs WAL which the primary never had: the source of the
// rewind was lost before it had sent the rest. PostgreSQL does not start such a copy.
func (s Snapshot) lacksWhatIsLost() bool {
	needed := tenure.Position{Timeline: s.Data.Timeline, LSN: s.Data.Consistent}
	return s.Data.Short && !s.Upstream.History.Holds(needed)
}

// WALGone says that the upstream does not have the WAL any more that this copy needs: it has refused to stream it, or
// the server could not even begin for the lack of it. What the log tells otherwise is no proof: applications have a
// part in its text.
func (s Snapshot) WALGone() bool {
	reached := s.Position()
	refused := reached != nil && s.Positions.Of == s.Standing.Upstream && s.Positions.Term == s.Standing.Term &&
		reached.LSN < s.Positions.Gone
	return s.Process.LostAtStart || s.Process.Lost && refused
}

// LacksWAL says that the copy cannot go on: its upstream, which has told its history, has not the WAL that it needs.
func (s Snapshot) LacksWAL() bool {
	return s.WALGone() && s.Told() && !s.Server.Replication.Receiving
}

// AsFar says that another member, which does not stream, has everything that this copy has: it is whole and could lead,
// knows of this term, and has come as far in the history of its primary. Of two that are equally far the one with the
// later name counts for the other. That is one order of all copies: no two count each other, and whom the last of some
// counts that give way, each of them counts or could.
func (s Snapshot) AsFar(member wire.Member) bool {
	reached := s.Position()
	if reached == nil || !s.Told() {
		return false
	}
	return slices.ContainsFunc(s.Places, func(place tenure.Place) bool {
		further := place.Position.LSN > reached.LSN || place.Position.LSN == reached.LSN && member.Name > s.Instance
		return place.Member == member && !place.CannotLead && place.Term >= s.Standing.Term && further &&
			s.Upstream.History.Holds(place.Position)
	})
}

// Pauses between copies that failed.
const (
	firstCopyPause   = 2 * time.Second
	longestCopyPause = time.Minute
	// notYetPause is the first where the source let nobody in.
	notYetPause = 500 * time.Millisecond
)

// Pause is how long a job that copies is not begun again after it failed: each time twice as long.
func (j Job) Pause() time.Duration {
	length := firstCopyPause
	if j.NotYet {
		length = notYetPause
	}
	for failures := j.Failures; failures > 1 && length < longestCopyPause; failures-- {
		length *= 2
	}
	return min(length, longestCopyPause)
}

// Pauses between questions that failed.
const (
	firstAskPause   = 100 * time.Millisecond
	LongestAskPause = 500 * time.Millisecond
)

// AskPause is how long a question is not asked again that failed, or was not answered yet: each time twice as long.
func (j Job) AskPause() time.Duration { return min(firstAskPause<<min(j.Failures, 8), LongestAskPause) }

// TooEarly is how long a rewind is not tried again that did nothing. A replica runs meanwhile and follows nobody:
// pg_rewind goes by what it has replayed.
func (s Snapshot) TooEarly() time.Duration {
	job := s.JobOf(JobRewind)
	if !job.Early && !job.Vain || job.For != Essence(s.Standing) {
		return 0
	}
	return max(job.Pause()-s.Now.Sub(job.Ended), 0)
}

// OpeningPatience is how long a copy is kept for a primary that has not let applications in yet.
const OpeningPatience = 15 * time.Second

// MayBeNeeded says that others may lack what this copy has, although it has left the history of the primary: the
// primary can open without it, and has not done so yet. Until then what was acknowledged before may be there and here
// alone.
func (s Snapshot) MayBeNeeded() bool {
	enough := s.Standing.W >= 2 && len(s.Standing.Members) > s.Standing.W
	return enough && !s.Upstream.Open && s.Now.Sub(s.Upstream.Since) < OpeningPatience
}

// Rewound says that a rewind for the present standing has ended since its marker was written.
func (s Snapshot) Rewound(job Job) bool {
	return job.For == Essence(s.Standing) && !job.Ended.IsZero() && !job.Running && !job.Ended.Before(s.Marked)
}
