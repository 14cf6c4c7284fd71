package plan

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// PostgreSQL lets in a standby whose WAL has left the primary's history, if its end lies in the segment of the fork,
// and counts its position on the old timeline as flushed (B3). So a copy is judged before it connects: the primary of
// this very term has told a history that holds the position of the copy. The rules here are about that judgement.

// connected says that the upstream file is the wanted one, by a key that is lent. The name of the key tells the term,
// and the file is written only after the copy was judged. Which name the primary counts is known when it was asked.
func connected(s postgres.Snapshot) bool {
	text, key := upstream(s, true)
	if key != "" && !slices.Contains(s.Certificate.Lent, key) {
		return false
	}
	if written(s, text) {
		return true
	}
	text, _ = upstream(s, false)
	return written(s, text)
}

// joined says that the server takes the log of the wanted upstream by the name of one that joins, because its copy was
// short, and that the copy is whole now. It was judged when that was begun, and all that came since is of the same
// history. That it tells where it is, is not waited for: transactions may hold up its first session.
func joined(s postgres.Snapshot) bool {
	before := s
	before.Data.Short = true
	text, key := upstream(before, false)
	runs := s.Process.Running && s.Process.Consistent && !s.Data.Short
	return key != "" && runs && slices.Contains(s.Certificate.Lent, key) && written(s, text)
}

// written says that the upstream file has this text.
func written(s postgres.Snapshot, text string) bool {
	return slices.ContainsFunc(s.Files, func(file postgres.File) bool {
		return file.Name == render.UpstreamFile && file.Hash == render.Hash(text)
	})
}

// chooseTheUpstream writes whom the server follows: nobody, unless it is told otherwise, was not fenced since, and its
// copy is a part of the primary's history.
func chooseTheUpstream(s postgres.Snapshot, plan *draft) bool {
	if connected(s) {
		return false
	}
	text, key := upstream(s, s.Upstream.ByTimeline)
	switch {
	case key != "" && (s.Standing.Role != tenure.RoleFollow || s.Judged() || joined(s) && s.Told() && s.Position() == nil):
		plan.do(follow(s, text, key))
	case joined(s) && !s.Diverged(), written(s, render.Alone()):
	case key != "":
		plan.do(postgres.FollowNobody{
			Why: "postgres.follow-only-a-judged-history: " +
				"nobody is followed before the primary of this term has told a history that holds this copy",
			Text: render.Alone(),
		})
	default:
		plan.do(postgres.FollowNobody{Why: "this instance is to stream from nobody", Text: render.Alone()})
	}
	return false
}

func follow(s postgres.Snapshot, text, key string) postgres.FollowUpstream {
	action := postgres.FollowUpstream{
		Why: postgres.Why("this instance is to stream from " + s.Standing.Upstream.String()), Text: text, Key: key,
	}
	if s.Standing.Role == tenure.RoleFollow {
		action.History, action.From = s.Upstream.History, s.Server.Replication.Replayed
	}
	return action
}

// unjudged says that the copy is to follow a primary and does not yet.
func unjudged(s postgres.Snapshot) bool {
	_, key := upstream(s, false)
	return s.Standing.Role == tenure.RoleFollow && key != "" && !connected(s)
}

func askPause(s postgres.Snapshot) time.Duration {
	if last := s.JobOf(postgres.JobAsk); unjudged(s) && last.For == postgres.Essence(s.Standing) {
		return last.AskPause()
	}
	return postgres.LongestAskPause
}

// askTheUpstream asks when the answer decides something: before a copy follows, and when a replica does not get the
// log.
func askTheUpstream(s postgres.Snapshot, plan *draft) bool {
	last := s.JobOf(postgres.JobAsk)
	if !follows(s) || last.Running {
		return false
	}
	waiting := !s.Told() && (unjudged(s) || !s.Process.Running && wasPrimary(s))
	connects := unjudged(s) && s.Judged()
	stuck := s.Process.Running && s.Server.Reachable && s.Server.Replica && !s.Server.Replication.Receiving && !connects
	needed := s.Diverged() && s.MayBeNeeded()
	recently := s.Now.Sub(last.Ended) < askPause(s) && last.For == postgres.Essence(s.Standing)
	if (waiting || stuck || needed) && !recently {
		plan.do(postgres.AskUpstream{Why: "whether the copy is a part of its history decides what to do", Source: source(s)})
	}
	return false
}

// silentPatience is how long a consistent server is waited for that lets nobody in: most do within the same moment.
const silentPatience = time.Second

// silent says that the server is consistent, and that it may let nobody in for ever.
func silent(s postgres.Snapshot) bool { return s.Process.Silent >= silentPatience }

// stopAShortCopy stops a server that cannot let anybody in before it gets more WAL, and that follows nobody: only the
// end of its WAL tells where it is. One that is whole and silent is stopped when its upstream has told: it starts again
// as soon as that is followed.
func stopAShortCopy(s postgres.Snapshot, plan *draft) bool {
	lacks := s.Data.Short || silent(s) && s.Told() && written(s, render.Alone())
	if !s.Process.Running || s.Server.Reachable || !lacks || !s.Data.Standby || !follows(s) || !unjudged(s) {
		return false
	}
	if !s.JobOf(postgres.JobStop).Running {
		plan.do(postgres.StopServer{Why: "its copy is judged before it follows, and the server does not tell where it is"})
	}
	plan.wait(missingUpstream(s))
	return true
}

func missingUpstream(s postgres.Snapshot) postgres.Hold {
	detail := fmt.Sprintf("%s has not told yet what its history is", s.Standing.Upstream.Name)
	switch {
	case s.Upstream.Problem != "":
		detail = fmt.Sprintf("%s does not answer: %s", s.Standing.Upstream.Name, s.Upstream.Problem)
	case s.Diverged():
		detail = fmt.Sprintf("the copy is at %s, which is no part of the history of %s", *s.Position(),
			s.Standing.Upstream.Name)
	case s.Told():
		detail = fmt.Sprintf("%s answers, and its log does not arrive yet", s.Standing.Upstream.Name)
	}
	return postgres.Hold{Reason: wire.ReasonUpstreamMissing, Detail: detail, Recheck: askPause(s)}
}

// killAfterAForeignPosition ends a primary that a member has told of WAL which the primary does not have: the server
// has noted that position as flushed, and would acknowledge every commit before it at once, whoever has it. The note is
// in the memory of this start of the server, and ends with it.
func killAfterAForeignPosition(s postgres.Snapshot, plan *draft) bool {
	if s.Foreign == "" || s.Standing.Role != tenure.RoleLead || !s.Primary() {
		return false
	}
	plan.wait(postgres.Hold{Reason: wire.ReasonTimelineWrong, Detail: s.Foreign})
	plan.do(postgres.KillServer{Why: "postgres.kill-after-a-foreign-position: " + postgres.Why(s.Foreign)})
	return true
}
