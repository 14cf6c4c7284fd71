package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/plan"
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
		Process:     postgres.Process{Running: true},
		Server:      postgres.Server{Reachable: true},
	}
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
			postgres.StartServer{}, "V1",
		},
		"write files without the lock": {
			func(s *snapshot) {
				s.Volume.Lock = postgres.LockFree
			},
			postgres.WriteFiles{}, "V1",
		},
		"write to another database": {
			func(s *snapshot) {
				s.Settings.Mounted.DatabaseUID = "u2"
			},
			postgres.WriteFiles{}, "V2",
		},
		"claim what is claimed": {
			func(s *snapshot) {
				claimable(s)
				s.Volume.Record = running().Volume.Record
			},
			postgres.ClaimVolume{DatabaseUID: "u1"}, "V2",
		},
		"claim for another": {
			claimable,
			postgres.ClaimVolume{DatabaseUID: "u2"}, "V2",
		},
		"record the settings of another": {
			func(*snapshot) {},
			postgres.RecordSettings{Settings: wire.Settings{DatabaseUID: "u2"}}, "V2",
		},
		"claim a lost volume": {
			func(s *snapshot) {
				claimable(s)
				s.Settings.Mounted.Initialised = true
			},
			postgres.ClaimVolume{DatabaseUID: "u1"}, "V3",
		},
		"claim an unreadable volume": {
			func(s *snapshot) {
				claimable(s)
				s.Volume.Problem = "input/output error"
			},
			postgres.ClaimVolume{DatabaseUID: "u1"}, "V3",
		},
		"initialise without a claim": {
			claimable,
			postgres.Initialise{}, "V3",
		},
		"initialise over data": {
			func(s *snapshot) {
				claimed(s)
				s.Data = running().Data
			},
			postgres.Initialise{}, "V3",
		},
		"initialise a completed volume": {
			func(s *snapshot) {
				claimed(s)
				s.Volume.Record.SystemIdentifier = "7401"
			},
			postgres.Initialise{}, "V3",
		},
		"start on data of another major": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Data.Major = 15
			},
			postgres.StartServer{}, "V5",
		},
		"start on unrecorded data": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Volume.Record = nil
			},
			postgres.StartServer{}, "V6",
		},
		"start on other data": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Data.SystemIdentifier = "9"
			},
			postgres.StartServer{}, "V6",
		},
		"start beside a server": {
			func(*snapshot) {},
			postgres.StartServer{}, "C2",
		},
		"start beside what a server left": {
			func(s *snapshot) {
				s.Process = postgres.Process{Leftover: 1}
			},
			postgres.StartServer{}, "C2",
		},
		"remove the file of a server": {
			func(*snapshot) {},
			postgres.RemovePIDFile{}, "C2",
		},
		"make the application's database again": {
			func(s *snapshot) {
				s.Volume.Record.Application = &wire.Application{Database: "app", Owner: "app"}
			},
			postgres.CreateDatabase{}, "A1",
		},
		"make the application's role again": {
			func(s *snapshot) {
				s.Volume.Record.Application = &wire.Application{Database: "app", Owner: "app"}
			},
			postgres.CreateRole{}, "A1",
		},
		"stop unasked": {
			func(*snapshot) {},
			postgres.StopServer{}, "S1",
		},
		"start in a pod that ends": {
			func(s *snapshot) {
				s.Process.Running = false
				s.Stopping = true
			},
			postgres.StartServer{}, "S2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			given := running()
			test.change(&given)
			violations := plan.Check(given, postgres.Plan{Actions: []postgres.Action{test.action}})
			if len(violations) != 1 || violations[0].Rule != test.want {
				t.Errorf("violations %v, want %s alone", violations, test.want)
			}
		})
	}
}

func claimable(s *postgres.Snapshot) {
	s.Process, s.Server = postgres.Process{}, postgres.Server{}
	s.Data = postgres.Data{Presence: postgres.DataAbsent}
	s.Volume.Record = nil
	s.Settings.Mounted.Initialised, s.Settings.Mounted.SystemIdentifier = false, ""
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
	for range 200_000 {
		given := anySnapshot(random)
		decided := plan.Decide(given)
		if violations := plan.Check(given, decided); len(violations) > 0 {
			t.Fatalf("%v\nplan:\n%ssnapshot: %+v\nrecord: %+v", violations, decided, given, given.Volume.Record)
		}
		if !given.Process.Running && !given.Stopping && len(decided.Actions)+len(decided.Holds) == 0 {
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
	s.Volume.Record.InProgress = pick(random, "", postgres.StepInitialise)
	// A record that is complete has an identifier, and only then: no other one can be read.
	if s.Volume.Record.SystemIdentifier = ""; s.Volume.Record.InProgress == "" {
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
	return s
}
