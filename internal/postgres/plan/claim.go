package plan

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// A volume may come back as it was some time ago: a claim is deleted, and made again under its name from a snapshot.
// All that tells of the copy came back with it, so only the claim shows that it is another volume. Such a copy may lack
// what it has acknowledged, and counts for nothing (docs/adr/0015-copies-that-were-put-back.md).

// noteTheClaim takes the first claim that is seen for that of the copy. It holds up nothing.
func noteTheClaim(s postgres.Snapshot, plan *draft) bool {
	record, claim := s.Volume.Record, s.Volume.Claim
	if record == nil || claim.UID == "" || record.ClaimUID != "" {
		return false
	}
	plan.do(postgres.RecordClaim{Why: "postgres.note-the-claim: " +
		"under another claim it would be another volume", ClaimUID: claim.UID})
	return false
}

// replaceACopyThatWasPutBack removes a copy that may be an older state, where another instance leads, and leaves it as
// it is everywhere else: it may be the last one, or the one that a user has put back on purpose.
func replaceACopyThatWasPutBack(s postgres.Snapshot, plan *draft) bool {
	if s.Volume.ToAccept() {
		acceptTheCopy(s, plan)
		return true
	}
	if !s.Volume.PutBack() {
		return false
	}
	replacing := postgres.Hold{Reason: wire.ReasonCopying, Detail: "the copy was restored, and is replaced by a new one"}
	told := follows(s) && s.Standing.Role == tenure.RoleFollow && another(s)
	switch {
	case !told || s.Primary():
		plan.wait(putBack(s, "no other instance leads, from which a new copy could be made"))
	case s.JobOf(postgres.JobStop).Running:
		plan.wait(replacing)
	case s.Process.Running:
		plan.do(postgres.StopServer{Why: "postgres.replace-a-restored-copy: " +
			"the copy was restored, and counts for nothing"})
		plan.wait(replacing)
	case leadsNow(s):
		plan.do(postgres.BeginDiscard{
			Why: "postgres.replace-a-restored-copy: " +
				"the volume has come with another claim, so the copy may be an older state of what it was",
			PutBack: s.Volume.Claim.UID,
		})
		plan.wait(replacing)
	case s.Certificate.Installed == "":
		return installForCopy(s, plan)
	default:
		askWhetherItLeads(s, plan)
	}
	return true
}

// acceptTheCopy makes the copy again what its record says, with the timelines in mind that were given out.
func acceptTheCopy(s postgres.Snapshot, plan *draft) {
	if s.Standing.Timeline == 0 {
		plan.hold(wire.ReasonWaitingForStanding,
			"a user vouches for the copy that was restored, and which timelines were given out is not known yet")
		return
	}
	plan.do(postgres.RecordClaim{
		Why:      "a user vouches for the copy that was restored: it is again what its record says",
		ClaimUID: s.Volume.Claim.UID, PutBack: max(s.Data.Timeline, s.Standing.Timeline),
	})
}

// answerLasts is how long an answer tells of the present.
const answerLasts = 5 * time.Second

// leadsNow says that the server of the upstream has said of itself that it leads. The lease alone does not show that:
// whoever it names may have been put back as well.
func leadsNow(s postgres.Snapshot) bool {
	return s.Told() && s.Upstream.Leads && s.Upstream.SystemIdentifier == s.Standing.SystemIdentifier &&
		s.Now.Sub(s.Upstream.At) < answerLasts
}

func askWhetherItLeads(s postgres.Snapshot, plan *draft) {
	last, holder := s.JobOf(postgres.JobAsk), s.Standing.Upstream.Name
	asked := last.For == postgres.Essence(s.Standing) && !last.Ended.IsZero()
	if !last.Running && !(asked && s.Now.Sub(last.Ended) < postgres.LongestAskPause) {
		plan.do(postgres.AskUpstream{Why: "a copy is given up only where another one leads", Source: source(s)})
	}
	if !asked {
		plan.wait(postgres.Hold{
			Reason: wire.ReasonCopying, Recheck: postgres.LongestAskPause,
			Detail: "the copy was restored, and " + holder + " is asked whether it leads",
		})
		return
	}
	plan.wait(putBack(s, holder+" holds the lease, and does not answer as a primary"))
}

// putBack waits for a primary or for a user.
func putBack(s postgres.Snapshot, because string) postgres.Hold {
	return postgres.Hold{
		Reason: wire.ReasonVolumePutBack, Stalled: true,
		Detail: fmt.Sprintf("the copy on the volume was recorded under the claim with UID %s, and the claim is now %s: "+
			"it may be an older state of the copy, so it counts for nothing, and is left as it is because %s; if it was put "+
			"back on purpose: kubectl annotate --overwrite persistentvolumeclaim %s %s=%s",
			s.Volume.Record.ClaimUID, s.Volume.Claim.UID, because, s.Instance, wire.AnnotationAcceptCopy, s.Volume.Claim.UID),
	}
}

// repeats waits until the place is given back: an election gives out a timeline that nobody has.
func repeats() postgres.Hold {
	return postgres.Hold{
		Reason: wire.ReasonTimelineWrong,
		Detail: "the copy was restored, and others may have more of the timeline: the place is given back, for an election",
	}
}
