package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/journal"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/kit/supervise"
)

// Runner is PostgreSQL's process.
type Runner struct {
	Supervisor *supervise.Supervisor
	Disk       *Disk
	// Env is the environment of the server.
	Env []string
	// Lines gets its log.
	Lines func([]byte)
	// Fast and Immediate bound the two ways to stop; after both, everything is killed.
	Fast, Immediate time.Duration
	// Ended is called when the server has ended, from another goroutine.
	Ended func()

	mutex    sync.Mutex
	process  *supervise.Process
	start    string // Identifies the start.
	mark     string
	restart  string // The token that it was started by.
	asked    bool   // Whether the end of the process was asked for.
	counted  bool   // Whether the end of the process was looked at.
	failures int
	told     func()
	ended    time.Time
	words    journal.Words
}

// steady is how long a server must have run for its end not to count as a failure to start.
const steady = 10 * time.Second

// Subscribe asks to be told when the server has ended or has spoken of itself.
func (r *Runner) Subscribe(ended func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.told = ended
}

// Look implements postgres.Runner.
func (r *Runner) Look() postgres.Process {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.process == nil {
		return postgres.Process{}
	}
	exit, ended := r.process.Exit()
	lost, lostAtStart := r.words.Lost()
	consistent, open := r.words.Consistent()
	if !ended {
		return postgres.Process{
			Running: true, Failures: r.failures, Mark: r.mark, Started: r.process.Started(), Reached: r.words.Reached(),
			Start: r.start, Lost: lost, LostAtStart: lostAtStart, Restart: r.restart,
			Consistent: consistent, LetsIn: open, CancelledWaits: r.words.CancelledWaits(),
		}
	}
	if !r.counted {
		r.count()
	}
	facts := postgres.Process{
		Failures: r.failures, Mark: r.mark, Ended: r.ended, Exit: exit.String(), LastWords: r.words.Text(),
		Started: r.process.Started(), Reached: r.words.Reached(), Complaints: r.words.Complaints(),
		Start: r.start, Lost: lost, LostAtStart: lostAtStart, CancelledWaits: r.words.CancelledWaits(),
	}
	// When the table cannot be read, the worst is assumed: the kill that follows reports the error.
	group, err := r.process.Group()
	facts.Leftover = len(group)
	if err != nil {
		facts.Leftover = 1
	}
	return facts
}

func (r *Runner) count() {
	r.counted, r.ended = true, time.Now()
	if r.asked || r.ended.Sub(r.process.Started()) > steady {
		r.failures = 0
	}
	if !r.asked {
		r.failures++
	}
}

// Start implements postgres.Runner.
func (r *Runner) Start(mark, restart string) error {
	lock := r.Disk.LockFile()
	if lock == nil {
		return errors.New("start the server: the lock of the volume is not ours")
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.process != nil {
		if _, ended := r.process.Exit(); !ended {
			return errors.New("start the server: it is running")
		}
	}
	r.words.Clear()
	process, err := r.Supervisor.Start(supervise.Command{
		Path: "postgres", Args: []string{"-D", r.Disk.Data(), "-c", "log_line_prefix=" + render.RawLogPrefix()},
		Env: r.Env, Dir: r.Disk.Folder, Lines: r.line, Files: []*os.File{lock},
	})
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	r.process, r.mark, r.restart, r.asked, r.counted = process, mark, restart, false, false
	r.start = fmt.Sprintf("%x-%d", process.Started().UnixNano(), process.PID())
	go func() {
		<-process.Done()
		if r.Ended != nil {
			r.Ended()
		}
		r.tell()
	}()
	return nil
}

func (r *Runner) line(line []byte) {
	// What the server itself says is news, such as the end of a stream: the loop shall look at once.
	if r.words.Add(line) {
		r.tell()
	}
	if r.Lines != nil {
		r.Lines(line)
	}
}

func (r *Runner) tell() {
	r.mutex.Lock()
	told := r.told
	r.mutex.Unlock()
	if told != nil {
		told()
	}
}

func (r *Runner) current(asked bool) *supervise.Process {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.asked = r.asked || asked
	return r.process
}

// Stop implements postgres.Runner. Fast: open transactions are rolled back, sessions end, a checkpoint is written.
// Immediate: without the checkpoint, so that the next start recovers. Both lose nothing that was acknowledged. Within a
// bound there is no time for the second: PostgreSQL itself waits five seconds for processes that do not obey.
func (r *Runner) Stop(ctx context.Context, within time.Duration) error {
	process := r.current(true)
	if process == nil {
		return nil
	}
	steps := []supervise.Step{{Signal: syscall.SIGINT, For: r.Fast}, {Signal: syscall.SIGQUIT, For: r.Immediate}}
	if within > 0 {
		steps = []supervise.Step{{Signal: syscall.SIGINT, For: within}}
	}
	if _, err := process.Stop(ctx, steps...); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	return nil
}

// KillLeftover implements postgres.Runner.
func (r *Runner) KillLeftover() error {
	process := r.current(false)
	if process == nil {
		return nil
	}
	if _, ended := process.Exit(); !ended {
		return errors.New("kill what the server left: it is running")
	}
	return process.Kill()
}

// Reload implements postgres.Runner.
func (r *Runner) Reload() error {
	process := r.current(false)
	if process == nil {
		return errors.New("reload: there is no server")
	}
	return process.Signal(syscall.SIGHUP)
}

// Promote implements postgres.Runner. The file and the signal are what pg_ctl uses; they work although no session can
// be had.
func (r *Runner) Promote() error {
	process := r.current(false)
	if process == nil {
		return errors.New("promote: there is no server")
	}
	if err := os.WriteFile(filepath.Join(r.Disk.Data(), "promote"), nil, 0o600); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	if err := process.Signal(syscall.SIGUSR1); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return nil
}

// Kill implements postgres.Runner.
func (r *Runner) Kill() error {
	process := r.current(true)
	if process == nil {
		return nil
	}
	return process.Kill()
}
