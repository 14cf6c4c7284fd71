//go:build cluster

package controller_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// says waits for a report.
func (i *instance) says(what string, seen func(wire.Report) bool) wire.Report {
	i.t.Helper()
	begin := time.Now()
	for time.Since(begin) < 80*time.Second {
		if state, ok := i.loop.State(); ok && seen(state.Report) {
			return state.Report
		}
		time.Sleep(10 * time.Millisecond)
	}
	state, _ := i.loop.State()
	i.t.Fatalf("%s: waited in vain for %s\nreport %+v\n%s", i.name, what, state.Report, i.tail())
	return wire.Report{}
}

// set changes settings of the database, for some instances.
func (r *rig) set(parameters []wire.Parameter, instances ...*instance) {
	r.settings.Parameters = parameters
	r.settings = r.settings.Canonical()
	for _, i := range instances {
		i.configure()
	}
}

func (r *rig) verified(i *instance) wire.Report {
	r.t.Helper()
	return i.says("settings in force", func(report wire.Report) bool {
		return report.Verified && report.SettingsHash == r.settings.Hash()
	})
}

func stateOf(report wire.Report, name string) wire.ParameterState {
	for _, parameter := range report.Parameters {
		if parameter.Name == name {
			return parameter
		}
	}
	return wire.ParameterState{}
}

func parameter(name, value string) wire.Parameter { return wire.Parameter{Name: name, Value: value} }

// What is in force, what waits for a restart and what is refused is told by name, and a refused value does not cost the
// one before it.
func TestParametersAreVerified(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	buffers := parameter("shared_buffers", "16MB")
	r.set([]wire.Parameter{buffers, parameter("work_mem", "7MB")}, one)
	if report := r.verified(one); len(report.Parameters) > 0 || one.super("show work_mem") != "7MB" {
		t.Errorf("parameters %+v", report.Parameters)
	}
	r.set([]wire.Parameter{parameter("max_connections", "120"), buffers, parameter("work_mem", "much")}, one)
	report := one.says("a refused value", func(report wire.Report) bool {
		return report.Verified && stateOf(report, "work_mem").State == wire.ParameterRefused &&
			stateOf(report, "max_connections").State != ""
	})
	want := []wire.ParameterState{
		{Name: "max_connections", State: wire.ParameterPending, Current: "100", Wanted: "120"},
		{Name: "work_mem", State: wire.ParameterRefused, Current: "7MB", Wanted: "much"},
	}
	if !slices.Equal(report.Parameters, want) || one.super("show work_mem") != "7MB" {
		t.Errorf("parameters %+v, work_mem %s", report.Parameters, one.super("show work_mem"))
	}
	// A start with it goes on as before.
	r.settings.Restarts = []wire.Restart{{Instance: one.name, Token: "t1"}}
	one.configure()
	one.says("a new start", func(report wire.Report) bool { return report.Restart == "t1" && report.Verified })
	if one.super("show work_mem") != "7MB" || one.super("show max_connections") != "120" {
		t.Errorf("work_mem %s, max_connections %s", one.super("show work_mem"), one.super("show max_connections"))
	}
	one.says("no pending restart", func(report wire.Report) bool {
		return stateOf(report, "max_connections").State == "" && len(report.PendingRestart) == 0
	})
}

// A change that is taken back before a start waits for nothing any more, although PostgreSQL goes on saying so.
func TestAChangeIsTakenBack(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	const locks = "max_locks_per_transaction"
	before := r.settings.Parameters
	r.set(append([]wire.Parameter{parameter(locks, "100000000")}, before...), one)
	one.says("a pending restart", func(report wire.Report) bool {
		return report.Verified && stateOf(report, locks).State == wire.ParameterPending &&
			slices.Contains(report.PendingRestart, locks)
	})
	r.set(before, one)
	one.says("no pending restart", func(report wire.Report) bool {
		return report.Verified && report.SettingsHash == r.settings.Hash() && stateOf(report, locks).State == "" &&
			len(report.PendingRestart) == 0
	})
	said := one.super("select pending_restart::text from pg_settings where name = '" + locks + "'")
	if said != "true" {
		t.Errorf("PostgreSQL itself says %q: this has shown nothing", said)
	}
}

// A primary that gets more connections before its replica does not lose it: the replica takes at least as many.
func TestAReplicaHasAtLeastWhatItsPrimaryHas(t *testing.T) {
	r, one, two := pair(t)
	before := r.settings.Parameters
	r.settings.Restarts = []wire.Restart{{Instance: one.name, Token: "t1"}}
	r.set(append([]wire.Parameter{parameter("max_connections", "130")}, before...), one)
	// Nobody gives the lease away in this rig: the primary asks in vain, so it is asked to stop as after that.
	one.loop.Kill()
	one.says("a new start", func(report wire.Report) bool { return report.Restart == "t1" })
	r.lead(one, 1, 1, setting(1, two.member()), one.member(), two.member())
	must(t, one.execute(20*time.Second, "insert into t values (7)"))
	report := two.says("more connections", func(report wire.Report) bool {
		return stateOf(report, "max_connections").State == wire.ParameterRaised && report.Streams
	})
	if got := two.super("show max_connections"); got != "130" || stateOf(report, "max_connections").Wanted != "100" {
		t.Errorf("max_connections %s, report %+v", got, report.Parameters)
	}
	two.await("the new row", func(tenure.Engine) bool { return two.rows() == "1,2,7" })
}

// A restart in place of a replica costs its stream for a moment, and nothing else.
func TestRestartOfAReplica(t *testing.T) {
	r, one, two := pair(t)
	r.settings.Restarts = []wire.Restart{{Instance: two.name, Token: "t1"}}
	before := two.postmaster()
	one.configure()
	two.configure()
	two.says("a new start", func(report wire.Report) bool { return report.Restart == "t1" && report.Streams })
	if two.postmaster() == before || one.logged("StopServer") {
		t.Error("the replica was not started anew, or the primary was")
	}
	must(t, one.execute(5*time.Second, "insert into t values (3)"))
}

// A new certificate and a new password are in force without a restart, and no session notices.
func TestRotation(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.found(one)
	postmaster := one.postmaster()
	session, err := one.dial()
	must(t, err)
	defer func() { _ = session.Close(context.Background()) }()
	old := one.says("a certificate", func(report wire.Report) bool {
		return report.Certificate != "" && report.PasswordSet
	})

	one.write("app", wire.KeyPassword, []byte("another"))
	one.await("the new password", func(tenure.Engine) bool {
		if one.enters("another") {
			return true
		}
		if !one.enters("secret") && !one.enters("another") {
			t.Error("neither the old nor the new password is accepted")
		}
		return false
	})
	r.rotate(one)
	report := one.says("the new certificate", func(report wire.Report) bool {
		return report.Certificate != old.Certificate
	})
	served := one.served()
	leaf, _ := r.state.Leaf("instance")
	certificate, _, err := leaf.Encode()
	must(t, err)
	if !strings.Contains(string(certificate), served) {
		t.Errorf("the server presents another certificate than the one that is mounted: %+v", report)
	}
	if _, err := session.Exec(context.Background(), "select 1"); err != nil || one.postmaster() != postmaster {
		t.Errorf("a session of before: %v", err)
	}
}

// A copy tells how far it has come, its place in the log is kept from before it begins, and the place goes with an
// instance that is not wanted any more.
func TestAPlaceForACopy(t *testing.T) {
	r := newRig(t)
	one, two := r.add(1), r.add(2)
	r.settings.Instances = []string{one.name, two.name}
	one.configure()
	r.found(one)
	must(t, one.execute(20*time.Second, "create table large as select generate_series(1, 300000) n"))
	r.follow(two, one, 1, 1, one.member())
	two.says("progress", func(report wire.Report) bool {
		return report.Clone != nil && report.Clone.Total > 1<<20 && report.Clone.Done <= report.Clone.Total &&
			!report.Clone.Started.IsZero()
	})
	two.streams()
	two.says("no more copy", func(report wire.Report) bool { return report.Clone == nil })
	// It is no member yet, and streams: what it needs is kept all the same.
	slots := func() string { return one.super("select slot_name from pg_replication_slots where not temporary") }
	place := slots()
	if !strings.Contains(place, "meridian_cities_2_") {
		t.Errorf("places %q", place)
	}
	one.settle(setting(1, two.member()), one.member(), two.member())
	r.follow(two, one, 1, 1, one.member(), two.member())
	two.await("its own place in use", func(tenure.Engine) bool {
		return one.super("select slot_name from pg_replication_slots where active") == place
	})
	// The instance leaves.
	two.stop()
	r.settings.Instances = []string{one.name}
	one.configure()
	one.settle(tenure.Setting{}, one.member())
	one.await("no place", func(tenure.Engine) bool { return slots() == "" })
}

// A member was away for longer than its log is kept: its place is made anew, and so is its copy.
func TestALostPlace(t *testing.T) {
	r, one, two := pair(t)
	r.set([]wire.Parameter{
		parameter("max_slot_wal_keep_size", "64MB"), parameter("max_wal_size", "32MB"), parameter("min_wal_size", "32MB"),
		parameter("shared_buffers", "16MB"), parameter("wal_keep_size", "0"),
	}, one, two)
	r.verified(one)
	before := two.member()
	two.stop()
	one.settle(tenure.Setting{}, one.member(), before)
	for n := range 12 {
		must(t, one.execute(10*time.Second, fmt.Sprintf("insert into t values (%d)", 100+n)))
		one.super("select pg_switch_wal()")
	}
	one.super("checkpoint")
	one.await("a place made anew", func(tenure.Engine) bool {
		status := one.super("select wal_status from pg_replication_slots where not temporary")
		return one.logged("LOG:  invalidating ") && (status == "reserved" || status == "extended")
	})
	two.start()
	r.follow(two, one, 1, 1, one.member(), before)
	two.await("another copy that streams", func(e tenure.Engine) bool {
		return e.Streams && e.Incarnation != before.Incarnation && e.Incarnation != ""
	})
	if got, want := two.rows(), one.rows(); got != want {
		t.Logf("the replica has %q, the primary %q", got, want)
	}
}

// served is the certificate that the server presents now.
func (i *instance) served() string {
	i.t.Helper()
	var seen string
	config, err := pgx.ParseConfig(i.url("another"))
	must(i.t, err)
	config.TLSConfig = &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		seen = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: state.PeerCertificates[0].Raw}))
		return nil
	}}
	config.Fallbacks = nil
	connection, err := pgx.ConnectConfig(context.Background(), config)
	must(i.t, err)
	_ = connection.Close(context.Background())
	return seen
}

func (i *instance) enters(password string) bool {
	connection, err := pgx.Connect(context.Background(), i.url(password))
	if err == nil {
		_ = connection.Close(context.Background())
	}
	return err == nil
}

func (i *instance) url(password string) string {
	return fmt.Sprintf("postgres://geo:%s@%s:%d/geo?sslmode=require", password, i.address, testPort)
}

// rotate mounts a certificate of a new authority.
func (r *rig) rotate(i *instance) {
	r.state = pki.State{}
	r.certify()
	i.mountCertificate()
}

// geo runs a statement as the superuser in the application's database.
func (i *instance) geo(statement string) {
	i.t.Helper()
	connection, err := pgx.Connect(context.Background(), fmt.Sprintf(
		"host=%s port=%d user=postgres dbname=geo sslmode=disable", i.path("run"), testPort))
	must(i.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	_, err = connection.Exec(context.Background(), statement)
	must(i.t, err)
}

// notices waits for a report, and gives cause to look into the application's database again and again.
func (i *instance) notices(what string, seen func(wire.Report) bool) wire.Report {
	i.t.Helper()
	last := time.Now()
	return i.says(what, func(report wire.Report) bool {
		if time.Since(last) > 6*time.Second {
			last = time.Now()
			i.set([]wire.Parameter{parameter("work_mem", fmt.Sprintf("%dkB", 4096+last.Unix()%1000))}, i)
		}
		return seen(report)
	})
}

// Another version of an extension or of a library is noticed: the first is brought to that of the image, the second is
// told with the indexes that depend on it.
func TestLibraries(t *testing.T) {
	r := newRig(t)
	one := r.add(1)
	r.settings.Extensions = []string{"postgis"}
	one.configure()
	r.found(one)
	if one.super("select count(*) from pg_available_extensions where name = 'postgis'") == "0" {
		t.Skip("there is no PostGIS on this machine")
	}
	whole := func(report wire.Report) bool {
		return len(report.Extensions) == 2 && report.Extensions[1].Name == "postgis" &&
			report.Extensions[1].Version == report.Extensions[1].Available
	}
	one.says("the extension", whole)
	one.notices("a note", func(wire.Report) bool {
		return strings.Contains(one.super("select setconfig::text from pg_db_role_setting"), "geos=")
	})
	one.geo(`create table shapes (g geometry, n text collate "de-x-icu")`)
	one.geo("create index by_place on shapes using gist (g)")
	one.geo("create index by_area on shapes using gist (st_buffer(g, 1))")
	one.geo("create index by_name on shapes (n)")
	one.geo("update pg_collation set collversion = '1' where collname = 'de-x-icu'")
	one.geo("alter database geo set meridian.libraries = 'geos=1.0 proj=1.0'")
	one.geo(`update pg_extension e set extversion = (
		select max(p.source) from pg_extension_update_paths('postgis') p, pg_available_extensions a
		where a.name = 'postgis' and p.target = a.default_version and p.path is not null and p.source ~ '^[0-9.]+$')
		where e.extname = 'postgis'`)
	report := one.notices("other libraries", func(report wire.Report) bool { return len(report.Libraries) == 3 })
	for index, want := range []wire.Library{
		{Name: "collation de-x-icu", Before: "1", Indexes: []string{"public.by_name"}},
		{Name: "geos", Before: "1.0", Indexes: []string{"public.by_area"}},
		{Name: "proj", Before: "1.0", Indexes: []string{"public.by_area"}},
	} {
		got := report.Libraries[index]
		if got.Name != want.Name || got.Before != want.Before || !slices.Equal(got.Indexes, want.Indexes) || got.Now == "" {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	one.notices("the version of the image", whole)
	one.geo(`alter collation "de-x-icu" refresh version`)
	one.geo("alter database geo reset meridian.libraries")
	one.notices("nothing to tell", func(report wire.Report) bool { return len(report.Libraries) == 0 })
	one.notices("a note", func(wire.Report) bool {
		return strings.Contains(one.super("select setconfig::text from pg_db_role_setting"), "geos=")
	})
}
