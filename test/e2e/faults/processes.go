// Package faults does to the processes of an instance what an unlucky day does: kills and freezes them. It finds them
// by the environment that the pod gives them, as the machine sees it from outside, and never by a name alone.
package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Instance are the processes of one instance.
type Instance struct {
	// Agent is the first process of the container.
	Agent int
	// Postmaster is the first process of the server, 0 if there is none.
	Postmaster int
	// Server are all processes of the server, Others all that are neither.
	Server, Others []int
}

// Find finds the processes of an instance by namespace and name.
func Find(namespace, name string) (Instance, error) {
	var found Instance
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return found, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		environment, err := os.ReadFile(filepath.Join(entry, "environ"))
		if err != nil || !has(environment, "MERIDIAN_INSTANCE="+name) || !has(environment, "POD_NAMESPACE="+namespace) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(entry, "cmdline"))
		if strings.Contains(string(command), "meridian\x00agent") {
			found.Agent = pid
		}
	}
	if found.Agent == 0 {
		return found, fmt.Errorf("find the agent of %s/%s: there is none", namespace, name)
	}
	found.descend(parents(entries))
	return found, nil
}

func has(environment []byte, variable string) bool {
	is := func(one []byte) bool { return string(one) == variable }
	return slices.ContainsFunc(bytes.Split(environment, []byte{0}), is)
}

// servers are the programs that answer applications.
var servers = []string{"postgres", "redis-server", "valkey-server"}

// descend sorts the descendants of the agent: the server clears its environment, so it is known by its parent.
func (i *Instance) descend(parent map[int]int) {
	for pid := range parent {
		if !below(pid, i.Agent, parent) {
			continue
		}
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if !slices.Contains(servers, strings.TrimSpace(string(comm))) {
			i.Others = append(i.Others, pid)
			continue
		}
		i.Server = append(i.Server, pid)
		if parent[pid] == i.Agent {
			i.Postmaster = pid
		}
	}
}

func below(pid, ancestor int, parent map[int]int) bool {
	for range 20 {
		up, known := parent[pid]
		if !known {
			return false
		}
		if up == ancestor {
			return true
		}
		pid = up
	}
	return false
}

func parents(entries []string) map[int]int {
	parent := map[int]int{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(entry, "stat"))
		if err != nil {
			continue
		}
		// The name stands in brackets and may contain anything.
		after := text[bytes.LastIndexByte(text, ')')+1:]
		fields := strings.Fields(string(after))
		pid, err := strconv.Atoi(filepath.Base(entry))
		up, err2 := strconv.Atoi(fields[1])
		if err == nil && err2 == nil {
			parent[pid] = up
		}
	}
	return parent
}

// All are all processes of the instance.
func (i Instance) All() []int { return append(append([]int{i.Agent}, i.Server...), i.Others...) }

// Signal sends a signal to processes. One that has ended in the meantime is no failure.
func Signal(signal syscall.Signal, pids ...int) error {
	var problems []error
	for _, pid := range pids {
		if pid <= 1 {
			problems = append(problems, fmt.Errorf("%d is no process of an instance", pid))
			continue
		}
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			problems = append(problems, fmt.Errorf("send %s to %d: %w", signal, pid, err))
		}
	}
	return errors.Join(problems...)
}
