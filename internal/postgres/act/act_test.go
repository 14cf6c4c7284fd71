package act_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/act"
)

// disk is a volume that is as the test says, and notes what was done to it.
type disk struct {
	postgres.Disk
	volume postgres.Volume
	data   postgres.Data
	done   []string
}

func (d *disk) Look(context.Context) (postgres.Volume, postgres.Data) { return d.volume, d.data }

func (d *disk) WriteRecord(record postgres.Record) error {
	d.done = append(d.done, "record "+record.DatabaseUID+" "+record.Incarnation+" "+string(record.InProgress))
	return nil
}

func (d *disk) Initialise(context.Context, postgres.Initialise) error {
	d.done = append(d.done, "initdb")
	return nil
}

// The irreversible is refused when the world has moved since it was decided.
func TestTheIrreversibleLooksAgain(t *testing.T) {
	const ours = postgres.LockOurs
	absent := postgres.Data{Presence: postgres.DataAbsent}
	claimed := &postgres.Record{DatabaseUID: "u1", Incarnation: "i1", InProgress: postgres.StepInitialise}
	complete := &postgres.Record{DatabaseUID: "u1", Incarnation: "i1", SystemIdentifier: "7"}
	claim, initialise := postgres.ClaimVolume{DatabaseUID: "u1"}, postgres.Initialise{Major: 17}
	for name, test := range map[string]struct {
		action postgres.Action
		volume postgres.Volume
		data   postgres.Data
		want   string // What is done, or what the refusal says.
	}{
		"claim":                   {claim, postgres.Volume{Lock: ours}, absent, "record u1 new initialise"},
		"claim, unreadable now":   {claim, postgres.Volume{Lock: ours, Problem: "broken"}, absent, "broken"},
		"claim, lock gone":        {claim, postgres.Volume{Lock: postgres.LockFree}, absent, "lock"},
		"claim, claimed by other": {claim, postgres.Volume{Lock: ours, Record: claimed}, absent, "not empty any more"},
		"claim, data appeared":    {claim, postgres.Volume{Lock: ours}, postgres.Data{}, "not empty any more"},
		"initialise":              {initialise, postgres.Volume{Lock: ours, Record: claimed}, absent, "initdb"},
		"initialise, completed":   {initialise, postgres.Volume{Lock: ours, Record: complete}, absent, "under way"},
		"initialise, no record":   {initialise, postgres.Volume{Lock: ours}, absent, "under way"},
		"initialise, data there":  {initialise, postgres.Volume{Lock: ours, Record: claimed}, postgres.Data{}, "already"},
		"initialise, lock gone":   {initialise, postgres.Volume{Record: claimed}, absent, "lock"},
		"record without a record": {postgres.RecordInitialised{}, postgres.Volume{Lock: ours}, absent, "no record"},
		"record without the lock": {postgres.RecordInitialised{}, postgres.Volume{Record: claimed}, absent, "lock"},
		"record that it completed": {
			postgres.RecordInitialised{}, postgres.Volume{Lock: ours, Record: claimed}, absent, "record u1 i1 ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			volume := &disk{volume: test.volume, data: test.data}
			actor := act.Actor{Disk: volume, Incarnation: func() string { return "new" }}
			outcome := actor.Do(t.Context(), postgres.Plan{Actions: []postgres.Action{test.action}})
			did := slices.Contains(volume.done, test.want) && outcome.Failed == ""
			refused := strings.Contains(outcome.Problem, test.want) && len(volume.done) == 0 && outcome.Failed != ""
			if did == refused {
				t.Errorf("did %q, outcome %+v, want %q", volume.done, outcome, test.want)
			}
		})
	}
}

// sql fails to make one extension.
type sql struct {
	postgres.SQL
	done []string
}

func (s *sql) CreateExtension(_ context.Context, _, name string) error {
	if name == "broken" {
		return errors.New("it cannot be made")
	}
	s.done = append(s.done, name)
	return nil
}

func (s *sql) CreateDatabase(context.Context, string, string) error { return errors.New("no room") }

func TestOneBrokenThingDoesNotHoldUpAnother(t *testing.T) {
	inside := &sql{}
	actor := act.Actor{SQL: inside}
	outcome := actor.Do(t.Context(), postgres.Plan{Actions: []postgres.Action{
		postgres.CreateExtension{Name: "broken"}, postgres.CreateExtension{Name: "good"},
		postgres.CreateDatabase{Name: "geo", Owner: "geo"}, postgres.CreateExtension{Name: "after"},
	}})
	if !slices.Equal(inside.done, []string{"good"}) || outcome.Failed != "CreateExtension broken" {
		t.Errorf("done %v, outcome %+v", inside.done, outcome)
	}
}

// When new settings cannot be written, the server is started with the files of before, and not as if with the new ones.
func TestAFullVolumeDoesNotHoldUpAStart(t *testing.T) {
	volume := &disk{volume: postgres.Volume{Problem: "no space left on device"}}
	for name, test := range map[string]struct {
		spare bool
		want  []string
	}{
		"files of before are complete": {true, []string{"start "}},
		"there are none":               {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			process := &runner{}
			actor := act.Actor{Disk: volume, Runner: process}
			outcome := actor.Do(t.Context(), postgres.Plan{Actions: []postgres.Action{
				postgres.RecordSettings{Spare: test.spare}, postgres.WriteFiles{Spare: test.spare},
				postgres.StartServer{Mark: "m2"},
			}})
			if !slices.Equal(process.done, test.want) || outcome.Kept != test.spare || outcome.Failed != "RecordSettings" {
				t.Errorf("done %q, outcome %+v", process.done, outcome)
			}
		})
	}
}

// runner notes starts.
type runner struct {
	postgres.Runner
	done []string
}

func (r *runner) Start(mark string) error {
	r.done = append(r.done, "start "+mark)
	return nil
}
