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

// leads says that the instance is told to be the primary, or to end being it.
func leads(s postgres.Snapshot) bool {
	return s.Standing.Role == tenure.RoleLead || s.Standing.Role == tenure.RoleYield
}

// follows says that the instance is to take the log of another, and was not fenced since.
func follows(s postgres.Snapshot) bool {
	role := s.Standing.Role
	return (role == tenure.RoleFollow || role == tenure.RoleCatchUp) && s.Standing.Serial > s.Fenced
}

// open says whether applications are let in (G1).
func open(s postgres.Snapshot) bool {
	start := s.KnownStart()
	switch s.Standing.Role {
	case tenure.RoleLead:
		return start != "" && s.Standing.OpenStart == start
	case tenure.RoleFollow, tenure.RoleIdle, tenure.RoleCatchUp:
		return s.Standing.OpenReads && s.Process.Running && s.Data.Standby && s.Server.Replica
	case tenure.RoleBegin, tenure.RoleYield:
	}
	return false
}

// killWithoutTheRight ends a primary that is one no more: it must not acknowledge anything.
func killWithoutTheRight(s postgres.Snapshot, plan *draft) bool {
	if s.Volume.Problem != "" || !s.Primary() || leads(s) || s.Standing.Role == "" {
		return false
	}
	plan.do(postgres.KillServer{Why: "a primary runs here, and this instance is not told to lead"})
	return true
}

func waitForAStanding(s postgres.Snapshot, plan *draft) bool {
	if s.Standing.Role != "" {
		return false
	}
	plan.hold(wire.ReasonWaitingForStanding, "the agents have not agreed yet on what this instance shall be")
	return true
}

func giveUpWhatIsNotWanted(s postgres.Snapshot, plan *draft) bool {
	for _, job := range s.Jobs {
		copying := job.Kind == postgres.JobClone || job.Kind == postgres.JobRewind || job.Kind == postgres.JobAsk
		outdated := copying && (job.For != postgres.Essence(s.Standing) || !follows(s))
		ended := job.Kind == postgres.JobExtension && s.Standing.Role != tenure.RoleLead
		restores := job.Kind == postgres.JobRestore && job.For != restorePurpose(s)
		if job.Running && (outdated || ended || restores) {
			plan.do(postgres.GiveUp{Why: "another standing came, which does not want it", Kind: job.Kind})
		}
	}
	return false
}

func source(s postgres.Snapshot) postgres.Source {
	port := s.Port
	if port == 0 {
		port = wire.PortPostgres
	}
	found := postgres.Source{
		Host: render.Host(s.Database, s.Standing.Upstream.Name), Address: s.Standing.UpstreamAddress, Port: port,
		Instance: s.Instance, Slot: render.Slot(self(s)),
	}
	if s.Standing.Role == tenure.RoleFollow {
		found.Timeline = s.Standing.Timeline
	}
	return found
}

func self(s postgres.Snapshot) wire.Member {
	member := wire.Member{Name: s.Instance}
	if record := s.Volume.Record; record != nil {
		member.Incarnation = record.Incarnation
	}
	return member
}

// upstream is the text of the upstream file, and the name of its key, empty if nobody is to be followed. Bound says
// that the name of a member tells the timeline.
func upstream(s postgres.Snapshot, bound bool) (text, key string) {
	// A name that PostgreSQL would cut is that of another copy.
	cut := len(self(s).String()) > longestName
	if !follows(s) || cut || s.Standing.Upstream.Name == "" || s.Standing.Upstream.Name == s.Instance {
		return render.Alone(), ""
	}
	from := source(s)
	follow := render.Follow{
		Self: self(s), Host: from.Host, Address: from.Address, Port: from.Port, Runtime: s.Runtime,
		Key: render.KeyName(s.Standing, s.Certificate.Installed),
	}
	if s.Standing.Role == tenure.RoleCatchUp {
		// Whatever it takes in the middle of an election counts for nobody.
		follow.Self = wire.Member{Name: "catchup", Incarnation: s.Instance}
	}
	// Only for members a place is kept, and only by a primary. A copy that was rewound and lacks the rest is none yet:
	// what it has of the WAL is lost with its source, so until then it goes by the name of one that joins, which does
	// not count.
	if s.Standing.Role == tenure.RoleFollow && slices.Contains(s.Standing.Members, follow.Self) && !s.Data.Short {
		follow.Slot = render.Slot(follow.Self)
		if bound {
			follow.Timeline = s.Standing.Timeline
		}
	}
	return render.Upstream(follow), follow.Key
}

// longestName is what PostgreSQL keeps of the name that a replica goes by.
const longestName = 63

// startAs says as what a server is to be started, and whether one is wanted.
func startAs(s postgres.Snapshot, plan *draft) (primary, wanted bool) {
	switch s.Standing.Role {
	case tenure.RoleLead:
		return startToLead(s, plan)
	case tenure.RoleFollow, tenure.RoleCatchUp:
		return false, mayFollow(s, plan)
	case tenure.RoleIdle:
		if s.Standing.Down {
			plan.hold(wire.ReasonWaitingForStanding, "the lease is being released")
			return false, false
		}
		// A fence of an earlier standing says nothing of this one: only what has just answered a ballot is needed there.
		if wasPrimary(s) && s.Fenced < s.Standing.Serial {
			plan.hold(wire.ReasonWaitingForStanding,
				"the data is that of a primary, and it is not known yet whether it leads again or follows")
			return false, false
		}
		if s.Data.Short {
			plan.wait(missingLog())
			return false, false
		}
		return false, true
	case tenure.RoleBegin, tenure.RoleYield:
	}
	return false, false
}

// wasPrimary says that the data was last used by a primary.
func wasPrimary(s postgres.Snapshot) bool { return !s.Data.Standby }

// startToLead starts as a primary only on the timeline that this copy led on before: another is reached by a promotion.
func startToLead(s postgres.Snapshot, plan *draft) (primary, wanted bool) {
	switch {
	case s.Trouble != "":
		plan.wait(postgres.Hold{Reason: wire.ReasonTimelineWrong, Detail: s.Trouble, Stalled: true})
		return false, false
	case s.MayRepeat():
		plan.wait(repeats())
		return false, false
	case s.Data.Timeline == s.Standing.Timeline:
		// It was given to this copy, which led on it before: nobody else has a log of it that this copy lacks.
		return true, true
	case s.Data.Timeline < s.Standing.Timeline:
		return false, true
	}
	plan.wait(passedTimeline(s))
	return false, false
}

func passedTimeline(s postgres.Snapshot) postgres.Hold {
	return postgres.Hold{
		Reason: wire.ReasonTimelineWrong, Stalled: true,
		Detail: fmt.Sprintf("the copy is on timeline %d, and was to lead on %d", s.Data.Timeline, s.Standing.Timeline),
	}
}

// missingLog is for a copy that lets nobody in before it gets more WAL, and that would not tell then where it is.
func missingLog() postgres.Hold {
	return postgres.Hold{
		Reason: wire.ReasonWaitingForStanding, Detail: "the copy needs more WAL of a primary before it can be used",
	}
}

// mayFollow lets a replica start at once: what it has can be looked at later. The data of a primary may have what
// nobody else has, so it is looked at before.
func mayFollow(s postgres.Snapshot, plan *draft) bool {
	if !wasPrimary(s) && !s.Data.Short && (!s.Told() || s.TooEarly() > 0) {
		return true
	}
	switch {
	case s.Data.End == nil:
		plan.wait(postgres.Hold{Reason: wire.ReasonServerRecovering, Detail: "the end of the WAL is not known yet"})
		return false
	case !s.Told():
		plan.wait(missingUpstream(s))
		return false
	}
	if s.TooEarly() > 0 {
		return false // The hold of that says so.
	}
	if !s.Upstream.History.Holds(*s.Data.End) {
		plan.hold(wire.ReasonCopying,
			"the copy is no part of the primary's history, and may be the last one of its kind: it is left as it is")
		return false
	}
	return true
}

// checkTheTimeline ends a primary that is on another timeline than the reserved one: another may have the same number.
func checkTheTimeline(s postgres.Snapshot, plan *draft) bool {
	if s.Server.Replica || !s.Server.Reachable || !s.Primary() || s.Standing.Role != tenure.RoleLead {
		return false
	}
	switch {
	case s.Trouble != "":
		plan.wait(postgres.Hold{Reason: wire.ReasonTimelineWrong, Detail: s.Trouble, Stalled: true})
		plan.do(postgres.KillServer{Why: "postgres.check-the-timeline: " + postgres.Why(s.Trouble)})
		return true
	case s.Server.Timeline < s.Standing.Timeline:
		plan.do(postgres.KillServer{Why: "it leads on an earlier timeline than was given out: it is promoted to that one"})
		return true
	}
	return false
}

// promoteAReplica comes when the files are in force: the quorum of the new primary, and a closed gate.
func promoteAReplica(s postgres.Snapshot, plan *draft) bool {
	if s.Standing.Role != tenure.RoleLead || !s.Server.Replica {
		return false
	}
	_, mark := plan.files(s)
	switch {
	case s.Trouble != "":
		plan.wait(postgres.Hold{Reason: wire.ReasonTimelineWrong, Detail: s.Trouble, Stalled: true})
		return true
	case s.MayRepeat():
		plan.wait(repeats())
		return true
	case s.Data.Timeline > s.Standing.Timeline && s.Data.Standby && !s.Promoting:
		plan.wait(passedTimeline(s))
		return true
	case s.Data.Timeline == s.Standing.Timeline && s.Data.Standby && !s.Promoting:
		if !s.JobOf(postgres.JobStop).Running {
			plan.do(postgres.StopServer{Why: "it led on this timeline before, and starts again as a primary"})
		}
		plan.wait(promoting("the replica stops, to start as a primary"))
		return true
	case s.Server.Replication.Strayed != 0 && !s.Promoting:
		if !s.JobOf(postgres.JobStop).Running {
			plan.do(postgres.StopServer{Why: postgres.Why(fmt.Sprintf(
				"it waits for timeline %d, whose primary is lost, and starts again without", s.Server.Replication.Strayed))})
		}
		plan.wait(promoting("the replica stops, to leave a timeline that nobody leads any more"))
		return true
	case s.Server.Proven != mark || s.Server.Open:
		plan.wait(promoting("the quorum is put in force"))
		return true
	case s.Server.Replication.Sessions > 0:
		plan.do(postgres.EndSessions{Why: "sessions of a replica do not live on in a primary"})
		return true
	case s.Promoting || !s.Data.Standby:
		plan.wait(promoting("the promotion is under way"))
		return true
	}
	plan.do(postgres.Promote{
		Why: postgres.Why(fmt.Sprintf("this instance leads in term %d", s.Standing.Term)), Timeline: s.Standing.Timeline,
		From: s.Server.Replication.Replayed,
	})
	// The others follow within the same moment, and one that finds no place of its own tries again only later.
	keepPlaces(s, plan)
	return true
}

// promoteASilentReplica is for a server that lets nobody in before it gets more WAL of a primary that is lost: the
// quorum is in force when the server was started with it, and nobody has entered since.
func promoteASilentReplica(s postgres.Snapshot, plan *draft) {
	plan.wait(promoting("the server lets nobody in, and does not tell more than that it is consistent"))
	_, mark := plan.files(s)
	switch {
	case !silent(s) || s.Promoting || s.JobOf(postgres.JobStop).Running || s.Trouble != "" || s.MayRepeat():
	case s.Data.Timeline > s.Standing.Timeline:
		plan.wait(passedTimeline(s))
	case s.Process.Mark != mark || s.Data.Timeline == s.Standing.Timeline:
		plan.do(postgres.StopServer{Why: "it lets nobody in, and starts again with the quorum of a primary"})
	default:
		plan.do(postgres.Reload{Why: "what it was started with is in force before it leads, whatever it has loaded since"})
		plan.do(postgres.Promote{
			Why:      postgres.Why(fmt.Sprintf("this instance leads in term %d, and lets nobody in before", s.Standing.Term)),
			Timeline: s.Standing.Timeline,
		})
	}
}

func promoting(detail string) postgres.Hold {
	return postgres.Hold{Reason: wire.ReasonPromoting, Detail: detail, Recheck: 20 * time.Millisecond}
}

// tellOfTheUpstream says why a replica lags.
func tellOfTheUpstream(s postgres.Snapshot, plan *draft) bool {
	if follows(s) && s.Server.Replica && !s.Server.Replication.Receiving {
		plan.wait(missingUpstream(s))
	}
	return false
}

func makeAgents(s postgres.Snapshot, plan *draft) bool {
	if s.Standing.Role == tenure.RoleLead && !s.Server.Replica && !s.Server.Replication.Roles {
		plan.do(postgres.CreateAgents{Why: "other instances need roles to copy and follow"})
	}
	return false
}

// enforceTheQuorum does what a reload does not (B1).
func enforceTheQuorum(s postgres.Snapshot, plan *draft) bool {
	if s.Standing.Role != tenure.RoleLead || s.Server.Replica {
		return false
	}
	if len(s.Quorum.Replace) > 0 {
		plan.do(postgres.EndSenders{
			Why: "a sender from before may release commits by the smaller quorum of before", Numbers: s.Quorum.Replace,
		})
	}
	if s.Quorum.Checkpoint && !s.JobOf(postgres.JobCheckpoint).Running {
		plan.do(postgres.Checkpoint{
			Why: "sessions wait for a first quorum only after the checkpointer has seen it",
			For: s.LeadingStart() + " " + render.StandbyNames(&s.Standing.Setting, s.Standing.Timeline),
		})
	}
	return false
}

// Times of the first checkpoint of a timeline: how long a closed gate holds it up, and between those that failed.
const (
	gatePatience    = 5 * time.Second
	checkpointPause = 10 * time.Second
)

// writeAFirstCheckpoint comes after a promotion, when applications are let in: until the control file tells of the new
// timeline, no copy that has left it can be rewound. Where the gate stays closed, it may wait for such a copy: the
// server itself takes most of checkpoint_timeout for that checkpoint.
func writeAFirstCheckpoint(s postgres.Snapshot, plan *draft) bool {
	job, purpose := s.JobOf(postgres.JobCheckpoint), fmt.Sprintf("timeline %d", s.Server.Timeline)
	missing := s.Data.Checkpointed > 0 && s.Data.Checkpointed < s.Server.Timeline
	led := s.Server.Replication.Led
	due := s.Server.Open || !led.IsZero() && s.Now.Sub(led) >= gatePatience
	free := s.Standing.Role == tenure.RoleLead && !s.Server.Replica && due && s.Standing.Prepare == 0 &&
		!s.Quorum.Checkpoint
	failed := job.For == purpose && job.Problem != "" && s.Now.Sub(job.Ended) < checkpointPause
	if missing && free && !job.Running && !failed {
		plan.do(postgres.Checkpoint{Why: "copies can be rewound only after the first checkpoint of a timeline", For: purpose})
	}
	return false
}
