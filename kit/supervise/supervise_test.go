//go:build linux

package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/supervise"
)

// output collects lines and lets a test wait for one.
type output struct {
	mutex sync.Mutex
	lines []string
}

func (o *output) add(line []byte) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.lines = append(o.lines, string(line))
}

func (o *output) all() []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return append([]string{}, o.lines...)
}

// first waits for a line that starts with the text and returns the rest of it.
func (o *output) first(t *testing.T, text string) string {
	t.Helper()
	var found string
	await(t, "the line "+text, func() bool {
		for _, line := range o.all() {
			if rest, ok := strings.CutPrefix(line, text); ok {
				found = rest
				return true
			}
		}
		return false
	})
	return found
}

func await(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if seen() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}

func begin(t *testing.T) *supervise.Supervisor {
	t.Helper()
	supervisor, err := supervise.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(supervisor.Close)
	return supervisor
}

func shell(t *testing.T, supervisor *supervise.Supervisor, script string) (*supervise.Process, *output) {
	t.Helper()
	var out output
	process, err := supervisor.Start(supervise.Command{
		Path: "sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Lines: out.add,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Kill() })
	return process, &out
}

func pidOf(t *testing.T, out *output, prefix string) int {
	t.Helper()
	pid, err := strconv.Atoi(out.first(t, prefix))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// The rest of a line that is too long is no line: whoever chose the text would have chosen what the line says.
func TestTheRestOfALongLineIsNoLine(t *testing.T) {
	_, out := shell(t, begin(t), "printf '%0.65536d%s\\nnext\\n' 0 'forged'; printf '%0.200000d\\nlast\\n' 0")
	out.first(t, "last")
	var got []string
	for _, line := range out.all() {
		got = append(got, fmt.Sprint(len(line), " ", line[max(0, len(line)-6):]))
	}
	if diff := cmp.Diff([]string{"65536 000000", "4 next", "65536 000000", "4 last"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestExitIsKept(t *testing.T) {
	supervisor := begin(t)
	for name, test := range map[string]struct {
		script string
		want   supervise.Exit
	}{
		"clean":       {"exit 0", supervise.Exit{}},
		"with a code": {"exit 7", supervise.Exit{Code: 7}},
		"by a signal": {"kill -KILL $$", supervise.Exit{Code: -1, Signal: syscall.SIGKILL}},
	} {
		t.Run(name, func(t *testing.T) {
			process, _ := shell(t, supervisor, test.script)
			<-process.Done()
			got, ok := process.Exit()
			if diff := cmp.Diff(test.want, got); diff != "" || !ok {
				t.Errorf("exit known %t, differs (-want +got):\n%s", ok, diff)
			}
			if err := process.Signal(syscall.SIGTERM); !errors.Is(err, supervise.ErrEnded) {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
}

func TestManyShortPrograms(t *testing.T) {
	supervisor := begin(t)
	var group sync.WaitGroup
	for number := range 60 {
		group.Go(func() {
			text := fmt.Sprint(number)
			got, err := supervisor.Run(t.Context(), supervise.Command{Path: "echo", Args: []string{text}})
			if err != nil || string(got) != text+"\n" {
				t.Errorf("run %d: %q, %v", number, got, err)
			}
		})
	}
	group.Wait()
}

func TestRunSaysWhatWentWrong(t *testing.T) {
	supervisor := begin(t)
	complain := supervise.Command{Path: "/bin/sh", Args: []string{"-c", "echo no room >&2; exit 3"}}
	_, err := supervisor.Run(t.Context(), complain)
	if err == nil || !strings.Contains(err.Error(), "exit code 3: no room") {
		t.Errorf("error %v", err)
	}
	_, err = supervisor.Run(t.Context(), supervise.Command{Path: "/no/such/program"})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = supervisor.Run(ctx, supervise.Command{Path: "sleep", Args: []string{"60"}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// A program that writes for ever does not fill the memory of whoever runs it: the end of the output is what counts.
func TestRunKeepsTheEndOfALongOutput(t *testing.T) {
	supervisor := begin(t)
	output, err := supervisor.Run(t.Context(), supervise.Command{
		Path: "/bin/sh", Args: []string{"-c", "yes 0123456789abcdef | head -c 4000000; echo; echo the end"},
		Env: []string{"PATH=" + os.Getenv("PATH")},
	})
	if err != nil || len(output) > 1<<20 || len(output) < 1<<19 || !strings.HasSuffix(string(output), "the end\n") {
		t.Errorf("%d bytes, error %v", len(output), err)
	}
}

func TestProgramsAreFoundInTheirOwnPath(t *testing.T) {
	supervisor := begin(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "greet"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	command := supervise.Command{Path: "greet", Env: []string{"PATH=/nowhere:" + folder}}
	if got, err := supervisor.Run(t.Context(), command); string(got) != "hello\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	command.Env = []string{"PATH=/nowhere"}
	if _, err := supervisor.Run(t.Context(), command); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

func TestRunLeavesNothingBehindWhenItIsGivenUp(t *testing.T) {
	supervisor := begin(t)
	var out output
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		out.first(t, "child=")
		cancel()
	}()
	_, err := supervisor.Run(ctx, supervise.Command{
		Path: "sh", Args: []string{"-c", "sleep 60 & echo child=$!; wait"},
		Env: []string{"PATH=" + os.Getenv("PATH")}, Lines: out.add,
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if child := pidOf(t, &out, "child="); alive(child) {
		t.Error("what the program started goes on")
	}
}

func TestOrphansAreReaped(t *testing.T) {
	supervisor := begin(t)
	before := supervisor.Reaped()
	process, out := shell(t, supervisor, `sh -c 'sleep 0.2 & echo orphan=$!'; exit 0`)
	<-process.Done()
	orphan := pidOf(t, out, "orphan=")
	await(t, "the orphan to be reaped", func() bool { return supervisor.Reaped() > before && !alive(orphan) })
}

// A server whose children have sessions of their own is killed; the children, which no signal to its process group
// would reach, are gone when Kill returns.
func TestKillReachesChildrenInSessionsOfTheirOwn(t *testing.T) {
	supervisor := begin(t)
	process, out := shell(t, supervisor,
		`setsid sh -c 'echo child=$$; setsid sleep 60 & echo grandchild=$!; wait' & echo self=$$; wait`)
	child, grandchild := pidOf(t, out, "child="), pidOf(t, out, "grandchild=")
	group, err := process.Group()
	if err != nil || len(group) < 3 {
		t.Fatalf("group %v, %v: want three at least", group, err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{child, grandchild} {
		await(t, "the end of a descendant", func() bool { return !alive(pid) })
	}
}

// The server alone is killed by somebody: its children are orphans then, and still belong to the group.
func TestOrphansOfAKilledServerBelongToItsGroup(t *testing.T) {
	supervisor := begin(t)
	process, out := shell(t, supervisor, `setsid sleep 60 & echo child=$!; wait`)
	child := pidOf(t, out, "child=")
	other, _ := shell(t, supervisor, "sleep 60")
	if err := syscall.Kill(process.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-process.Done()
	group, err := process.Group()
	if diff := cmp.Diff([]int{child}, group); diff != "" || err != nil {
		t.Errorf("%v, group differs (-want +got):\n%s", err, diff)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !alive(other.PID()) {
		t.Error("a program that was started for something else was killed too")
	}
}

func TestStop(t *testing.T) {
	supervisor := begin(t)
	for name, test := range map[string]struct {
		script string
		want   supervise.Exit
		least  time.Duration
	}{
		"the first signal is heard": {
			`trap "exit 4" TERM; echo up; while :; do sleep 0.01; done`, supervise.Exit{Code: 4}, 0,
		},
		"the second signal is heard": {
			`trap "" TERM; trap "exit 5" INT; echo up; while :; do sleep 0.01; done`,
			supervise.Exit{Code: 5}, 200 * time.Millisecond,
		},
		"no signal is heard": {
			`trap "" TERM INT; echo up; while :; do sleep 0.01; done`,
			supervise.Exit{Code: -1, Signal: syscall.SIGKILL}, 400 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			process, out := shell(t, supervisor, test.script)
			out.first(t, "up")
			start := time.Now()
			got, err := process.Stop(t.Context(), supervise.Step{Signal: syscall.SIGTERM, For: 200 * time.Millisecond},
				supervise.Step{Signal: syscall.SIGINT, For: 200 * time.Millisecond})
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v, exit differs (-want +got):\n%s", err, diff)
			}
			if took := time.Since(start); took < test.least || took > test.least+5*time.Second {
				t.Errorf("took %s, want %s at least", took, test.least)
			}
		})
	}
}

func TestStopGoesToTheEndWhenTheContextDoes(t *testing.T) {
	supervisor := begin(t)
	process, out := shell(t, supervisor, `trap "" TERM; echo up; while :; do sleep 0.01; done`)
	out.first(t, "up")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got, err := process.Stop(ctx, supervise.Step{Signal: syscall.SIGTERM, For: time.Hour})
	if err != nil || got.Signal != syscall.SIGKILL {
		t.Errorf("exit %v, %v", got, err)
	}
}

func TestLines(t *testing.T) {
	supervisor := begin(t)
	process, out := shell(t, supervisor, `printf 'one\r\n\ntwo\n'; printf three >&2`)
	<-process.Done()
	out.first(t, "three")
	if diff := cmp.Diff([]string{"one", "", "two", "three"}, out.all()); diff != "" {
		t.Errorf("lines differ (-want +got):\n%s", diff)
	}
	long, err := supervisor.Run(t.Context(), supervise.Command{
		Path: "head", Args: []string{"-c", "200000", "/dev/zero"}, Env: []string{"PATH=" + os.Getenv("PATH")},
	})
	if got := bytes.Count(long, []byte{0}); err != nil || got != 65536 {
		t.Errorf("%d bytes of an endless line arrived, want its first 64 KiB; %v", got, err)
	}
}

// A lock on a file that is handed down lasts as long as any descendant, also when the server itself was killed.
func TestFilesAreHandedDown(t *testing.T) {
	supervisor := begin(t)
	path := filepath.Join(t.TempDir(), "lock")
	locked, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(locked.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	var out output
	process, err := supervisor.Start(supervise.Command{
		Path: "sh", Args: []string{"-c", "setsid sleep 60 & echo child=$!; wait"},
		Env: []string{"PATH=" + os.Getenv("PATH")}, Lines: out.add, Files: []*os.File{locked},
	})
	if err != nil {
		t.Fatal(err)
	}
	pidOf(t, &out, "child=")
	_ = locked.Close()
	_ = process.Signal(syscall.SIGKILL)
	<-process.Done()
	again, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if err := syscall.Flock(int(again.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		t.Error("the lock is free although a descendant lives")
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(again.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("the lock is not free after the kill: %v", err)
	}
}

// What was let go comes back when it is needed.
func TestShed(t *testing.T) {
	file := func() int {
		var kilobytes int
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			_, _ = fmt.Sscanf(line, "RssFile: %d kB", &kilobytes)
		}
		return kilobytes
	}
	before := file()
	if err := supervise.Shed(); err != nil {
		t.Fatal(err)
	}
	after := file()
	if after >= before {
		t.Errorf("%d KiB of files before, %d after", before, after)
	}
	if got := fmt.Sprintf("%5.2f %v", 1.5, strings.Split("a,b", ",")); got != " 1.50 [a b]" {
		t.Errorf("the program has changed: %s", got)
	}
	t.Logf("%d KiB of files before, %d after", before, after)
}
