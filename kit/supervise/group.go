//go:build linux

package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// killPatience bounds how long Kill waits for processes that the kernel does not let go, such as those that wait for
// a dead disk.
const killPatience = 10 * time.Second

// Kill kills the process, all its descendants and all orphans, and returns when none of them is left. The process
// itself goes first: it must not replace children while they are being killed.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrEnded) {
		return err
	}
	deadline := time.Now().Add(killPatience)
	for {
		left, err := p.Group()
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			// It may have ended since; whether it did shows on the next look.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("kill the group of process %d: %d processes do not end, the first is %d",
				p.pid, len(left), left[0])
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Group returns what lives of the process, its descendants and the orphans of this program, in the order of their
// numbers. Processes that have ended and wait to be reaped do not count.
func (p *Process) Group() ([]int, error) {
	entries, err := readProcesses()
	if err != nil {
		return nil, err
	}
	p.supervisor.mutex.Lock()
	others := map[int]bool{}
	for pid, child := range p.supervisor.children {
		if child != p {
			others[pid] = true
		}
	}
	p.supervisor.mutex.Unlock()
	return groupOf(p.pid, os.Getpid(), entries, others), nil
}

// entry is one line of the process table.
type entry struct {
	pid, parent int
	ended       bool
}

// groupOf finds the members: the process, whatever of our children is not one that was started for something else,
// and what descends from these. A process that has ended still ties its children to the group until they are moved.
func groupOf(pid, self int, entries []entry, others map[int]bool) []int {
	member := map[int]bool{pid: true}
	for grown := true; grown; {
		grown = false
		for _, e := range entries {
			orphan := e.parent == self && !others[e.pid]
			if !member[e.pid] && e.pid != self && (orphan || member[e.parent]) {
				member[e.pid], grown = true, true
			}
		}
	}
	var living []int
	for _, e := range entries {
		if member[e.pid] && !e.ended {
			living = append(living, e.pid)
		}
	}
	return living
}

func readProcesses() ([]entry, error) {
	folder, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	var entries []entry
	for _, item := range folder {
		pid, err := strconv.Atoi(item.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + item.Name() + "/stat")
		if err != nil {
			continue // It has ended since the folder was read.
		}
		if parsed, ok := parseStat(pid, stat); ok {
			entries = append(entries, parsed)
		}
	}
	return entries, nil
}

// parseStat reads "pid (name) state parent …". The name may hold anything, also brackets, so its end is the last one.
func parseStat(pid int, stat []byte) (entry, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return entry{}, false
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return entry{}, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return entry{}, false
	}
	state := fields[0][0]
	return entry{pid: pid, parent: parent, ended: state == 'Z' || state == 'X'}, true
}
