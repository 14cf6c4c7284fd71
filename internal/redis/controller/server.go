package controller

import (
	"context"
	"fmt"
	"time"

	"meridian.dev/meridian/internal/redis/observe"
	"meridian.dev/meridian/internal/tenure"
)

var _ tenure.Server = (*Loop)(nil)

// fencePatience bounds a fence.
const fencePatience = time.Second

// Facts implements tenure.Server.
func (l *Loop) Facts() tenure.Engine {
	if facts := l.engine.Load(); facts != nil {
		return *facts
	}
	return tenure.Engine{}
}

// Changed has a token whenever there are new facts.
func (l *Loop) Changed() <-chan struct{} { return l.changed }

// Wake asks for a pass before the next is due. It may be called from any goroutine.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default: // A pass is due already.
	}
}

// Ask takes a request to empty the cache.
func (l *Loop) Ask(flush string) {
	l.Observer.Track.Ask(flush)
	l.Wake()
}

// Obey implements tenure.Server. It gives up the pass that goes on. What makes the server follow or lead goes through
// the authority, which refuses it under an older standing; nothing else that may be under way lets it do either.
func (l *Loop) Obey(standing tenure.Standing) {
	l.mutex.Lock()
	l.standing = standing
	if l.cancel != nil {
		l.cancel()
	}
	l.mutex.Unlock()
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
	return ctx, observe.Told{Standing: l.standing, Fenced: l.fenced}
}

// Kill implements tenure.Server.
func (l *Loop) Kill() {
	if err := l.Actor.Runner.Kill(); err != nil {
		l.Log.Error(err, "killing the server")
	}
	l.Wake()
}

// Fence implements tenure.Server. The caller holds the lock of the authority, so that the server is not told to follow
// anybody meanwhile.
func (l *Loop) Fence(ctx context.Context) (tenure.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	l.mutex.Lock()
	l.fenced = l.standing.Serial
	l.mutex.Unlock()
	defer l.Wake()
	position, err := l.Observer.Track.Fence(ctx, l.Actor.Link, l.Observer.Clock)
	if err != nil {
		return tenure.Position{}, fmt.Errorf("fence: %w", err)
	}
	return position, nil
}
