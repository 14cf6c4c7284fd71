package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Frame is one message of a watch: ADDED, MODIFIED or DELETED, with the object as it is, or was last.
type Frame struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// Watch is a wish to be told of changes.
type Watch struct {
	// Path is that of a list, with a query that selects and asks for a watch.
	Path string
	// Each is told of every frame, first of what is there. It returns how long the silence after it may last before the
	// connection counts as lost, 0 for ever: then only a connection that is seen to be dead ends it.
	Each func(Frame) (time.Duration, error)
	// Lost is told why the watch has ended. It begins again by itself, and tells of what is there anew: what changed in
	// between is not told step by step.
	Lost func(error)
	// Silence is how long the first frame may take, 0 for ever.
	Silence time.Duration
}

// Pauses before a watch begins again.
const (
	shortestPause = 200 * time.Millisecond
	longestPause  = 5 * time.Second
)

var errSilent = errors.New("it says nothing any more")

// Watch keeps the watch until the context ends.
func (s *Server) Watch(ctx context.Context, watch Watch) {
	for pause := shortestPause; ; {
		began := time.Now()
		err := s.watch(ctx, watch)
		if ctx.Err() != nil {
			return
		}
		watch.Lost(err)
		if time.Since(began) > longestPause {
			pause = shortestPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
}

// watch is one watch to its end.
func (s *Server) watch(ctx context.Context, watch Watch) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(time.Hour, func() { cancel(errSilent) })
	defer silence.Stop()
	expect(silence, watch.Silence)
	body, err := s.Stream(ctx, Request{Method: http.MethodGet, Path: watch.Path})
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	for decoder := json.NewDecoder(body); ; {
		var frame Frame
		if err := decoder.Decode(&frame); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		switch frame.Type {
		case "ADDED", "MODIFIED", "DELETED":
			quiet, err := watch.Each(frame)
			if err != nil {
				return err
			}
			expect(silence, quiet)
		case "ERROR":
			return fmt.Errorf("the server ends the watch: %s", frame.Object)
		}
	}
}

// expect lets the timer run from now on, or not at all.
func expect(silence *time.Timer, within time.Duration) {
	if within > 0 {
		silence.Reset(within)
		return
	}
	silence.Stop()
}
