//go:build cluster

package controller_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
)

// unreplayed is how much log a replica has received and not replayed, in MiB. MERIDIAN_TEST_UNREPLAYED says more.
func unreplayed(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("MERIDIAN_TEST_UNREPLAYED"); text != "" {
		size, err := strconv.Atoi(text)
		must(t, err)
		return size
	}
	return 128
}

// What a replica has received is not read before it answers an election, however little of it was replayed: an old
// segment that cannot be read for a moment shows that.
func TestFenceDoesNotReadWhatWasReceived(t *testing.T) {
	r, one, two := pair(t)
	two.super("select pg_wal_replay_pause()")
	for range unreplayed(t) / 16 {
		one.super("select pg_logical_emit_message(true, 'x', repeat('y', 16 << 20))")
	}
	want, err := postgres.ParseLSN(one.super("select pg_current_wal_flush_lsn()::text"))
	must(t, err)
	facts := two.await("all of the log", func(e tenure.Engine) bool { return e.Flushed != nil && e.Flushed.LSN >= want })
	// A segment in the middle.
	half := (facts.Flushed.LSN - uint64(unreplayed(t))<<19) >> 24
	segment := two.path("volume", "pgdata", "pg_wal", fmt.Sprintf("%08X%08X%08X", 1, 0, half))
	must(t, os.Chmod(segment, 0))
	begin := time.Now()
	answer, err := two.fence()
	must(t, os.Chmod(segment, 0o600))
	must(t, err)
	t.Logf("with %d MiB to replay the fence took %s: %s", unreplayed(t), time.Since(begin), answer)
	if answer.LSN < want {
		t.Errorf("the fence answers %s, and %s was flushed", answer, facts.Flushed)
	}
	// Without what is known, all of it is read.
	record, _, err := two.world.Disk.Marked()
	must(t, err)
	must(t, two.world.Disk.WriteRecord(*record))
	begin = time.Now()
	again, err := two.world.Disk.Position(0)
	must(t, err)
	t.Logf("reading all of it took %s", time.Since(begin))
	if again != answer {
		t.Errorf("the log ends at %s, and the fence has answered %s", again, answer)
	}
	begin = time.Now()
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 2, 2, tenure.Setting{}, one.member(), two.member())
	t.Logf("promotion, replay and gate took %s", time.Since(begin))
}
