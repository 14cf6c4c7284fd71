package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/observe"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
)

var _ tenure.Server = (*Loop)(nil)

// fencePatience bounds a fence.
const fencePatience = time.Second

// errOutdated is what becomes of an act whose standing is not the present one any more.
var errOutdated = errors.New("another standing has come")

// Facts implements tenure.Server. Whether the server writes is known also while a pass is held up, as by a disk that
// stands still.
func (l *Loop) Facts() tenure.Engine {
	shown := l.engine.Load()
	if shown == nil {
		return tenure.Engine{}
	}
	facts := *shown
	if l.Instant != nil {
		facts.Hung, facts.Probed = l.ports.Probe.Hung(), l.Instant()
	}
	return facts
}

// Changed has a token whenever there are new facts.
func (l *Loop) Changed() <-chan struct{} { return l.changed }

// Obey implements tenure.Server. It gives up the pass that goes on, and waits for the short act that may be under way:
// it takes no longer than a write to the disk. Acts that go through the authority are stopped there.
func (l *Loop) Obey(standing tenure.Standing) {
	l.mutex.Lock()
	l.standing = standing
	if l.cancel != nil {
		l.cancel()
	}
	l.mutex.Unlock()
	l.turn.Lock()
	//nolint:staticcheck // Nothing is done under the lock: having had it says that nobody else does.
	l.turn.Unlock()
	l.Wake()
}

// begin takes the standing of a pass. Another standing ends the context.
func (l *Loop) begin(ctx context.Context) (context.Context, observe.Told) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.cancel != nil {
		l.cancel()
	}
	ctx, l.cancel = context.WithCancel(ctx)
	return ctx, observe.Told{Standing: l.standing, Fenced: l.fenced, Jobs: l.jobs.Look()}
}

// takeTurn runs a short act of a standing, if that is still the present one.
func (l *Loop) takeTurn(serial uint64, act func() error) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mutex.Lock()
	present := l.standing.Serial
	l.mutex.Unlock()
	if present != serial {
		return errOutdated
	}
	return act()
}

func (l *Loop) isFenced(serial uint64) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return serial <= l.fenced
}

// Kill implements tenure.Server.
func (l *Loop) Kill() {
	if err := l.ports.Runner.Kill(); err != nil {
		l.Log.Error(err, "killing the server")
	}
	l.Wake()
}

// Fence implements tenure.Server. The caller holds the lock of the authority, so that no act that connects to another
// server is under way.
func (l *Loop) Fence(ctx context.Context) (tenure.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	l.mutex.Lock()
	l.fenced = l.standing.Serial
	l.mutex.Unlock()
	defer l.Wake()
	type answer struct {
		position tenure.Position
		err      error
	}
	// The disk may stand still: then there is no answer.
	answered := make(chan answer, 1)
	go func() {
		position, err := l.fence(ctx)
		answered <- answer{position, err}
	}()
	select {
	case <-ctx.Done():
		return tenure.Position{}, fmt.Errorf("fence: %w", ctx.Err())
	case given := <-answered:
		if given.err != nil {
			return tenure.Position{}, fmt.Errorf("fence: %w", given.err)
		}
		return given.position, nil
	}
}

// fence goes in this order: nothing new is let in by another server, nobody is followed, no receiver is left, and only
// then the end of the log is looked for (F1, I3).
func (l *Loop) fence(ctx context.Context) (tenure.Position, error) {
	record, replica, err := l.ports.Disk.Marked()
	switch {
	case err != nil:
		return tenure.Position{}, err
	case !record.Whole():
		return tenure.Position{}, errors.New("there is no whole copy here")
	}
	process := l.ports.Runner.Look()
	switch {
	case process.Running && !replica:
		return tenure.Position{}, errors.New("the server is a primary")
	case process.Leftover > 0:
		return tenure.Position{}, errors.New("processes of a server that has ended still live")
	}
	if err := l.cut(ctx, process); err != nil {
		return tenure.Position{}, err
	}
	return l.ports.Disk.Position(l.replayed.Load())
}

func (l *Loop) cut(ctx context.Context, process postgres.Process) error {
	if err := l.ports.Mounts.TakeKeysBack(); err != nil {
		return err
	}
	if err := l.ports.Disk.Upstream(render.Alone()); err != nil {
		return err
	}
	if !process.Running {
		return nil
	}
	if err := l.ports.Runner.Reload(); err != nil {
		return err
	}
	return l.ports.Runner.EndReceiver(ctx)
}
