package redis_test

import (
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

var (
	noon     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	upstream = redis.Followed{Upstream: wire.Member{Name: "tiles-1", Incarnation: "i1"}, Timeline: 4, Dataset: "i1"}
)

const bound = 20 * time.Second

// whole is a replica that had everything at noon. Its primary does not say how far it has come.
func whole() redis.Copy {
	return redis.Copy{
		Incarnation: "i2", Whole: true, Timeline: 3, Offset: 100, Dataset: "i1", Fresh: noon, Followed: upstream,
		Unasked: true,
	}
}

func TestWhatMakesACopyWhole(t *testing.T) {
	empty := redis.Copy{Incarnation: "i2", Followed: upstream, Before: noon.Add(-time.Second), Unasked: true}
	untold := whole()
	untold.Followed = redis.Followed{}
	primary := whole()
	primary.Term = 3
	for name, test := range map[string]struct {
		from   redis.Copy
		server redis.Replication
		after  time.Duration
		want   bool
		offset int64
	}{
		"an empty server that nobody has told anything": {
			redis.Copy{Incarnation: "i2"}, redis.Replication{}, 0, false, 0,
		},
		"a link that does not come up": {empty, redis.Replication{Replica: true, Host: "a"}, 0, false, 0},
		"all of the data is on its way": {
			empty, redis.Replication{Replica: true, Host: "a", Syncing: true}, 0, false, 0,
		},
		"the link is up": {empty, redis.Replication{Replica: true, Host: "a", Up: true, Offset: 7}, 0, true, 7},
		"the link has broken, and what came before is there": {
			whole(), redis.Replication{Replica: true, Host: "a", Offset: 120}, time.Second, true, 120,
		},
		"all of the data comes anew": {
			whole(), redis.Replication{Replica: true, Host: "a", Syncing: true, Offset: 100}, time.Second, true, 100,
		},
		"all of the data has come anew, and is being read": {
			whole(), redis.Replication{Replica: true, Host: "a", Syncing: true, Offset: 1}, time.Second, false, 0,
		},
		"all of the data came anew and broke off, between two looks": {
			whole(), redis.Replication{Replica: true, Host: "a", Offset: 0}, time.Second, false, 0,
		},
		"no word of the primary for too long": {
			whole(), redis.Replication{Replica: true, Host: "a", Offset: 100}, bound + time.Second, false, 100,
		},
		"a link that is up and says nothing for too long": {
			whole(), redis.Replication{Replica: true, Host: "a", Up: true, Quiet: bound + time.Second, Offset: 100}, 0, false,
			100,
		},
		"not known whom it follows: what it had stays what it was": {
			untold, redis.Replication{Replica: true, Host: "b", Up: true, Offset: 999}, time.Second, true, 100,
		},
		"a primary needs no word": {primary, redis.Replication{Offset: 500}, time.Hour, true, 500},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.from.See(test.server, noon.Add(test.after), bound)
			if got.Whole != test.want || got.Offset != test.offset {
				t.Errorf("whole %t at %d, want %t at %d", got.Whole, got.Offset, test.want, test.offset)
			}
		})
	}
}

// The timeline of a copy is that of the primary whose link was up last: an older copy never looks newer than it is.
func TestTimelineOfACopy(t *testing.T) {
	copied := whole().See(redis.Replication{Replica: true, Host: "a", Offset: 100}, noon, bound)
	if copied.Timeline != 3 {
		t.Errorf("timeline %d before the link to the new primary was up", copied.Timeline)
	}
	copied = copied.See(redis.Replication{Replica: true, Host: "a", Up: true, Offset: 90}, noon, bound)
	if copied.Timeline != 4 || copied.Offset != 90 {
		t.Errorf("timeline %d at %d after it", copied.Timeline, copied.Offset)
	}
}

// A copy that was too old goes on from its offset when the link is up again: what it lacks comes in the moments after.
func TestOneThatWasTooOldCatchesUpFirst(t *testing.T) {
	down := redis.Replication{Replica: true, Host: "a", Offset: 100}
	up := func(offset int64, quiet time.Duration) redis.Replication {
		return redis.Replication{Replica: true, Host: "a", Up: true, Offset: offset, Quiet: quiet}
	}
	old := whole().See(down, noon.Add(bound+time.Second), bound)
	for _, step := range []struct {
		server redis.Replication
		after  time.Duration
		want   bool
	}{
		{up(100, 0), 30 * time.Second, false},
		{up(101, 0), 31 * time.Second, false},
		{redis.Replication{Replica: true, Host: "a", Offset: 101}, 31500 * time.Millisecond, false},
		{up(102, 0), 32 * time.Second, false},
		{up(103, 0), 33 * time.Second, false},
		{up(103, 2*time.Second), 34 * time.Second, false},
		{up(103, 0), 35 * time.Second, false}, // The clock that the server counts by was put back.
		{up(104, 0), 36 * time.Second, true},
	} {
		if old = old.See(step.server, noon.Add(step.after), bound); old.Whole != step.want {
			t.Errorf("whole %t after %s, want %t", old.Whole, step.after, step.want)
		}
	}
}

// A copy whose link was down is as old as it was until what it lacks has come: a link that is up for a moment makes
// nothing young.
func TestALinkThatIsUpForAMoment(t *testing.T) {
	down := redis.Replication{Replica: true, Host: "a", Offset: 100}
	up := redis.Replication{Replica: true, Host: "a", Up: true, Offset: 100}
	seen := func(steps ...redis.Replication) redis.Copy {
		copied := whole()
		for second, server := range steps {
			server.Offset += int64(second)
			copied = copied.See(server, noon.Add(time.Duration(second+1)*time.Second), bound)
		}
		return copied
	}
	if copied := seen(up, up, down, up, up, down); !copied.Fresh.Equal(noon.Add(2 * time.Second)) {
		t.Errorf("fresh at %s after a moment, want 2 s after noon", copied.Fresh)
	}
	if copied := seen(up, up, down, up, up, up); !copied.Fresh.Equal(noon.Add(6 * time.Second)) {
		t.Errorf("fresh at %s when it has caught up, want 6 s after noon", copied.Fresh)
	}
}

// A network that was cut, and that no end of the link has noticed, delivers what was on its way first: the first word
// after a silence says nothing of what was written since.
func TestTheFirstWordAfterASilence(t *testing.T) {
	up := func(offset int64, quiet time.Duration) redis.Replication {
		return redis.Replication{Replica: true, Host: "a", Up: true, Offset: offset, Quiet: quiet}
	}
	copied := whole()
	for _, step := range []struct {
		server redis.Replication
		after  time.Duration
		fresh  time.Duration
	}{
		{up(101, 0), time.Second, time.Second},
		{up(102, time.Second), 4 * time.Second, 3 * time.Second},
		{up(102, 7*time.Second), 10 * time.Second, 3 * time.Second},
		{up(110, 0), 11 * time.Second, 3 * time.Second},
		{up(111, 0), 12 * time.Second, 3 * time.Second},
		{up(190, 0), 13 * time.Second, 13 * time.Second},
		{up(190, 8*time.Second), 21 * time.Second, 13 * time.Second},
		{up(195, 0), 22 * time.Second, 13 * time.Second},
		{redis.Replication{Replica: true, Host: "a", Offset: 195}, 23 * time.Second, 13 * time.Second},
	} {
		copied = copied.See(step.server, noon.Add(step.after), bound)
		if !copied.Fresh.Equal(noon.Add(step.fresh)) {
			t.Errorf("after %s it is fresh at %s, want %s after noon", step.after, copied.Fresh.Sub(noon), step.fresh)
		}
	}
}

// The same of a silence for which the copy has become too old to be read: that it had caught up once, long before, says
// nothing.
func TestTheFirstWordAfterALongSilence(t *testing.T) {
	copied := whole()
	for _, step := range []struct {
		up            bool
		offset        int64
		after, spoken time.Duration
		want          bool
	}{
		{false, 101, time.Second, 0, true},
		{true, 102, 2 * time.Second, 2 * time.Second, true},
		{true, 104, 5 * time.Second, 5 * time.Second, true},
		{true, 104, 6*time.Second + bound, 5 * time.Second, false},
		{true, 105, 7*time.Second + bound, 7*time.Second + bound, false},
		{true, 106, 8*time.Second + bound, 8*time.Second + bound, false},
		{true, 190, 9*time.Second + bound, 9*time.Second + bound, true},
	} {
		server := redis.Replication{Replica: true, Host: "a", Up: step.up, Offset: step.offset}
		server.Quiet = step.after - step.spoken
		if copied = copied.See(server, noon.Add(step.after), bound); copied.Whole != step.want {
			t.Errorf("whole %t after %s, want %t", copied.Whole, step.after, step.want)
		}
	}
}

// All of the data is as old as the moment in which it was asked for: what was written while it came follows after it.
func TestAllOfTheDataTakesLong(t *testing.T) {
	syncing := redis.Replication{Replica: true, Host: "a", Syncing: true, Offset: 1}
	up := func(offset int64) redis.Replication {
		return redis.Replication{Replica: true, Host: "a", Up: true, Offset: offset}
	}
	for name, test := range map[string]struct {
		took                  time.Duration
		atOnce, later, caught bool
	}{
		"it does not":                      {4 * time.Second, true, true, true},
		"so that it becomes old meanwhile": {bound - time.Second, true, false, true},
		"longer than it may be old":        {bound + time.Second, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			copied := redis.Copy{Incarnation: "i2", Followed: upstream, Unasked: true}
			for _, step := range []struct {
				server redis.Replication
				after  time.Duration
				want   bool
			}{
				{redis.Replication{Replica: true, Host: "a"}, 0, false},
				{syncing, time.Second, false},
				{syncing, test.took - time.Second, false},
				{up(90), test.took, test.atOnce},
				{up(91), test.took + 1500*time.Millisecond, test.later},
				{up(92), test.took + 2*time.Second, test.caught},
			} {
				if copied = copied.See(step.server, noon.Add(step.after), bound); copied.Whole != step.want {
					t.Errorf("whole %t after %s, want %t", copied.Whole, step.after, step.want)
				}
			}
		})
	}
}

// All of the data came between two looks, and then the link was down for long: what the server goes on from is old, and
// not the data that was never seen to come.
func TestDataThatWasNeverSeenToCome(t *testing.T) {
	for _, came := range []int64{7, 0} { // The primary may have been empty.
		copied := redis.Copy{Incarnation: "i2", Followed: upstream, Unasked: true}
		for _, step := range []struct {
			server redis.Replication
			after  time.Duration
			want   bool
		}{
			{redis.Replication{Replica: true, Host: "a", Offset: 1}, 0, false},
			{redis.Replication{Replica: true, Host: "a", Syncing: true, Offset: 1}, time.Second, false},
			{redis.Replication{Replica: true, Host: "a", Offset: came}, 2 * time.Second, false},
			{redis.Replication{Replica: true, Host: "a", Offset: came}, 39 * time.Second, false},
			{redis.Replication{Replica: true, Host: "a", Up: true, Offset: came}, 40 * time.Second, false},
			{redis.Replication{Replica: true, Host: "a", Up: true, Offset: 90}, 41 * time.Second, false},
			{redis.Replication{Replica: true, Host: "a", Up: true, Offset: 91}, 42 * time.Second, true},
		} {
			if copied = copied.See(step.server, noon.Add(step.after), bound); copied.Whole != step.want {
				t.Errorf("whole %t after %s with %d bytes, want %t", copied.Whole, step.after, came, step.want)
			}
		}
	}
}

func TestWhoMayLead(t *testing.T) {
	begun := redis.Copy{Incarnation: "i7", Begun: true}
	for name, test := range map[string]struct {
		copied  redis.Copy
		dataset string
		want    bool
	}{
		"a whole copy":                          {whole(), "i1", true},
		"an empty server":                       {redis.Copy{Incarnation: "i2"}, "i1", false},
		"the first copy of the dataset":         {begun, "i7", true},
		"the first copy of one that never came": {begun, "i1", false},
	} {
		if got := test.copied.MayLead(test.dataset); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestAPrimaryGoesOn(t *testing.T) {
	primary := whole()
	primary.Term, primary.Timeline = 3, 3
	lead := tenure.Standing{Role: tenure.RoleLead, Term: 4, Timeline: 3, SystemIdentifier: "i1"}
	for name, test := range map[string]struct {
		from   redis.Copy
		change func(*tenure.Standing)
		want   int64
	}{
		"O1: the lease was written anew":       {primary, func(*tenure.Standing) {}, 4},
		"while it yields":                      {primary, func(s *tenure.Standing) { s.Role = tenure.RoleYield }, 4},
		"another primary had led in between":   {primary, func(s *tenure.Standing) { s.Timeline = 5 }, 3},
		"of another dataset":                   {primary, func(s *tenure.Standing) { s.SystemIdentifier = "i9" }, 3},
		"an older term":                        {primary, func(s *tenure.Standing) { s.Term = 2 }, 3},
		"it follows":                           {primary, func(s *tenure.Standing) { s.Role = tenure.RoleFollow }, 3},
		"a replica that is told to lead waits": {whole(), func(*tenure.Standing) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			standing := lead
			test.change(&standing)
			next := test.from.GoesOn(standing)
			if next.Term != test.want || next.Start() != test.from.Start() {
				t.Errorf("leads term %d as %q, want %d as %q", next.Term, next.Start(), test.want, test.from.Start())
			}
		})
	}
}

// A copy of a primary that had nothing yet goes on from there as well: when the link is up again after long, what was
// written since comes in the moments after.
func TestACopyOfNothingCatchesUpFirst(t *testing.T) {
	copied := redis.Copy{Incarnation: "i2", Followed: upstream, Before: noon.Add(-time.Second), Unasked: true}
	down := redis.Replication{Replica: true, Host: "a"}
	up := func(offset int64) redis.Replication {
		return redis.Replication{Replica: true, Host: "a", Up: true, Offset: offset}
	}
	for _, step := range []struct {
		server redis.Replication
		after  time.Duration
		want   bool
	}{
		{up(0), 0, true},
		{down, bound + time.Second, false},
		{up(0), bound + 2*time.Second, false},
		{up(1), bound + 3*time.Second, false},
		{up(2), bound + 4*time.Second, true},
		{redis.Replication{Replica: true, Host: "a", Syncing: true, Offset: 1}, bound + 5*time.Second, false},
		{up(2), bound + 6*time.Second, true},
	} {
		if copied = copied.See(step.server, noon.Add(step.after), bound); copied.Whole != step.want {
			t.Errorf("whole %t after %s, want %t", copied.Whole, step.after, step.want)
		}
	}
}

// A primary that is asked how far it has come tells how old a copy is, whatever comes over the link meanwhile: who has
// come as far has everything that was there when it was asked.
func TestAPrimaryThatIsAsked(t *testing.T) {
	up := func(offset int64) redis.Replication {
		return redis.Replication{Replica: true, Host: "a", Up: true, Offset: offset}
	}
	copied := whole()
	copied.Unasked = false
	for _, step := range []struct {
		asked, offset int64 // After how many seconds the primary was asked, and where it was; 0 if it has not answered.
		server        redis.Replication
		after         int64
		fresh         int64
		want          bool
	}{
		{0, 0, up(101), 1, 0, true},
		{1, 104, up(103), 2, 0, true},
		{0, 0, up(104), 3, 1, true},
		{3, 180, up(110), 5, 1, true}, // It takes less than there is.
		{0, 0, up(150), 15, 1, true},
		{0, 0, up(179), 22, 1, false},
		{0, 0, up(180), 23, 3, true},
		{0, 0, redis.Replication{Replica: true, Host: "a", Offset: 180}, 24, 3, false},
		{0, 0, up(181), 26, 3, false},
		{26, 190, up(189), 28, 3, false},
		{0, 0, up(190), 29, 26, true},
		{0, 0, redis.Replication{Replica: true, Host: "a", Offset: 190}, 31, 26, true},
		{30, 191, up(192), 32, 26, true}, // It was asked before the link was up again.
		{0, 0, up(193), 33, 26, true},
	} {
		if step.offset > 0 {
			at := noon.Add(time.Duration(step.asked) * time.Second)
			copied = copied.Told(redis.Goal{Upstream: upstream.Upstream, Asked: at, Offset: step.offset})
		}
		copied = copied.See(step.server, noon.Add(time.Duration(step.after)*time.Second), bound)
		fresh := noon.Add(time.Duration(step.fresh) * time.Second)
		if copied.Whole != step.want || !copied.Fresh.Equal(fresh) {
			t.Errorf("after %d s whole %t and fresh %s after noon, want %t and %d s", step.after, copied.Whole,
				copied.Fresh.Sub(noon), step.want, step.fresh)
		}
	}
}
