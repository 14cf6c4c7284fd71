package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// Runner is the server's process.
type Runner struct {
	Supervisor *supervise.Supervisor
	// Runtime is the folder of the socket, the configuration file and the certificate.
	Runtime string
	Port    int
	// Listen is at which address the server listens, empty for all.
	Listen string
	// Secret is how the agent logs in.
	Secret *Secret
	Env    []string
	// Lines gets the log of the server.
	Lines func([]byte)
	// Patience is how long a stop may take before the server is killed. It has nothing to save.
	Patience time.Duration
	// Ended is called when the server has ended, from another goroutine.
	Ended func()
	// Instance is the name of this one, and Fresh makes a new id for a copy.
	Instance string
	Fresh    func() string

	mutex    sync.Mutex
	process  *supervise.Process
	start    redis.StartServer
	asked    bool // Whether the end of the process was asked for.
	counted  bool // Whether the end of the process was looked at.
	answered bool
	failures int
	ended    time.Time
	unfit    []wire.Parameter
	words    []string
}

const (
	// steady is how long a server must have run for its end not to count as a failure to start.
	steady = time.Minute
	// mostWords of the log are kept to tell why a server has ended.
	mostWords = 3
)

// Look implements redis.Runner.
func (r *Runner) Look() redis.Process {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.process == nil {
		return redis.Process{Incarnation: r.noted()}
	}
	facts := redis.Process{Incarnation: r.start.Incarnation, Fixed: r.start.Fixed, Unfit: r.unfit}
	exit, ended := r.process.Exit()
	if !ended {
		facts.Running, facts.Failures = true, r.failures
		return facts
	}
	if !r.counted {
		r.count()
	}
	facts.Failures, facts.Unfit, facts.Ended, facts.Exit = r.failures, r.unfit, r.ended, exit.String()
	facts.LastWords = strings.Join(r.words, "; ")
	// When the table cannot be read, the worst is assumed: the kill that follows reports the error.
	group, err := r.process.Group()
	if facts.Leftover = len(group); err != nil {
		facts.Leftover = 1
	}
	return facts
}

// noteFile tells which copy was started last in the life of the pod. After a restart of the agent it tells which one
// was lost with it: no process of a container outlives its first one.
const noteFile = "incarnation"

func (r *Runner) noted() string {
	content, err := os.ReadFile(filepath.Join(r.Runtime, noteFile))
	if err != nil {
		return "" // Nothing was started yet; or the others wait for the end of the lease.
	}
	return string(content)
}

// count judges an end. A server that has never answered and was given parameters of the user is not tried with the same
// ones again.
func (r *Runner) count() {
	r.counted, r.ended = true, time.Now()
	if r.asked || r.ended.Sub(r.process.Started()) > steady {
		r.failures = 0
	}
	if r.asked {
		return
	}
	r.failures++
	if !r.answered {
		r.unfit = append(r.unfit, r.start.Fixed...)
	}
}

// Answered notes that the server has come up.
func (r *Runner) Answered() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.answered = true
}

// Certificate is the one that the server was started with.
func (r *Runner) Certificate() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.start.Certificate
}

// Start implements redis.Runner.
func (r *Runner) Start(how redis.StartServer) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.process != nil {
		if _, ended := r.process.Exit(); !ended {
			return errors.New("start the server: it is running")
		}
	}
	if !slices.Contains(wire.Engines, how.Engine) {
		return fmt.Errorf("start the server: %q is unknown", how.Engine)
	}
	hash, err := r.Secret.Renew()
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	how.Incarnation = cmp.Or(how.Incarnation, r.Fresh())
	if err := replaceFile(filepath.Join(r.Runtime, noteFile), []byte(how.Incarnation)); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	file := filepath.Join(r.Runtime, render.ConfigFile)
	text := render.File(render.Input{
		Runtime: r.Runtime, Port: r.Port, Listen: r.Listen, AgentHash: hash, Start: how,
		Member: wire.Member{Name: r.Instance, Incarnation: how.Incarnation},
	})
	if err := replaceFile(file, []byte(text)); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	// A replica takes the data of its primary by way of a file, and a server that finds that file reads it: old data would
	// come back under the name of a new copy.
	data := filepath.Join(r.Runtime, render.DataFolder)
	if err := errors.Join(os.RemoveAll(data), os.Mkdir(data, 0o700)); err != nil {
		return fmt.Errorf("start the server with nothing: %w", err)
	}
	process, err := r.Supervisor.Start(supervise.Command{
		Path: how.Engine + "-server", Args: []string{file}, Env: r.Env, Dir: r.Runtime, Lines: r.line,
	})
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	r.process, r.start, r.words = process, how, nil
	r.asked, r.counted, r.answered = false, false, false
	go func() {
		<-process.Done()
		r.Ended()
	}()
	return nil
}

// line keeps the last of what the server says before it has answered: after that, tenants may have a hand in it.
func (r *Runner) line(line []byte) {
	r.mutex.Lock()
	if !r.answered && len(line) > 0 {
		r.words = append(r.words, ParseLogLine(line).Message)
		r.words = r.words[max(0, len(r.words)-mostWords):]
	}
	r.mutex.Unlock()
	r.Lines(line)
}

// Stop implements redis.Runner.
func (r *Runner) Stop(ctx context.Context) error {
	r.mutex.Lock()
	process := r.process
	r.asked = true
	r.mutex.Unlock()
	if process == nil {
		return nil
	}
	if _, err := process.Stop(ctx, supervise.Step{Signal: syscall.SIGTERM, For: r.Patience}); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	return nil
}

// Kill implements redis.Runner.
func (r *Runner) Kill() error {
	r.mutex.Lock()
	process := r.process
	r.asked = true
	r.mutex.Unlock()
	if process == nil {
		return nil
	}
	return process.Kill()
}

// KillLeftover implements redis.Runner.
func (r *Runner) KillLeftover() error {
	r.mutex.Lock()
	process := r.process
	r.mutex.Unlock()
	if process == nil {
		return nil
	}
	if _, ended := process.Exit(); !ended {
		return errors.New("kill what the server left: it is running")
	}
	return process.Kill()
}
