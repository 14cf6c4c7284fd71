package act

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"meridian.dev/meridian/internal/postgres"
)

// Jobs are what takes long and goes on beside the passes, so that a pass never waits: at most one of each kind.
type Jobs struct {
	Clock postgres.Clock
	// Ended is told of each that has ended, from another goroutine.
	Ended func()
	// Go runs a job beside everything else; nil for a goroutine.
	Go func(func())

	mutex sync.Mutex
	jobs  map[postgres.JobKind]*job
	done  sync.WaitGroup
}

type job struct {
	postgres.Job
	cancel context.CancelFunc
}

// Begin begins a job, unless one of its kind goes on.
func (j *Jobs) Begin(kind postgres.JobKind, purpose string, work func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	begun := j.enter(kind, purpose, cancel)
	if begun == nil {
		cancel()
		return
	}
	run := func() {
		defer j.done.Done()
		defer cancel()
		j.end(begun, work(ctx))
	}
	if j.Go != nil {
		j.Go(run)
		return
	}
	go run()
}

func (j *Jobs) enter(kind postgres.JobKind, purpose string, cancel context.CancelFunc) *job {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	current := j.jobs[kind]
	if current != nil && current.Running {
		return nil
	}
	if current == nil || current.For != purpose {
		current = &job{Job: postgres.Job{Kind: kind, For: purpose}}
	}
	if j.jobs == nil {
		j.jobs = map[postgres.JobKind]*job{}
	}
	j.jobs[kind] = current
	current.Running, current.cancel = true, cancel
	current.Began, current.Done, current.Total, current.LSN, current.Step = j.Clock.Now(), 0, 0, 0, ""
	j.done.Add(1)
	return current
}

func (j *Jobs) end(ended *job, err error) {
	j.mutex.Lock()
	ended.Running, ended.Ended, ended.Problem = false, j.Clock.Now(), ""
	ended.Early, ended.Vain = errors.Is(err, postgres.ErrEarly), errors.Is(err, postgres.ErrVain)
	refused, _ := errors.AsType[*postgres.RestoreError](err)
	ended.Refused, ended.Outside = refused != nil, refused != nil && refused.Outside
	_, ended.NotYet = errors.AsType[*postgres.NotYetError](err)
	if err != nil {
		ended.Failures++
		ended.Problem = err.Error()
	} else {
		ended.Failures = 0
	}
	j.mutex.Unlock()
	if j.Ended != nil {
		j.Ended()
	}
}

// Progress notes how far a job has come that goes on.
func (j *Jobs) Progress(kind postgres.JobKind, done, total int64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if current := j.jobs[kind]; current != nil && current.Running {
		current.Done, current.Total = done, total
	}
}

// Step notes what a job does that goes on.
func (j *Jobs) Step(kind postgres.JobKind, step string) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if current := j.jobs[kind]; current != nil && current.Running {
		current.Step = step
	}
}

// Reached notes where a job that goes on has come to in the WAL.
func (j *Jobs) Reached(kind postgres.JobKind, lsn uint64) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if current := j.jobs[kind]; current != nil && current.Running {
		current.LSN = lsn
	}
}

// GiveUp ends a job that is not wanted any more. It is over when Look says so.
func (j *Jobs) GiveUp(kind postgres.JobKind) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if current := j.jobs[kind]; current != nil && current.Running {
		current.cancel()
	}
}

// Look returns all that were ever begun, by kind.
func (j *Jobs) Look() []postgres.Job {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	var all []postgres.Job
	for _, current := range j.jobs {
		all = append(all, current.Job)
	}
	slices.SortFunc(all, func(a, b postgres.Job) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	return all
}

// Close gives up all, and waits for them.
func (j *Jobs) Close() {
	j.mutex.Lock()
	for _, current := range j.jobs {
		if current.Running {
			current.cancel()
		}
	}
	j.mutex.Unlock()
	j.done.Wait()
}
