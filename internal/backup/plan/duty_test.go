package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
)

// leader is a primary that has shipped a second ago, and has read the repository.
func leader() plan.Situation {
	return plan.Situation{
		Now: noon, Instance: "a", Wanted: true, Known: true, Leads: true, Running: true, Term: 3,
		Flushed: 5000, Confirmed: 100,
		Ship:   plan.Work{For: "term 3", Ended: noon.Add(-time.Second)},
		Read:   plan.Work{For: "term 3", Ended: noon.Add(-time.Second)},
		Stored: &plan.Stored{},
	}
}

func TestDecide(t *testing.T) {
	ships := plan.ShipLog{For: "term 3"}
	both := []plan.Duty{ships, plan.ReadRepository(ships)}
	for name, c := range map[string]struct {
		change func(*plan.Situation)
		want   []plan.Duty
	}{
		"each second":                 {func(*plan.Situation) {}, []plan.Duty{ships}},
		"no backups":                  {func(s *plan.Situation) { s.Wanted = false }, nil},
		"no copy":                     {func(s *plan.Situation) { s.Known = false }, nil},
		"nothing to ship":             {func(s *plan.Situation) { s.Confirmed = s.Flushed }, nil},
		"as little as a probe writes": {func(s *plan.Situation) { s.Confirmed = s.Flushed - 2048 }, nil},
		"a little more":               {func(s *plan.Situation) { s.Confirmed = s.Flushed - 2049 }, []plan.Duty{ships}},
		"so much that nobody knows yet where from": {func(s *plan.Situation) { s.Confirmed = 0 }, []plan.Duty{ships}},
		"as little as a probe writes, after seconds": {
			func(s *plan.Situation) { s.Confirmed, s.Ship.Ended = s.Flushed-1, noon.Add(-3*time.Second) }, []plan.Duty{ships},
		},
		"one goes on":         {func(s *plan.Situation) { s.Ship.Running = true }, nil},
		"too soon":            {func(s *plan.Situation) { s.Ship.Ended = noon.Add(-time.Second / 2) }, nil},
		"too soon after many": {func(s *plan.Situation) { s.Ship.Failures = 4 }, nil},
		"deposed in the middle": {
			func(s *plan.Situation) { s.Leads, s.Ship.Running = false, true }, []plan.Duty{plan.GiveUp{Ship: true}},
		},
		"deposed": {
			func(s *plan.Situation) { s.Leads = false }, []plan.Duty{plan.ShipLog{For: "another's term 3"}},
		},
		"another's term, looked at": {
			func(s *plan.Situation) { s.Leads, s.Ship.For = false, "another's term 3" }, nil,
		},
		"another's term, not filled in": {
			func(s *plan.Situation) {
				s.Leads, s.Fills, s.Ship = false, true, plan.Work{For: "another's term 3", Ended: noon.Add(-4 * time.Second)}
			},
			[]plan.Duty{plan.ShipLog{For: "another's term 3"}},
		},
		"the first reading":  {func(s *plan.Situation) { s.Stored = nil }, both},
		"a change to read":   {func(s *plan.Situation) { s.Stored.Stale = true }, both},
		"time to read again": {func(s *plan.Situation) { s.Read.Ended = noon.Add(-time.Hour) }, both},
		"a repository that is away is not read": {
			func(s *plan.Situation) { s.Ship.Failures, s.Stored = 1, nil }, []plan.Duty{ships},
		},
		"a wish":            {wish("w", "a"), []plan.Duty{ships, plan.MakeBase{For: "w"}}},
		"a wish of another": {wish("w", "b"), []plan.Duty{ships}},
		"a wish of another, looked for": {
			func(s *plan.Situation) { wish("w", "b")(s); s.Read.Ended = noon.Add(-10 * time.Second) }, both,
		},
		"a wish that is done": {
			func(s *plan.Situation) { wish("w", "a")(s); s.Stored.Done = []string{"w"} }, []plan.Duty{ships},
		},
		"a wish done just now": {
			func(s *plan.Situation) { wish("w", "a")(s); s.Base = plan.Work{For: "w", Ended: noon} }, []plan.Duty{ships},
		},
		"a wish that failed just now": {
			func(s *plan.Situation) { wish("w", "a")(s); s.Base = plan.Work{For: "w", Ended: noon, Failures: 1} },
			[]plan.Duty{ships},
		},
		"a wish that failed before": {
			func(s *plan.Situation) {
				wish("w", "a")(s)
				s.Base = plan.Work{For: "w", Ended: noon.Add(-time.Minute), Failures: 1}
			},
			[]plan.Duty{ships, plan.MakeBase{For: "w"}},
		},
		"a wish while the repository is away": {
			func(s *plan.Situation) { wish("w", "a")(s); s.Ship.Failures = 1 }, []plan.Duty{ships},
		},
		"a wish without a server": {func(s *plan.Situation) { wish("w", "a")(s); s.Running = false }, []plan.Duty{ships}},
		"a wish that goes to another in the middle": {
			func(s *plan.Situation) { wish("w", "b")(s); s.Base = plan.Work{For: "w", Running: true} },
			[]plan.Duty{plan.GiveUp{Base: true}, ships},
		},
		"the next wish in the middle of one": {
			func(s *plan.Situation) { wish("v", "a")(s); s.Base = plan.Work{For: "w", Running: true} }, []plan.Duty{ships},
		},
		"turned off in the middle": {
			func(s *plan.Situation) { s.Wanted, s.Base = false, plan.Work{For: "w", Running: true} },
			[]plan.Duty{plan.GiveUp{Base: true}},
		},
		"a gap that others may fill": {
			func(s *plan.Situation) { s.Stored.Broken, s.Stored.Since = "gap-1-5", noon }, []plan.Duty{ships},
		},
		"a gap that stays": {
			func(s *plan.Situation) { s.Stored.Broken, s.Stored.Since = "gap-1-5", noon.Add(-time.Hour) },
			[]plan.Duty{ships, plan.MakeBase{For: "gap-1-5"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := leader()
			c.change(&s)
			if diff := cmp.Diff(c.want, plan.Decide(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func wish(id, instance string) func(*plan.Situation) {
	return func(s *plan.Situation) { s.Wish = &plan.Wish{ID: id, Instance: instance} }
}

func TestBroken(t *testing.T) {
	whole := catalogue(row(1, 20), []uint64{2, 10})
	hole := catalogue(append(row(1, 12), row(15, 20)...), []uint64{2, 10})
	hole.Logs[0].Gaps = []backup.Gap{{First: 13, Last: 14}}
	mended := catalogue(append(row(1, 12), row(15, 20)...), []uint64{2, 10, 16})
	for name, c := range map[string]struct {
		stored *backup.Catalogue
		want   string
	}{
		"unbroken":                {whole, ""},
		"no backup":               {catalogue(row(1, 20), nil), ""},
		"a gap after the newest":  {hole, "gap-1-E"},
		"a gap before the newest": {mended, ""},
		"nothing":                 {catalogue(nil, nil), ""},
	} {
		if got := plan.Broken(c.stored); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
