package status_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/status"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
)

// What a user should know first, when there is more than one thing to tell.
func TestReason(t *testing.T) {
	waiting := postgres.Hold{Reason: wire.ReasonExtensionMissing, Detail: "d"}
	stalled := postgres.Hold{Reason: wire.ReasonVolumeEmpty, Detail: "d", Stalled: true}
	failed := postgres.Outcome{Failed: "Reload", Problem: "no such process"}
	refused := postgres.Outcome{Violations: []rule.Violation{{Rule: "V1", Detail: "d"}}}
	for name, test := range map[string]struct {
		holds   []postgres.Hold
		outcome postgres.Outcome
		want    wire.Reason
	}{
		"nothing":                        {nil, postgres.Outcome{}, ""},
		"a hold":                         {[]postgres.Hold{waiting}, postgres.Outcome{}, wire.ReasonExtensionMissing},
		"a failure before a hold":        {[]postgres.Hold{waiting}, failed, wire.ReasonActionFailed},
		"a need for help before failure": {[]postgres.Hold{waiting, stalled}, failed, wire.ReasonVolumeEmpty},
		"settings that were not written": {
			[]postgres.Hold{waiting}, postgres.Outcome{Failed: "WriteFiles", Kept: true}, wire.ReasonVolumeUnwritable,
		},
		"a refused plan before all others": {[]postgres.Hold{waiting, stalled}, refused, wire.ReasonPlanRefused},
	} {
		t.Run(name, func(t *testing.T) {
			report := status.Report(postgres.Snapshot{Instance: "cities-1"}, postgres.Plan{Holds: test.holds}, test.outcome)
			if report.Reason != test.want {
				t.Errorf("reason %s, want %s", report.Reason, test.want)
			}
			if _, err := report.Encode(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReady(t *testing.T) {
	up := postgres.Snapshot{
		Settings: postgres.Settings{Mounted: &wire.Settings{MaxReadLagMilliseconds: 5000}},
		Volume: postgres.Volume{Record: &postgres.Record{
			SystemIdentifier: "7401", Application: &wire.Application{Database: "app", Owner: "app"},
		}},
		Process:     postgres.Process{Running: true, Start: "s1"},
		Server:      postgres.Server{Reachable: true, Open: true, Timeline: 1},
		Application: postgres.Application{Known: true, Role: true, Database: true},
		Standing:    tenure.Standing{Role: tenure.RoleLead, OpenStart: "s1-1"},
	}
	replica := func(s *postgres.Snapshot) {
		s.Standing = tenure.Standing{Role: tenure.RoleFollow, OpenReads: true}
		s.Server.Replica, s.Application.Known = true, false
		s.Server.Replication = postgres.Replication{Receiving: true, Received: 9, Replayed: 9, Ahead: 9, Age: time.Hour}
	}
	for name, test := range map[string]struct {
		change func(*postgres.Snapshot)
		want   bool
	}{
		"all there":        {func(*postgres.Snapshot) {}, true},
		"told to end":      {func(s *postgres.Snapshot) { s.Stopping = true }, false},
		"no process":       {func(s *postgres.Snapshot) { s.Process.Running = false }, false},
		"no answer":        {func(s *postgres.Snapshot) { s.Server.Reachable = false }, false},
		"a closed gate":    {func(s *postgres.Snapshot) { s.Server.Open = false }, false},
		"another start":    {func(s *postgres.Snapshot) { s.Process.Start = "s2" }, false},
		"gives its place":  {func(s *postgres.Snapshot) { s.Standing.Role = tenure.RoleYield }, false},
		"no database yet":  {func(s *postgres.Snapshot) { s.Application.Database = false }, false},
		"a replica":        {replica, true},
		"a closed replica": {func(s *postgres.Snapshot) { replica(s); s.Standing.OpenReads = false }, false},
		"a replica without a primary, of a moment ago": {func(s *postgres.Snapshot) {
			replica(s)
			s.Server.Replication.Receiving, s.Server.Replication.Age = false, time.Second
		}, true},
		"a replica without a primary for long": {func(s *postgres.Snapshot) {
			replica(s)
			s.Server.Replication.Receiving, s.Server.Replication.Age = false, time.Minute
		}, false},
		"a replica that is behind": {func(s *postgres.Snapshot) {
			replica(s)
			s.Server.Replication.Replayed, s.Server.Replication.Age = 1, time.Minute
		}, false},
		"a first look that fails": {func(s *postgres.Snapshot) {
			s.Application = postgres.Application{}
			s.Volume.Record = &postgres.Record{SystemIdentifier: "7401"}
		}, false},
		"a later look that fails": {func(s *postgres.Snapshot) { s.Application = postgres.Application{} }, true},
		"not noted on the volume": {func(s *postgres.Snapshot) {
			s.Volume.Record = &postgres.Record{SystemIdentifier: "7401"}
		}, false},
		"an unfinished copy": {func(s *postgres.Snapshot) {
			s.Volume.Record = &postgres.Record{InProgress: postgres.StepClone}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			given := up
			test.change(&given)
			if got := status.Ready(given); got != test.want {
				t.Errorf("ready %t, want %t", got, test.want)
			}
		})
	}
}

// What the loop of the lease is told of a copy.
func TestEngine(t *testing.T) {
	ours := postgres.Volume{Lock: postgres.LockOurs, Record: &postgres.Record{Incarnation: "i1", SystemIdentifier: "7"}}
	in := func(step postgres.Step) postgres.Volume {
		return postgres.Volume{Lock: postgres.LockOurs, Record: &postgres.Record{Incarnation: "i1", InProgress: step}}
	}
	end := &tenure.Position{Timeline: 1, LSN: 9}
	present := postgres.Data{Presence: postgres.DataPresent, SystemIdentifier: "7", End: end}
	absent := postgres.Data{Presence: postgres.DataAbsent}
	for name, test := range map[string]struct {
		volume postgres.Volume
		data   postgres.Data
		want   tenure.Engine
	}{
		"whole": {ours, present, tenure.Engine{
			Known: true, Data: tenure.DataWhole, Incarnation: "i1", SystemIdentifier: "7", Flushed: present.End,
		}},
		"nothing": {
			postgres.Volume{Lock: postgres.LockOurs}, absent, tenure.Engine{Known: true, Data: tenure.DataNone},
		},
		"not ours":      {postgres.Volume{Lock: postgres.LockOthers}, absent, tenure.Engine{}},
		"unreadable":    {postgres.Volume{Problem: "x"}, absent, tenure.Engine{}},
		"lost":          {ours, absent, tenure.Engine{Known: true}},
		"being cloned":  {in(postgres.StepClone), present, tenure.Engine{Known: true, Data: tenure.DataNone}},
		"being removed": {in(postgres.StepDiscard), present, tenure.Engine{Known: true, Data: tenure.DataNone}},
		"being rewound": {in(postgres.StepRewind), present, tenure.Engine{
			Known: true, Data: tenure.DataChanging, Incarnation: "i1", SystemIdentifier: "7",
		}},
		"rewound, and its source is dead": {ours, postgres.Data{
			Presence: postgres.DataPresent, SystemIdentifier: "7", End: end, Consistent: 10, Short: true,
		}, tenure.Engine{
			Known: true, Data: tenure.DataWhole, Incarnation: "i1", SystemIdentifier: "7", Flushed: end,
			CannotLead: "the copy was made to fit that of a primary that did not send it all",
		}},
		"first, not told of yet": {in(postgres.StepInitialise), present, tenure.Engine{
			Known: true, Data: tenure.DataNone, Incarnation: "i1", SystemIdentifier: "7",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := status.Engine(postgres.Snapshot{Volume: test.volume, Data: test.data}, "")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What counts of a replica: where it is on this timeline, and only if it goes by the name of a member.
func TestReplicasThatCount(t *testing.T) {
	member := wire.Member{Name: "cities-2", Incarnation: "i2"}
	for name, test := range map[string]struct {
		sender postgres.Sender
		want   []tenure.Replica
	}{
		"a member": {
			postgres.Sender{Stream: true, Flushed: 9}, []tenure.Replica{{Member: member, Flushed: 9, Near: true}},
		},
		"it does not stream": {postgres.Sender{Flushed: 9}, nil},
		"one that joins": {
			postgres.Sender{Stream: true, Flushed: 9, Joining: true}, []tenure.Replica{{Member: member, Near: true}},
		},
		"of another timeline": {postgres.Sender{Stream: true, Flushed: 11}, nil},
	} {
		test.sender.Member = member
		engine := status.Engine(postgres.Snapshot{
			Process: postgres.Process{Running: true, Start: "s1"},
			Server: postgres.Server{Reachable: true, Timeline: 2, Replication: postgres.Replication{
				Flushed: 10, Senders: []postgres.Sender{test.sender},
			}},
		}, "")
		if diff := cmp.Diff(test.want, engine.Leading.Replicas); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
