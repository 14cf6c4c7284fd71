//go:build cluster

package controller_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// writeTail lets a primary write what is acknowledged to nobody, as long as many later commits of another timeline.
func (i *instance) writeTail() {
	i.t.Helper()
	if err := i.execute(time.Second, "insert into t select 66 from generate_series(1, 2000)"); err == nil {
		i.t.Fatal("a write was acknowledged without the quorum")
	}
}

// keepDiverged lets nobody give up the copy of an instance: it stays as it is for the rest of the test.
func (i *instance) keepDiverged() {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.confirm = errors.New("this copy stays as it is")
}

// acknowledgesNothing writes to a primary, none of whose members has its log.
func (i *instance) acknowledgesNothing() {
	i.t.Helper()
	for n := range 8 {
		if err := i.execute(700*time.Millisecond, fmt.Sprintf("insert into t values (%d)", 100+n)); err == nil {
			i.t.Fatalf("commit %d was acknowledged, and no other copy has it", n)
		}
	}
}

// B3: PostgreSQL lets in a standby that has left its history, and counts its position on the old timeline as flushed.
// A former primary has to be made to fit before it follows by the name of a member.
func TestAFormerPrimaryAcknowledgesNothing(t *testing.T) {
	r, one, two := pair(t)
	members := []wire.Member{one.member(), two.member()}
	// It has answered an election before.
	if _, err := one.fence(); err == nil {
		t.Fatal("a primary was fenced")
	}
	position, err := two.fence()
	must(t, err)
	one.writeTail()
	one.loop.Kill()
	one.obey(tenure.Standing{
		Role: tenure.RoleIdle, Term: 1, Initialised: true, SystemIdentifier: r.system, Members: members,
	})
	facts := one.await("the end of its log", func(e tenure.Engine) bool { return !e.Processes && e.Flushed != nil })
	if facts.Flushed.Compare(position) <= 0 {
		t.Fatalf("the old primary is at %s, the fenced member at %s: nothing diverges", facts.Flushed, position)
	}
	r.lead(two, 2, 2, setting(1, one.member()), members...)
	one.keepDiverged()
	r.follow(one, two, 2, 2, members...)
	two.acknowledgesNothing()
	if one.loop.Facts().Processes {
		t.Error("a former primary was started before its copy was judged")
	}
	one.mutex.Lock()
	one.confirm = nil
	one.mutex.Unlock()
	one.streams()
	must(t, two.execute(5*time.Second, "insert into t values (200)"))
	if !one.logged("Rewind to") {
		t.Error("it was not rewound")
	}
}

// The same for a replica that runs, and has more of the old timeline than the new primary had.
func TestAReplicaAheadAcknowledgesNothing(t *testing.T) {
	r, one, two := pair(t)
	three := r.add(3)
	r.follow(three, one, 1, 1, one.member(), two.member())
	three.streams()
	members := []wire.Member{one.member(), two.member(), three.member()}
	one.settle(setting(1, two.member()), members...)
	r.follow(three, one, 1, 1, members...)
	three.streams()
	position, err := two.fence()
	must(t, err)
	one.writeTail()
	end := one.loop.Facts().Leading.Flushed
	three.await("the tail", func(e tenure.Engine) bool { return e.Flushed != nil && e.Flushed.LSN >= end })
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 2, 2, setting(1, three.member()), members...)
	three.keepDiverged()
	r.follow(three, two, 2, 2, members...)
	two.acknowledgesNothing()
	if facts := three.loop.Facts(); facts.Flushed == nil || facts.Flushed.Timeline != 1 ||
		facts.Flushed.Compare(position) <= 0 {
		t.Errorf("the replica is at %v, and was ahead of %s", facts.Flushed, position)
	}
	three.mutex.Lock()
	three.confirm = nil
	three.mutex.Unlock()
	three.streams()
	must(t, two.execute(5*time.Second, "insert into t values (200)"))
}

// A judgement is for one timeline: the same server, when it leads again on a later one, does not count a replica whose
// agent has not heard of that.
func TestAnEarlierJudgementCountsForNothing(t *testing.T) {
	r, one, two := pair(t)
	members := []wire.Member{one.member(), two.member()}
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	one.await("its end", func(e tenure.Engine) bool { return !e.Processes && e.Flushed != nil })
	r.lead(one, 3, 3, setting(1, two.member()), members...)
	one.await("the replica of before", func(tenure.Engine) bool {
		return one.super("select count(*) from pg_stat_replication where state = 'streaming'") == "1"
	})
	if err := one.execute(2*time.Second, "insert into t values (3)"); err == nil {
		t.Error("a commit was acknowledged by a replica that was judged for an earlier timeline")
	}
	if facts := one.loop.Facts(); facts.Leading == nil || len(facts.Leading.Replicas) > 0 {
		t.Errorf("leading %+v", facts.Leading)
	}
	r.follow(two, one, 3, 3, members...)
	two.streams()
	must(t, one.execute(10*time.Second, "insert into t values (4)"))
}

// A replica that is told of the next primary in the same moment as that itself follows as soon as it leads.
func TestAReplicaFollowsAtOnce(t *testing.T) {
	r, one, two := pair(t)
	three := r.add(3)
	r.follow(three, one, 1, 1, one.member(), two.member())
	three.streams()
	members := []wire.Member{one.member(), two.member(), three.member()}
	one.settle(setting(1, two.member(), three.member()), members...)
	r.follow(three, one, 1, 1, members...)
	three.streams()
	for _, i := range []*instance{two, three} {
		_, err := i.fence()
		must(t, err)
	}
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	begin := time.Now()
	two.obey(tenure.Standing{
		Role: tenure.RoleLead, Term: 2, Timeline: 2, Initialised: true, SystemIdentifier: r.system,
		Members: members, Setting: setting(1, one.member(), three.member()),
	})
	r.follow(three, two, 2, 2, members...)
	facts := two.await("a primary", func(e tenure.Engine) bool { return e.Leading != nil })
	led := time.Since(begin)
	two.await("its end of recovery on the replica", func(e tenure.Engine) bool {
		for _, replica := range e.Leading.Replicas {
			if replica.Member == three.member() && replica.Flushed >= facts.Leading.Recovered {
				return true
			}
		}
		return false
	})
	t.Logf("a primary after %s, the quorum after %s", led, time.Since(begin))
	three.streams()
}

// pg_rewind 15 says that no rewind is required, and succeeds, until the new primary has written its first checkpoint.
func TestARewindThatDoesNothing(t *testing.T) {
	r, one, two := pair(t)
	members := []wire.Member{one.member(), two.member()}
	var checkpointer int
	for _, pid := range children(t, two.postmaster()) {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		must(t, err)
		if strings.Contains(string(title), "checkpointer") {
			checkpointer = pid
		}
	}
	must(t, syscall.Kill(checkpointer, syscall.SIGSTOP))
	goOn := sync.OnceFunc(func() { must(t, syscall.Kill(checkpointer, syscall.SIGCONT)) })
	t.Cleanup(goOn)
	_, err := two.fence()
	must(t, err)
	one.writeTail()
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 2, 2, tenure.Setting{}, members...)
	r.follow(one, two, 2, 2, members...)
	one.await("a rewind that does nothing", func(tenure.Engine) bool { return one.logged("RecordRewound") })
	time.Sleep(3 * time.Second)
	if rounds := one.count("Rewind to"); rounds > 2 {
		t.Errorf("%d rewinds in three seconds", rounds)
	}
	if one.logged("Discard") {
		t.Error("the copy was given up")
	}
	goOn()
	must(t, two.execute(20*time.Second, "insert into t values (3)"))
	one.streams()
	if !two.logged("copies can be rewound only after the first checkpoint") {
		t.Error("the new primary has not written a checkpoint by itself")
	}
	one.await("the rows of the primary", func(tenure.Engine) bool { return one.rows() == "1,2,3" })
}

// count is how often the log has a text.
func (i *instance) count(text string) int {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return strings.Count(i.log.String(), text)
}
