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
