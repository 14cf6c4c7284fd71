package lease

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"meridian.dev/meridian/kit/call"
)

// Client reads and writes one lease. It may be used by many at once.
type Client struct {
	Server          *call.Server
	Namespace, Name string
	// Annotation is where the document is.
	Annotation string
	// Duration is how long the lease lasts by a write of this client. It is written in whole seconds, rounded up.
	Duration time.Duration
	// Now is the wall clock, for the same people.
	Now func() time.Time
}

func (c *Client) folder() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(c.Namespace) + "/leases"
}

func (c *Client) path() string { return c.folder() + "/" + url.PathEscape(c.Name) }

// Get is a consistent read. That there is no such lease is an error with the code 404.
func (c *Client) Get(ctx context.Context) (Lease, error) {
	// Without a resourceVersion, the answer never comes from a cache that may lag.
	body, err := c.Server.Do(ctx, call.Request{Method: http.MethodGet, Path: c.path()})
	if err != nil {
		return Lease{}, fmt.Errorf("read lease %s: %w", c.Name, err)
	}
	return decode(body, c.Annotation)
}

// Update writes the change if the lease still has the version of the one that was read, and returns what it is then. An
// error has an outcome; that the version is another one has the code 409.
func (c *Client) Update(ctx context.Context, read Lease, change Change) (Lease, error) {
	document, err := read.encode(change, c.Annotation, c.Duration, c.Now())
	if err != nil {
		return Lease{}, fmt.Errorf("write lease %s: %w", c.Name, &call.Error{Outcome: call.Refused, Cause: err})
	}
	body, err := c.Server.Do(ctx, call.Request{Method: http.MethodPut, Path: c.path(), Body: document})
	if err != nil {
		return Lease{}, fmt.Errorf("write lease %s: %w", c.Name, err)
	}
	written, err := decode(body, c.Annotation)
	if err != nil {
		// It was done, but as what nobody can say.
		return Lease{}, fmt.Errorf("write lease %s: %w", c.Name, &call.Error{Outcome: call.Unknown, Cause: err})
	}
	return written, nil
}

// Event is what a watch tells of.
type Event struct {
	Lease Lease
	// Deleted says that the lease is gone, as it was last.
	Deleted bool
	// Problem is why the watch has ended. It begins again by itself.
	Problem error
}

// Watch tells of the lease as it is and of each change, until the context ends. When the connection is lost it begins
// again, and tells of the lease anew: what changed in between is not told step by step. A connection that says nothing
// for half the duration of the lease counts as lost: a holder would have renewed it by then, and whoever takes the
// silence of a dead connection for that of the holder waits twice as long for its end.
func (c *Client) Watch(ctx context.Context, tell func(Event)) {
	query := url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=" + c.Name}}
	c.Server.Watch(ctx, call.Watch{
		Path: c.folder() + "?" + query.Encode(), Silence: c.Duration / 2,
		Each: func(frame call.Frame) (time.Duration, error) {
			seen, err := decode(frame.Object, c.Annotation)
			if err != nil {
				return 0, err
			}
			tell(Event{Lease: seen, Deleted: frame.Type == "DELETED"})
			return max(c.Duration, seen.Duration) / 2, nil
		},
		Lost: func(err error) { tell(Event{Problem: fmt.Errorf("watch lease %s: %w", c.Name, err)}) },
	})
}
