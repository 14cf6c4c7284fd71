package status_test

import (
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/status"
	"meridian.dev/meridian/internal/wire"
)

// What a user should know first, when there is more than one thing to tell.
func TestReason(t *testing.T) {
	waiting := postgres.Hold{Reason: wire.ReasonExtensionMissing, Detail: "d"}
	stalled := postgres.Hold{Reason: wire.ReasonVolumeEmpty, Detail: "d", Stalled: true}
	failed := postgres.Outcome{Failed: "Reload", Problem: "no such process"}
	refused := postgres.Outcome{Violations: []postgres.Violation{{Rule: "V1", Detail: "d"}}}
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
		Settings: postgres.Settings{Mounted: &wire.Settings{Initialised: true, SystemIdentifier: "7401"}},
		Volume: postgres.Volume{Record: &postgres.Record{
			SystemIdentifier: "7401", Application: &wire.Application{Database: "app", Owner: "app"},
		}},
		Process: postgres.Process{Running: true}, Server: postgres.Server{Reachable: true},
		Application: postgres.Application{Known: true, Role: true, Database: true},
	}
	for name, test := range map[string]struct {
		change func(*postgres.Snapshot)
		want   bool
	}{
		"all there":       {func(*postgres.Snapshot) {}, true},
		"told to end":     {func(s *postgres.Snapshot) { s.Stopping = true }, false},
		"no process":      {func(s *postgres.Snapshot) { s.Process.Running = false }, false},
		"no answer":       {func(s *postgres.Snapshot) { s.Server.Reachable = false }, false},
		"no database yet": {func(s *postgres.Snapshot) { s.Application.Database = false }, false},
		"a replica":       {func(s *postgres.Snapshot) { s.Server.Replica, s.Application.Known = true, false }, true},
		"a first look that fails": {func(s *postgres.Snapshot) {
			s.Application = postgres.Application{}
			s.Volume.Record = &postgres.Record{SystemIdentifier: "7401"}
		}, false},
		"a later look that fails": {func(s *postgres.Snapshot) { s.Application = postgres.Application{} }, true},
		"not noted on the volume": {func(s *postgres.Snapshot) {
			s.Volume.Record = &postgres.Record{SystemIdentifier: "7401"}
		}, false},
		"not stored by the operator": {func(s *postgres.Snapshot) { s.Settings.Mounted = &wire.Settings{} }, false},
		"other data is stored": {func(s *postgres.Snapshot) {
			s.Settings.Mounted = &wire.Settings{Initialised: true, SystemIdentifier: "9"}
		}, false},
		"a replica of other data": {func(s *postgres.Snapshot) {
			s.Server.Replica = true
			s.Settings.Mounted = &wire.Settings{Initialised: true, SystemIdentifier: "9"}
		}, false},
		"spoilt settings, stored before": {func(s *postgres.Snapshot) {
			record := *s.Volume.Record
			record.Settings, s.Settings.Mounted = s.Settings.Mounted, nil
			s.Volume.Record = &record
		}, true},
		"spoilt settings, never stored": {func(s *postgres.Snapshot) { s.Settings.Mounted = nil }, false},
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
