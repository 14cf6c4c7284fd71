package act_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/act"
	"meridian.dev/meridian/internal/tenure"
)

// disk is a volume that is as the test says, and notes what was done to it.
type disk struct {
	postgres.Disk
	volume postgres.Volume
	data   postgres.Data
	done   []string
	// histories are those of timelines, unreadable why there are no others.
	histories  map[int]postgres.History
	unreadable error
}

func (d *disk) Look(context.Context) (postgres.Volume, postgres.Data) { return d.volume, d.data }

func (d *disk) WriteRecord(record postgres.Record) error {
	d.done = append(d.done, "record "+record.DatabaseUID+" "+record.Incarnation+" "+string(record.InProgress))
	return nil
}

func (d *disk) Standby(replica bool) error {
	d.done = append(d.done, fmt.Sprintf("standby %t", replica))
	return nil
}

func (d *disk) Upstream(string) error {
	d.done = append(d.done, "upstream")
	return nil
}

func (d *disk) Position(uint64) (tenure.Position, error) {
	return tenure.Position{Timeline: 1, LSN: 5}, nil
}

func (d *disk) History(timeline int) (postgres.History, error) {
	if history, there := d.histories[timeline]; there || d.unreadable == nil {
		return history, nil
	}
	return nil, d.unreadable
}

func (d *disk) Reserve(timeline int) error {
	d.done = append(d.done, fmt.Sprintf("reserve %d", timeline))
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
	claim, initialise := postgres.ClaimVolume{DatabaseUID: "u1", Incarnation: "new"}, postgres.Initialise{Major: 17}
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
			actor := act.Actor{Ports: postgres.Ports{Disk: volume}, Incarnation: func() string { return "new" }}
			outcome := actor.Do(t.Context(), tenure.Standing{}, postgres.Plan{Actions: []postgres.Action{test.action}})
			did := slices.Contains(volume.done, test.want) && outcome.Failed == ""
			refused := strings.Contains(outcome.Problem, test.want) && len(volume.done) == 0 && outcome.Failed != ""
			if did == refused {
				t.Errorf("did %q, outcome %+v, want %q", volume.done, outcome, test.want)
			}
		})
	}
}

// sql fails to set a password.
type sql struct {
	postgres.SQL
	done []string
}

func (s *sql) SetLogin(context.Context, postgres.Login, string) error {
	return errors.New("it cannot be set")
}

func (s *sql) CreateDatabase(context.Context, string, string) error { return errors.New("no room") }

func (s *sql) CreateAgents(context.Context) error {
	s.done = append(s.done, "agents")
	return nil
}

// mounts has a password.
type mounts struct{ postgres.Mounts }

func (mounts) Logins() (postgres.Logins, error) {
	return postgres.Logins{Present: postgres.Login{Name: "geo", Password: "p"}}, nil
}

func TestOneBrokenThingDoesNotHoldUpAnother(t *testing.T) {
	inside := &sql{}
	actor := act.Actor{Ports: postgres.Ports{SQL: inside, Mounts: mounts{}}}
	outcome := actor.Do(t.Context(), tenure.Standing{}, postgres.Plan{Actions: []postgres.Action{
		postgres.SetPassword{Name: "geo", Owner: "geo"}, postgres.CreateAgents{},
		postgres.CreateDatabase{Name: "geo", Owner: "geo"}, postgres.CreateAgents{},
	}})
	if !slices.Equal(inside.done, []string{"agents"}) || outcome.Failed != "SetPassword of geo" {
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
			actor := act.Actor{Ports: postgres.Ports{Disk: volume, Runner: process}, Authority: &authority{}}
			outcome := actor.Do(t.Context(), tenure.Standing{}, postgres.Plan{Actions: []postgres.Action{
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
	done     []string
	receiver error
}

func (r *runner) Start(mark, _ string) error {
	r.done = append(r.done, "start "+mark)
	return nil
}

func (r *runner) Look() postgres.Process { return postgres.Process{Running: true} }

func (r *runner) Reload() error { return nil }

func (r *runner) EndReceiver(context.Context) error { return r.receiver }

func (r *runner) Promote() error {
	r.done = append(r.done, "promote")
	return nil
}

func (r *runner) EndEntering(context.Context) error { return nil }

func (mounts) TakeKeysBack() error { return nil }

func (mounts) LendKey(string) error { return nil }

// authority refuses what the test says.
type authority struct {
	lead, confirm, exclude error
	asked                  []string
}

func (a *authority) MayLead(uint64) error {
	a.asked = append(a.asked, "lead")
	return a.lead
}

func (a *authority) Confirm(context.Context, uint64) error {
	a.asked = append(a.asked, "confirm")
	return a.confirm
}

func (a *authority) Exclude(_ uint64, act func() error) error {
	a.asked = append(a.asked, "exclude")
	if a.exclude != nil {
		return a.exclude
	}
	return act()
}

func (*authority) Places() []tenure.Place { return nil }

// Each act that could let a server lead, follow or lose its copy asks before, and is not done when refused.
func TestTheAuthorityIsAsked(t *testing.T) {
	refusal := errors.New("no")
	whole := &postgres.Record{DatabaseUID: "u1", Incarnation: "i1", SystemIdentifier: "7"}
	for name, test := range map[string]struct {
		action    postgres.Action
		authority authority
		asked     []string
		done      int
	}{
		"start as a primary": {
			postgres.StartServer{Mark: "m", Primary: true}, authority{}, []string{"lead"}, 2,
		},
		"start as a primary, refused": {
			postgres.StartServer{Mark: "m", Primary: true}, authority{lead: refusal}, []string{"lead"}, 0,
		},
		"start as a primary without its files": {postgres.StartServer{Primary: true}, authority{}, nil, 0},
		"start as a replica":                   {postgres.StartServer{Mark: "m"}, authority{}, []string{"exclude"}, 2},
		"start as a replica, refused": {
			postgres.StartServer{Mark: "m"}, authority{exclude: refusal}, []string{"exclude"}, 0,
		},
		"promote":          {postgres.Promote{Timeline: 2}, authority{}, []string{"lead"}, 3},
		"promote, refused": {postgres.Promote{Timeline: 2}, authority{lead: refusal}, []string{"lead"}, 2},
		"promote to a timeline that the copy is on": {postgres.Promote{Timeline: 1}, authority{}, nil, 1},
		"follow":          {postgres.FollowUpstream{}, authority{}, []string{"exclude"}, 1},
		"follow, refused": {postgres.FollowUpstream{}, authority{exclude: refusal}, []string{"exclude"}, 0},
		"rewind":          {postgres.BeginRewind{}, authority{}, []string{"confirm", "exclude"}, 1},
		"rewind, refused": {postgres.BeginRewind{}, authority{confirm: refusal}, []string{"confirm"}, 0},
		"rewind, outdated": {
			postgres.BeginRewind{}, authority{exclude: refusal}, []string{"confirm", "exclude"}, 0,
		},
		"discard":          {postgres.BeginDiscard{}, authority{}, []string{"confirm", "exclude"}, 1},
		"discard, refused": {postgres.BeginDiscard{}, authority{confirm: refusal}, []string{"confirm"}, 0},
		"clone, refused":   {postgres.BeginClone{}, authority{confirm: refusal}, []string{"confirm"}, 0},
		"clone over a copy that is whole": {
			postgres.BeginClone{}, authority{}, []string{"confirm", "exclude"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			volume := &disk{volume: postgres.Volume{Lock: postgres.LockOurs, Record: whole}}
			process := &runner{}
			actor := act.Actor{
				Ports: postgres.Ports{Disk: volume, Runner: process, Mounts: mounts{}}, Authority: &test.authority,
				Incarnation: func() string { return "new" },
			}
			outcome := actor.Do(t.Context(), tenure.Standing{Serial: 4}, postgres.Plan{Actions: []postgres.Action{test.action}})
			if done := len(volume.done) + len(process.done); done != test.done {
				t.Errorf("did %v %v, want %d acts; %+v", volume.done, process.done, test.done, outcome)
			}
			if !slices.Equal(test.authority.asked, test.asked) {
				t.Errorf("asked %v, want %v", test.authority.asked, test.asked)
			}
		})
	}
}

// A standing that was fenced does not undo the fence, although the authority has not replaced it.
func TestAFencedStandingFollowsNobody(t *testing.T) {
	volume := &disk{volume: postgres.Volume{Lock: postgres.LockOurs}}
	actor := act.Actor{
		Ports: postgres.Ports{Disk: volume, Runner: &runner{}, Mounts: mounts{}}, Authority: &authority{},
		Fenced: func(serial uint64) bool { return serial <= 4 },
	}
	for serial, want := range map[uint64]int{4: 0, 5: 1} {
		volume.done = nil
		actor.Do(t.Context(), tenure.Standing{Serial: serial}, postgres.Plan{
			Actions: []postgres.Action{postgres.FollowUpstream{}},
		})
		if len(volume.done) != want {
			t.Errorf("standing %d: did %v", serial, volume.done)
		}
	}
}

// While the receiver cannot be proven to be gone, nobody is promoted.
func TestNoPromotionWithAReceiver(t *testing.T) {
	process := &runner{receiver: errors.New("it lives")}
	actor := act.Actor{Ports: postgres.Ports{Disk: &disk{}, Runner: process, Mounts: mounts{}}, Authority: &authority{}}
	outcome := actor.Do(t.Context(), tenure.Standing{}, postgres.Plan{
		Actions: []postgres.Action{postgres.Promote{Timeline: 2}},
	})
	if outcome.Failed == "" || len(process.done) > 0 {
		t.Errorf("did %v, %+v", process.done, outcome)
	}
}

// A history that came after the last look, or that cannot be read, is met before the server is told to lead: one that
// is promoted while it goes by the history of a lost timeline writes down that its own comes from that one.
func TestNoPromotionOfAServerThatStrays(t *testing.T) {
	for name, test := range map[string]struct {
		two        postgres.History
		unreadable error
		promoted   bool
	}{
		"none": {nil, fs.ErrNotExist, true}, "unreadable": {nil, errors.New("broken"), false},
		"it begins later":             {postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 6}}, nil, false},
		"the copy has passed it":      {postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 4}}, nil, false},
		"it begins where the copy is": {postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 5}}, nil, true},
		"a number that was taken":     {postgres.History{{Timeline: 2}}, nil, true},
	} {
		volume, process := &disk{unreadable: test.unreadable}, &runner{}
		if test.two != nil {
			volume.histories = map[int]postgres.History{2: test.two}
		}
		actor := act.Actor{Ports: postgres.Ports{Disk: volume, Runner: process, Mounts: mounts{}}, Authority: &authority{}}
		outcome := actor.Do(t.Context(), tenure.Standing{}, postgres.Plan{
			Actions: []postgres.Action{postgres.Promote{Timeline: 3}},
		})
		if promoted := len(process.done) > 0; promoted != test.promoted {
			t.Errorf("%s: promoted %t, %+v", name, promoted, outcome)
		}
	}
}
