package observe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/observe"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// link is a server that is about to be fenced.
type link struct {
	redis.Replicas
	now    redis.Replication
	detach error
	// between happens between the look and the cut.
	between func(*redis.Replication)
}

func (l *link) Replication(context.Context) (redis.Replication, error) { return l.now, nil }

func (l *link) Detach(context.Context) error {
	if l.between != nil {
		l.between(&l.now)
	}
	if l.detach == nil {
		l.now.Host, l.now.Up, l.now.Replica = "", false, true
	}
	return l.detach
}

type clock struct{}

func (clock) Now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func TestFence(t *testing.T) {
	follows := redis.Followed{Upstream: wire.Member{Name: "tiles-1", Incarnation: "i1"}, Timeline: 4}
	for name, test := range map[string]struct {
		copied redis.Copy
		link   link
		want   tenure.Position
		fails  bool
	}{
		"what came until the cut counts": {
			link: link{between: func(now *redis.Replication) { now.Offset = 130 }}, want: tenure.Position{Timeline: 4, LSN: 130},
		},
		"a server that begins to read all anew has no answer": {
			link: link{between: func(now *redis.Replication) { now.Offset = 0 }}, fails: true,
		},
		"a server that cannot be cut off has no answer": {link: link{detach: errors.New("busy")}, fails: true},
		"a primary has no answer":                       {copied: redis.Copy{Incarnation: "i2", Term: 3}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			track := &observe.Track{}
			test.link.now = redis.Replication{Replica: true, Host: "10.0.0.1", Up: true, Offset: 100}
			track.Change(func(redis.Copy) redis.Copy {
				if test.copied.Incarnation != "" {
					return test.copied
				}
				return redis.Copy{Incarnation: "i2", Followed: follows, Before: clock{}.Now()}
			})
			got, err := track.Fence(t.Context(), &test.link, clock{})
			if (err != nil) != test.fails || got != test.want {
				t.Errorf("%v, %v; want %v, fails %t", got, err, test.want, test.fails)
			}
		})
	}
}
