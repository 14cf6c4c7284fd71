//go:build cluster

package controller_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
)

// keepSilent holds connections open that never say a word, and opens each anew that the server has ended.
func keepSilent(t *testing.T, i *instance, count int) {
	t.Helper()
	address := net.JoinHostPort(i.address, fmt.Sprint(testPort))
	ended := make(chan struct{})
	var all sync.WaitGroup
	opened := make(chan error, count)
	for range count {
		all.Go(func() {
			for first := true; ; first = false {
				connection, err := net.Dial("tcp", address)
				if first {
					opened <- err
				}
				if err == nil {
					go func() { <-ended; _ = connection.Close() }()
					_, _ = connection.Read(make([]byte, 1)) // Until the server ends it.
				}
				select {
				case <-ended:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	for range count {
		must(t, <-opened)
	}
	t.Cleanup(func() { close(ended); all.Wait() })
}

// A connection that has said nothing is a child of the server without a title until authentication_timeout. It is
// neither a WAL receiver nor a session by old rules of access that nobody could end: fence and promotion do not wait.
func TestSilentConnectionsHoldUpNothing(t *testing.T) {
	r, one, two := pair(t)
	standing := two.standing
	standing.OpenReads = true
	two.obey(standing)
	two.await("an open gate", func(tenure.Engine) bool { return two.execute(time.Second, "select 1") == nil })
	keepSilent(t, two, 40)
	begin := time.Now()
	_, err := two.fence()
	must(t, err)
	t.Logf("fence took %s", time.Since(begin))
	if err := one.execute(time.Second, "insert into t values (3)"); err == nil {
		t.Error("a write was acknowledged after the fence of the only other member")
	}
	one.loop.Kill()
	one.obey(tenure.Standing{Role: tenure.RoleIdle})
	begin = time.Now()
	r.lead(two, 2, 2, tenure.Setting{}, one.member(), two.member())
	took := time.Since(begin)
	t.Logf("promotion and gate took %s", took)
	// The connections end by themselves only after authentication_timeout, one minute.
	if took > 20*time.Second {
		t.Errorf("the promotion took %s", took)
	}
	must(t, two.execute(5*time.Second, "insert into t values (4)"))
}

// A commit whose wait for replicas was cancelled is on the primary alone: it is counted.
func TestCancelledWaitsAreCounted(t *testing.T) {
	_, one, two := pair(t)
	_, err := two.fence()
	must(t, err)
	session, err := one.dial()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	defer func() { _ = session.Close(ctx) }()
	done := make(chan error, 1)
	go func() {
		_, err := session.Exec(ctx, "insert into t values (3)")
		done <- err
	}()
	one.await("a cancelled wait", func(tenure.Engine) bool {
		one.super("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
		state, _ := one.loop.State()
		return state.Report.CancelledWaits >= 1
	})
	// The warning is all that tells: the statement itself succeeds.
	must(t, <-done)
}
