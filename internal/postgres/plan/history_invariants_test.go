package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/invariant"
	"meridian.dev/meridian/internal/postgres/plan"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// theirs is the history of the primary in these tests.
var theirs = postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 200}}

// told is a stopped replica whose primary has told a history that holds the copy.
func told(s *postgres.Snapshot) {
	s.Standing.Timeline = 2
	s.Data.End = &tenure.Position{Timeline: 1, LSN: 200}
	s.Upstream = postgres.Upstream{
		Of: s.Standing.Upstream, Term: s.Standing.Term, Known: true, Leads: true, History: theirs,
	}
}

// B3: the name and the slot of a member are used only when the primary of this term has told a history that holds the
// position of the copy.
func TestFollowingIsJudged(t *testing.T) {
	running := func(s *postgres.Snapshot) {
		s.Process.Running, s.Server = true, postgres.Server{Reachable: true, Replica: true}
		s.Server.Replication.Place, s.Data.End = s.Data.End, nil
	}
	for name, test := range map[string]struct {
		change func(*postgres.Snapshot)
		right  bool
	}{
		"as told":               {func(*postgres.Snapshot) {}, true},
		"a running replica":     {running, true},
		"on the new timeline":   {func(s *postgres.Snapshot) { *s.Data.End = tenure.Position{Timeline: 2, LSN: 900} }, true},
		"nothing was told":      {func(s *postgres.Snapshot) { s.Upstream = postgres.Upstream{} }, false},
		"told in another term":  {func(s *postgres.Snapshot) { s.Upstream.Term-- }, false},
		"told by another copy":  {func(s *postgres.Snapshot) { s.Upstream.Of.Incarnation = "i9" }, false},
		"told before it leads":  {func(s *postgres.Snapshot) { s.Upstream.Leads = false }, false},
		"an earlier timeline":   {func(s *postgres.Snapshot) { s.Standing.Timeline = 3 }, false},
		"the end is unknown":    {func(s *postgres.Snapshot) { s.Data.End = nil }, false},
		"beyond the fork":       {func(s *postgres.Snapshot) { s.Data.End.LSN = 201 }, false},
		"on a foreign timeline": {func(s *postgres.Snapshot) { s.Data.End.Timeline = 3 }, false},
		"a running one beyond the fork": {func(s *postgres.Snapshot) {
			running(s)
			s.Server.Replication.Place.LSN = 201
		}, false},
		"a server that does not answer": {func(s *postgres.Snapshot) {
			s.Process.Running = true
		}, false},
	} {
		given := replica()
		test.change(&given)
		follow := postgres.FollowUpstream{History: theirs}
		violations := invariant.Check(given, postgres.Plan{Actions: []postgres.Action{follow}})
		if right := len(violations) == 0; right != test.right {
			t.Errorf("%s: violations %v", name, violations)
		}
	}
}

func replica() postgres.Snapshot {
	s := running()
	following(&s)
	told(&s)
	return s
}

// B3: a server is not started with an upstream of an earlier standing in its files.
func TestNobodyStartsByAnEarlierUpstream(t *testing.T) {
	start := postgres.Plan{Actions: []postgres.Action{postgres.StartServer{}}}
	given := replica()
	given.Files = []postgres.File{{Name: render.UpstreamFile, Hash: render.Hash("primary_conninfo = 'x'"), Ours: true}}
	if violations := invariant.Check(given, start); len(violations) != 1 || violations[0].Rule !=
		"postgres.follow-only-a-judged-history" {
		t.Errorf("violations %v", violations)
	}
	given.Certificate.Lent = []string{render.KeyName(given.Standing, given.Certificate.Installed)}
	if violations := invariant.Check(given, start); len(violations) > 0 {
		t.Errorf("the key is lent by this standing: %v", violations)
	}
	given.Standing.Term++
	if violations := invariant.Check(given, start); len(violations) != 1 {
		t.Errorf("the key is lent by an earlier standing: %v", violations)
	}
}

// B3: the data of a primary is started as a replica only after it was judged, or for a ballot that it has answered.
func TestNoTailIsReplayedUnjudged(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*postgres.Snapshot)
		right  bool
	}{
		"idle":                          {func(*postgres.Snapshot) {}, false},
		"fenced by an earlier standing": {func(s *postgres.Snapshot) { s.Fenced = s.Standing.Serial - 1 }, false},
		"fenced by this standing":       {func(s *postgres.Snapshot) { s.Fenced = s.Standing.Serial }, true},
		"follows": {func(s *postgres.Snapshot) {
			s.Standing.Role, s.Standing.Upstream = tenure.RoleFollow, wire.Member{Name: "cities-2", Incarnation: "i2"}
		}, false},
		"follows and is judged": {func(s *postgres.Snapshot) {
			s.Standing.Role, s.Standing.Upstream = tenure.RoleFollow, wire.Member{Name: "cities-2", Incarnation: "i2"}
			told(s)
		}, true},
		"the data of a replica": {func(s *postgres.Snapshot) { s.Data.Standby = true }, true},
	} {
		given := running()
		given.Process.Running, given.Server, given.Standing.Role = false, postgres.Server{}, tenure.RoleIdle
		test.change(&given)
		violations := invariant.Check(given, postgres.Plan{Actions: []postgres.Action{postgres.StartServer{}}})
		if right := len(violations) == 0; right != test.right {
			t.Errorf("%s: violations %v", name, violations)
		}
	}
}

// B3: a member goes by the name of the timeline that it was judged for, where the primary counts that name.
func TestTheNameTellsTheTimeline(t *testing.T) {
	for bound, want := range map[bool]string{
		true: "application_name=cities-1/i1@2 ", false: "application_name=cities-1/i1 ",
	} {
		given := replica()
		given.Upstream.ByTimeline = bound
		given.Files = []postgres.File{{Name: render.UpstreamFile, Hash: render.Hash(render.Alone()), Ours: true}}
		found := false
		for _, action := range plan.Decide(given).Actions {
			if follow, follows := action.(postgres.FollowUpstream); follows {
				found = strings.Contains(follow.Text, want)
				given.Files[0].Hash, given.Certificate.Lent = render.Hash(follow.Text), []string{follow.Key}
			}
		}
		if !found {
			t.Errorf("names that tell the timeline %t: nobody follows by %s", bound, want)
		}
		// Who follows goes on when the primary cannot be asked again.
		given.Upstream = postgres.Upstream{Problem: "it does not answer"}
		for _, action := range plan.Decide(given).Actions {
			switch action.(type) {
			case postgres.FollowUpstream, postgres.FollowNobody:
				t.Errorf("names that tell the timeline %t: %s", bound, action.Verb())
			}
		}
	}
}

// B2: a copy that was rewound and lacks the rest goes by the name of one that joins, until its server has told that it
// is consistent. It may let nobody in for long after that.
func TestAShortCopyJoins(t *testing.T) {
	following := func(s postgres.Snapshot) string {
		for _, action := range plan.Decide(s).Actions {
			switch follow := action.(type) {
			case postgres.FollowUpstream:
				if violations := invariant.Check(s, plan.Decide(s)); len(violations) > 0 {
					t.Errorf("violations: %v", violations)
				}
				return follow.Text
			case postgres.FollowNobody:
				return render.Alone()
			}
		}
		return ""
	}
	s := replica()
	s.Upstream.ByTimeline = true
	s.Files = []postgres.File{{Name: render.UpstreamFile, Hash: render.Hash(render.Alone()), Ours: true}}
	s.Data.Short = true
	s.Process, s.Server = postgres.Process{}, postgres.Server{}
	text := following(s)
	if !strings.Contains(text, "application_name=cities-1+i1 ") || !strings.Contains(text, "primary_slot_name = ''") {
		t.Fatalf("a short copy follows by %s", text)
	}
	s.Files[0].Hash = render.Hash(text)
	s.Certificate.Lent = []string{render.KeyName(s.Standing, s.Certificate.Installed)}
	s.Process, s.Data.End = postgres.Process{Running: true, Start: "s1"}, nil
	if text := following(s); text != "" {
		t.Errorf("while it recovers: %s", text)
	}
	s.Data.Short, s.Process.Consistent = false, true
	told := s.Upstream
	s.Upstream = postgres.Upstream{Problem: "it does not answer"}
	if text := following(s); text != "" {
		t.Errorf("it is whole, and the primary cannot be asked: %s", text)
	}
	s.Upstream = told
	if text := following(s); !strings.Contains(text, "application_name=cities-1/i1@2 ") {
		t.Errorf("a copy that is whole follows by %s", text)
	}
}

// A server that is consistent and lets nobody in does not tell where it is. It is stopped when its upstream has told,
// so that its copy can be judged, and not before: it may let somebody in at any moment.
func TestASilentServerIsJudgedStopped(t *testing.T) {
	s := replica()
	s.Files = []postgres.File{{Name: render.UpstreamFile, Hash: render.Hash(render.Alone()), Ours: true}}
	s.Process = postgres.Process{Running: true, Start: "s1", Consistent: true}
	s.Server, s.Data.End = postgres.Server{}, nil
	stops := func() bool {
		decided := plan.Decide(s)
		if violations := invariant.Check(s, decided); len(violations) > 0 {
			t.Errorf("violations: %v", violations)
		}
		return slices.ContainsFunc(decided.Actions, func(action postgres.Action) bool {
			_, stop := action.(postgres.StopServer)
			return stop
		})
	}
	if stops() {
		t.Error("it is stopped in the moment in which it is consistent")
	}
	if s.Process.Silent = time.Second; !stops() {
		t.Error("its copy is never judged")
	}
	if s.Upstream.Known = false; stops() {
		t.Error("it is stopped, and nobody has told a history")
	}
}
