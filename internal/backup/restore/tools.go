package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"meridian.dev/meridian/kit/supervise"
)

// Tools are PostgreSQL's programs.
type Tools struct {
	// Folder is where they are, empty for the PATH of Env.
	Folder string
	Env    []string
	// Supervisor runs them, where a process reaps whatever ends in its container. Without it they are children as usual.
	Supervisor *supervise.Supervisor
	// Lock is the lock of a volume, which is then held for as long as any of the programs lives. It may be nil.
	Lock func() *os.File
}

func (t Tools) path(name string) string {
	if t.Folder == "" {
		return name
	}
	return filepath.Join(t.Folder, name)
}

func (t Tools) files() []*os.File {
	if t.Lock == nil {
		return nil
	}
	if file := t.Lock(); file != nil {
		return []*os.File{file}
	}
	return nil
}

// ExitError says that a program has ended with a code other than 0, and was not killed.
type ExitError struct {
	Program string
	Code    int
	Said    string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s ended with %d: %s", e.Program, e.Code, e.Said)
}

func (t Tools) run(ctx context.Context, name string, arguments ...string) error {
	started, err := t.start(name, nil, arguments...)
	if err != nil {
		return err
	}
	select {
	case <-started.done:
	case <-ctx.Done():
		_ = started.kill()
		<-started.done
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
	return started.err
}

// program is one that was started.
type program struct {
	name   string
	signal func(syscall.Signal) error
	kill   func() error // Of all that it has started, too, where there is a supervisor.
	done   chan struct{}
	err    error // Set before done is closed.

	mutex sync.Mutex
	said  bytes.Buffer
}

// drainPatience is how long the output of a program may last longer than the program.
const drainPatience = 2 * time.Second

// mostSaid is how much of the output is kept, at least half of it.
const mostSaid = 4 << 20

func (p *program) add(line []byte) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.said.Write(line)
	p.said.WriteByte('\n')
	if p.said.Len() > mostSaid {
		p.said.Next(p.said.Len() - mostSaid/2)
	}
}

func (p *program) text() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return strings.TrimSpace(p.said.String())
}

// endPatience is how long a server may take to end at once.
const endPatience = 10 * time.Second

// end ends a server without a checkpoint: what it has is of no use to anybody.
func (p *program) end() {
	_ = p.signal(syscall.SIGQUIT)
	select {
	case <-p.done:
	case <-time.After(endPatience):
		_ = p.kill()
		<-p.done
	}
}

// start starts a program. Each line of its output is told as well, if somebody asks for it.
func (t Tools) start(name string, line func(string), arguments ...string) (*program, error) {
	started := &program{name: name, done: make(chan struct{})}
	lines := func(text []byte) {
		started.add(text)
		if line != nil {
			line(string(text))
		}
	}
	if t.Supervisor == nil {
		return started, t.startChild(started, lines, arguments)
	}
	process, err := t.Supervisor.Start(supervise.Command{
		Path: t.path(name), Args: arguments, Env: t.Env, Lines: lines, Files: t.files(),
	})
	if err != nil {
		return nil, err
	}
	started.signal, started.kill = process.Signal, process.Kill
	go func() {
		<-process.Done()
		// What it said last decides about the result.
		select {
		case <-process.Drained():
		case <-time.After(drainPatience):
		}
		exit, _ := process.Exit()
		if !exit.Clean() {
			started.err = failure(started, exit.Code, exit.String())
		}
		close(started.done)
	}()
	return started, nil
}

func (t Tools) startChild(started *program, lines func([]byte), arguments []string) error {
	command := exec.Command(t.path(started.name), arguments...)
	command.Env, command.ExtraFiles = t.Env, t.files()
	output := &byLine{each: lines}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", started.name, err)
	}
	started.signal = func(signal syscall.Signal) error { return command.Process.Signal(signal) }
	started.kill = command.Process.Kill
	go func() {
		err := command.Wait()
		output.end()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			err = failure(started, failed.ExitCode(), failed.String())
		}
		started.err = err
		close(started.done)
	}()
	return nil
}

// mostTold is how much of its output an error has: a server that replays for hours says megabytes, and what reports are
// made of has room for a few lines.
const mostTold = 2 << 10

func failure(of *program, code int, how string) error {
	said := of.text()
	if len(said) > mostTold {
		said = said[len(said)-mostTold:]
		if _, rest, found := strings.Cut(said, "\n"); found {
			said = rest
		}
	}
	if code <= 0 {
		return fmt.Errorf("%s: %s: %s", of.name, how, said)
	}
	return &ExitError{Program: of.name, Code: code, Said: said}
}

// byLine cuts what is written into lines.
type byLine struct {
	each func([]byte)
	rest []byte
}

func (b *byLine) Write(content []byte) (int, error) {
	b.rest = append(b.rest, content...)
	for {
		line, rest, found := bytes.Cut(b.rest, []byte("\n"))
		if !found {
			return len(content), nil
		}
		b.each(line)
		b.rest = rest
	}
}

func (b *byLine) end() {
	if len(b.rest) > 0 {
		b.each(b.rest)
	}
}
