//go:build cluster

package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/internal/tenure"
)

// aloneVariable says that the process does nothing but one test.
const aloneVariable = "MERIDIAN_TEST_ALONE"

// A watchdog that dies is noticed and replaced; one that does not answer is taken for dead (C2).
//
// It needs a process of its own: the reaper and the watchdog of a program are for all of its children.
func TestGuard(t *testing.T) {
	if os.Getenv(aloneVariable) == "" {
		alone := exec.Command("/proc/self/exe", "-test.run=^TestGuard$")
		alone.Env = append(os.Environ(), aloneVariable+"=yes")
		if output, err := alone.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	var changes atomic.Int64
	guard := agent.NewGuard(t, func() { changes.Add(1) })
	until := tenure.Instant(0)
	await := func(what string, seen func() bool) {
		t.Helper()
		for begin := time.Now(); !seen(); time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatalf("waited in vain for %s; %+v", what, guard.Look())
			}
		}
	}
	arm := func() {
		t.Helper()
		until = guard.Now().Add(time.Minute)
		must(t, guard.Arm(until))
		if look := guard.Look(); !look.Alive || look.Until != until {
			t.Errorf("%+v, armed until %s", look, until)
		}
	}
	arm()
	must(t, syscall.Kill(guard.PID(), syscall.SIGKILL))
	await("its death", func() bool { return !guard.Look().Alive })
	await("another", func() bool { return guard.Look().Alive })
	if look := guard.Look(); look.Until != 0 || changes.Load() < 2 {
		t.Errorf("%+v after %d changes", look, changes.Load())
	}
	arm()
	must(t, syscall.Kill(guard.PID(), syscall.SIGSTOP))
	// The threads of a process stop one after the other, as soon as each gets a processor.
	await("its stop", func() bool { return stopped(t, guard.PID()) })
	if err := guard.Arm(guard.Now().Add(time.Hour)); err == nil {
		t.Error("a stopped watchdog has understood")
	}
	if look := guard.Look(); !look.Alive || look.Until != until {
		t.Errorf("once is not enough: %+v", look)
	}
	if err := guard.Arm(guard.Now().Add(time.Hour)); err == nil || guard.Look().Alive {
		t.Errorf("%v, %+v", err, guard.Look())
	}
	await("another", func() bool { return guard.Look().Alive })
	arm()
}

// stopped says that every thread of a process is stopped.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	must(t, err)
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		must(t, err)
		if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return len(threads) > 0
}
