//go:build cluster

package agent_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/wire"
)

// These tests run the agent with a real PostgreSQL of this machine. They need its programs and, as root, a user named
// postgres. They do not run side by side: PostgreSQL's port is fixed.

func running(r wire.Report) bool { return r.State == wire.StateRunning && r.Reason == "" }

func TestALife(t *testing.T) {
	p := newPod(t)
	begin := time.Now()
	p.start()
	p.awaitReport("a wait for the record", func(r wire.Report) bool { return r.Reason == wire.ReasonWaitingForRecord })
	if got := p.probe(wire.PathReady); got != http.StatusServiceUnavailable {
		t.Errorf("readiness %d before anybody has stored whose data it is", got)
	}
	p.awaitReady()
	p.awaitReport("a running primary", func(r wire.Report) bool { return running(r) && len(r.Extensions) == 3 })
	t.Logf("empty volume to ready with extensions: %s", time.Since(begin).Round(time.Millisecond))
	report, err := p.report()
	must(t, err)
	if report.Role != wire.RolePrimary || report.Incarnation == "" || report.SystemIdentifier == "" ||
		report.Timeline != 1 || report.LSN == "" || report.SettingsHash != p.settings.Hash() || report.ServerVersion == "" {
		t.Errorf("report %+v", report)
	}
	p.execute("create table kept (text text)")
	p.query("insert into kept values ('one') returning text")
	t.Run("doors", func(t *testing.T) { testDoors(t, p) })
	t.Run("settings", func(t *testing.T) { testSettings(t, p) })
	t.Run("password", func(t *testing.T) { testPassword(t, p) })
	t.Run("certificate", func(t *testing.T) { testCertificate(t, p) })
	t.Run("crash", func(t *testing.T) { testCrash(t, p) })
	t.Run("stop", func(t *testing.T) { testStop(t, p) })
	t.Run("orphaned server", func(t *testing.T) { testOrphan(t, p) })
	t.Run("renamed database", func(*testing.T) { testRenamed(p) })

	after, err := p.report()
	must(t, err)
	if after.Incarnation != report.Incarnation || after.SystemIdentifier != report.SystemIdentifier {
		t.Errorf("identity changed from %+v to %+v", report, after)
	}
	if got := p.query("select string_agg(text, ',' order by text) from kept"); got != "one" {
		t.Errorf("kept %q", got)
	}
}

// testDoors: who gets in, and who does not.
func testDoors(t *testing.T, p *pod) {
	if _, err := p.dial("postgres", "", "postgres"); err == nil || !strings.Contains(err.Error(), "rejects") {
		t.Errorf("superuser over the network: %v", err)
	}
	if _, err := p.dial("geo", "wrong", "geo"); err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("wrong password: %v", err)
	}
	plain := fmt.Sprintf("host=127.0.0.1 port=5432 user=geo password=%s dbname=geo sslmode=disable", p.password)
	if _, err := pgx.Connect(context.Background(), plain); err == nil || !strings.Contains(err.Error(), "rejects") {
		t.Errorf("without TLS: %v", err)
	}
	local := fmt.Sprintf("host=%s user=postgres dbname=postgres", p.at("run"))
	if _, err := pgx.Connect(context.Background(), local); err == nil {
		t.Error("another user of the operating system got in over the socket")
	}
	if _, err := p.client(false).Get(fmt.Sprintf("https://127.0.0.1:%d%s", reportPort, wire.PathReport)); err == nil {
		t.Error("the report is told to a caller without a certificate")
	}
	if got := p.probe(wire.PathLive); got != http.StatusOK {
		t.Errorf("liveness %d", got)
	}
	got := p.query("select concat(rolsuper, rolcreaterole, rolcreatedb) from pg_roles where rolname = current_user")
	if got != "fff" {
		t.Errorf("rights of the application's role: %s", got)
	}
}

func testSettings(t *testing.T, p *pod) {
	pid := p.postmaster()
	p.settings.Parameters = []wire.Parameter{{Name: "shared_buffers", Value: "64MB"}, {Name: "work_mem", Value: "7MB"}}
	p.writeSettings()
	took := p.awaitReport("the new settings", func(r wire.Report) bool { return r.SettingsHash == p.settings.Hash() })
	t.Logf("changed settings to in force: %s", took.Round(time.Millisecond))
	if got := p.query("show work_mem"); got != "7MB" {
		t.Errorf("work_mem %s", got)
	}
	report, err := p.report()
	must(t, err)
	if strings.Join(report.PendingRestart, ",") != "shared_buffers" || report.Reason != "" {
		t.Errorf("pending %v, reason %s: %s", report.PendingRestart, report.Reason, report.Message)
	}
	p.write("settings", wire.KeySettings, `{"version": 99}`)
	p.awaitReport("a complaint", func(r wire.Report) bool { return r.Reason == wire.ReasonSettingsUnreadable })
	if got := p.query("show work_mem"); got != "7MB" {
		t.Errorf("work_mem %s", got)
	}
	p.settings.Extensions = append(p.settings.Extensions, "no_such_thing", "citext")
	p.settings.Parameters[1].Value = "wrong"
	p.writeSettings()
	p.awaitReport("a complaint about the value", func(r wire.Report) bool {
		return r.Reason == wire.ReasonParametersRefused && strings.Contains(r.Message, "work_mem")
	})
	if p.postmaster() != pid {
		t.Error("the server was restarted")
	}
	// The server would not start with this value; the agent leaves it out.
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	p.await("the server to come back", func() bool { return p.postmaster() != 0 && p.postmaster() != pid })
	p.awaitReady()
	pid = p.postmaster()
	p.settings.Parameters[1].Value = "8MB"
	p.writeSettings()
	p.awaitReport("the extension beside one that is missing", func(r wire.Report) bool {
		return r.Reason == wire.ReasonExtensionMissing && len(r.Extensions) == 4
	})
	p.settings.Extensions = []string{"cube", "earthdistance", "citext"}
	p.writeSettings()
	p.awaitReport("peace", running)
	if p.postmaster() != pid {
		p.fail("the server was restarted")
	}
}

func testPassword(t *testing.T, p *pod) {
	if got := p.logged("SetPassword"); got != 0 {
		t.Errorf("an unchanged password was set %d times", got)
	}
	p.password = "second'secret\\"
	p.write("app", wire.KeyPassword, p.password)
	took := p.await("the new password", func() bool {
		connection, err := p.dial("geo", p.password, "geo")
		if err == nil {
			_ = connection.Close(context.Background())
		}
		return err == nil
	})
	t.Logf("changed password to in force: %s", took.Round(time.Millisecond))
	if p.logged("secret") != 0 {
		t.Error("a password is in the log")
	}
}

func testCertificate(t *testing.T, p *pod) {
	p.rotate("second")
	took := p.await("the new certificate", func() bool {
		connection, err := p.dial("geo", p.password, "geo")
		if err != nil {
			return false
		}
		defer func() { _ = connection.Close(context.Background()) }()
		secured := connection.PgConn().Conn().(*tls.Conn)
		return secured.ConnectionState().PeerCertificates[0].Subject.CommonName == "second"
	})
	t.Logf("changed certificate to in force: %s", took.Round(time.Millisecond))
}

func testCrash(t *testing.T, p *pod) {
	pid := p.postmaster()
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	begin := time.Now()
	p.await("an answer after the crash", func() bool {
		connection, err := p.dial("geo", p.password, "geo")
		if err == nil {
			_ = connection.Close(context.Background())
		}
		return err == nil && p.postmaster() != pid
	})
	t.Logf("kill -9 of the server to an answer: %s", time.Since(begin).Round(time.Millisecond))
	p.awaitReport("peace", running)
	// A start is a restart too.
	if report, err := p.report(); err != nil || len(report.PendingRestart) != 0 {
		t.Errorf("pending %v, %v", report.PendingRestart, err)
	}
}

// testStop ends the pod with a session in the middle of a transaction, loosens the folder as the kubelet may, and
// comes back.
func testStop(t *testing.T, p *pod) {
	connection, err := p.dial("geo", p.password, "geo")
	must(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	_, err = connection.Exec(context.Background(), "begin; insert into kept values ('not committed')")
	must(t, err)
	t.Logf("stop with an open transaction: %s", p.stop().Round(time.Millisecond))
	if p.postmaster() != 0 {
		t.Error("the server is alive")
	}
	must(t, os.Chmod(p.at("volume", "pgdata"), 0o770))
	clean := p.logged("stopped cleanly")
	begin := time.Now()
	p.start()
	p.awaitReady()
	t.Logf("restart to ready: %s", time.Since(begin).Round(time.Millisecond))
	if p.logged("TightenMode") != 1 || p.logged("stopped cleanly") != clean+1 {
		t.Error("the log does not tell of the mode, or the server was not stopped cleanly")
	}
}

// testOrphan kills the agent, so that a server without one stays behind: the next agent must not come between.
func testOrphan(t *testing.T, p *pod) {
	pid := p.postmaster()
	must(t, p.command.Process.Kill())
	<-p.exited
	p.start()
	p.awaitReport("respect for the server of another", func(r wire.Report) bool {
		return r.Reason == wire.ReasonVolumeInUse
	})
	if syscall.Kill(pid, 0) != nil {
		t.Error("the orphaned server has gone")
	}
	must(t, syscall.Kill(pid, syscall.SIGQUIT))
	p.awaitReady()
}

// testRenamed: a database that somebody renamed is missed, and no empty one appears in its place.
func testRenamed(p *pod) {
	rename := func(from, to string) {
		p.await("the rename of "+from, func() bool { return p.superuser("alter database "+from+" rename to "+to) == nil })
	}
	rename("geo", "elsewhere")
	p.settings.Parameters[1].Value = "11MB"
	p.writeSettings() // New settings make the agent look inside at once.
	p.awaitReport("a complaint", func(r wire.Report) bool { return r.Reason == wire.ReasonApplicationMissing })
	rename("elsewhere", "geo")
	p.settings.Parameters[1].Value = "12MB"
	p.writeSettings()
	p.awaitReport("peace", running)
	p.awaitReady()
}

func TestVolumes(t *testing.T) {
	p := newPod(t)
	p.start()
	p.awaitReady()
	p.awaitReport("peace", running)
	p.stop()

	t.Run("of another database", func(*testing.T) {
		p.settings.DatabaseUID = "uid-2"
		p.writeSettings()
		p.start()
		p.awaitReport("a refusal", func(r wire.Report) bool {
			return r.State == wire.StateFailed && r.Reason == wire.ReasonVolumeForeign
		})
		p.stop()
		p.settings.DatabaseUID = "uid-1"
		p.writeSettings()
	})
	t.Run("with spoilt settings", func(*testing.T) {
		p.write("settings", wire.KeySettings, `nonsense`)
		p.start()
		p.awaitReady()
		p.awaitReport("a complaint", func(r wire.Report) bool {
			return r.State == wire.StateRunning && r.Reason == wire.ReasonSettingsUnreadable
		})
		p.stop()
		p.writeSettings()
	})
	t.Run("wiped", func(t *testing.T) {
		p.settings.Initialised = true
		p.writeSettings()
		must(t, os.RemoveAll(p.at("volume")))
		must(t, os.Mkdir(p.at("volume"), 0o755))
		p.own()
		p.start()
		p.awaitReport("a refusal", func(r wire.Report) bool {
			return r.State == wire.StateFailed && r.Reason == wire.ReasonVolumeEmpty
		})
		if p.stop(); p.logged("ClaimVolume") != 1 {
			t.Error("a lost volume was claimed")
		}
	})
	t.Run("with a value that it does not start with", func(t *testing.T) {
		p.settings.Initialised, p.settings.SystemIdentifier = false, ""
		p.settings.Parameters = []wire.Parameter{
			{Name: "max_connections", Value: "many"}, {Name: "work_mem", Value: "6MB"},
		}
		p.writeSettings()
		p.start()
		p.awaitReady()
		p.awaitReport("a complaint", func(r wire.Report) bool {
			return r.State == wire.StateRunning && r.Reason == wire.ReasonParametersRefused
		})
		got := p.query("select concat(current_setting('max_connections'), ' ', current_setting('work_mem'))")
		if got != "100 6MB" {
			t.Errorf("in force: %s", got)
		}
		p.stop()
		p.settings.Parameters = nil
		p.writeSettings()
	})
	t.Run("half-made", func(t *testing.T) {
		must(t, os.RemoveAll(p.at("volume")))
		must(t, os.Mkdir(p.at("volume"), 0o755))
		p.settings.Initialised, p.settings.SystemIdentifier = false, ""
		p.writeSettings()
		must(t, os.WriteFile(p.at("volume", "agent.json"),
			[]byte(`{"version":1,"databaseUID":"uid-1","incarnation":"i","inProgress":"initialise"}`), 0o600))
		must(t, os.MkdirAll(p.at("volume", "pgdata.new", "base"), 0o700))
		p.own()
		p.start()
		p.awaitReady()
		if p.logged("never completed") != 1 {
			t.Error("the half-made directory was not seen")
		}
		p.stop()
	})
}

// TestStopWhileInitialising stops the pod at many moments of its first seconds; it must always end, and the next start
// must always succeed.
func TestStopWhileInitialising(t *testing.T) {
	for _, milliseconds := range []int{5, 50, 150, 400, 700, 1000, 1400} {
		moment := time.Duration(milliseconds) * time.Millisecond
		p := newPod(t)
		p.start()
		time.Sleep(moment)
		took := p.stop()
		left := "no"
		if exists(p.at("volume", "pgdata.new")) {
			left = "a half-made"
		} else if exists(p.at("volume", "pgdata")) {
			left = "a complete"
		}
		p.start()
		p.awaitReady()
		t.Logf("stopped after %s within %s, leaving %s data directory; came up again", moment,
			took.Round(time.Millisecond), left)
		p.stop()
	}
}
