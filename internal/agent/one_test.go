//go:build cluster

package agent_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/wire"
)

// running is an instance that is as wished.
func running(report wire.Report) bool {
	return report.State == wire.StateRunning && report.Reason == ""
}

func (r *rig) awaitReport(p *pod, what string, seen func(wire.Report) bool) time.Duration {
	r.t.Helper()
	return r.await(what, func() bool {
		report, err := p.report()
		return err == nil && seen(report)
	})
}

// awaitServing waits until the one instance serves and nothing is left to do.
func (r *rig) awaitServing() time.Duration {
	r.t.Helper()
	return r.awaitReport(r.pods[0], "a primary that serves", func(report wire.Report) bool {
		if !running(report) || !report.Serving || report.Role != wire.RolePrimary {
			return false
		}
		// A report may be a moment old.
		_, err := r.pods[0].query("select 'x'")
		return err == nil
	})
}

func TestOne(t *testing.T) {
	r := newRig(t, 1)
	p := r.pods[0]
	r.start()
	t.Logf("nothing to serving: %s", r.awaitServing())
	if got := p.probe(wire.PathReady); got != http.StatusOK {
		t.Errorf("readiness %d", got)
	}
	before, err := p.report()
	must(t, err)
	t.Run("doors", func(t *testing.T) { testDoors(t, p) })
	t.Run("settings", func(t *testing.T) { testSettings(t, r) })
	t.Run("password", func(t *testing.T) { testPassword(t, r) })
	t.Run("certificate", func(t *testing.T) { testCertificate(t, r) })
	t.Run("crash", func(t *testing.T) {
		pid := p.postmaster()
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		r.await("another server", func() bool { return p.postmaster() != 0 && p.postmaster() != pid })
		t.Logf("kill -9 of the server to serving: %s", r.awaitServing())
	})
	t.Run("stop", func(t *testing.T) { testStop(t, r) })
	t.Run("the API server is away", func(t *testing.T) { testAlone(t, r) })
	after, err := p.report()
	must(t, err)
	if after.Incarnation != before.Incarnation || after.SystemIdentifier != before.SystemIdentifier {
		t.Errorf("identity changed from %+v to %+v", before, after)
	}
	t.Run("wiped", func(t *testing.T) { testWiped(t, r) })
}

// testDoors: who gets in, and who does not.
func testDoors(t *testing.T, p *pod) {
	for name, text := range map[string]string{
		"a superuser":      "user=postgres dbname=postgres sslmode=require",
		"a wrong password": "user=geo password=wrong dbname=geo sslmode=require",
		"no TLS":           "user=geo password=" + p.password + " dbname=geo sslmode=disable",
		"a replica":        "user=meridian_replication dbname=geo sslmode=require",
	} {
		connection, err := pgx.Connect(context.Background(), "host="+p.address+" port=5432 "+text)
		if err == nil {
			t.Errorf("%s got in", name)
			_ = connection.Close(context.Background())
		}
	}
}

func testSettings(t *testing.T, r *rig) {
	p := r.pods[0]
	pid := p.postmaster()
	r.settings.Parameters = []wire.Parameter{{Name: "shared_buffers", Value: "64MB"}, {Name: "work_mem", Value: "7MB"}}
	r.writeSettings()
	took := r.awaitReport(p, "the new settings", func(report wire.Report) bool {
		return report.SettingsHash == r.settings.Hash()
	})
	t.Logf("changed settings to in force: %s", took)
	if got, err := p.query("show work_mem"); got != "7MB" {
		t.Errorf("work_mem %s, %v", got, err)
	}
	p.write("settings", wire.KeySettings, `{"version": 99}`)
	r.awaitReport(p, "a complaint", func(report wire.Report) bool {
		return report.Reason == wire.ReasonSettingsUnreadable && report.Serving
	})
	r.writeSettings()
	r.awaitServing()
	if p.postmaster() != pid {
		t.Error("the server was restarted")
	}
}

func testPassword(t *testing.T, r *rig) {
	p := r.pods[0]
	r.password = "second'secret\\"
	p.write("app", wire.KeyPassword, r.password)
	took := r.await("the new password", func() bool {
		_, err := p.query("select 'x'")
		return err == nil
	})
	t.Logf("changed password to in force: %s", took)
	if p.logged("secret") != 0 {
		t.Error("a password is in the log")
	}
}

// testCertificate: a new leaf is presented by the server and by the agent, without a restart of either.
func testCertificate(t *testing.T, r *rig) {
	p := r.pods[0]
	pid := p.postmaster()
	old, _ := r.state.Leaf("instance")
	r.renew()
	leaf, _ := r.state.Leaf("instance")
	if leaf.Certificate.SerialNumber.Cmp(old.Certificate.SerialNumber) == 0 {
		t.Fatal("the certificate was not renewed")
	}
	r.await("the new certificate of the server", func() bool {
		connection, err := p.dial()
		if err != nil {
			return false
		}
		defer func() { _ = connection.Close(context.Background()) }()
		secured, ok := connection.PgConn().Conn().(*tls.Conn)
		return ok && secured.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(leaf.Certificate.SerialNumber) == 0
	})
	response, err := p.client("operator").Get(p.url(wire.PathReport))
	must(t, err)
	_ = response.Body.Close()
	if response.TLS.PeerCertificates[0].SerialNumber.Cmp(leaf.Certificate.SerialNumber) != 0 {
		t.Error("the agent presents the old certificate")
	}
	if p.postmaster() != pid {
		t.Error("the server was restarted")
	}
}

// testStop ends the pod with a session in the middle of a transaction, and comes back.
func testStop(t *testing.T, r *rig) {
	p := r.pods[0]
	connection, err := p.dial()
	must(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	_, err = connection.Exec(context.Background(), "begin; create table never (number int)")
	must(t, err)
	t.Logf("stop with an open transaction: %s", p.stop())
	if p.postmaster() != 0 {
		t.Error("the server is alive")
	}
	p.start()
	t.Logf("start to serving: %s", r.awaitServing())
}

// testAlone: a single instance never ends itself for the API server's sake, and comes back without it.
func testAlone(t *testing.T, r *rig) {
	p := r.pods[0]
	pid := p.postmaster()
	p.gate.cut()
	defer p.gate.mend()
	time.Sleep(3 * time.Duration(r.settings.LeaseMilliseconds) * time.Millisecond)
	if _, err := p.query("select 'x'"); err != nil || p.postmaster() != pid {
		t.Fatalf("server %d then %d, %v\n%s", pid, p.postmaster(), err, p.tail())
	}
	p.crash()
	p.start()
	r.await("an answer", func() bool {
		_, err := p.query("select 'x'")
		return err == nil
	})
}

// testWiped: a volume that has lost its data is not taken for a new one.
func testWiped(t *testing.T, r *rig) {
	p := r.pods[0]
	p.stop()
	must(t, os.RemoveAll(p.at("volume")))
	must(t, os.Mkdir(p.at("volume"), 0o755))
	p.own()
	made := p.logged("Initialise version")
	p.start()
	time.Sleep(3 * time.Second)
	report, err := p.report()
	must(t, err)
	if report.Serving || p.postmaster() != 0 || p.logged("Initialise version") != made {
		t.Errorf("report %+v\n%s", report, p.tail())
	}
	if !strings.Contains(p.tail(), "starting the agent") {
		t.Error("the agent did not start")
	}
}

// TestStopWhileInitialising stops the pod at many moments of its first seconds; it must always end, and the next start
// must always succeed.
func TestStopWhileInitialising(t *testing.T) {
	for _, milliseconds := range []int{0, 150, 700, 1400} {
		moment := time.Duration(milliseconds) * time.Millisecond
		r := newRig(t, 1)
		p := r.pods[0]
		p.start()
		// Before it listens to signals at all, the agent is ended by one as any program is.
		r.await("the begin of the agent", func() bool { return p.logged("starting the agent") > 0 })
		time.Sleep(moment)
		took := p.stop()
		p.start()
		t.Logf("stopped after %s within %s; serving %s after the next start", moment, took, r.awaitServing())
		p.stop()
	}
}
