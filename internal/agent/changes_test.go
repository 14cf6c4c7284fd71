//go:build cluster

package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// A primary that is to be started anew gives its place away first; and a database whose pods all end, the primary's
// last, wakes as it was.
func TestChanges(t *testing.T) {
	r := newRig(t, 3)
	r.start()
	r.awaitAll()
	r.makeTable()
	rows := r.begin()
	r.await("traffic", func() bool { return rows.count() > 20 })
	t.Run("restart of the primary", func(t *testing.T) {
		old := r.primary()
		since := time.Now()
		r.settings.Restarts = []wire.Restart{{Instance: old.name, Token: "t1"}}
		r.writeSettings()
		r.awaitOther(old, rows)
		r.awaitReport(old, "the restart", func(report wire.Report) bool {
			return report.Restart == "t1" && report.Role == wire.RoleReplica && report.Streams
		})
		t.Logf("write gap %s", rows.gap(since))
		if old.logged("AskToYield") == 0 {
			t.Error("the primary did not ask for a switchover")
		}
		r.awaitAll()
	})
	t.Run("restart of a replica", func(t *testing.T) {
		replica := r.others(r.primary())[0]
		since := time.Now()
		r.settings.Restarts = []wire.Restart{{Instance: replica.name, Token: "t2"}}
		r.writeSettings()
		r.awaitReport(replica, "the restart", func(report wire.Report) bool {
			return report.Restart == "t2" && report.Streams
		})
		if gap := rows.gap(since); gap > time.Second {
			t.Errorf("write gap %s", gap)
		}
	})
	t.Run("switchover with an answer", func(t *testing.T) { testVerdict(t, r, rows) })
	t.Run("hibernate and wake", func(t *testing.T) { testHibernate(t, r) })
	before := rows.count()
	r.await("traffic again", func() bool { return rows.count() > before+5 })
	rows.check()
}

// testVerdict: whoever asks for another primary hears whether there will be one, and why not.
func testVerdict(t *testing.T, r *rig, rows *traffic) {
	primary := r.primary()
	replica := r.others(primary)[0]
	for name, test := range map[string]struct {
		to     *pod
		target string
	}{
		"to itself":      {primary, primary.name},
		"to nobody":      {primary, "cities-9"},
		"by a replica":   {replica, replica.name},
		"by a bystander": {replica, ""},
	} {
		status, reply := test.to.switchover("id-"+name, test.target)
		if status != http.StatusConflict || reply.Accepted || reply.Why == "" {
			t.Errorf("%s: %d %+v", name, status, reply)
		}
	}
	since := time.Now()
	status, reply := primary.switchover("wanted", replica.name)
	if status != http.StatusAccepted || !reply.Accepted {
		t.Fatalf("%d %+v", status, reply)
	}
	if next := r.awaitOther(primary, rows); next != replica {
		t.Errorf("the primary is %s", next.name)
	}
	t.Logf("write gap %s", rows.gap(since))
	r.awaitAll()
}

func (p *pod) switchover(id, target string) (int, wire.SwitchoverReply) {
	p.t.Helper()
	body, err := json.Marshal(wire.Switchover{ID: id, Target: target})
	must(p.t, err)
	response, err := p.client("operator").Post(p.url(wire.PathSwitchover), "application/json", bytes.NewReader(body))
	must(p.t, err)
	defer func() { _ = response.Body.Close() }()
	var reply wire.SwitchoverReply
	must(p.t, json.NewDecoder(response.Body).Decode(&reply))
	return response.StatusCode, reply
}

func testHibernate(t *testing.T, r *rig) {
	primary := r.primary()
	for _, p := range r.others(primary) {
		t.Logf("%s ended within %s", p.name, p.stop())
	}
	t.Logf("the primary %s ended within %s", primary.name, primary.stop())
	holder, record := r.record()
	t.Logf("the lease is held by %q in term %d, members %v", holder, record.Term, record.Members)
	began := time.Now()
	for _, p := range r.pods {
		p.start()
	}
	r.await("a primary", func() bool { return r.primary() != nil })
	woken := time.Since(began)
	t.Logf("a primary again after %s: %s", woken.Round(time.Millisecond), r.primary().name)
	// Nobody waits for a lease to end: it was given back. The rest is the speed of the machine.
	if holder.Name != "" {
		t.Errorf("the lease was left with %s", holder)
	}
	r.awaitAll()
}

// A volume that is full keeps its data, answers reads as long as it can, waits otherwise, and needs nothing but room.
func TestFullVolume(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small volume")
	}
	r := newRig(t, 1)
	p := r.pods[0]
	p.mountSmall(400)
	r.start()
	r.awaitServing()
	r.makeTable()
	r.awaitReport(p, "a reserve", func(report wire.Report) bool {
		return report.Volume.Size > 0 && exists(p.at("volume", "reserve")) && !report.Volume.Full
	})

	p.leave(20)
	full := func(report wire.Report) bool { return report.Volume.Full && report.Reason == wire.ReasonVolumeFull }
	r.awaitReport(p, "a full volume", full)
	r.await("a refused write", func() bool { return strings.Contains(p.insert(), "read-only transaction") })
	if got, err := p.query("select count(*)::text from rows"); err != nil {
		t.Errorf("a read: %q %v", got, err)
	}

	// The server ends, and nothing at all is free.
	p.leave(0)
	server := p.postmaster()
	must(t, syscall.Kill(server, syscall.SIGKILL))
	r.await("another server", func() bool { return p.postmaster() != 0 && p.postmaster() != server })
	r.await("reads again", func() bool { _, err := p.query("select count(*)::text from rows"); return err == nil })
	r.await("a refused write", func() bool { return strings.Contains(p.insert(), "read-only transaction") })

	// The reserve is used up: it waits, and does not try again and again.
	p.leave(0)
	must(t, syscall.Kill(p.postmaster(), syscall.SIGKILL))
	r.awaitReport(p, "a server that waits", func(report wire.Report) bool {
		return full(report) && report.State == wire.StateStarting
	})
	starts := p.logged("StartServer")
	time.Sleep(5 * time.Second)
	if p.logged("StartServer") != starts || p.postmaster() != 0 {
		t.Errorf("a server was started without room\n%s", p.tail())
	}
	since := time.Now()
	p.grow(700)
	r.await("writes again", func() bool { return p.insert() == "" })
	t.Logf("growth to the first write: %s", time.Since(since).Round(time.Millisecond))
	r.awaitReport(p, "nothing to tell", func(report wire.Report) bool {
		return report.Reason == "" && !report.Volume.Full && exists(p.at("volume", "reserve"))
	})
}

// mountSmall puts a volume of so many MiB in the place of the folder.
func (p *pod) mountSmall(size int) {
	p.t.Helper()
	folder := p.at("volume")
	options := fmt.Sprintf("size=%dm,uid=%d,gid=%d,mode=0755", size, p.uid, p.gid)
	if output, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder).CombinedOutput(); err != nil {
		p.t.Skipf("mount: %v: %s", err, output)
	}
	p.t.Cleanup(func() {
		p.kill()
		_ = syscall.Unmount(folder, syscall.MNT_DETACH)
	})
}

func (p *pod) grow(size int) {
	p.t.Helper()
	output, err := exec.Command("mount", "-o", fmt.Sprintf("remount,size=%dm", size), p.at("volume")).CombinedOutput()
	if err != nil {
		p.t.Fatalf("remount: %v: %s", err, output)
	}
}

// leave fills the volume but for so many MiB.
func (p *pod) leave(left int64) {
	p.t.Helper()
	var facts syscall.Statfs_t
	must(p.t, syscall.Statfs(p.at("volume"), &facts))
	more := int64(facts.Bavail)*facts.Bsize - left<<20
	file, err := os.OpenFile(filepath.Join(p.at("volume"), "filler"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	must(p.t, err)
	defer func() { _ = file.Close() }()
	for ; more > 0; more -= 1 << 16 {
		if _, err := file.Write(make([]byte, min(more, 1<<16))); err != nil {
			return
		}
	}
}

// insert returns why a write was not acknowledged.
func (p *pod) insert() string {
	connection, err := p.dial()
	if err != nil {
		return err.Error()
	}
	defer func() { _ = connection.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err = connection.Exec(ctx, "insert into rows values (1)"); err != nil {
		return err.Error()
	}
	return ""
}
