//go:build linux

package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Command is a program to run.
type Command struct {
	// Path is looked up, if it has no slash, in the PATH of Env, or in that of this process when Env has none.
	Path string
	// Args do not hold the name of the program.
	Args []string
	// Env is the whole environment: nothing is inherited in secret.
	Env []string
	Dir string
	// Lines gets every line of standard output and standard error, without its end, in the order of writing, and of one
	// that is longer than 64 KiB its beginning. The slice is valid during the call. Without it, output is dropped.
	Lines func(line []byte)
	// Output gets the standard output as it is, instead of Lines. The caller closes it.
	Output *os.File
	// Files are open in the program from descriptor 3 on, and in what it starts unless it closes them. A lock on one
	// of them lasts as long as any of these processes.
	Files []*os.File
}

// Process is a program that was started.
type Process struct {
	supervisor *Supervisor
	pid        int
	started    time.Time
	done       chan struct{}
	drained    chan struct{}
	exit       Exit // Set before done is closed.
}

// ErrEnded is returned when a signal comes too late.
var ErrEnded = errors.New("the process has ended")

// Start starts a program in a process group of its own, so that a signal from a terminal does not reach it.
func (s *Supervisor) Start(command Command) (*Process, error) {
	path, err := command.program()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	empty, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	defer func() { _ = empty.Close() }()
	output, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	defer func() { _ = input.Close() }()

	standard := input
	if command.Output != nil {
		standard = command.Output
	}
	attributes := &os.ProcAttr{
		Dir: command.Dir, Env: append([]string{}, command.Env...),
		Files: append([]*os.File{empty, standard, input}, command.Files...),
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	process := &Process{
		supervisor: s, started: time.Now(), done: make(chan struct{}), drained: make(chan struct{}),
	}
	s.mutex.Lock()
	child, err := os.StartProcess(path, append([]string{command.Path}, command.Args...), attributes)
	if err == nil {
		process.pid = child.Pid
		s.children[child.Pid] = process
	}
	s.mutex.Unlock()
	if err != nil {
		_ = output.Close()
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	// The reaper waits for the child by its number; the handle of package os is of no use.
	_ = child.Release()
	go func() {
		defer close(process.drained)
		passLines(output, command.Lines)
	}()
	return process, nil
}

// program finds the file to run.
func (c Command) program() (string, error) {
	for _, variable := range c.Env {
		list, found := strings.CutPrefix(variable, "PATH=")
		if !found || strings.Contains(c.Path, "/") {
			continue
		}
		for _, folder := range filepath.SplitList(list) {
			// With a slash in the name, this only asks whether it can be run.
			if path, err := exec.LookPath(filepath.Join("/", folder, c.Path)); err == nil {
				return path, nil
			}
		}
		return "", exec.ErrNotFound
	}
	return exec.LookPath(c.Path)
}

// PID is the number of the process. It may belong to another one when Done is closed.
func (p *Process) PID() int { return p.pid }

// Started is when the process was started.
func (p *Process) Started() time.Time { return p.started }

// Done is closed when the process itself has ended and was reaped. Its descendants may still live.
func (p *Process) Done() <-chan struct{} { return p.done }

// Drained is closed when all that was written was passed to Lines, which may be after Done. A descendant that keeps the
// pipe open delays it.
func (p *Process) Drained() <-chan struct{} { return p.drained }

// Exit tells how the process ended; ok is false while it lives.
func (p *Process) Exit() (exit Exit, ok bool) {
	select {
	case <-p.done:
		return p.exit, true
	default:
		return Exit{}, false
	}
}

// Signal sends a signal to the process, not to its descendants.
func (p *Process) Signal(signal syscall.Signal) error {
	p.supervisor.mutex.Lock()
	defer p.supervisor.mutex.Unlock()
	if _, ended := p.Exit(); ended {
		return ErrEnded
	}
	// The process is not reaped while the lock is held, so the number is still its own.
	if err := syscall.Kill(p.pid, signal); err != nil {
		return fmt.Errorf("send %s to process %d: %w", signal, p.pid, err)
	}
	return nil
}

// Step is one rung of the ladder of a stop.
type Step struct {
	Signal syscall.Signal
	// For is how long to wait for the end of the process after the signal.
	For time.Duration
}

// Stop sends the signals one after the other until the process ends, and at last kills the group. When the context
// ends, it goes to that last step at once. An error means that something of the group may be alive.
func (p *Process) Stop(ctx context.Context, steps ...Step) (Exit, error) {
	for _, step := range steps {
		if err := p.Signal(step.Signal); err != nil && !errors.Is(err, ErrEnded) {
			return Exit{}, err
		}
		timer := time.NewTimer(step.For)
		select {
		case <-p.done:
			timer.Stop()
			// What it left behind is not allowed to go on without it.
			return p.exit, p.Kill()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return p.killed()
		}
	}
	return p.killed()
}

func (p *Process) killed() (Exit, error) {
	if err := p.Kill(); err != nil {
		return Exit{}, err
	}
	<-p.done
	return p.exit, nil
}

// mostOutput is how much of the output of a program is kept, at least half of it: one that tells of its progress for
// hours may not fill our memory.
const mostOutput = 1 << 20

// Run runs a program to its end and returns the end of its output. When the context ends, the program is killed with
// its process group. An exit code other than 0 is an error that holds the last lines of output.
func (s *Supervisor) Run(ctx context.Context, command Command) ([]byte, error) {
	var output bytes.Buffer
	lines := command.Lines
	command.Lines = func(line []byte) {
		output.Write(line)
		output.WriteByte('\n')
		if output.Len() > mostOutput {
			output.Next(output.Len() - mostOutput/2)
		}
		if lines != nil {
			lines(line)
		}
	}
	process, err := s.Start(command)
	if err != nil {
		return nil, err
	}
	select {
	case <-process.done:
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("run %s: %w", command.Path, ctx.Err()), process.abandon())
	}
	// A descendant that keeps the pipe open does not hold up the result.
	select {
	case <-process.drained:
	case <-time.After(drainPatience):
		return nil, fmt.Errorf("run %s: its output does not end", command.Path)
	}
	if !process.exit.Clean() {
		return nil, fmt.Errorf("run %s: %s: %s", command.Path, process.exit, tail(output.Bytes()))
	}
	return output.Bytes(), nil
}

// abandon kills a short program with what it started in its process group, and returns when they are gone: they may
// not go on to write while somebody else believes that they have ended.
func (p *Process) abandon() error {
	deadline := time.Now().Add(killPatience)
	for {
		// The group has the number of the process for as long as it has a member.
		err := syscall.Kill(-p.pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			<-p.done
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill the group of process %d: it does not end", p.pid)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// drainPatience is how long the output of a program may last longer than the program.
const drainPatience = 2 * time.Second

// tail is the end of an output, short enough for a message.
func tail(output []byte) string {
	const most = 500
	output = bytes.TrimSpace(output)
	if len(output) > most {
		output = append([]byte("…"), output[len(output)-most:]...)
	}
	return string(bytes.ReplaceAll(output, []byte("\n"), []byte("; ")))
}
