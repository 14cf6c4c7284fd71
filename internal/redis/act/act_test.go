package act_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/act"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a replica whose upstream is looked for.
type world struct {
	redis.Mounts
	redis.Link
	copied          redis.Copy
	unheld, unfound error
	followed        bool
}

func (w *world) Passwords() (redis.Passwords, error)      { return redis.Passwords{Present: "p1"}, nil }
func (w *world) Now() time.Time                           { return noon }
func (w *world) MayLead(uint64) error                     { return nil }
func (w *world) Confirm(context.Context, uint64) error    { return w.unheld }
func (w *world) Exclude(_ uint64, act func() error) error { return act() }
func (*world) Places() []tenure.Place                     { return nil }

func (w *world) Change(change func(redis.Copy) redis.Copy) { w.copied = change(w.copied) }
func (w *world) Flushed(string, int64)                     {}

func (w *world) Find(context.Context, string) (string, error) { return "10.0.0.1", w.unfound }

func (w *world) Follow(context.Context, wire.Member, string, string) error {
	w.followed = true
	return nil
}

// An upstream that cannot be found, or that is not known to hold the lease, was asked for all the same: the next
// attempt comes later, and in another way. Else the loop would do nothing but look for it, while others wait for its
// facts.
func TestFollowCountsAsAnAttempt(t *testing.T) {
	upstream := wire.Member{Name: "tiles-1", Incarnation: "i1"}
	before := redis.Copy{
		Incarnation: "i2", Whole: true, Asked: noon.Add(-time.Hour), Attempts: 1,
		Followed: redis.Followed{Upstream: upstream, Timeline: 3},
	}
	for name, test := range map[string]struct {
		world *world
		fails bool
	}{
		"it is found":              {&world{}, false},
		"its name leads nowhere":   {&world{unfound: errors.New("no such host")}, true},
		"the lease cannot be read": {&world{unheld: errors.New("no answer")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.world
			w.copied = before
			actor := &act.Actor{Mounts: w, Link: w, Names: w, Clock: w, Authority: w, Memory: w}
			outcome := actor.Do(t.Context(), redis.Snapshot{Standing: tenure.Standing{Serial: 5, Timeline: 3}},
				redis.Plan{Actions: []redis.Action{redis.Follow{Upstream: upstream, Whole: true}}})
			if test.fails != (outcome.Failed != "") || test.fails == w.followed {
				t.Errorf("%+v, followed %t", outcome, w.followed)
			}
			if w.copied.Attempts != 2 || !w.copied.Asked.Equal(noon) || w.copied.Followed.Upstream != upstream {
				t.Errorf("%+v", w.copied)
			}
		})
	}
}
