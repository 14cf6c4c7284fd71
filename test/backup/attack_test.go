//go:build cluster

package backup_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/backup/ship"
	"meridian.dev/meridian/internal/postgres"
)

// A volume is put back below a single instance, which goes on with the timeline that it was on. The repository has
// other bytes at the same places: what came after must not be lost without a word.
func TestATimelineThatWasWrittenTwiceIsRefused(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	a.kill()
	old := a.folder + "/old"
	if output, err := exec.Command("cp", "-a", a.data, old).CombinedOutput(); err != nil {
		t.Fatal(string(output), err)
	}
	a.start()
	for range 2 {
		a.sql("insert into words (word) values ('gone'); select pg_switch_wal()")
		r.ship(a)
	}
	a.kill()
	must(t, os.RemoveAll(a.data))
	must(t, os.Rename(old, a.data))
	a.start()
	a.shipper = nil
	for range 5 {
		a.sql("insert into words (word) values ('kept'); select pg_switch_wal()")
	}
	facts := plan.Facts{Owner: r.owner, Term: 1, Leads: true, History: postgres.History{{Timeline: 1}}}
	must(t, facts.Flushed.UnmarshalText([]byte(a.sql("select pg_current_wal_flush_lsn()"))))
	shipper := &ship.Shipper{
		Repository: r.repository(), Log: ship.Folder{Path: filepath.Join(a.data, "pg_wal"), Owner: r.owner},
	}
	result, err := shipper.Pass(t.Context(), facts)
	must(t, err)
	if result.Actions != 0 || len(result.Holds) != 1 {
		t.Errorf("%+v", result)
	}
	a.kill()
	restored, _, err := r.restore(plan.Target{}, nil)
	must(t, err)
	if got := restored.rows(); got != "gone gone" && got != "gone" {
		t.Errorf("two branches are mixed: %q", got)
	}
}

// The end of the window is a place that can be restored to.
func TestTheEndOfTheWindowIsReached(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	a.sql("insert into words (word) values ('last')")
	result := r.ship(a)
	a.kill()
	restored, _, err := r.restore(plan.Target{LSN: result.Confirmed}, nil)
	must(t, err)
	if got := restored.rows(); got != "last" {
		t.Errorf("it has %q", got)
	}
}

// A hole in the log whose begin was shipped late: a time in it is not restored to with rows missing.
func TestATimeInAHoleIsRefused(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	a.sql("insert into words (word) values ('before'); select pg_switch_wal()")
	time.Sleep(20 * time.Millisecond)
	a.sql("insert into words (word) values ('lost')")
	at := time.Now().UTC()
	time.Sleep(2 * time.Second)
	a.sql("select pg_switch_wal(); insert into words (word) values ('behind'); select pg_switch_wal()")
	r.ship(a)
	catalogue, err := r.repository().Catalogue(t.Context())
	must(t, err)
	segments := catalogue.Log(1).Segments
	// The slot was cut: the segment in between was never shipped.
	must(t, os.Remove(r.store.Path+"/"+r.repository().Root+segments[len(segments)-2].Name))
	lost := segments[len(segments)-2].Number
	must(t, r.repository().PutGap(t.Context(), r.owner, 1, backup.Gap{First: lost, Last: lost}))
	a.kill()
	restored, result, err := r.restore(plan.Target{Time: at}, nil)
	if err == nil {
		t.Errorf("to %s it came back to %s with %q", at, result.Reached, restored.rows())
	}
	var outside *plan.OutsideError
	if !errors.As(err, &outside) {
		t.Logf("it ended in %v", err)
	}
}

// What the source was set to does not rule the recovery.
func TestSettingsOfTheSourceDoNotRuleTheRecovery(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	for _, setting := range []string{
		"recovery_target_name = 'x'", "recovery_min_apply_delay = '1h'", "shared_buffers = '900GB'",
	} {
		a.sql("alter system set " + setting)
	}
	r.ship(a)
	r.backup("b1", a, a)
	a.sql("insert into words (word) values ('last')")
	r.ship(a)
	a.sql("insert into words (word) values ('lost')")
	a.kill()
	_, _, err := r.restore(plan.Target{}, nil)
	if err != nil {
		t.Errorf("it ended in %s", strings.TrimSpace(err.Error()))
	}
}

// The log is damaged in the middle before it was sealed, as by a disk. PostgreSQL ends its recovery there in silence.
func TestLogThatWasDamagedBeforeItWasShippedIsRefused(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	a.sql("insert into words (word) values ('first')")
	place := backup.LSN(0)
	must(t, place.UnmarshalText([]byte(a.sql("select pg_current_wal_insert_lsn()"))))
	for range 3 {
		a.sql("insert into words (word) values ('x'); select pg_switch_wal()")
	}
	a.sql("select txid_current()")
	path := filepath.Join(a.data, "pg_wal", backup.SegmentName(1, uint64(place)/r.owner.SegmentSize, r.owner.SegmentSize))
	content, err := os.ReadFile(path)
	must(t, err)
	content[uint64(place)%r.owner.SegmentSize+30] ^= 1
	must(t, os.WriteFile(path, content, 0o600))
	r.ship(a)
	a.kill()
	restored, result, err := r.restore(plan.Target{}, nil)
	if !errors.Is(err, restore.ErrShort) {
		t.Errorf("it ended in %v", err)
	}
	if err == nil {
		t.Errorf("it came back to %s with %q", result.Reached, restored.rows())
	}
}

// The subscriptions of the source are not taken over by what is restored, for no moment.
func TestSubscriptionsOfTheSourceStayWithIt(t *testing.T) {
	r, a := newRig(t)
	publisher := newServer(t, "")
	run(t, "initdb", "--auth=trust", "--username=postgres", "--no-sync", "--pgdata="+publisher.data)
	publisher.start()
	publisher.sql("alter system set wal_level = 'logical'")
	publisher.sql("alter system set log_replication_commands = on")
	publisher.kill()
	publisher.start()
	for _, server := range []*server{publisher, a} {
		server.sql("create table words (id serial primary key, word text)")
	}
	publisher.sql("create publication words for table words")
	a.sql("create subscription words connection 'host=" + publisher.folder + " port=5432 user=postgres dbname=postgres' " +
		"publication words")
	r.ship(a)
	r.backup("b1", a, a)
	a.kill()
	seen := func() int {
		log, err := os.ReadFile(filepath.Join(publisher.folder, "log"))
		must(t, err)
		return strings.Count(string(log), "received replication command: START_REPLICATION SLOT")
	}
	before := seen()
	_, _, err := r.restore(plan.Target{}, nil)
	must(t, err)
	if now := seen(); now != before {
		t.Errorf("it has taken the slot of the source %d times", now-before)
	}
}

// Whoever may create functions in the application's database is no superuser in a trial, where the keys are.
func TestATrialRunsNothingOfUsers(t *testing.T) {
	r, a := newRig(t)
	for _, one := range append(strings.Split(places, ";\n"), "create role app",
		"grant create on schema public to app",
		`set role app; create function public.mine(box, box) returns bool language plpgsql as
$$ begin raise exception 'this runs as %', current_user; end $$;
create operator public.&& (leftarg = box, rightarg = box, function = public.mine)`) {
		a.sql(one)
	}
	r.ship(a)
	r.backup("b1", a, a)
	a.kill()
	result, err := r.verify()
	must(t, err)
	if result.Problem != nil || result.Indexes != 1 {
		t.Errorf("%d indexes, %v", result.Indexes, result.Problem)
	}
}
