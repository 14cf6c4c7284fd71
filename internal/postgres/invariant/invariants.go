// Package invariant says what no plan for an instance may ever do. It is written from what must hold, without a look at
// the rules of package plan, and is checked before every act. It is pure: no clock, no file, no network.
//
// Start reading at invariants.
package invariant

import (
	"fmt"
	"strings"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/kit/rule"
)

// invariants are all of them. Each goes through the actions in order.
var invariants = []rule.Invariant[postgres.Snapshot, []postgres.Action]{
	rule.Never("postgres.write-only-under-the-lock", writeOnlyUnderTheLock,
		"one agent at a time writes to a volume", "V1"),
	rule.Never("postgres.touch-only-the-own-database", touchOnlyTheOwnDatabase,
		"a volume that another database has recorded is left alone", "V2"),
	rule.Never("postgres.initialise-only-where-nothing-was", initialiseOnlyWhereNothingWas,
		"initdb takes the place of no data, seen or unseen", "V3"),
	rule.Never("postgres.touch-only-the-own-wal", touchOnlyTheOwnLog,
		"WAL that is used or removed is that of this copy, or of an earlier copy of this database", "V7"),
	rule.Never("postgres.start-only-the-version-of-the-data", startOnlyTheVersionOfTheData,
		"a server of another major version would ruin the files", "V5"),
	rule.Never("postgres.start-only-the-recorded-data", startOnlyTheRecordedData,
		"data that is unfinished or of another database is not served", "V6"),
	rule.Never("postgres.start-only-alone", startOnlyAlone, "two servers on one data directory destroy it", "C2"),
	rule.Never("postgres.lead-only-when-told", leadOnlyWhenTold,
		"a server accepts writes only in the role of the primary, on the timeline that was given out", "C3"),
	rule.Never("postgres.count-no-restored-copy", countNoCopyThatWasPutBack,
		"a restored volume may lack what was acknowledged since", "I1"),
	rule.Never("postgres.repeat-no-timeline", repeatNoTimeline,
		"a restored copy writes no timeline that others may have", "T1"),
	rule.Never("postgres.mark-before-the-copy-changes", markBeforeTheCopyChanges,
		"after a crash a half-made copy must be recognised as one", "I2"),
	rule.Never("postgres.keep-the-last-copy", keepTheLastCopy,
		"a copy is discarded only when the primary has one and the quorum does not need it", "I4"),
	rule.Never("postgres.stay-fenced", stayFenced, "behind a fence nobody is followed and nothing is copied", "F1"),
	rule.Never("postgres.follow-only-a-judged-history", followOnlyAHistoryThatHoldsTheCopy,
		"a diverged copy must not acknowledge writes under the name of a member", "B3"),
	rule.Never("postgres.start-no-unjudged-primary", startNoUnjudgedTail,
		"data of a former primary may end with WAL that nobody else has", "B3"),
	rule.Never("postgres.lead-with-the-quorum", leadWithTheQuorum,
		"synchronous_standby_names is in force, or in the file, before a server leads", "Q2"),
	rule.Never("postgres.let-in-only-where-told", letInOnlyWhereTold,
		"pg_hba.conf lets applications in only on the named start of a primary, or for reads on a replica", "G1"),
	rule.Never("postgres.create-the-application-once", makeTheApplicationOnce,
		"a new role or database would hide the loss of the old one", "A1"),
	rule.Never("postgres.bring-no-password-back", bringNoPasswordBack,
		"a pod may have an older Secret mounted than the server was told of", "A2"),
	rule.Never("postgres.stop-only-when-told", stopOnlyWhenTold,
		"a server that is as told is neither stopped nor killed", "S1"),
	rule.Never("postgres.do-nothing-after-a-stop", doNothingAfterAStop,
		"a pod that was told to end begins nothing", "S2"),
	rule.Never("postgres.drain-behind-the-gate", drainBehindTheGate,
		"sessions are ended only for a handover, when no new ones can come in", "S3"),
}

// Rules are what no plan may break.
func Rules() []rule.Rule { return rule.Invariants(invariants) }

// Check returns the invariants that the plan would break. A plan with a violation is refused as a whole.
func Check(snapshot postgres.Snapshot, plan postgres.Plan) []rule.Violation {
	return rule.Check(invariants, snapshot, plan.Actions)
}

// first returns the first action of a verb.
func first[A postgres.Action](actions []postgres.Action) (found A, ok bool) {
	for _, action := range actions {
		if found, ok = action.(A); ok {
			return found, true
		}
	}
	return found, false
}

func has[A postgres.Action](actions []postgres.Action) bool {
	_, ok := first[A](actions)
	return ok
}

func writeOnlyUnderTheLock(s postgres.Snapshot, actions []postgres.Action) string {
	if s.Volume.Lock == postgres.LockOurs {
		return ""
	}
	for _, action := range actions {
		switch action.(type) {
		case postgres.LockVolume, postgres.StopServer, postgres.KillLeftover, postgres.KillServer:
		default:
			return fmt.Sprintf("%s without the lock of the volume", action.Verb())
		}
	}
	return ""
}

// touchOnlyTheOwnLog looks at what would use or remove a log: it is that of the copy, or of nobody, or of an earlier
// copy of this database.
func touchOnlyTheOwnLog(s postgres.Snapshot, actions []postgres.Action) string {
	log, record := s.Volume.Log, s.Volume.Record
	if log == nil {
		return ""
	}
	for _, action := range actions {
		switch action.(type) {
		case postgres.StartServer, postgres.Promote:
			if s.Data.Presence != postgres.DataPresent {
				return "a server is started on data without its log"
			}
		case postgres.Initialise, postgres.Restore, postgres.Clone, postgres.Rewind, postgres.Discard:
		default:
			continue
		}
		if log.Stray || record == nil || log.DatabaseUID != "" && log.DatabaseUID != record.DatabaseUID {
			return fmt.Sprintf("%s beside a log that is not of this database", action.Verb())
		}
	}
	return ""
}

func touchOnlyTheOwnDatabase(s postgres.Snapshot, actions []postgres.Action) string {
	record, mounted := s.Volume.Record, s.Settings.Mounted
	foreign := record != nil && mounted != nil && record.DatabaseUID != mounted.DatabaseUID
	for _, action := range actions {
		switch action := action.(type) {
		case postgres.LockVolume, postgres.StopServer, postgres.KillLeftover, postgres.KillServer:
			continue
		case postgres.ClaimVolume:
			if record != nil || mounted == nil || action.DatabaseUID != mounted.DatabaseUID {
				return "a volume is claimed that has a record, or for a database that is not the mounted one"
			}
		case postgres.RecordSettings:
			if record == nil || action.Settings.DatabaseUID != record.DatabaseUID {
				return "settings of another database are recorded"
			}
		}
		if foreign {
			return fmt.Sprintf("%s on the volume of another database", action.Verb())
		}
	}
	return ""
}

func initialiseOnlyWhereNothingWas(s postgres.Snapshot, actions []postgres.Action) string {
	claim, restore := has[postgres.ClaimVolume](actions), has[postgres.Restore](actions)
	initialise := restore || has[postgres.Initialise](actions)
	if !claim && !initialise {
		return ""
	}
	record := s.Volume.Record
	switch {
	case s.Volume.Problem != "":
		return "a volume that cannot be read is taken for an empty one"
	case s.Data.Presence != postgres.DataAbsent:
		return "there is something in the place of the data directory"
	case s.Settings.Mounted == nil || s.Settings.Mounted.Initialised || s.Standing.Initialised:
		return "the database has had data, or it is not known whether it has"
	case s.Standing.Role != tenure.RoleBegin:
		return "nobody told this instance to begin the database"
	case s.Process.Running || s.Process.Leftover > 0:
		return "a server is alive"
	case initialise && restore != (s.Settings.Mounted.Restore != nil):
		return "what the database begins with is not what it was to begin with"
	case initialise && (record == nil || record.InProgress != postgres.StepInitialise || record.SystemIdentifier != ""):
		return "the record does not say that the volume was never completed"
	}
	return ""
}

func startOnlyTheVersionOfTheData(s postgres.Snapshot, actions []postgres.Action) string {
	fits := s.Data.Presence == postgres.DataPresent && s.Data.Major == s.Programs.Major
	if has[postgres.StartServer](actions) && !fits {
		return fmt.Sprintf("version %d would be started on data of version %d", s.Programs.Major, s.Data.Major)
	}
	return ""
}

func startOnlyTheRecordedData(s postgres.Snapshot, actions []postgres.Action) string {
	if !has[postgres.StartServer](actions) {
		return ""
	}
	record := s.Volume.Record
	switch {
	case record == nil || record.InProgress != "":
		return "a server would be started on data that is not recorded as complete"
	case record.SystemIdentifier != s.Data.SystemIdentifier:
		return "a server would be started on other data than was recorded"
	case s.Settings.Mounted != nil && s.Settings.Mounted.SystemIdentifier != "" &&
		s.Settings.Mounted.SystemIdentifier != s.Data.SystemIdentifier,
		s.Standing.SystemIdentifier != "" && s.Standing.SystemIdentifier != s.Data.SystemIdentifier:
		return "a server would be started on data that is not a copy of this database"
	}
	return ""
}

func startOnlyAlone(s postgres.Snapshot, actions []postgres.Action) string {
	alone := !s.Process.Running && s.Process.Leftover == 0
	if (has[postgres.StartServer](actions) || has[postgres.RemovePIDFile](actions)) && !alone {
		return "a server would be started, or its traces removed, while one is alive"
	}
	return ""
}

func makeTheApplicationOnce(s postgres.Snapshot, actions []postgres.Action) string {
	again := has[postgres.CreateRole](actions) || has[postgres.CreateDatabase](actions)
	if again && (s.Volume.Record == nil || s.Volume.Record.Application != nil) {
		return "a new role or database would take the place of one that was made before"
	}
	return ""
}

// bringNoPasswordBack: a pod may have an older Secret mounted than the server was told of.
func bringNoPasswordBack(s postgres.Snapshot, actions []postgres.Action) string {
	for _, action := range actions {
		set, ok := action.(postgres.SetPassword)
		if !ok {
			continue
		}
		number := s.Application.Rotation
		if set.Next && s.Application.Next != nil {
			number = s.Application.Next.Rotation
		}
		if number < s.Application.NotedRotation {
			return "a password would come back that was rotated away"
		}
	}
	return ""
}

// stopOnlyWhenTold: a primary ends when the pod does or when it gives its place away; a replica also for its copy to be
// replaced, and to lead where it lets nobody in. A kill is for what may not live at all.
func stopOnlyWhenTold(s postgres.Snapshot, actions []postgres.Action) string {
	yields := s.Standing.Role == tenure.RoleYield
	replaced := s.Standing.Role == tenure.RoleFollow && s.Data.Standby
	again := s.Standing.Role == tenure.RoleLead && s.Data.Standby &&
		(s.Data.Timeline == s.Standing.Timeline || letsNobodyIn(s) || s.Server.Replication.Strayed != 0)
	if has[postgres.StopServer](actions) && !s.Stopping && !yields && !replaced && !again && !restarts(s) {
		return "a server would be stopped although nobody asked for it"
	}
	leads := s.Standing.Role == tenure.RoleLead && s.Server.Timeline == s.Standing.Timeline && s.Trouble == "" &&
		s.Foreign == ""
	if has[postgres.KillServer](actions) && (leads || s.Data.Standby) && s.Volume.Record.Whole() {
		return "a server would be killed that is as told"
	}
	return ""
}

// drainBehindTheGate: sessions of a primary are ended, and its stop is cut short, only to give its place to another
// member, and only when nobody can come in any more.
func drainBehindTheGate(s postgres.Snapshot, actions []postgres.Action) string {
	yields := s.Standing.Role == tenure.RoleYield && len(s.Standing.Members) > 1
	if has[postgres.DrainSessions](actions) && (!yields || s.Server.Open) {
		return "sessions would be ended of a server that does not give its place away, or that lets new ones in"
	}
	if stop, _ := first[postgres.StopServer](actions); stop.Within > 0 && !yields {
		return "a stop would be cut short although no other member takes over"
	}
	return ""
}

// restarts says that a server that leads or follows is older than the wish for a new one.
func restarts(s postgres.Snapshot) bool {
	wish := ""
	switch {
	case s.Settings.Mounted != nil:
		wish = s.Settings.Mounted.RestartOf(s.Instance)
	case s.Volume.Record != nil && s.Volume.Record.Settings != nil:
		wish = s.Volume.Record.Settings.RestartOf(s.Instance)
	}
	role := s.Standing.Role
	return wish != "" && s.Process.Restart != wish && (role == tenure.RoleLead || role == tenure.RoleFollow)
}

func doNothingAfterAStop(s postgres.Snapshot, actions []postgres.Action) string {
	if !s.Stopping {
		return ""
	}
	for _, action := range actions {
		switch action.(type) {
		case postgres.StopServer, postgres.KillLeftover:
		default:
			return fmt.Sprintf("%s in a pod that was told to end", action.Verb())
		}
	}
	return ""
}

// leadOnlyWhenTold: what lets a server acknowledge writes is done under the standing of a primary alone, on exactly the
// timeline that was given out.
func leadOnlyWhenTold(s postgres.Snapshot, actions []postgres.Action) string {
	start, starts := first[postgres.StartServer](actions)
	promote, promotes := first[postgres.Promote](actions)
	if !(starts && start.Primary) && !promotes {
		return ""
	}
	switch {
	case s.Standing.Role != tenure.RoleLead:
		return "a server would lead, and the instance is not told to"
	case promotes && (promote.Timeline != s.Standing.Timeline || promote.Timeline <= s.Data.Timeline):
		return "a server would be promoted to a timeline that was not given out for it"
	case starts && start.Primary && s.Data.Timeline != s.Standing.Timeline:
		return "a server would lead on a timeline that was not given out for it"
	case s.Trouble != "":
		return "a server would lead whose copy is in trouble"
	}
	return ""
}

// countNoCopyThatWasPutBack: on a volume that has come with another claim than was recorded, nothing is done by which
// the copy would count, unless a user vouches for it; and what is recorded is the claim that is there.
func countNoCopyThatWasPutBack(s postgres.Snapshot, actions []postgres.Action) string {
	record, claim := s.Volume.Record, s.Volume.Claim
	other := record != nil && record.ClaimUID != "" && claim.UID != "" && record.ClaimUID != claim.UID
	for _, action := range actions {
		recorded := claim.UID
		switch action := action.(type) {
		case postgres.StartServer, postgres.Promote, postgres.FollowUpstream, postgres.RecordInitialised,
			postgres.RecordRewound, postgres.Rewind, postgres.Clone, postgres.BeginRewind:
			if other && record.InProgress != postgres.StepDiscard {
				return fmt.Sprintf("%s on a copy that was put back", action.Verb())
			}
		case postgres.RecordClaim:
			recorded = action.ClaimUID
			if other && !claim.Accepted {
				return "a copy that was put back would count again, and nobody vouches for it"
			}
		case postgres.BeginDiscard:
			if other && !(s.Upstream.Leads && s.Upstream.Of == s.Standing.Upstream && s.Upstream.Term == s.Standing.Term) {
				return "a copy that was put back would be given up, and nobody has said that it leads"
			}
		case postgres.BeginClone:
			recorded = action.ClaimUID
		case postgres.ClaimVolume:
			recorded = action.ClaimUID
		}
		if recorded != claim.UID {
			return fmt.Sprintf("%s for another claim than there is", action.Verb())
		}
	}
	return ""
}

// repeatNoTimeline: a copy that was put back, and that a user vouches for, writes no timeline that others may have.
func repeatNoTimeline(s postgres.Snapshot, actions []postgres.Action) string {
	start, _ := first[postgres.StartServer](actions)
	if (start.Primary || has[postgres.Promote](actions)) && s.MayRepeat() {
		return "a copy that was put back would write a timeline that others may have"
	}
	return ""
}

// markBeforeTheCopyChanges: the marker is on the volume before a copy is made, changed or removed, and no server lives
// on it meanwhile.
func markBeforeTheCopyChanges(s postgres.Snapshot, actions []postgres.Action) string {
	step := postgres.Step("")
	if s.Volume.Record != nil {
		step = s.Volume.Record.InProgress
	}
	alive := s.Process.Running || s.Process.Leftover > 0
	for _, action := range actions {
		wanted := step
		switch action.(type) {
		case postgres.Clone:
			wanted = postgres.StepClone
		case postgres.Rewind:
			wanted = postgres.StepRewind
		case postgres.Discard:
			wanted = postgres.StepDiscard
		case postgres.BeginClone, postgres.BeginDiscard, postgres.BeginRewind:
		default:
			continue
		}
		if wanted != step {
			return fmt.Sprintf("%s without its marker on the volume", action.Verb())
		}
		if alive {
			return fmt.Sprintf("%s under a server that lives", action.Verb())
		}
	}
	return ""
}

// stayFenced: by a standing that was fenced, nobody is followed and nothing is copied.
func stayFenced(s postgres.Snapshot, actions []postgres.Action) string {
	told := s.Standing.Role == tenure.RoleFollow || s.Standing.Role == tenure.RoleCatchUp
	for _, action := range actions {
		switch action.(type) {
		case postgres.FollowUpstream, postgres.Clone, postgres.Rewind, postgres.BeginClone, postgres.BeginRewind,
			postgres.BeginDiscard:
			if !told || s.Standing.Serial <= s.Fenced {
				return fmt.Sprintf("%s by an instance that is fenced, or not told to follow", action.Verb())
			}
		}
	}
	return ""
}

// letsNobodyIn says that the server of a replica is consistent, and has let nobody in.
func letsNobodyIn(s postgres.Snapshot) bool {
	return s.Data.Standby && s.Process.Consistent && !s.Process.LetsIn && !s.Server.Reachable
}

// leadWithTheQuorum: the quorum is in force, or in the file of a server that is not started yet, before one leads.
func leadWithTheQuorum(s postgres.Snapshot, actions []postgres.Action) string {
	names := render.StandbyNames(&s.Standing.Setting, s.Standing.Timeline)
	// A server that lets nobody in tells nothing. It has started with the files that are there, and loads them once more.
	silent := letsNobodyIn(s) && has[postgres.Reload](actions) && !has[postgres.WriteFiles](actions)
	if has[postgres.Promote](actions) && !silent && (s.Server.Replication.Names != names || s.Server.Open) {
		return "a replica would be promoted without its quorum in force, or with an open gate"
	}
	if start, starts := first[postgres.StartServer](actions); !starts || !start.Primary {
		return ""
	}
	write, _ := first[postgres.WriteFiles](actions)
	for _, file := range write.Files {
		if strings.Contains(file.Text, "synchronous_standby_names = ") &&
			!strings.Contains(file.Text, "\nsynchronous_standby_names = '"+strings.ReplaceAll(names, "'", "''")+"'\n") {
			return "a server would lead with another quorum in its files"
		}
	}
	return ""
}

// letInOnlyWhereTold: rules of access that let applications in are for the named start of a primary, or for reads of a
// replica.
func letInOnlyWhereTold(s postgres.Snapshot, actions []postgres.Action) string {
	write, _ := first[postgres.WriteFiles](actions)
	for _, file := range write.Files {
		if !strings.Contains(file.Text, " scram-sha-256\n") {
			continue
		}
		start := s.KnownStart()
		primary := s.Standing.Role == tenure.RoleLead && start != "" && s.Standing.OpenStart == start
		replica := s.Standing.Role != tenure.RoleLead && s.Standing.Role != tenure.RoleYield && s.Standing.OpenReads &&
			s.Data.Standby && s.Process.Running
		if !primary && !replica {
			return "applications would be let in where nobody told to"
		}
	}
	return ""
}
