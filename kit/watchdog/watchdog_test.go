//go:build linux

package watchdog_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"meridian.dev/meridian/kit/supervise"
	"meridian.dev/meridian/kit/watchdog"
)

// The test binary is also the watchdog and the program that is watched: both must be processes that can be stopped.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "watchdog":
		pid, err := watchdog.ParseArguments(os.Args[2:])
		if err == nil {
			err = watchdog.Serve(pid)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 2 && os.Args[1] == "program":
		if err := beProgram(); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beProgram supervises shells as it is told on its standard input, and answers each order with one line.
func beProgram() error {
	supervisor, err := supervise.New()
	if err != nil {
		return err
	}
	lines := func(line []byte) { fmt.Printf("said %s\n", line) }
	dog, err := watchdog.Start(supervisor, supervise.Command{
		Path: "/proc/self/exe", Args: []string{"watchdog"}, Lines: lines,
	}, func(time.Duration) { fmt.Println("fired") })
	if err != nil {
		return err
	}
	go func() {
		<-dog.Done()
		fmt.Println("watchdog ended")
	}()
	fmt.Println("ready", dog.PID())
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		verb, rest, _ := strings.Cut(orders.Text(), " ")
		switch verb {
		case "run":
			process, err := supervisor.Start(supervise.Command{Path: "/bin/sh", Args: []string{"-c", rest}, Lines: lines})
			if err != nil {
				return err
			}
			fmt.Println("running", process.PID())
		case "in":
			milliseconds, _ := strconv.Atoi(rest)
			deadline := watchdog.Now() + time.Duration(milliseconds)*time.Millisecond
			fmt.Println("set", dog.Set(deadline, time.Second), dog.Deadline() == deadline)
		case "none":
			fmt.Println("set", dog.Set(0, time.Second), dog.Deadline() == 0)
		}
	}
	return nil
}

// program is a running one.
type program struct {
	t       *testing.T
	command *exec.Cmd
	orders  io.Writer
	lines   chan string
	// early is what a process has said before the program could say that it runs.
	early []string
	dog   int
}

func begin(t *testing.T) *program {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(own, "program")
	orders, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, command: command, orders: orders, lines: make(chan string, 1000)}
	go func() {
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGCONT)
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	p.dog = p.number("ready ")
	return p
}

// line waits for a line with this beginning and returns the rest of it.
func (p *program) line(start string) string {
	p.t.Helper()
	if start == "said " && len(p.early) > 0 {
		rest := p.early[0]
		p.early = p.early[1:]
		return rest
	}
	for timeout := time.After(time.Minute); ; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the program ended before it said %q", start)
			}
			if rest, found := strings.CutPrefix(line, start); found {
				return rest
			}
			if rest, found := strings.CutPrefix(line, "said "); found && start == "running " {
				p.early = append(p.early, rest)
			}
		case <-timeout:
			p.t.Fatalf("waited in vain for %q", start)
		}
	}
}

func (p *program) number(start string) int {
	p.t.Helper()
	number, err := strconv.Atoi(p.line(start))
	if err != nil {
		p.t.Fatal(err)
	}
	return number
}

func (p *program) order(text string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.orders, text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) set(order string) {
	p.t.Helper()
	p.order(order)
	if got := p.line("set "); got != "<nil> true" {
		p.t.Fatalf("%s: %s", order, got)
	}
}

// family is a server with a child in a session of its own, an orphan whose parent was killed, and a stopped process.
func (p *program) family() map[string]int {
	p.t.Helper()
	const child = `sh -c 'echo child $$; while :; do sleep 0.01; done' & `
	const session = `setsid sh -c 'echo session $$; while :; do sleep 0.01; done' & `
	const parent = `sh -c 'sh -c "echo orphan \$\$; while :; do sleep 0.01; done" & echo parent $$; wait' & `
	const stopped = `sh -c 'echo stopped $$; while :; do sleep 0.01; done' & `
	p.order("run " + child + session + parent + stopped + "wait")
	pids := map[string]int{"server": p.number("running ")}
	for len(pids) < 6 {
		name, pid, _ := strings.Cut(p.line("said "), " ")
		number, err := strconv.Atoi(pid)
		if err != nil {
			p.t.Fatal(err)
		}
		pids[name] = number
	}
	p.t.Cleanup(func() { endFamily(pids) })
	kill(p.t, pids["parent"], syscall.SIGKILL)
	delete(pids, "parent")
	kill(p.t, pids["stopped"], syscall.SIGSTOP)
	return pids
}

// endFamily ends what a test has let live. Who has the number of one of them and not its words is another process.
func endFamily(pids map[string]int) {
	for _, pid := range pids {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(command), "; while :; do sleep 0.01; done") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func kill(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// lives says whether a process does anything any more: one that waits to be reaped does not.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[0] != 'Z' && rest[0] != 'X'
}

func allLive(t *testing.T, pids map[string]int) {
	t.Helper()
	for name, pid := range pids {
		if !lives(pid) {
			t.Fatalf("%s has ended too early", name)
		}
	}
}

// allEnd returns how long it took until none of them lived.
func allEnd(t *testing.T, pids map[string]int) time.Duration {
	t.Helper()
	begin := time.Now()
	for name, pid := range pids {
		for lives(pid) {
			if time.Since(begin) > 30*time.Second {
				t.Fatalf("%s lives on", name)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return time.Since(begin)
}

// C2: at the deadline everything of the server ends, also what lost its parent and what is stopped.
func TestTheDeadlineKillsAll(t *testing.T) {
	p := begin(t)
	pids := p.family()
	p.set("in 400")
	time.Sleep(200 * time.Millisecond)
	allLive(t, pids)
	took := allEnd(t, pids)
	p.line("fired")
	if took < 100*time.Millisecond || took > 600*time.Millisecond {
		t.Errorf("dead after %s, the deadline was in 200 ms", took)
	}
	if !lives(p.dog) {
		t.Error("the watchdog has killed itself")
	}
	// Something that was about to be started when the deadline passed does not live long either.
	p.order("run echo born; while :; do sleep 0.01; done")
	late := map[string]int{"late": p.number("running ")}
	if took := allEnd(t, late); took > time.Second {
		t.Errorf("a late server lived for %s", took)
	}
}

func TestADeadlineIsMoved(t *testing.T) {
	p := begin(t)
	pids := p.family()
	p.set("in 300")
	p.set("in 60000")
	time.Sleep(600 * time.Millisecond)
	allLive(t, pids)
	p.set("in 100")
	if took := allEnd(t, pids); took > 2*time.Second {
		t.Errorf("dead after %s", took)
	}
}

// Without a deadline nothing may be there; what is started later is none of the watchdog's business.
func TestNoDeadline(t *testing.T) {
	p := begin(t)
	pids := p.family()
	p.set("in 60000")
	p.set("none")
	for name, pid := range pids {
		if lives(pid) {
			t.Errorf("%s lives although the watchdog says that nothing does", name)
		}
	}
	pids = p.family()
	time.Sleep(300 * time.Millisecond)
	allLive(t, pids)
	// After a deadline that has passed, it ends the killing too.
	p.set("in 1")
	allEnd(t, pids)
	p.set("none")
	pids = p.family()
	time.Sleep(100 * time.Millisecond)
	allLive(t, pids)
}

func TestTheProgramIsStopped(t *testing.T) {
	p := begin(t)
	pids := p.family()
	p.set("in 300")
	kill(t, p.command.Process.Pid, syscall.SIGSTOP)
	if took := allEnd(t, pids); took > 2*time.Second {
		t.Errorf("dead after %s", took)
	}
}

func TestTheProgramDies(t *testing.T) {
	for _, order := range []string{"", "in 60000"} {
		p := begin(t)
		pids := p.family()
		if order != "" {
			p.set(order)
		}
		time.Sleep(300 * time.Millisecond) // The watchdog has looked who belongs to it.
		kill(t, p.command.Process.Pid, syscall.SIGKILL)
		took := allEnd(t, pids)
		t.Logf("dead %s after the program", took.Round(time.Millisecond))
		pids = map[string]int{"watchdog": p.dog}
		allEnd(t, pids)
	}
}

// What the program has left behind has another parent by the time that the watchdog looks: it is stopped until then.
// The kernel itself lets a stopped group go on that has lost its parent.
func TestTheProgramDiesUnseen(t *testing.T) {
	p := begin(t)
	p.order("run while :; do sleep 0.01; done")
	pids := map[string]int{"server": p.number("running ")}
	time.Sleep(300 * time.Millisecond)
	kill(t, p.dog, syscall.SIGSTOP)
	// The kernel looks for stopped ones at the moment of the death: one that stops a little later stays so.
	for state := ""; state != "T"; time.Sleep(time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.dog))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(status), ") ")
		state, _, _ = strings.Cut(after, " ")
	}
	allLive(t, pids)
	kill(t, p.command.Process.Pid, syscall.SIGKILL)
	allEnd(t, pids)
}

func TestTheWatchdogDies(t *testing.T) {
	p := begin(t)
	p.set("in 50000")
	kill(t, p.dog, syscall.SIGTERM)
	kill(t, p.dog, syscall.SIGINT)
	p.set("in 60000")
	kill(t, p.dog, syscall.SIGKILL)
	p.line("watchdog ended")
	p.order("in 1000")
	if got := p.line("set "); strings.HasPrefix(got, "<nil>") {
		t.Errorf("a dead watchdog has understood: %s", got)
	}
}

// A watchdog that is stopped does not confirm anything.
func TestTheWatchdogIsStopped(t *testing.T) {
	p := begin(t)
	kill(t, p.dog, syscall.SIGSTOP)
	p.order("in 60000")
	if got := p.line("set "); !strings.Contains(got, "not understood") {
		t.Errorf("set: %s", got)
	}
	kill(t, p.dog, syscall.SIGCONT)
	p.set("in 60000")
}

func TestTheWatchdogIsSmall(t *testing.T) {
	p := begin(t)
	p.family()
	p.set("in 60000")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.dog))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "RssAnon") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func TestWallJumps(t *testing.T) {
	wall := &watchdog.Wall{}
	seen := watchdog.Jump{At: 4 * time.Second, By: 10 * time.Second}
	steps := []struct {
		offset, now time.Duration
		want        []watchdog.Jump
	}{
		{100 * time.Second, 1 * time.Second, nil},
		{100*time.Second + 900*time.Millisecond, 2 * time.Second, nil}, // A small correction.
		{50 * time.Second, 3 * time.Second, nil},                       // Somebody sets the clock back.
		{60 * time.Second, 4 * time.Second, []watchdog.Jump{seen}},
		{60 * time.Second, 5 * time.Second, []watchdog.Jump{seen}},
	}
	for _, step := range steps {
		if got := wall.Look(step.offset, step.now); !slices.Equal(got, step.want) {
			t.Errorf("at %s: jumps %v, want %v", step.now, got, step.want)
		}
	}
	if lost := (&watchdog.Wall{}).Lost(); lost != 0 {
		t.Errorf("%s were lost at the first look", lost)
	}
	wall.Look(90*time.Second, 6*time.Second)
	if lost := wall.LostBy(); lost != 40*time.Second {
		t.Errorf("%s were lost, want 40s in two jumps", lost)
	}
}

// Nothing of very many jumps is forgotten, and none is taken for an older one.
func TestManyJumps(t *testing.T) {
	wall := &watchdog.Wall{}
	var jumps []watchdog.Jump
	for i := range 101 {
		jumps = wall.Look(time.Duration(2*i)*time.Second, time.Duration(i)*time.Second)
	}
	var total time.Duration
	for _, jump := range jumps {
		total += jump.By
	}
	if first := jumps[0]; len(jumps) != 16 || total != 200*time.Second || first.At != 85*time.Second {
		t.Errorf("%d jumps of %s, the first %+v", len(jumps), total, first)
	}
}

func TestAJumpBringsTheDeadlineNearer(t *testing.T) {
	if got := watchdog.Nearer(100*time.Second, 3*time.Second); got != 97*time.Second {
		t.Errorf("%s", got)
	}
	if got := watchdog.Nearer(100*time.Second, time.Hour); got <= 0 || got > time.Second {
		t.Errorf("%s: it must be over, and 0 is no deadline at all", got)
	}
}

func TestClock(t *testing.T) {
	before := watchdog.Now()
	time.Sleep(10 * time.Millisecond)
	if gone := watchdog.Now() - before; gone < 10*time.Millisecond || gone > 5*time.Second {
		t.Errorf("%s have gone by", gone)
	}
	id, err := watchdog.BootID()
	if err != nil || len(id) != 36 {
		t.Errorf("boot %q: %v", id, err)
	}
}

func TestParseArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"x"}, {"0"}, {"1", "2"}, watchdog.Arguments()} {
		if pid, err := watchdog.ParseArguments(args); err == nil {
			t.Errorf("%q: %d", args, pid)
		}
	}
	if pid, err := watchdog.ParseArguments([]string{"1"}); pid != 1 || err != nil {
		t.Errorf("%d, %v", pid, errors.Join(err))
	}
}
