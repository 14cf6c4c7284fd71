//go:build cluster

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

func setting(k int, names ...wire.Member) tenure.Setting { return tenure.Setting{K: k, Names: names} }

// pair is a primary and a replica, both members, one acknowledgement needed.
func pair(t *testing.T) (r *rig, one, two *instance) {
	t.Helper()
	r = newRig(t)
	one, two = r.add(1), r.add(2)
	r.found(one)
	// The gate opens a moment before the application has its database.
	one.await("the application's table", func(tenure.Engine) bool {
		return one.execute(5*time.Second, "create table if not exists t (n int)") == nil
	})
	must(t, one.execute(5*time.Second, "insert into t values (1)"))
	r.follow(two, one, 1, 1, one.member())
	two.streams()
	one.settle(setting(1, two.member()), one.member(), two.member())
	r.follow(two, one, 1, 1, one.member(), two.member())
	two.streams()
	must(t, one.execute(5*time.Second, "insert into t values (2)"))
	return r, one, two
}

func TestBeginLeadCloneFollow(t *testing.T) {
	begin := time.Now()
	_, one, two := pair(t)
	t.Logf("a pair took %s", time.Since(begin))
	if got := two.rows(); got != "1,2" {
		t.Errorf("the replica has %q", got)
	}
	if one.member().Incarnation == two.member().Incarnation || two.member().Incarnation == "" {
		t.Errorf("incarnations %s and %s", one.member(), two.member())
	}
	if got := one.super("select slot_name from pg_replication_slots where active"); got == "" {
		t.Error("the replica has no slot")
	}
}

func TestFenceAndPromote(t *testing.T) {
	r, one, two := pair(t)
	two.super("select pg_wal_replay_pause()")
	must(t, one.execute(5*time.Second, "insert into t values (3)"))
	begin := time.Now()
	position, err := two.fence()
	must(t, err)
	t.Logf("fence took %s: %s", time.Since(begin), position)
	if err := one.execute(2*time.Second, "insert into t values (4)"); err == nil {
		t.Error("a write was acknowledged after the fence of the only other member")
	}
	if flushed := one.loop.Facts().Leading.Flushed; position.LSN >= flushed || position.Timeline != 1 {
		t.Errorf("position %s, the primary is at %X", position, flushed)
	}
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	begin = time.Now()
	facts := r.lead(two, 2, 4, tenure.Setting{}, one.member(), two.member())
	t.Logf("promotion and gate took %s", time.Since(begin))
	if got := two.rows(); got != "1,2,3" {
		t.Errorf("the new primary has %q", got)
	}
	if facts.Leading.Timeline != 4 || facts.Leading.Recovered <= position.LSN {
		t.Errorf("leading %+v", facts.Leading)
	}
	must(t, two.execute(5*time.Second, "insert into t values (5)"))
}

// segments counts the files of the log.
func (i *instance) segments() string {
	return i.super(`select count(*) from pg_ls_waldir() where name ~ '^[0-9A-F]{24}$'`)
}

// TestASharedSegmentIsLeft promotes a replica that nobody had prepared for it: the log of the timeline before can be
// removed although nothing is written.
func TestASharedSegmentIsLeft(t *testing.T) {
	r, one, two := pair(t)
	_, err := two.fence()
	must(t, err)
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	r.lead(two, 2, 2, tenure.Setting{}, one.member(), two.member())
	shared := two.super("select pg_walfile_name(pg_current_wal_lsn())")
	two.await("another segment", func(tenure.Engine) bool {
		return two.super("select pg_walfile_name(pg_current_wal_lsn())") > shared
	})
	before := two.segments()
	// The file of ALTER SYSTEM, which servers from 17 on are told to refuse.
	must(t, os.WriteFile(two.path("volume", "pgdata", "postgresql.auto.conf"), []byte("wal_keep_size = 0\n"), 0o600))
	two.super("select pg_reload_conf()")
	two.super("select pg_drop_replication_slot(slot_name) from pg_replication_slots where not active")
	two.super("checkpoint")
	left := two.super(fmt.Sprintf(`select count(*) from pg_ls_waldir() where substr(name, 9) = '%s'`, shared[8:]))
	t.Logf("%s segments before a checkpoint, %s after it", before, two.segments())
	if left != "0" {
		t.Errorf("%s files have the number of the segment that was shared", left)
	}
	if count := strings.Count(two.tail(), "LeaveSegment"); count > 1 {
		t.Errorf("another segment was begun %d times", count)
	}
}

// diverge makes the primary write what nobody else has, and lets the replica lead on a later timeline.
func diverge(t *testing.T) (r *rig, one, two *instance) {
	t.Helper()
	r, one, two = pair(t)
	position, err := two.fence()
	must(t, err)
	if err := one.execute(time.Second, "insert into t values (66)"); err == nil {
		t.Fatal("a write was acknowledged after the fence")
	}
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	facts := one.await("the end of its log", func(e tenure.Engine) bool { return !e.Processes && e.Flushed != nil })
	if facts.Flushed.Compare(position) <= 0 {
		t.Fatalf("the old primary is at %s, the fenced member at %s: nothing diverges", facts.Flushed, position)
	}
	r.lead(two, 2, 3, tenure.Setting{}, one.member(), two.member())
	must(t, two.execute(5*time.Second, "insert into t values (3)"))
	return r, one, two
}

func TestRewindOfADivergedCopy(t *testing.T) {
	r, one, two := diverge(t)
	before := one.member()
	must(t, two.execute(5*time.Second, "create table more as select generate_series(1, 1000) n"))
	begin := time.Now()
	r.follow(one, two, 2, 3, one.member(), two.member())
	one.streams()
	t.Logf("rewind took %s", time.Since(begin))
	if !one.logged("Rewind to") || one.logged("Clone of") || one.member() != before {
		t.Errorf("it was not rewound, or is another copy: %s, before %s", one.member(), before)
	}
	one.await("the rows of the primary", func(tenure.Engine) bool { return one.rows() == "1,2,3" })
	// The marker was on the volume before, and the lease was read before that.
	if got := one.asked; len(got) == 0 || got[len(got)-1] != "confirm" {
		t.Errorf("asked %v", got)
	}
}

func TestNothingIsDestroyedUnconfirmed(t *testing.T) {
	r, one, two := diverge(t)
	one.mutex.Lock()
	one.confirm = errors.New("the lease says otherwise")
	one.mutex.Unlock()
	r.follow(one, two, 2, 3, one.member(), two.member())
	one.await("a question", func(tenure.Engine) bool { return one.logged("BeginRewind") })
	time.Sleep(300 * time.Millisecond)
	if facts := one.loop.Facts(); facts.Data != tenure.DataWhole || one.logged("Rewind to") {
		t.Errorf("facts %+v", facts)
	}
	// The last copy is not touched, whoever leads: the upstream is no member.
	one.mutex.Lock()
	one.confirm = nil
	one.mutex.Unlock()
	r.follow(one, two, 2, 3, one.member())
	time.Sleep(500 * time.Millisecond)
	if facts := one.loop.Facts(); facts.Data != tenure.DataWhole || one.logged("Rewind to") {
		t.Errorf("facts %+v", facts)
	}
}

func TestCloneWhenRewindFails(t *testing.T) {
	r, one, two := diverge(t)
	before := one.member()
	two.super("revoke execute on function pg_read_binary_file(text, bigint, bigint, boolean) from meridian_rewind")
	r.follow(one, two, 2, 3, one.member(), two.member())
	one.await("another copy", func(e tenure.Engine) bool { return e.Streams && e.Incarnation != before.Incarnation })
	if !one.logged("Rewind to") || !one.logged("Clone of") {
		t.Error("it was not rewound in vain and then cloned")
	}
	if got := one.rows(); got != "1,2,3" {
		t.Errorf("the copy has %q", got)
	}
}

func TestKilledPrimaryLeadsAgain(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	must(t, one.execute(5*time.Second, "create table t (n int); insert into t values (1)"))
	old := one.loop.Facts().Leading.Start
	one.mutex.Lock()
	one.may, one.asked = errors.New("no right"), nil
	one.mutex.Unlock()
	begin := time.Now()
	must(t, syscall.Kill(one.postmaster(), syscall.SIGKILL))
	one.await("the end", func(e tenure.Engine) bool { return e.Leading == nil && !e.Processes })
	time.Sleep(300 * time.Millisecond)
	if facts := one.loop.Facts(); facts.Processes {
		t.Errorf("a server runs without the right to: %+v", facts)
	}
	one.mutex.Lock()
	one.may = nil
	if len(one.asked) == 0 {
		t.Error("nobody asked for the right")
	}
	one.mutex.Unlock()
	facts := one.await("a primary", func(e tenure.Engine) bool { return e.Leading != nil })
	t.Logf("a primary again after %s", time.Since(begin))
	if facts.Leading.Start == old || facts.Leading.Open || facts.Leading.Timeline != 1 || facts.Leading.Recovered == 0 {
		t.Errorf("leading %+v, before %s", facts.Leading, old)
	}
	if err := one.execute(time.Second, "select 1"); err == nil {
		t.Error("an application was let in to another start than was named")
	}
	standing := one.standing
	standing.OpenStart = facts.Leading.Start
	one.obey(standing)
	one.await("an open gate", func(e tenure.Engine) bool { return e.Leading != nil && e.Leading.Open })
	if got := one.rows(); got != "1" {
		t.Errorf("rows %q", got)
	}
}

func TestBarrier(t *testing.T) {
	r, one, two := pair(t)
	three := r.add(3)
	r.follow(three, one, 1, 1, one.member(), two.member())
	three.streams()
	members := []wire.Member{one.member(), two.member(), three.member()}
	one.settle(setting(1, two.member(), three.member()), members...)
	r.follow(two, one, 1, 1, members...)
	r.follow(three, one, 1, 1, members...)
	two.streams()
	three.streams()
	before := one.super("select pid from pg_stat_replication order by pid")
	standing := one.standing
	standing.Setting = setting(2, two.member(), three.member())
	one.obey(standing)
	one.await("the quorum", func(e tenure.Engine) bool {
		if e.Leading == nil || e.Leading.Setting == nil || e.Leading.Setting.K != 2 {
			return false
		}
		for _, pid := range strings.Fields(one.super("select pid from pg_stat_replication")) {
			if slices.Contains(strings.Fields(before), pid) {
				t.Errorf("the quorum counts as in force, and the sender %s is from before", pid)
			}
		}
		return true
	})
	two.streams()
	three.streams()
	must(t, one.execute(5*time.Second, "insert into t values (3)"))
	_, err := three.fence()
	must(t, err)
	if err := one.execute(time.Second, "insert into t values (4)"); err == nil {
		t.Error("a write was acknowledged with one of two members gone")
	}
	one.settle(setting(1, two.member()), members...)
	must(t, one.execute(5*time.Second, "insert into t values (5)"))
}

// From no quorum to a first one: a session that is open already waits for it.
func TestFirstQuorumHoldsForOldSessions(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	must(t, one.execute(5*time.Second, "create table t (n int)"))
	session, err := one.dial()
	must(t, err)
	defer func() { _ = session.Close(context.Background()) }()
	_, err = session.Exec(context.Background(), "insert into t values (1)")
	must(t, err)
	absent := wire.Member{Name: "cities-9", Incarnation: "x"}
	one.settle(setting(1, absent), one.member(), absent)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err = session.Exec(ctx, "insert into t values (2)"); err == nil {
		t.Error("a write was acknowledged without the quorum")
	}
	if !one.logged("Checkpoint") {
		t.Error("there was no checkpoint")
	}
}

func TestYield(t *testing.T) {
	r, one, two := pair(t)
	idle, err := one.dial()
	must(t, err)
	defer func() { _ = idle.Close(context.Background()) }()
	begin := time.Now()
	standing := one.standing
	standing.Role, standing.OpenStart = tenure.RoleYield, ""
	one.obey(standing)
	facts := one.await("a final position", func(e tenure.Engine) bool { return e.Final != nil })
	t.Logf("yield took %s", time.Since(begin))
	if facts.Processes || facts.Leading != nil {
		t.Errorf("facts %+v", facts)
	}
	place := two.await("all of the log", func(e tenure.Engine) bool {
		return e.Flushed != nil && e.Flushed.Compare(*facts.Final) >= 0
	})
	if *place.Flushed != *facts.Final {
		t.Errorf("final position %s, the replica is at %s", facts.Final, place.Flushed)
	}
	r.lead(two, 2, 2, tenure.Setting{}, one.member(), two.member())
	t.Logf("switchover took %s", time.Since(begin))
	must(t, two.execute(5*time.Second, "insert into t values (3)"))
	r.follow(one, two, 2, 2, one.member(), two.member())
	one.streams()
	if one.logged("BeginRewind") || one.logged("Clone of") {
		t.Error("a primary that has yielded is rewound or cloned")
	}
	one.await("the rows of the new primary", func(tenure.Engine) bool { return one.rows() == "1,2,3" })
}

func TestReadsOfAReplica(t *testing.T) {
	_, _, two := pair(t)
	if err := two.execute(time.Second, "select 1"); err == nil {
		t.Error("a replica lets applications in before it was told to")
	}
	standing := two.standing
	standing.OpenReads = true
	two.obey(standing)
	two.await("an open gate", func(tenure.Engine) bool { return two.execute(time.Second, "select 1") == nil })
	two.await("readiness", func(tenure.Engine) bool {
		state, _ := two.loop.State()
		return state.Ready && state.Report.Serving && state.Report.Streams
	})
	standing.OpenReads = false
	two.obey(standing)
	two.await("a closed gate", func(tenure.Engine) bool { return two.execute(time.Second, "select 1") != nil })
}

// A parameter that needs a restart and is taken away is no line that cannot be read.
func TestRemovedRestartParameter(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	r.settings.Parameters = nil
	one.configure()
	one.await("the wait for a restart", func(tenure.Engine) bool {
		state, _ := one.loop.State()
		return slices.Contains(state.Report.PendingRestart, "shared_buffers")
	})
	time.Sleep(500 * time.Millisecond)
	if state, _ := one.loop.State(); state.Report.Reason != "" {
		t.Errorf("report %+v", state.Report)
	}
}

// A long act is given up when it is not wanted any more, and does not hold up the facts.
func TestACloneIsGivenUp(t *testing.T) {
	r := newRig(t)
	one, two := r.add(1), r.add(2)
	r.found(one)
	must(t, syscall.Kill(one.postmaster(), syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(one.postmaster(), syscall.SIGCONT) }()
	r.follow(two, one, 1, 1, one.member())
	two.await("a clone", func(tenure.Engine) bool { return two.logged("Clone of") })
	begin := time.Now()
	two.obey(tenure.Standing{Role: tenure.RoleIdle, Initialised: true, SystemIdentifier: r.system})
	two.await("the end of it", func(tenure.Engine) bool { return two.logged("GiveUp clone") })
	if took := time.Since(begin); took > 500*time.Millisecond {
		t.Errorf("it took %s to notice", took)
	}
	if _, err := two.fence(); err == nil {
		t.Error("an instance without a whole copy has answered")
	}
	must(t, syscall.Kill(one.postmaster(), syscall.SIGCONT))
	r.follow(two, one, 1, 1, one.member())
	two.streams()
}

// A person inside the pod is the owner over the socket, for good: no function that is called makes the session
// another's. While applications are kept out, so is the person.
func TestAPersonAsTheOwner(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	socket := fmt.Sprintf("host=%s port=%d user=geo dbname=geo sslmode=disable", one.path("run"), testPort)
	connection, err := pgx.Connect(t.Context(), socket)
	must(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	var name string
	_, err = connection.Exec(t.Context(), "set role none")
	must(t, err)
	must(t, connection.QueryRow(t.Context(), "select current_user::text").Scan(&name))
	if name != "geo" {
		t.Errorf("the session is one of %s", name)
	}
	standing := one.standing
	standing.OpenStart = ""
	one.obey(standing)
	one.await("a closed gate", func(tenure.Engine) bool {
		other, err := pgx.Connect(t.Context(), socket)
		if err == nil {
			_ = other.Close(t.Context())
		}
		return err != nil
	})
}

// The role that reads figures comes in over the socket, to no database of an application, and is no superuser.
func TestTheRoleOfFigures(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	dial := func(database string) (*pgx.Conn, error) {
		return pgx.Connect(t.Context(), fmt.Sprintf(
			"host=%s port=%d user=meridian_monitor dbname=%s sslmode=disable", one.path("run"), testPort, database))
	}
	one.await("the role", func(tenure.Engine) bool {
		connection, err := dial("postgres")
		if err != nil {
			return false
		}
		defer func() { _ = connection.Close(t.Context()) }()
		var super, sees string
		must(t, connection.QueryRow(t.Context(), `select current_setting('is_superuser'),
			(pg_has_role('pg_read_all_stats', 'usage'))::text`).Scan(&super, &sees))
		if super != "off" || sees != "true" {
			t.Errorf("superuser %s, sees figures %s", super, sees)
		}
		return true
	})
	if connection, err := dial("geo"); err == nil {
		_ = connection.Close(t.Context())
		t.Error("the role of figures is let into the application's database")
	}
}

// The role of probes is let in by the files of the agent, so that nothing falls back to the superuser.
func TestTheRoleOfProbes(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	one.await("a probe by its own role", func(tenure.Engine) bool {
		connection, err := pgx.Connect(t.Context(), fmt.Sprintf(
			"host=%s port=%d user=postgres dbname=postgres sslmode=disable", one.path("run"), testPort))
		if err != nil {
			return false
		}
		defer func() { _ = connection.Close(t.Context()) }()
		var probes int
		must(t, connection.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where usename = 'meridian_probe' and query like '%emit_message%'`).Scan(&probes))
		return probes > 0
	})
	connection, err := pgx.Connect(t.Context(), fmt.Sprintf(
		"host=%s port=%d user=meridian_probe dbname=geo sslmode=disable", one.path("run"), testPort))
	if err != nil {
		t.Fatalf("a look into the application's database: %v", err)
	}
	_ = connection.Close(t.Context())
}

// What the application has in public keeps no extension back. The attacks are in package server.
func TestExtensionsBesideFunctionsOfTheApplication(t *testing.T) {
	r := newRig(t)
	r.settings.Extensions = []string{"cube"}
	one := r.add(1)
	r.found(one)
	extensions := func() string {
		state, _ := one.loop.State()
		text := ""
		for _, extension := range state.Report.Extensions {
			text += extension.Name + " "
		}
		return text
	}
	one.await("an extension", func(tenure.Engine) bool { return strings.Contains(extensions(), "cube") })
	must(t, one.execute(5*time.Second, "create function public.mine(int) returns int language sql as 'select 1'"))
	r.settings.Extensions = []string{"cube", "earthdistance"}
	one.configure()
	one.await("the other extension", func(tenure.Engine) bool { return strings.Contains(extensions(), "earthdistance") })
}

const dataUS = "/usr/share/postgresql/*/extension/address_standardizer_data_us.control"

// TestExtensionsOfBeforeAreOpened has the agent find an extension as an earlier version has left it. It takes an image
// with the extension: see hack/in-image. What exactly is opened is tried in package server.
func TestExtensionsOfBeforeAreOpened(t *testing.T) {
	if found, _ := filepath.Glob(dataUS); len(found) == 0 {
		t.Skip("PostgreSQL of this machine has no address_standardizer_data_us")
	}
	r := newRig(t)
	r.settings.Extensions = []string{"address_standardizer", "address_standardizer_data_us"}
	one := r.add(1)
	r.found(one)
	const read = "select count(*) from us_lex"
	one.await("the extension", func(tenure.Engine) bool {
		state, _ := one.loop.State()
		return len(state.Report.Extensions) == 3 && one.execute(5*time.Second, read) == nil // With that of PL/pgSQL.
	})
	began := one.super("select pg_postmaster_start_time()::text")
	connection, err := pgx.Connect(t.Context(), fmt.Sprintf(
		"host=%s port=%d user=postgres dbname=geo sslmode=disable", one.path("run"), testPort))
	must(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	tag, err := connection.Exec(t.Context(),
		"update pg_class set relacl = null where relname in ('us_lex', 'us_gaz', 'us_rules') and relacl is not null")
	must(t, err)
	if tag.RowsAffected() != 3 {
		t.Fatalf("%d tables were open", tag.RowsAffected())
	}
	one.await("the right to read", func(tenure.Engine) bool { return one.execute(5*time.Second, read) == nil })
	if got := one.super("select pg_postmaster_start_time()::text"); got != began {
		t.Error("the server was restarted for it")
	}
}

// TestStatementsAreCounted lists an extension whose library the server has to load at its start.
func TestStatementsAreCounted(t *testing.T) {
	r := newRig(t)
	r.settings.Extensions = []string{"pg_stat_statements"}
	one := r.add(1)
	r.found(one)
	if got := one.super("show shared_preload_libraries"); got != "pg_stat_statements" {
		t.Errorf("the server has loaded %q", got)
	}
}

// TestAuditing has the server note what applications do to schemas, and nothing of Meridian's own. It takes an image
// with the library: see hack/in-image.
func TestAuditing(t *testing.T) {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/lib/pgaudit.so"); len(found) == 0 {
		t.Skip("PostgreSQL of this machine has no pgaudit")
	}
	r := newRig(t)
	r.settings.Extensions = []string{"pgaudit"}
	r.settings.Parameters = append(r.settings.Parameters, wire.Parameter{Name: "pgaudit.log", Value: "all"})
	one := r.add(1)
	r.found(one)
	if got := one.super("show shared_preload_libraries"); got != "pgaudit" {
		t.Errorf("the server has loaded %q", got)
	}
	if got := one.super("select count(*)::text from pg_event_trigger"); got != "0" {
		t.Errorf("%s event triggers, which would outlive the library", got)
	}
	must(t, one.execute(5*time.Second, "create table audited (n int)"))
	one.await("the note in the log", func(tenure.Engine) bool {
		return one.logged("create table audited")
	})
	if one.logged("emit_message") {
		t.Error("probes are audited")
	}
}

// The end of the log is found by reading it, exactly: across pages, segments, a switch of segments and large records.
func TestEndOfTheLog(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	boundaries := 0
	for round := range 150 {
		statement := fmt.Sprintf("select pg_logical_emit_message(true, 'x', repeat('y', %d))", (round*37)%9000)
		switch round % 50 {
		case 25:
			statement = "select pg_switch_wal()"
		case 40:
			statement = "select pg_logical_emit_message(true, 'x', repeat('y', 20000000))"
		}
		one.super(statement)
		for try := 0; ; try++ {
			before := one.super("select pg_current_wal_flush_lsn()::text")
			position, err := one.world.Disk.Position(0)
			must(t, err)
			after := one.super("select pg_current_wal_flush_lsn()::text")
			lsn, err := postgres.ParseLSN(after)
			must(t, err)
			if lsn%8192 < 64 {
				boundaries++
			}
			if position.LSN == lsn && position.Timeline == 1 {
				break
			}
			if before == after && try > 20 {
				t.Fatalf("round %d, %s: the log ends at %s, found %s", round, statement, after, position)
			}
		}
	}
	t.Logf("%d ends near the begin of a page", boundaries)
}

// A server that stands still is one that hangs after three seconds, and leads until then: nobody closes its gate.
func TestHang(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	start := one.loop.Facts().Leading.Start
	time.Sleep(1500 * time.Millisecond)
	signal := func(signal syscall.Signal) {
		for _, pid := range append(children(t, one.postmaster()), one.postmaster()) {
			must(t, syscall.Kill(pid, signal))
		}
	}
	begin := time.Now()
	signal(syscall.SIGSTOP)
	facts := one.await("a server that hangs", func(e tenure.Engine) bool { return e.Hung })
	if took := time.Since(begin); took < 2*time.Second || took > 8*time.Second {
		t.Errorf("it took %s to notice", took)
	}
	if facts.Leading == nil || facts.Leading.Start != start {
		t.Errorf("leading %+v", facts.Leading)
	}
	signal(syscall.SIGCONT)
	facts = one.await("a server that is well", func(e tenure.Engine) bool { return !e.Hung && e.Leading != nil })
	if !facts.Leading.Open || facts.Leading.Start != start || one.execute(5*time.Second, "select 1") != nil {
		t.Errorf("leading %+v", facts.Leading)
	}
}

// A promotion that was broken off before its first record has left the history of the reserved timeline: it is taken
// back, and the next promotion gets exactly that number.
func TestABrokenOffPromotionIsTakenBack(t *testing.T) {
	r, one, two := pair(t)
	stopped, err := two.fence()
	must(t, err)
	two.loop.Kill()
	two.obey(tenure.Standing{Role: tenure.RoleIdle, Initialised: true, SystemIdentifier: r.system})
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	two.await("a replica again", func(e tenure.Engine) bool { return e.Processes && e.Flushed != nil })
	again, err := two.fence()
	must(t, err)
	if again != stopped {
		t.Errorf("at %s after a restart, at %s before", again, stopped)
	}
	// The agent ends, and somebody has begun a promotion.
	two.stop()
	wal := two.path("volume", "pgdata", "pg_wal")
	segment := fmt.Sprintf("%08X%08X", 0, stopped.LSN>>24)
	content, err := os.ReadFile(filepath.Join(wal, "00000001"+segment))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(wal, "00000002"+segment), content, 0o600))
	history := "1\t" + postgres.FormatLSN(stopped.LSN) + "\tno recovery target specified\n"
	must(t, os.WriteFile(filepath.Join(wal, "00000002.history"), []byte(history), 0o600))
	must(t, os.Remove(two.path("volume", "pgdata", "standby.signal")))
	two.start()
	for two.loop.Facts().Incarnation == "" {
		time.Sleep(10 * time.Millisecond)
	}
	facts := r.lead(two, 2, 2, tenure.Setting{}, one.member(), two.member())
	if facts.Leading.Timeline != 2 || two.rows() != "1,2" {
		t.Errorf("leading %+v with %s", facts.Leading, two.rows())
	}
	// Killed right after, it leads again on the same timeline, whatever its control file knows.
	must(t, syscall.Kill(two.postmaster(), syscall.SIGKILL))
	start := facts.Leading.Start
	two.await("a primary again", func(e tenure.Engine) bool {
		return e.Leading != nil && e.Leading.Start != start && e.Leading.Timeline == 2
	})
}

// A server that does not run answers as well.
func TestFenceOfAStoppedServer(t *testing.T) {
	_, _, two := pair(t)
	running, err := two.fence()
	must(t, err)
	two.stop()
	two.start()
	stopped, err := two.fence()
	if err == nil && stopped != running {
		t.Errorf("at %s, and %s before", stopped, running)
	}
	two.obey(tenure.Standing{Role: tenure.RoleBegin})
	two.await("its copy", func(e tenure.Engine) bool { return e.Data == tenure.DataWhole && !e.Processes })
	if stopped, err = two.fence(); err != nil || stopped != running {
		t.Errorf("at %s, and %s before: %v", stopped, running, err)
	}
}

// In the middle of an election a candidate takes the log of a fenced member that has more, also of the former primary.
func TestCatchUpFromAFencedPrimary(t *testing.T) {
	r, one, two := pair(t)
	_, err := two.fence()
	must(t, err)
	if err := one.execute(time.Second, "insert into t values (66)"); err == nil {
		t.Fatal("a write was acknowledged after the fence")
	}
	one.loop.Kill()
	idle := tenure.Standing{
		Role: tenure.RoleIdle, Term: 1, Initialised: true, SystemIdentifier: r.system,
		Members: []wire.Member{one.member(), two.member()},
	}
	one.obey(idle)
	one.await("its end", func(e tenure.Engine) bool { return !e.Processes && e.Flushed != nil })
	more, err := one.fence()
	must(t, err)
	one.await("a replica of nobody", func(e tenure.Engine) bool { return e.Processes && e.Leading == nil })
	idle.Role, idle.Upstream, idle.UpstreamAddress, idle.Until = tenure.RoleCatchUp, one.member(), one.address, &more
	two.obey(idle)
	two.await("all that the other has", func(e tenure.Engine) bool {
		return e.Flushed != nil && e.Flushed.Compare(more) >= 0
	})
	position, err := two.fence()
	must(t, err)
	if position != more {
		t.Errorf("at %s, the other at %s", position, more)
	}
	r.lead(two, 2, 2, tenure.Setting{}, one.member(), two.member())
	if got := two.rows(); got != "1,2,66" {
		t.Errorf("rows %q", got)
	}
}

// A barrier is told with the quorum, and lies before what is written later.
func TestBarrierIsTold(t *testing.T) {
	_, one, _ := pair(t)
	leading := one.loop.Facts().Leading
	if leading.Setting == nil || leading.Barrier == 0 || leading.Barrier > leading.Flushed {
		t.Errorf("leading %+v", leading)
	}
}
