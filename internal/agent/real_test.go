//go:build cluster

package agent_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/wire"
)

// These tests run agents with a real API server and real PostgreSQL servers of this machine, each on an address of its
// own on loopback. They need its programs and, as root, a user named postgres.

// traffic writes one row after the other to whoever leads, and knows which were acknowledged.
type traffic struct {
	r     *rig
	stop  chan struct{}
	done  sync.WaitGroup
	mutex sync.Mutex
	acked []int
	times []time.Time
}

func (r *rig) begin() *traffic {
	t := &traffic{r: r, stop: make(chan struct{})}
	t.done.Add(1)
	go func() {
		defer t.done.Done()
		t.run()
	}()
	return t
}

func (t *traffic) run() {
	var connection *pgx.Conn
	for number := 1; ; number++ {
		select {
		case <-t.stop:
			return
		default:
		}
		if connection == nil {
			connection = t.connect()
		}
		if connection == nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := connection.Exec(ctx, fmt.Sprintf("insert into rows values (%d)", number))
		cancel()
		if err != nil {
			_ = connection.Close(context.Background())
			connection = nil
			continue
		}
		t.mutex.Lock()
		t.acked, t.times = append(t.acked, number), append(t.times, time.Now())
		t.mutex.Unlock()
	}
}

// connect finds whoever lets itself be written to, as an application with all addresses would.
func (t *traffic) connect() *pgx.Conn {
	for _, p := range t.r.pods {
		connection, err := p.dial()
		if err != nil {
			continue
		}
		var replica bool
		err = connection.QueryRow(context.Background(), "select pg_is_in_recovery()").Scan(&replica)
		if err == nil && !replica {
			return connection
		}
		_ = connection.Close(context.Background())
	}
	return nil
}

func (t *traffic) count() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return len(t.acked)
}

// gap is the longest time between two acknowledged writes since a moment.
func (t *traffic) gap(since time.Time) time.Duration {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	longest, last := time.Duration(0), since
	for _, at := range t.times {
		if at.After(since) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest.Round(time.Millisecond)
}

// check ends the traffic and looks for every acknowledged row.
func (t *traffic) check() {
	t.r.t.Helper()
	close(t.stop)
	t.done.Wait()
	if len(t.acked) < 10 {
		t.r.t.Fatalf("only %d rows were written", len(t.acked))
	}
	var present string
	t.r.await("the rows", func() bool {
		p := t.r.primary()
		if p == nil {
			return false
		}
		var err error
		present, err = p.query("select coalesce(string_agg(number::text, ','), '') from rows")
		return err == nil
	})
	found := map[string]bool{}
	for number := range strings.SplitSeq(present, ",") {
		found[number] = true
	}
	lost := 0
	for _, number := range t.acked {
		if !found[fmt.Sprint(number)] {
			lost++
		}
	}
	if lost > 0 {
		t.r.t.Errorf("%d of %d acknowledged rows are lost", lost, len(t.acked))
	}
}

func (r *rig) makeTable() {
	r.t.Helper()
	r.await("a table", func() bool {
		p := r.primary()
		if p == nil {
			return false
		}
		connection, err := p.dial()
		if err != nil {
			return false
		}
		defer func() { _ = connection.Close(context.Background()) }()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err = connection.Exec(ctx, "create table if not exists rows (number int)")
		return err == nil
	})
}

// awaitOther waits for another primary than this one, and for traffic.
func (r *rig) awaitOther(than *pod, rows *traffic) *pod {
	r.t.Helper()
	var next *pod
	r.await("another primary than "+than.name, func() bool {
		next = r.primary()
		return next != nil && next != than
	})
	before := rows.count()
	r.await("writes on "+next.name, func() bool { return rows.count() > before+5 })
	return next
}

func TestThree(t *testing.T) {
	r := newRig(t, 3)
	began := time.Now()
	r.start()
	r.await("a primary", func() bool { return r.primary() != nil })
	t.Logf("nothing to a primary that serves: %s", time.Since(began).Round(time.Millisecond))
	r.awaitAll()
	t.Logf("nothing to three members: %s", time.Since(began).Round(time.Millisecond))
	for _, p := range r.pods {
		all, own := resident(p.command.Process.Pid)
		t.Logf("%s: agent %d KiB, of its own %d KiB", p.name, all, own)
	}
	r.makeTable()
	rows := r.begin()
	r.await("traffic", func() bool { return rows.count() > 20 })

	t.Run("doors", func(t *testing.T) { testPeerDoors(t, r) })
	t.Run("switchover by SIGTERM", func(t *testing.T) {
		old := r.primary()
		since := time.Now()
		took := old.stop()
		r.awaitOther(old, rows)
		t.Logf("the agent ended within %s; write gap %s", took, rows.gap(since))
		old.start()
		t.Logf("back after %s", r.awaitAll())
	})
	t.Run("kill -9 of the agent", func(t *testing.T) {
		old := r.primary()
		since := time.Now()
		old.crash()
		old.start()
		before := rows.count()
		r.await("traffic again", func() bool { return rows.count() > before+5 })
		r.awaitAll()
		t.Logf("write gap %s", rows.gap(since))
	})
	t.Run("the pod is gone", func(t *testing.T) {
		old := r.primary()
		since := time.Now()
		old.crash()
		r.awaitOther(old, rows)
		t.Logf("write gap %s with a lease of %d ms", rows.gap(since), r.settings.LeaseMilliseconds)
		old.start()
		t.Logf("back after %s", r.awaitAll())
	})
	t.Run("kill -9 of the server", func(t *testing.T) {
		since := time.Now()
		must(t, syscall.Kill(r.primary().postmaster(), syscall.SIGKILL))
		time.Sleep(100 * time.Millisecond)
		r.awaitAll()
		before := rows.count()
		r.await("traffic again", func() bool { return rows.count() > before+5 })
		t.Logf("write gap %s", rows.gap(since))
	})
	t.Run("the agent is frozen", func(t *testing.T) { testFrozen(t, r, rows) })
	t.Run("the watchdog is killed", func(t *testing.T) { testWatchdog(t, r, rows) })
	t.Run("the API server is away", func(t *testing.T) { testAway(t, r, rows) })
	rows.check()
}

// C2: a frozen agent's server is dead before anybody else leads.
func testFrozen(t *testing.T, r *rig, rows *traffic) {
	old := r.primary()
	since := time.Now()
	must(t, old.command.Process.Signal(syscall.SIGSTOP))
	defer func() { _ = old.command.Process.Signal(syscall.SIGCONT) }()
	var dead time.Duration
	for dead == 0 {
		if old.postmaster() == 0 {
			dead = time.Since(since)
		}
		if time.Since(since) > time.Duration(r.settings.LeaseMilliseconds)*time.Millisecond {
			t.Fatalf("the server of a frozen agent outlives the lease")
		}
		time.Sleep(5 * time.Millisecond)
	}
	var next *pod
	r.await("another primary", func() bool {
		holder, _ := r.record()
		for _, p := range r.others(old) {
			if p.name == holder.Name {
				next = p
			}
		}
		return next != nil
	})
	before := rows.count()
	r.await("writes", func() bool { return rows.count() > before+5 })
	t.Logf("its server was dead after %s; write gap %s", dead.Round(time.Millisecond), rows.gap(since))
	must(t, old.command.Process.Signal(syscall.SIGCONT))
	t.Logf("back after %s", r.awaitAll())
}

// watchdog is the process that watches the agent, or 0.
func (p *pod) watchdog() int {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		line, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		stat, _ := os.ReadFile(filepath.Join(folder, "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		words := strings.Fields(rest)
		if len(words) > 1 && words[1] == strconv.Itoa(p.command.Process.Pid) && strings.Contains(string(line), "watchdog") {
			pid, _ := strconv.Atoi(filepath.Base(folder))
			return pid
		}
	}
	return 0
}

func testWatchdog(t *testing.T, r *rig, rows *traffic) {
	old := r.primary()
	dog := old.watchdog()
	if dog == 0 {
		t.Fatal("there is no watchdog")
	}
	all, own := resident(dog)
	t.Logf("watchdog %d KiB, of its own %d KiB", all, own)
	server := old.postmaster()
	since := time.Now()
	must(t, syscall.Kill(dog, syscall.SIGKILL))
	r.await("the end of the server", func() bool { return old.postmaster() != server })
	r.awaitAll()
	before := rows.count()
	r.await("traffic again", func() bool { return rows.count() > before+5 })
	t.Logf("write gap %s", rows.gap(since))
}

// While the API server is away and the peers are not, nothing happens.
func testAway(t *testing.T, r *rig, rows *traffic) {
	old := r.primary()
	server := old.postmaster()
	for _, p := range r.pods {
		p.gate.cut()
	}
	since := time.Now()
	time.Sleep(3 * time.Duration(r.settings.LeaseMilliseconds) * time.Millisecond)
	gap := rows.gap(since)
	for _, p := range r.pods {
		p.gate.mend()
	}
	if gap > time.Second || old.postmaster() != server {
		t.Errorf("write gap %s, server %d then %d\n%s", gap, server, old.postmaster(), old.tail())
	}
	t.Logf("write gap %s", gap)
	r.awaitAll()
	if r.primary() != old {
		t.Errorf("the primary is another one")
	}
}

// testPeerDoors: each path of the agent is open to those whom it is for.
func testPeerDoors(t *testing.T, r *rig) {
	p := r.pods[0]
	for name, test := range map[string]struct {
		leaf, method, path string
		want               int
	}{
		"a report for the operator":         {"operator", http.MethodGet, wire.PathReport, http.StatusOK},
		"a report for an instance":          {"instance", http.MethodGet, wire.PathReport, http.StatusOK},
		"a message of the operator":         {"operator", http.MethodPost, wire.PathPeer, http.StatusForbidden},
		"a message without sense":           {"instance", http.MethodPost, wire.PathPeer, http.StatusBadRequest},
		"a switchover for an instance":      {"instance", http.MethodPost, wire.PathSwitchover, http.StatusForbidden},
		"a switchover without sense":        {"operator", http.MethodPost, wire.PathSwitchover, http.StatusBadRequest},
		"a report for nobody in particular": {"", http.MethodGet, wire.PathReport, 0},
	} {
		request, err := http.NewRequest(test.method, p.url(test.path), strings.NewReader("{}"))
		must(t, err)
		response, err := p.client(test.leaf).Do(request)
		got := 0
		if err == nil {
			got = response.StatusCode
			_ = response.Body.Close()
		}
		if got != test.want {
			t.Errorf("%s: %d, want %d (%v)", name, got, test.want, err)
		}
	}
	if got := p.probe(wire.PathLive); got != http.StatusOK {
		t.Errorf("liveness %d", got)
	}
}
