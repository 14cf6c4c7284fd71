//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Supervisor is the one reaper of a process. There may be only one at a time.
type Supervisor struct {
	// mutex makes "start and remember" and "reap and forget" exclude each other: a child that ends at once is known
	// before it is reaped, and no signal goes to a number that the kernel may have given away again.
	mutex    sync.Mutex
	children map[int]*Process
	reaped   int

	signals chan os.Signal
	closed  chan struct{}
	done    sync.WaitGroup
}

// New starts to reap. Call Close to stop.
func New() (*Supervisor, error) {
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("become the reaper of orphans: %w", err)
		}
	}
	s := &Supervisor{
		children: map[int]*Process{},
		signals:  make(chan os.Signal, 1),
		closed:   make(chan struct{}),
	}
	signal.Notify(s.signals, syscall.SIGCHLD)
	s.done.Add(1)
	go s.run()
	return s, nil
}

// Close stops reaping. It ends no process: that is for Stop and Kill.
func (s *Supervisor) Close() {
	signal.Stop(s.signals)
	close(s.closed)
	s.done.Wait()
}

// Reaped counts the orphans that were reaped: children that this supervisor did not start.
func (s *Supervisor) Reaped() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.reaped
}

func (s *Supervisor) run() {
	defer s.done.Done()
	for {
		select {
		case <-s.closed:
			return
		case <-s.signals:
			// Signals of the same kind merge, so one may stand for many children.
			for s.reapOne() {
			}
		}
	}
}

// reapOne reports whether there was something to reap.
func (s *Supervisor) reapOne() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	switch {
	case errors.Is(err, syscall.EINTR):
		return true
	case err != nil || pid <= 0:
		return false
	}
	process, ours := s.children[pid]
	if !ours {
		s.reaped++
		return true
	}
	delete(s.children, pid)
	process.exit = exitOf(status)
	close(process.done)
	return true
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code, -1 if a signal ended it.
	Code int
	// Signal is what ended it, or 0.
	Signal syscall.Signal
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal()}
	}
	return Exit{Code: status.ExitStatus()}
}

// Clean tells an end by the process itself, without complaint.
func (e Exit) Clean() bool { return e.Code == 0 }

func (e Exit) String() string {
	if e.Signal != 0 {
		return "ended by signal " + e.Signal.String()
	}
	return fmt.Sprintf("exit code %d", e.Code)
}
