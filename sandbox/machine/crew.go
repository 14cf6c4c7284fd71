package machine

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// restartDelay keeps a service that dies at once from filling the machine with its attempts.
const restartDelay = time.Second

// State is what is known of one service.
type State struct {
	Name     string `json:"name"`
	PID      int    `json:"pid"`
	Running  bool   `json:"running"`
	Ready    bool   `json:"ready"`
	Held     bool   `json:"held"`
	Restarts int    `json:"restarts"`
	LastExit string `json:"lastExit,omitempty"`
}

// crew is the set of services of a running machine.
type crew struct {
	spec Spec

	mu     sync.Mutex
	states map[string]*State
}

func newCrew(spec Spec) *crew {
	c := &crew{spec: spec, states: map[string]*State{}}
	for _, service := range spec.Services {
		c.states[service.Name] = &State{Name: service.Name}
	}
	return c
}

// startAll starts the services in order, each when the one before is ready.
func (c *crew) startAll() {
	for _, service := range c.spec.Services {
		c.start(service)
		c.awaitReady(service)
	}
}

// start starts the service unless it runs or is held. The lock is kept until its process id is noted, so that the
// reaper cannot meet a child that it does not know yet.
func (c *crew) start(service Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.states[service.Name]
	if state.Running || state.Held {
		return
	}
	process, err := c.spawn(service)
	if err != nil {
		state.LastExit = err.Error()
		c.startLater(service)
		return
	}
	state.PID, state.Running = process.Pid, true
	_ = process.Release() // The reaper collects the exit status of every child, also of orphans.
}

func (c *crew) startLater(service Service) {
	time.AfterFunc(restartDelay, func() { c.start(service) })
}

func (c *crew) spawn(service Service) (*os.Process, error) {
	log, err := os.OpenFile(c.spec.logFile(service.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", service.Name, err)
	}
	defer func() { _ = log.Close() }()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer func() { _ = null.Close() }()
	// The first mention of a variable counts, so the service's own come first.
	return os.StartProcess(service.Path, append([]string{service.Path}, service.Args...), &os.ProcAttr{
		Dir: "/", Env: append(slices.Clone(service.Env), os.Environ()...), Files: []*os.File{null, log, log},
	})
}

// reap collects every child that ended, which as PID 1 includes all orphans of the machine, and restarts services.
// It holds the lock while it collects, so that whoever holds the lock may trust a process id in a state to be still
// its own.
func (c *crew) reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	for range ended { // Signals coalesce: one may stand for many children.
		c.mu.Lock()
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			c.note(pid, status)
		}
		c.mu.Unlock()
	}
}

// note records the end of a child; the caller holds the lock.
func (c *crew) note(pid int, status unix.WaitStatus) {
	for _, service := range c.spec.Services {
		state := c.states[service.Name]
		if state.PID != pid || !state.Running {
			continue
		}
		state.PID, state.Running = 0, false
		state.LastExit = describe(status)
		if !state.Held {
			state.Restarts++
			c.startLater(service)
		}
	}
}

func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}

// awaitReady waits until the service's check says yes. A held service is not waited for.
func (c *crew) awaitReady(service Service) {
	for ; ; time.Sleep(50 * time.Millisecond) {
		if state := c.look(service); state.Ready || state.Held {
			return
		}
	}
}

// hold kills the service, if it runs, and keeps it down until release. It returns when the process has ended.
func (c *crew) hold(service Service) {
	c.mu.Lock()
	state := c.states[service.Name]
	state.Held = true
	if state.Running {
		_ = unix.Kill(state.PID, unix.SIGKILL)
	}
	c.mu.Unlock()
	for c.look(service).Running {
		time.Sleep(time.Millisecond)
	}
}

// release lets a held service run again and starts it.
func (c *crew) release(service Service) {
	c.mu.Lock()
	c.states[service.Name].Held = false
	c.mu.Unlock()
	c.start(service)
}

// kill ends the service once; it is restarted as after any death.
func (c *crew) kill(service Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state := c.states[service.Name]; state.Running {
		_ = unix.Kill(state.PID, unix.SIGKILL)
	}
}

// look returns the state of a service as of now. The check is asked without the lock, for it may take a while.
func (c *crew) look(service Service) State {
	ready := service.Ready == nil || service.Ready.passes()
	c.mu.Lock()
	defer c.mu.Unlock()
	state := *c.states[service.Name]
	state.Ready = state.Running && ready
	return state
}

// list returns the states in the order of the services.
func (c *crew) list() []State {
	var states []State
	for _, service := range c.spec.Services {
		states = append(states, c.look(service))
	}
	return states
}
