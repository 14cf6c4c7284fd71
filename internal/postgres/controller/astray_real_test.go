//go:build cluster

package controller_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// A replica has learned of the timeline of a primary that was lost before it had sent the WAL up to where that begins.
// PostgreSQL waits for it; promoted as it is, it would write down that its own timeline comes from that one, and take
// all WAL of others up to there for a part of its history.
func TestAReplicaThatWaitsForALostTimelineIsPromoted(t *testing.T) {
	r, one, two := pair(t)
	members := []wire.Member{one.member(), two.member()}
	position, err := two.fence()
	must(t, err)
	one.writeTail()
	one.loop.Kill()
	one.obey(tenure.Standing{
		Role: tenure.RoleIdle, Term: 1, Initialised: true, SystemIdentifier: r.system, Members: members,
	})
	end := one.await("the end of its log", func(e tenure.Engine) bool { return !e.Processes && e.Flushed != nil }).Flushed
	if end.Compare(position) <= 0 {
		t.Fatalf("the old primary is at %s, the fenced member at %s: nothing diverges", end, position)
	}
	// A third has led on timeline 2, from where the first had ended, and only its history has come.
	lost := fmt.Sprintf("1\t%s\tno recovery target specified\n", postgres.FormatLSN(end.LSN))
	must(t, os.WriteFile(two.path("volume", "pgdata", "pg_wal", "00000002.history"), []byte(lost), 0o600))
	two.await("that it waits", func(tenure.Engine) bool { return two.logged("new target timeline is 2") })
	r.lead(two, 3, 3, setting(1, one.member()), members...)
	history, err := os.ReadFile(two.path("volume", "pgdata", "pg_wal", "00000003.history"))
	must(t, err)
	if want := "1\t" + postgres.FormatLSN(position.LSN) + "\t"; !strings.HasPrefix(string(history), want) {
		t.Errorf("the history of timeline 3 is %q, and was to begin with %q", history, want)
	}
	one.keepDiverged()
	r.follow(one, two, 3, 3, members...)
	two.acknowledgesNothing()
	one.mutex.Lock()
	one.confirm = nil
	one.mutex.Unlock()
	one.streams()
	must(t, two.execute(10*time.Second, "insert into t values (200)"))
}

// passed has a replica replay past the place where the timeline begins that it waits for: the one that is elected next
// has more WAL of the timeline before than the lost primary had. PostgreSQL stays with the lost timeline.
func passed(t *testing.T) (r *rig, one, two *instance, members []wire.Member) {
	t.Helper()
	r, one, two = pair(t)
	members = []wire.Member{one.member(), two.member()}
	_, err := two.fence()
	must(t, err)
	one.writeTail()
	begin := strings.TrimSpace(one.super("select pg_current_wal_flush_lsn()::text"))
	one.writeTail()
	one.loop.Kill()
	one.obey(tenure.Standing{
		Role: tenure.RoleIdle, Term: 1, Initialised: true, SystemIdentifier: r.system, Members: members,
	})
	one.await("the end of its log", func(e tenure.Engine) bool { return !e.Processes && e.Flushed != nil })
	lost := fmt.Sprintf("1\t%s\tno recovery target specified\n", begin)
	must(t, os.WriteFile(two.path("volume", "pgdata", "pg_wal", "00000002.history"), []byte(lost), 0o600))
	two.await("that it waits", func(tenure.Engine) bool { return two.logged("new target timeline is 2") })
	r.lead(one, 3, 3, setting(1, two.member()), members...)
	r.follow(two, one, 3, 3, members...)
	one.await("what the replica asks for", func(tenure.Engine) bool {
		return one.logged("requested timeline 2 is not in this server's history")
	})
	return r, one, two, members
}

func TestAReplicaPassesTheBeginOfALostTimeline(t *testing.T) {
	_, one, two, _ := passed(t)
	begin := time.Now()
	one.await("a commit that it has", func(tenure.Engine) bool {
		if time.Since(begin) > 40*time.Second {
			t.Fatalf("the replica does not stream:\n%s", two.tail())
		}
		return one.execute(time.Second, "insert into t values (200)") == nil
	})
	two.streams()
}

func TestAReplicaPassesTheBeginOfALostTimelineAndIsPromoted(t *testing.T) {
	r, one, two, members := passed(t)
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 4, 4, tenure.Setting{}, members...)
	history, err := os.ReadFile(two.path("volume", "pgdata", "pg_wal", "00000004.history"))
	must(t, err)
	if parsed, err := postgres.ParseHistory(4, string(history)); err != nil || parsed.Has(2) {
		t.Errorf("the history of timeline 4 is %q, and no WAL of timeline 2 was ever there: %v", history, err)
	}
}
