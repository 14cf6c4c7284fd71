package observe_test

import (
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/observe"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

var (
	two   = wire.Member{Name: "cities-2", Incarnation: "b"}
	three = wire.Member{Name: "cities-3", Incarnation: "c"}
	noon  = tenure.Instant(12 * time.Hour)
)

// look is a pass of a primary that shows the wished value to a new session, loaded so many minutes after noon.
func look(b *observe.Barrier, setting tenure.Setting, loaded int, change func(*postgres.Snapshot)) postgres.Quorum {
	s := postgres.Snapshot{
		Standing: tenure.Standing{Role: tenure.RoleLead, Setting: setting},
		Process:  postgres.Process{Running: true, Start: "s1"},
		Server: postgres.Server{Reachable: true, Timeline: 1, Replication: postgres.Replication{
			Names: render.StandbyNames(&setting, 0), Loaded: noon.Add(time.Duration(loaded) * time.Minute),
			Flushed: uint64(1000 + loaded),
		}},
	}
	if change != nil {
		change(&s)
	}
	return b.Look(s)
}

// began is a sender of a member, since so many minutes after noon.
func began(pid int, member wire.Member, minute, priority int) postgres.Sender {
	since := noon.Add(time.Duration(minute) * time.Minute)
	return postgres.Sender{PID: pid, Member: member, Priority: priority, Began: since}
}

func senders(all ...postgres.Sender) func(*postgres.Snapshot) {
	return func(s *postgres.Snapshot) { s.Server.Replication.Senders = all }
}

// What a change needs and did not get is still needed after the next change.
func TestAPendingBarrierIsNotForgotten(t *testing.T) {
	var b observe.Barrier
	look(&b, tenure.Setting{}, 1, nil)
	first := tenure.Setting{K: 1, Names: []wire.Member{two}}
	if got := look(&b, first, 2, senders(began(7, two, 0, 1))); !got.Checkpoint || !slices.Equal(got.Replace, []int{7}) {
		t.Errorf("after the first quorum: %+v", got)
	}
	second := tenure.Setting{K: 1, Names: []wire.Member{two, three}}
	got := look(&b, second, 3, senders(began(7, two, 0, 1), began(8, three, 3, 1)))
	if !got.Checkpoint || !slices.Equal(got.Replace, []int{7}) || got.Setting != nil {
		t.Errorf("after the next: %+v", got)
	}
}

// A quorum is told only when every sender goes by it, and with where the log ended after that.
func TestAQuorumIsTold(t *testing.T) {
	var b observe.Barrier
	setting := tenure.Setting{K: 1, Names: []wire.Member{two}}
	old := senders(began(7, two, 3, 1), began(9, three, 0, 1))
	if got := look(&b, setting, 2, old); got.Setting != nil {
		t.Errorf("a sender still has another value: %+v", got)
	}
	var got postgres.Quorum
	for minute := 3; minute < 6 && got.Setting == nil; minute++ {
		got = look(&b, setting, 2, func(s *postgres.Snapshot) {
			senders(began(7, two, 3, 1), began(9, three, 0, 0))(s)
			s.Server.Replication.Flushed = uint64(2000 + minute)
		})
	}
	if got.Setting == nil || got.Setting.K != 1 || got.Barrier < 2003 {
		t.Fatalf("%+v", got)
	}
	again := look(&b, setting, 2, senders(began(7, two, 3, 1)))
	if again.Barrier != got.Barrier {
		t.Errorf("the barrier moved from %d to %d", got.Barrier, again.Barrier)
	}
	// Another quorum begins anew.
	if next := look(&b, tenure.Setting{K: 1, Names: []wire.Member{three}}, 9, nil); next.Barrier == got.Barrier {
		t.Errorf("%+v", next)
	}
}

// B2: a copy that joins does not count under the name of the member that it becomes, and holds nothing up.
func TestAJoiningCopyDoesNotCount(t *testing.T) {
	var b observe.Barrier
	setting := tenure.Setting{K: 1, Names: []wire.Member{two, three}}
	joining := began(9, three, 0, 0)
	joining.Joining = true
	var got postgres.Quorum
	for range 3 {
		got = look(&b, setting, 2, senders(began(7, two, 3, 1), joining))
	}
	if got.Setting == nil || len(got.Replace) > 0 {
		t.Errorf("it is waited for: %+v", got)
	}
}
