package observe

import (
	"errors"
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
)

// TestAsks has a replica ask its primary each second, about one thing at a time, and at once when its link came up.
func TestAsks(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	upstream := wire.Member{Name: "tiles-1", Incarnation: "i1"}
	track := &Track{copied: redis.Copy{
		Incarnation: "i2", Whole: true, Had: true, Offset: 100, Fresh: noon, Followed: redis.Followed{Upstream: upstream},
	}, bound: 20 * time.Second}
	look := func(after time.Duration, up bool, offset int64) (question, bool) {
		server, now := redis.Server{Reachable: true}, noon.Add(after)
		server.Replication = redis.Replication{Replica: true, Host: "a", Up: up, Offset: offset}
		track.see(server.Replication, now)
		return track.asks(redis.Snapshot{Now: now, Server: server})
	}
	first, ok := look(0, true, 101)
	if !ok || first.upstream != upstream || !first.at.Equal(noon) {
		t.Fatalf("it asks %v, %t", first, ok)
	}
	if _, ok := look(time.Second, true, 102); ok {
		t.Error("it asks while a question is under way")
	}
	track.answer(first, 103, nil)
	behind, ok := look(2*time.Second, true, 102)
	if !ok {
		t.Error("it does not ask again before it has come as far as it was told")
	}
	track.answer(behind, 150, nil)
	second, ok := look(3*time.Second, true, 103)
	if !ok || !track.copied.Fresh.Equal(noon) {
		t.Errorf("asks %t, fresh %s", ok, track.copied.Fresh)
	}
	track.answer(second, 0, errors.New("no answer"))
	if _, ok := look(3500*time.Millisecond, false, 103); ok {
		t.Error("it asks without a link")
	}
	third, ok := look(3600*time.Millisecond, true, 103)
	if !ok {
		t.Error("it does not ask at once when its link is up")
	}
	track.answer(third, 0, redis.ErrUnasked)
	if !track.copied.Unasked {
		t.Error("words are not counted on")
	}
	if _, ok := look(4*time.Second, true, 104); ok {
		t.Error("it asks more than once a second")
	}
	late, ok := look(4600*time.Millisecond, true, 105)
	if !ok {
		t.Error("it does not ask again")
	}
	if _, ok := look(9*time.Second, true, 106); ok {
		t.Error("it does not wait for the answer")
	}
	if _, ok := look(9600*time.Millisecond, true, 107); !ok {
		t.Error("it waits for ever for an answer")
	}
	track.answer(late, 108, nil) // Late, and true all the same.
	if track.answered || len(track.goals) != 2 {
		t.Errorf("after a late answer: %+v", track.goals)
	}
	if look(10*time.Second, true, 150); !track.copied.Fresh.Equal(late.at) || track.copied.Unasked {
		t.Errorf("fresh %s, want %s", track.copied.Fresh, late.at)
	}
}
