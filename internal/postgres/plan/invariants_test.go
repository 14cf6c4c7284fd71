package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/invariant"
	"meridian.dev/meridian/internal/postgres/plan"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

type snapshot = postgres.Snapshot

func running() postgres.Snapshot {
	settings := wire.Settings{
		DatabaseUID: "u1", Database: "cities", Major: 17, SystemIdentifier: "7401", Initialised: true,
		Application: wire.Application{Database: "app", Owner: "app"},
	}
	return postgres.Snapshot{
		Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Instance: "cities-1", Runtime: "/run/meridian",
		Settings: postgres.Settings{Mounted: &settings},
		Programs: postgres.Programs{Major: 17, User: "postgres"},
		Volume: postgres.Volume{Lock: postgres.LockOurs, Record: &postgres.Record{
			Version: 1, DatabaseUID: "u1", Incarnation: "i1", SystemIdentifier: "7401",
		}},
		Data: postgres.Data{
			Presence: postgres.DataPresent, Private: true, Major: 17, SystemIdentifier: "7401", State: "shut down", Timeline: 1,
		},
		Certificate: postgres.Certificate{Mounted: "c1", Installed: "c1"},
		Process:     postgres.Process{Running: true, Start: "s1"},
		Server:      postgres.Server{Reachable: true, Timeline: 1},
		Database:    "cities",
		Standing: tenure.Standing{
			Serial: 3, Role: tenure.RoleLead, Term: 1, Timeline: 1, Initialised: true, SystemIdentifier: "7401",
			Members: []wire.Member{{Name: "cities-1", Incarnation: "i1"}, {Name: "cities-2", Incarnation: "i2"}},
			Setting: tenure.Setting{K: 1, Names: []wire.Member{{Name: "cities-2", Incarnation: "i2"}}},
		},
	}
}

// following is a replica without a server.
func following(s *postgres.Snapshot) {
	s.Process.Running, s.Server, s.Data.Standby = false, postgres.Server{}, true
	s.Standing.Role, s.Standing.Upstream = tenure.RoleFollow, wire.Member{Name: "cities-2", Incarnation: "i2"}
}

// putBack has another claim than the record tells of.
func putBack(s *postgres.Snapshot) {
	s.Volume.Record.ClaimUID, s.Volume.Claim = "k1", postgres.Claim{UID: "k2"}
}

// marked is one whose record tells of a step.
func marked(step postgres.Step) func(*postgres.Snapshot) {
	return func(s *postgres.Snapshot) {
		following(s)
		s.Volume.Record.InProgress = step
	}
}

func file(line string) postgres.WriteFiles {
	return postgres.WriteFiles{Files: []postgres.Content{{Name: "f", Text: "\n" + line + "\n"}}}
}

// Each invariant is shown to bite: a plan that breaks it, and only it, is found.
func TestInvariantsBite(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*snapshot)
		action postgres.Action
		want   string
	}{
		"start without the lock": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Volume.Lock = postgres.LockOthers
			},
			postgres.StartServer{}, "postgres.write-only-under-the-lock",
		},
		"write files without the lock": {
			func(s *snapshot) {
				s.Volume.Lock = postgres.LockFree
			},
			postgres.WriteFiles{}, "postgres.write-only-under-the-lock",
		},
		"write to another database": {
			func(s *snapshot) {
				s.Settings.Mounted.DatabaseUID = "u2"
			},
			postgres.WriteFiles{}, "postgres.touch-only-the-own-database",
		},
		"start beside a log of another database": {
			func(s *snapshot) {
				s.Process, s.Server = postgres.Process{}, postgres.Server{}
				s.Volume.Log = &postgres.LogVolume{DatabaseUID: "u2", Incarnation: "i1"}
			},
			postgres.StartServer{}, "postgres.touch-only-the-own-wal",
		},
		"claim what is claimed": {
			func(s *snapshot) {
				claimable(s)
				s.Volume.Record = running().Volume.Record
			},
			postgres.ClaimVolume{DatabaseUID: "u1"}, "postgres.touch-only-the-own-database",
		},
		"claim for another": {
			claimable,
			postgres.ClaimVolume{DatabaseUID: "u2"}, "postgres.touch-only-the-own-database",
		},
		"record the settings of another": {
			func(*snapshot) {},
			postgres.RecordSettings{Settings: wire.Settings{DatabaseUID: "u2"}}, "postgres.touch-only-the-own-database",
		},
		"claim a lost volume": {
			func(s *snapshot) {
				claimable(s)
				s.Settings.Mounted.Initialised = true
			},
			postgres.ClaimVolume{DatabaseUID: "u1"}, "postgres.initialise-only-where-nothing-was",
		},
		"claim an unreadable volume": {
			func(s *snapshot) {
				claimable(s)
				s.Volume.Problem = "input/output error"
			},
			postgres.ClaimVolume{DatabaseUID: "u1"}, "postgres.initialise-only-where-nothing-was",
		},
		"initialise without a claim": {
			claimable,
			postgres.Initialise{}, "postgres.initialise-only-where-nothing-was",
		},
		"initialise what is to be restored": {
			func(s *snapshot) {
				claimed(s)
				s.Settings.Mounted.Restore = &wire.Restore{}
			},
			postgres.Initialise{}, "postgres.initialise-only-where-nothing-was",
		},
		"restore what is to begin empty": {
			claimed, postgres.Restore{}, "postgres.initialise-only-where-nothing-was",
		},
		"restore over data": {
			func(s *snapshot) {
				claimed(s)
				s.Settings.Mounted.Restore = &wire.Restore{}
				s.Data = running().Data
			},
			postgres.Restore{}, "postgres.initialise-only-where-nothing-was",
		},
		"initialise over data": {
			func(s *snapshot) {
				claimed(s)
				s.Data = running().Data
			},
			postgres.Initialise{}, "postgres.initialise-only-where-nothing-was",
		},
		"initialise a completed volume": {
			func(s *snapshot) {
				claimed(s)
				s.Volume.Record.SystemIdentifier = "7401"
			},
			postgres.Initialise{}, "postgres.initialise-only-where-nothing-was",
		},
		"start a copy that was put back": {
			func(s *snapshot) {
				putBack(s)
				s.Process.Running = false
			},
			postgres.StartServer{}, "postgres.count-no-restored-copy",
		},
		"clone with the incarnation of a copy that was put back": {
			func(s *snapshot) {
				marked(postgres.StepClone)(s)
				putBack(s)
			},
			postgres.Clone{}, "postgres.count-no-restored-copy",
		},
		"complete a copy that was put back": {
			func(s *snapshot) {
				marked(postgres.StepClone)(s)
				putBack(s)
			},
			postgres.RecordInitialised{SystemIdentifier: "7401"}, "postgres.count-no-restored-copy",
		},
		"accept a copy that nobody vouches for": {
			putBack, postgres.RecordClaim{ClaimUID: "k2"}, "postgres.count-no-restored-copy",
		},
		"give up a copy that was put back while the lease alone names a holder": {
			func(s *snapshot) {
				following(s)
				putBack(s)
				s.Process.LostAtStart = true
			},
			postgres.BeginDiscard{}, "postgres.count-no-restored-copy",
		},
		"record a claim that is not there": {
			func(s *snapshot) {
				putBack(s)
				s.Volume.Claim.Accepted = true
			},
			postgres.RecordClaim{ClaimUID: "k3"}, "postgres.count-no-restored-copy",
		},
		"begin a copy for a claim that is not there": {
			func(s *snapshot) {
				marked(postgres.StepDiscard)(s)
				putBack(s)
			},
			postgres.BeginClone{ClaimUID: "k1"}, "postgres.count-no-restored-copy",
		},
		"lead on a timeline of before with a copy that was put back": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Volume.Record.PutBack = 1
			},
			postgres.StartServer{Primary: true}, "postgres.repeat-no-timeline",
		},
		"start on data of another major": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Data.Major = 15
			},
			postgres.StartServer{}, "postgres.start-only-the-version-of-the-data",
		},
		"start on unrecorded data": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Volume.Record = nil
			},
			postgres.StartServer{}, "postgres.start-only-the-recorded-data",
		},
		"start on other data": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Data.SystemIdentifier = "9"
			},
			postgres.StartServer{}, "postgres.start-only-the-recorded-data",
		},
		"start beside a server": {
			func(*snapshot) {},
			postgres.StartServer{}, "postgres.start-only-alone",
		},
		"start beside what a server left": {
			func(s *snapshot) {
				s.Process = postgres.Process{Leftover: 1}
			},
			postgres.StartServer{}, "postgres.start-only-alone",
		},
		"remove the file of a server": {
			func(*snapshot) {},
			postgres.RemovePIDFile{}, "postgres.start-only-alone",
		},
		"make the application's database again": {
			func(s *snapshot) {
				s.Volume.Record.Application = &wire.Application{Database: "app", Owner: "app"}
			},
			postgres.CreateDatabase{}, "postgres.create-the-application-once",
		},
		"make the application's role again": {
			func(s *snapshot) {
				s.Volume.Record.Application = &wire.Application{Database: "app", Owner: "app"}
			},
			postgres.CreateRole{}, "postgres.create-the-application-once",
		},
		"bring a password back": {
			func(s *snapshot) { s.Application.Rotation, s.Application.NotedRotation = 3, 17 },
			postgres.SetPassword{Name: "app", Owner: "app"}, "postgres.bring-no-password-back",
		},
		"bring a next password back": {
			func(s *snapshot) {
				s.Application.Rotation, s.Application.NotedRotation = 17, 17
				s.Application.Next = &postgres.NextLogin{Rotation: 11}
			},
			postgres.SetPassword{Name: "app", Owner: "app", Next: true}, "postgres.bring-no-password-back",
		},
		"stop unasked": {
			func(*snapshot) {},
			postgres.StopServer{}, "postgres.stop-only-when-told",
		},
		"end sessions of a primary that goes on": {
			func(*snapshot) {}, postgres.DrainSessions{}, "postgres.drain-behind-the-gate",
		},
		"end sessions while new ones come in": {
			func(s *snapshot) { s.Standing.Role, s.Server.Open = tenure.RoleYield, true },
			postgres.DrainSessions{}, "postgres.drain-behind-the-gate",
		},
		"cut the stop of the only member short": {
			func(s *snapshot) { s.Standing.Role, s.Standing.Members = tenure.RoleYield, s.Standing.Members[:1] },
			postgres.StopServer{Within: time.Second}, "postgres.drain-behind-the-gate",
		},
		"kill a primary that is as told": {func(*snapshot) {}, postgres.KillServer{}, "postgres.stop-only-when-told"},
		"kill a replica": {func(s *snapshot) { s.Data.Standby = true }, postgres.KillServer{},
			"postgres.stop-only-when-told"},
		"begin a database unasked": {
			func(s *snapshot) {
				claimed(s)
				s.Standing.Role = tenure.RoleFollow
			},
			postgres.Initialise{}, "postgres.initialise-only-where-nothing-was",
		},
		"begin a database that the lease tells of": {
			func(s *snapshot) {
				claimed(s)
				s.Standing.Initialised = true
			},
			postgres.Initialise{}, "postgres.initialise-only-where-nothing-was",
		},
		"start on data that the lease does not tell of": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Standing.SystemIdentifier = "9"
			},
			postgres.StartServer{}, "postgres.start-only-the-recorded-data",
		},
		"lead unasked": {following, postgres.StartServer{Primary: true}, "postgres.lead-only-when-told"},
		"lead on another timeline": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Standing.Timeline = 2
			},
			postgres.StartServer{Primary: true}, "postgres.lead-only-when-told",
		},
		"promote to a timeline of before": {
			func(s *snapshot) { s.Server.Replication.Names = `ANY 1 ("cities-2/i2", "cities-2/i2@1")` },
			postgres.Promote{Timeline: 1}, "postgres.lead-only-when-told",
		},
		"promote without the quorum": {
			func(s *snapshot) { s.Standing.Timeline = 2 }, postgres.Promote{Timeline: 2}, "postgres.lead-with-the-quorum",
		},
		"promote with an open gate": {
			func(s *snapshot) {
				s.Standing.Timeline = 2
				s.Server.Replication.Names, s.Server.Open = `ANY 1 ("cities-2/i2", "cities-2/i2@2")`, true
			},
			postgres.Promote{Timeline: 2}, "postgres.lead-with-the-quorum",
		},
		"clone without a marker":   {following, postgres.Clone{}, "postgres.mark-before-the-copy-changes"},
		"rewind without a marker":  {following, postgres.Rewind{}, "postgres.mark-before-the-copy-changes"},
		"discard without a marker": {marked(postgres.StepClone), postgres.Discard{}, "postgres.mark-before-the-copy-changes"},
		"rewind under a server": {
			func(s *snapshot) {
				marked(postgres.StepRewind)(s)
				s.Process.Running = true
			},
			postgres.Rewind{}, "postgres.mark-before-the-copy-changes",
		},
		"give up the last copy": {
			func(s *snapshot) {
				following(s)
				s.Standing.Members = s.Standing.Members[:1]
			},
			postgres.BeginDiscard{}, "postgres.keep-the-last-copy",
		},
		"give up a copy that the quorum needs": {
			func(s *snapshot) {
				following(s)
				s.Standing.W = 2
				s.Standing.Members = append(s.Standing.Members, wire.Member{Name: "cities-3", Incarnation: "i3"})
				s.Positions = postgres.Positions{Of: s.Standing.Upstream, Term: s.Standing.Term, LSN: 1 << 30, At: s.Now}
				s.Process.Lost, s.Process.LostAtStart = true, true
			},
			postgres.BeginDiscard{}, "postgres.keep-the-last-copy",
		},
		"give up a copy by what the log says alone": {
			func(s *snapshot) {
				following(s)
				s.Process.Lost = true
			},
			postgres.BeginDiscard{}, "postgres.keep-the-last-copy",
		},
		"rewind to itself": {
			func(s *snapshot) {
				following(s)
				s.Standing.Upstream = s.Standing.Members[0]
			},
			postgres.BeginRewind{}, "postgres.keep-the-last-copy",
		},
		"follow by a fenced standing": {
			func(s *snapshot) {
				following(s)
				s.Fenced = s.Standing.Serial
				told(s)
			},
			postgres.FollowUpstream{History: theirs}, "postgres.stay-fenced",
		},
		"follow unasked": {func(*snapshot) {}, postgres.FollowUpstream{}, "postgres.stay-fenced"},
		"let in to another start": {
			func(s *snapshot) { s.Standing.OpenStart = "s0-1" }, file("hostssl all all all scram-sha-256"),
			"postgres.let-in-only-where-told",
		},
		"let in to a replica": {following, file("hostssl all all all scram-sha-256"), "postgres.let-in-only-where-told"},
		"start in a pod that ends": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Stopping = true
			},
			postgres.StartServer{}, "postgres.do-nothing-after-a-stop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			given := running()
			test.change(&given)
			violations := invariant.Check(given, postgres.Plan{Actions: []postgres.Action{test.action}})
			if len(violations) != 1 || violations[0].Rule != test.want {
				t.Errorf("violations %v, want %s alone", violations, test.want)
			}
		})
	}
}

// A server that leads has its quorum in the files that are written just before.
func TestAStartWithAnotherQuorumIsFound(t *testing.T) {
	given := running()
	given.Process.Running = false
	for names, want := range map[string]int{
		`ANY 1 ("cities-2/i2", "cities-2/i2@1")`: 0, "": 1, `ANY 1 ("cities-3/i3")`: 1,
	} {
		violations := invariant.Check(given, postgres.Plan{Actions: []postgres.Action{
			file("synchronous_standby_names = '" + names + "'"), postgres.StartServer{Primary: true},
		}})
		if len(violations) != want {
			t.Errorf("%q: %v", names, violations)
		}
	}
}

func claimable(s *postgres.Snapshot) {
	s.Process, s.Server = postgres.Process{}, postgres.Server{}
	s.Data = postgres.Data{Presence: postgres.DataAbsent}
	s.Volume.Record = nil
	s.Settings.Mounted.Initialised, s.Settings.Mounted.SystemIdentifier = false, ""
	s.Standing = tenure.Standing{Serial: 1, Role: tenure.RoleBegin, Incarnation: "i1"}
}

func claimed(s *postgres.Snapshot) {
	claimable(s)
	s.Volume.Record = &postgres.Record{
		Version: 1, DatabaseUID: "u1", Incarnation: "i1", InProgress: postgres.StepInitialise,
	}
}

// Whatever the facts are, also those that cannot come together, no plan breaks an invariant, and a plan is never both
// empty and unaccounted for while the server is down.
func TestNoPlanBreaksAnInvariant(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	verbs := map[string]int{}
	for range 60_000 {
		given := anySnapshot(random)
		decided := plan.Decide(given)
		if violations := invariant.Check(given, decided); len(violations) > 0 {
			t.Fatalf("%v\nplan:\n%ssnapshot: %+v\nrecord: %+v", violations, decided, given, given.Volume.Record)
		}
		if !given.Process.Running && !given.Stopping && given.Standing.Role != tenure.RoleYield &&
			len(decided.Actions)+len(decided.Holds) == 0 {
			t.Fatalf("the server is down, and nothing is done or said: %+v", given)
		}
		for _, action := range decided.Actions {
			verbs[fmt.Sprintf("%T", action)]++
		}
	}
	// A search that never came to an action has shown nothing about it.
	for _, action := range []postgres.Action{
		postgres.LockVolume{}, postgres.ClaimVolume{}, postgres.Initialise{}, postgres.RecordInitialised{},
		postgres.RecordSettings{}, postgres.TightenMode{}, postgres.KillLeftover{}, postgres.RemovePIDFile{},
		postgres.InstallCertificate{}, postgres.WriteFiles{}, postgres.StartServer{}, postgres.StopServer{},
		postgres.Reload{}, postgres.CreateRole{}, postgres.CreateDatabase{}, postgres.RecordApplication{},
		postgres.BeginClone{}, postgres.Clone{}, postgres.BeginDiscard{}, postgres.Discard{}, postgres.BeginRewind{},
		postgres.Rewind{}, postgres.RecordRewound{}, postgres.AskUpstream{}, postgres.FollowUpstream{},
		postgres.FollowNobody{}, postgres.Promote{}, postgres.KillServer{}, postgres.CreateAgents{}, postgres.KeepPlaces{},
		postgres.EndSessions{}, postgres.EndSenders{}, postgres.LeaveSegment{}, postgres.Checkpoint{}, postgres.GiveUp{},
		postgres.SpendReserve{}, postgres.KeepReserve{}, postgres.AskToYield{}, postgres.NoteLibraries{},
		postgres.DrainSessions{}, postgres.AskPositions{},
	} {
		if verb := fmt.Sprintf("%T", action); verbs[verb] == 0 {
			t.Errorf("no plan had %s", verb)
		}
	}
}

// pick chooses, with a preference for the first.
func pick[T any](random *rand.Rand, choices ...T) T {
	if random.IntN(2) == 0 {
		return choices[0]
	}
	return choices[random.IntN(len(choices))]
}

func anySnapshot(random *rand.Rand) postgres.Snapshot {
	s := running()
	s.Stopping = pick(random, false, false, false, true)
	s.Settings.Mounted.DatabaseUID = pick(random, "u1", "u2")
	s.Settings.Mounted.Initialised = pick(random, true, false)
	s.Settings.Mounted.SystemIdentifier = pick(random, "", "7401", "9")
	s.Settings.Mounted.Major = pick(random, 17, 15)
	recorded := *s.Settings.Mounted
	s.Volume.Record.InProgress = pick(random, "", postgres.StepInitialise, postgres.StepClone, postgres.StepDiscard,
		postgres.StepRewind)
	step := s.Volume.Record.InProgress
	// A record that is complete has an identifier, and only then: no other one can be read.
	if s.Volume.Record.SystemIdentifier = ""; step == "" || step == postgres.StepRewind {
		s.Volume.Record.SystemIdentifier = pick(random, "7401", "9")
	}
	if random.IntN(2) == 0 {
		s.Volume.Record.Settings = &recorded
	}
	if random.IntN(2) == 0 {
		s.Volume.Record.Application = &wire.Application{Database: "app", Owner: "app"}
	}
	if random.IntN(3) == 0 {
		s.Volume.Record = nil
	}
	if random.IntN(6) == 0 {
		s.Settings = postgres.Settings{Problem: "spoilt"}
	}
	s.Volume.Lock = pick(random, postgres.LockOurs, postgres.LockFree, postgres.LockOthers)
	s.Volume.Problem = pick(random, "", "", "", "input/output error")
	s.Programs.Major = pick(random, 17, 15)
	s.Data.Presence = pick(random, postgres.DataPresent, postgres.DataAbsent, postgres.DataAbsent, postgres.DataDamaged,
		postgres.DataOtherwise)
	s.Data.Draft, s.Data.PIDFile = pick(random, false, true), pick(random, false, true)
	s.Data.Private = pick(random, true, false)
	s.Data.Major = pick(random, 17, 15)
	s.Data.SystemIdentifier = pick(random, "7401", "9")
	s.Certificate.Mounted = pick(random, "c1", "c2", "")
	s.Certificate.Installed = pick(random, "c1", "")
	s.Process.Running = pick(random, true, false)
	if !s.Process.Running {
		s.Process.Leftover = pick(random, 0, 3)
		s.Process.Failures = pick(random, 0, 1, 5)
		s.Process.Ended = s.Now.Add(-pick(random, time.Second, time.Hour))
	}
	s.Server.Reachable = pick(random, true, false)
	s.Server.Replica = pick(random, false, true)
	s.Application = postgres.Application{
		Known: pick(random, true, false), Role: pick(random, true, false), Login: true, PasswordMatches: true,
		Database: pick(random, false, true),
	}
	anyStanding(random, &s)
	anyReplication(random, &s)
	anyChange(random, &s)
	return s
}

func anyStanding(random *rand.Rand, s *postgres.Snapshot) {
	one, two := wire.Member{Name: "cities-1", Incarnation: "i1"}, wire.Member{Name: "cities-2", Incarnation: "i2"}
	s.Fenced = pick(random, uint64(0), 3)
	s.Standing = tenure.Standing{
		Serial: 3, Term: 2, Timeline: pick(random, 1, 2, 3), Initialised: pick(random, true, false), Incarnation: "i1",
		SystemIdentifier: pick(random, "7401", "9", ""), Upstream: pick(random, two, one, wire.Member{}),
		Members: pick(random, []wire.Member{one, two}, []wire.Member{one}, nil), OpenReads: pick(random, false, true),
		OpenStart: pick(random, "", "s1-1", "s1-2"),
		Setting:   pick(random, tenure.Setting{}, tenure.Setting{K: 1, Names: []wire.Member{two}}),
	}
	roles := []tenure.Role{
		tenure.RoleLead, tenure.RoleFollow, tenure.RoleIdle, tenure.RoleBegin, tenure.RoleYield, tenure.RoleCatchUp, "",
	}
	s.Standing.Role = roles[random.IntN(len(roles))]
	s.Standing.Prepare = pick(random, 0, tenure.Instant(time.Second))
	s.Standing.W = pick(random, 0, 1, 2, 3)
	if random.IntN(4) == 0 {
		// What a replica meets most of the time: no search by chance alone would come to a clone.
		s.Standing.Role, s.Standing.Initialised, s.Standing.SystemIdentifier = tenure.RoleFollow, true, "7401"
		three := wire.Member{Name: "cities-3", Incarnation: "i3"}
		s.Standing.Upstream, s.Fenced = two, 0
		s.Standing.Members = pick(random, []wire.Member{one, two}, []wire.Member{one, two, three})
		s.Process.Running, s.Process.Leftover = false, 0
	}
	if s.Standing.Role == tenure.RoleBegin && random.IntN(2) == 0 {
		s.Standing.Initialised, s.Process.Running, s.Process.Leftover = false, false, 0
		if s.Settings.Mounted != nil {
			s.Settings.Mounted.Initialised = false
		}
	}
}

func anyReplication(random *rand.Rand, s *postgres.Snapshot) {
	s.Data.Standby = pick(random, s.Server.Replica, !s.Server.Replica)
	s.Data.Timeline, s.Data.Checkpointed = pick(random, 1, 2), pick(random, 0, 1, 2)
	s.Server.Timeline = pick(random, s.Data.Timeline, 3)
	s.Data.End = pick(random, nil, &tenure.Position{Timeline: 1, LSN: 100}, &tenure.Position{Timeline: 1, LSN: 300})
	s.Data.Short, s.Foreign = pick(random, false, true), pick(random, "", "", "", "foreign")
	s.Promoting, s.Trouble = pick(random, false, true), pick(random, "", "", "", "wrong")
	s.Process.Lost = pick(random, false, true)
	s.Process.LostAtStart = s.Process.Lost && s.Data.Short
	s.Rewinding = pick(random, postgres.Essence(s.Standing), "")
	s.Quorum.Replace = pick(random, nil, []int{7})
	s.Quorum.Checkpoint = pick(random, false, true)
	s.Upstream = postgres.Upstream{
		Of: s.Standing.Upstream, Term: 2, Known: pick(random, true, false), Leads: pick(random, true, false), At: s.Now,
		History: postgres.History{{Timeline: 1}, {Timeline: 3, Begin: 200}},
	}
	s.Positions = postgres.Positions{
		Of: s.Standing.Upstream, Term: 2, LSN: pick[uint64](random, 0, 1<<30),
		At:    s.Now.Add(-pick(random, time.Second, time.Hour)),
		Slots: pick(random, nil, map[string]uint64{render.Slot(wire.Member{Name: "cities-3", Incarnation: "i3"}): 1 << 30}),
	}
	s.Positions.Gone = s.Positions.LSN >> 6
	s.Server.Replication = postgres.Replication{
		Receiving: pick(random, true, false), Sessions: pick(random, 0, 2), Roles: pick(random, true, false),
		Place: s.Data.End, Slots: pick(random, nil, []string{"meridian_x"}),
		Twin: pick(random, time.Time{}, s.Now.Add(-time.Hour)),
	}
	for _, kind := range []postgres.JobKind{
		postgres.JobClone, postgres.JobRewind, postgres.JobDiscard, postgres.JobStop, postgres.JobAsk, postgres.JobCheckpoint,
		postgres.JobDrain,
	} {
		if random.IntN(3) > 0 {
			continue
		}
		s.Jobs = append(s.Jobs, postgres.Job{
			Kind: kind, For: pick(random, postgres.Essence(s.Standing), s.Parting(), "other"),
			Running: pick(random, false, true), Problem: pick(random, "", "broken"),
			Early: pick(random, false, false, true),
			Ended: s.Now.Add(-pick(random, time.Second, time.Hour)),
		})
	}
	if random.IntN(8) == 0 {
		s.Standing.Role, s.Standing.Timeline, s.Standing.SystemIdentifier = tenure.RoleLead, 3, "7401"
		s.Process.Running, s.Process.Leftover, s.Server.Replica, s.Data.Standby = true, 0, true, true
	}
	if random.IntN(8) == 0 {
		// A primary that hands over.
		s.Standing.Role, s.Standing.SystemIdentifier = tenure.RoleYield, "7401"
		s.Standing.Prepare = tenure.Instant(time.Second)
		s.Process.Running, s.Process.Leftover, s.Server.Replica, s.Data.Standby = true, 0, false, false
	}
	if random.IntN(2) == 0 {
		loadWanted(s)
	}
}

// anyChange is what a change of a running database is decided on.
func anyChange(random *rand.Rand, s *postgres.Snapshot) {
	if random.IntN(2) == 0 {
		s.Volume.Room = postgres.Room{
			Size: 1 << 30, Free: pick(random, uint64(512<<20), 60<<20, 30<<20, 0), Reserve: pick(random, uint64(0), 32<<20),
		}
	}
	s.Server.Full = pick(random, false, true)
	s.Data.Floors = pick(random, nil, []postgres.Floor{{Name: "max_connections", Value: 200}})
	s.Server.Own = pick(random, nil, []postgres.Floor{{Name: "max_connections", Value: 100}})
	s.Application.Versions, s.Application.Noted = pick(random, "", "geos=2"), pick(random, "", "geos=1")
	if s.Settings.Mounted == nil || random.IntN(2) == 0 {
		return
	}
	s.Settings.Mounted.Restarts = []wire.Restart{{Instance: "cities-1", Token: "t1"}}
	s.Process.Restart = pick(random, "", "t1")
	s.AskedLast = pick(random, time.Time{}, s.Now)
	s.Server.Replication.Senders = pick(random, nil, []postgres.Sender{
		{PID: 7, Member: wire.Member{Name: "cities-2", Incarnation: "i2"}, Stream: true},
	})
	if random.IntN(8) == 0 {
		beWell(s)
	}
}

// beWell makes a primary that lacks nothing: no search by chance alone would come to one.
func beWell(s *postgres.Snapshot) {
	kept := *s
	*s = running()
	s.Settings.Mounted.Restarts, s.Process.Restart = kept.Settings.Mounted.Restarts, kept.Process.Restart
	s.AskedLast, s.Server.Replication.Senders = kept.AskedLast, kept.Server.Replication.Senders
	s.Server.Replication.Twin, s.Server.Open = kept.Server.Replication.Twin, !kept.Server.Replication.Twin.IsZero()
	s.Application = postgres.Application{
		Known: true, Role: true, Login: true, PasswordMatches: true, Database: true, Versions: kept.Application.Versions,
		Noted: kept.Application.Noted,
	}
	loadWanted(s)
}

// loadWanted makes the server have loaded what it should, as far as a test can tell: without it no search would come to
// a promotion.
func loadWanted(s *postgres.Snapshot) {
	settings := s.Settings.Mounted
	if settings == nil {
		return
	}
	in := render.Input{
		Settings: *settings, Instance: s.Instance, User: s.Programs.User, Runtime: s.Runtime,
		Certificate: s.Certificate.Mounted,
	}
	if in.Certificate == "" {
		in.Certificate = s.Certificate.Installed
	}
	if s.Standing.Role == tenure.RoleLead || s.Standing.Role == tenure.RoleYield {
		in.Quorum, in.Timeline = &s.Standing.Setting, s.Standing.Timeline
	}
	_, s.Server.Loaded = render.Files(in)
	s.Server.Proven, s.Server.Replication.Names = s.Server.Loaded, render.StandbyNames(in.Quorum, in.Timeline)
}
