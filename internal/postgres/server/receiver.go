package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

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

// EndReceiver implements postgres.Runner. The server must have been told to follow nobody, and the key must have been
// taken back before: a receiver that is begun later is not let in. One that was begun earlier is in the process table,
// with its name or still without, so when every child has a name and none is a receiver, there is none.
func (r *Runner) EndReceiver(ctx context.Context) error {
	process := r.current(false)
	if process == nil {
		return nil
	}
	for {
		if _, ended := process.Exit(); ended {
			left, err := process.Group()
			if err == nil && len(left) > 0 {
				err = errors.New("end the receiver: processes of a server that has ended still live")
			}
			return err
		}
		receivers, nameless, err := childrenOf(process.PID(), receiverTitle)
		if err != nil {
			return fmt.Errorf("end the receiver: %w", err)
		}
		if len(receivers) == 0 && !nameless {
			return nil
		}
		for _, pid := range receivers {
			// It may have ended since; whether it did shows on the next look.
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end the receiver: it cannot be proven to be gone: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// childrenOf looks through the whole process table, which has every process that was there before the look began. A
// child has its parent's title until it sets its own.
func childrenOf(parent int, title *regexp.Regexp) (found []int, nameless bool, err error) {
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", parent))
	if err != nil {
		return nil, false, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !isChild(entry.Name(), parent) {
			continue
		}
		shown, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		switch {
		case err != nil || len(shown) == 0:
			continue // It has ended.
		case bytes.Equal(shown, own):
			nameless = true
		case title.Match(shown):
			found = append(found, pid)
		}
	}
	return found, nameless, nil
}

// EndEntering implements postgres.Runner. A session that has no name yet counts, and gets one in a moment.
func (r *Runner) EndEntering() (int, error) {
	process := r.current(false)
	if process == nil {
		return 0, nil
	}
	entering, nameless, err := childrenOf(process.PID(), enteringTitle)
	if err != nil {
		return 0, fmt.Errorf("end sessions that are about to be let in: %w", err)
	}
	for _, pid := range entering {
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	if nameless {
		return len(entering) + 1, nil
	}
	return len(entering), nil
}

// enteringTitle is the title of a session before its role is known to be who it says.
var enteringTitle = regexp.MustCompile(`^postgres: .*\b(?:authentication|initializing)[ \x00]*$`)

// receiverTitle is the title of a receiver, after the name of the server. Names of roles and databases come later.
var receiverTitle = regexp.MustCompile(`^postgres: (?:[^ ]+: )?walreceiver(?:[ \x00]|$)`)

// isChild reads "pid (name) state parent …". The name may hold anything, so its end is the last bracket.
func isChild(pid string, parent int) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false // It has ended since the table was read.
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > 1 && string(fields[1]) == strconv.Itoa(parent)
}
