package observe_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/observe"
	"meridian.dev/meridian/internal/tenure"
)

// That the log is gone which a copy needs, is true of that copy: one that takes its place is not replaced for it.
func TestALostCopyIsReplacedOnce(t *testing.T) {
	var memory observe.Ran
	for number, look := range []struct {
		start, incarnation string
		running, lost      bool
		want               bool
	}{
		{"s1", "a", true, false, false}, {"s1", "a", true, true, true}, {"s1", "a", false, true, true},
		{"s1", "b", false, true, false}, {"s2", "b", true, false, false}, {"s2", "b", true, true, true},
	} {
		s := postgres.Snapshot{
			Process: postgres.Process{Start: look.start, Running: look.running, Lost: look.lost},
			Volume:  postgres.Volume{Record: &postgres.Record{Incarnation: look.incarnation}},
		}
		if memory.Look(&s); s.Process.Lost != look.want {
			t.Errorf("look %d: lost is %t", number, s.Process.Lost)
		}
	}
}

// Once the primary is dead nobody tells any more how far it was: a replica that lacks much must not look as if it
// lacked nothing. Another timeline begins anew.
func TestWhereThePrimaryWasIsRemembered(t *testing.T) {
	var o observe.Observer
	for _, look := range []struct {
		timeline   int
		told, want uint64
	}{{1, 900, 900}, {1, 0, 900}, {1, 950, 950}, {1, 0, 950}, {2, 0, 0}, {2, 100, 100}} {
		server := postgres.Server{Timeline: look.timeline, Replication: postgres.Replication{Ahead: look.told}}
		o.RememberAhead(&server)
		if got := server.Replication.Ahead; got != look.want {
			t.Errorf("timeline %d, told %d: ahead is %d, want %d", look.timeline, look.told, got, look.want)
		}
	}
}

// A copy that was rewound and did not get all of its source is short until a server has come far enough, also while one
// tries and nobody can look at its log.
func TestACopyThatLacksWhatMakesItWhole(t *testing.T) {
	whole, half := &postgres.Record{}, &postgres.Record{InProgress: postgres.StepRewind}
	at := func(lsn uint64) *tenure.Position { return &tenure.Position{Timeline: 2, LSN: lsn} }
	ended, runs := postgres.Process{}, postgres.Process{Running: true}
	consistent := postgres.Process{Running: true, Consistent: true}
	var memory observe.Short
	for number, look := range []struct {
		record    *postgres.Record
		end       *tenure.Position
		process   postgres.Process
		reachable bool
		want      bool
	}{
		{half, nil, ended, false, false}, {whole, at(900), ended, false, true}, {whole, nil, runs, false, true},
		{whole, at(1000), ended, false, false}, {whole, at(999), ended, false, true}, {whole, nil, runs, true, false},
		{whole, nil, runs, false, false}, {whole, at(999), ended, false, true}, {whole, nil, consistent, false, false},
		{whole, nil, runs, false, false},
	} {
		s := postgres.Snapshot{
			Volume: postgres.Volume{Record: look.record}, Data: postgres.Data{Consistent: 1000, End: look.end},
			Server: postgres.Server{Reachable: look.reachable}, Process: look.process,
		}
		if memory.Look(&s, nil); s.Data.Short != look.want {
			t.Errorf("look %d: short is %t", number, s.Data.Short)
		}
	}
}

// Where the end of the WAL could not be read before a server was started, it is read beside the server: one that waits
// for WAL tells nobody that it does. Of a server that has come far enough, or that leads, nothing is read.
func TestACopyOfWhichNobodyKnowsThatItIsShort(t *testing.T) {
	at := func(lsn uint64) *tenure.Position { return &tenure.Position{Timeline: 2, LSN: lsn} }
	runs, consistent := postgres.Process{Running: true}, postgres.Process{Running: true, Consistent: true}
	var memory observe.Short
	for number, look := range []struct {
		process     postgres.Process
		standby     bool
		end, beside *tenure.Position
		want        bool
	}{
		{runs, false, nil, at(900), false}, {runs, true, nil, nil, false}, {runs, true, nil, at(900), true},
		{runs, true, nil, at(1000), true}, {consistent, true, nil, at(900), false}, {runs, true, nil, at(900), false},
		{postgres.Process{}, true, at(1000), at(900), false}, {runs, true, nil, at(900), false},
		{postgres.Process{}, true, nil, at(900), false}, {runs, true, nil, at(900), true},
	} {
		s := postgres.Snapshot{
			Volume:  postgres.Volume{Record: &postgres.Record{}},
			Data:    postgres.Data{Consistent: 1000, End: look.end, Standby: look.standby},
			Process: look.process,
		}
		if memory.Look(&s, look.beside); s.Data.Short != look.want {
			t.Errorf("look %d: short is %t", number, s.Data.Short)
		}
	}
}

// A server that is consistent and lets nobody in is silent, from when that was first seen.
func TestASilentServer(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var memory observe.Silent
	for number, look := range []struct {
		process postgres.Process
		want    time.Duration
	}{
		{postgres.Process{Running: true}, 0}, {postgres.Process{Running: true, Consistent: true}, 0},
		{postgres.Process{Running: true, Consistent: true}, time.Second},
		{postgres.Process{Running: true, Consistent: true, LetsIn: true}, 0},
		{postgres.Process{Running: true, Consistent: true}, 0}, {postgres.Process{}, 0},
	} {
		s := postgres.Snapshot{
			Now: began.Add(time.Duration(number) * time.Second), Data: postgres.Data{Standby: true}, Process: look.process,
		}
		if memory.Look(&s); s.Process.Silent != look.want {
			t.Errorf("look %d: silent for %s", number, s.Process.Silent)
		}
	}
}
