package agent

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/call"
	"meridian.dev/meridian/kit/lease"
)

// leases is the lease of the database at a real API server. It implements tenure.Leases.
type leases struct {
	client *lease.Client
	clock  tenure.Clock
	tell   func(tenure.Event)

	mutex sync.Mutex
	seen  lease.Lease // The newest object that was seen: a write starts from it.
}

// watch tells of changes until the context ends.
func (l *leases) watch(ctx context.Context) {
	l.client.Watch(ctx, func(event lease.Event) {
		switch {
		case event.Problem != nil:
		case event.Deleted:
			// A consistent read shows what is there now.
			l.Read(l.clock.Now())
		default:
			l.keep(event.Lease)
			l.tell(tenure.LeaseWatched{View: ViewOf(event.Lease)})
		}
	})
}

// Read implements tenure.Leases.
func (l *leases) Read(began tenure.Instant) {
	go func() {
		view, err := l.Get(context.Background())
		l.tell(tenure.LeaseRead{View: view, Began: began, Problem: err})
	}()
}

// Get implements tenure.Leases. That there is no lease is an answer too.
func (l *leases) Get(ctx context.Context) (tenure.View, error) {
	read, err := l.client.Get(ctx)
	switch {
	case call.CodeOf(err) == http.StatusNotFound:
		return tenure.View{}, nil
	case err != nil:
		return tenure.View{}, err
	}
	l.keep(read)
	return ViewOf(read), nil
}

// Write implements tenure.Leases.
func (l *leases) Write(write tenure.Write) {
	go func() {
		written, err := l.write(context.Background(), write)
		l.tell(tenure.LeaseWritten{Verdict: verdictOf(err), View: written})
	}()
}

func (l *leases) write(ctx context.Context, write tenure.Write) (tenure.View, error) {
	document, err := write.Record.Encode()
	if err != nil {
		return tenure.View{}, &call.Error{Outcome: call.Refused, Cause: err}
	}
	base, err := l.base(ctx, write.Version)
	if err != nil {
		return tenure.View{}, err
	}
	client := *l.client
	client.Duration = write.Duration
	change := lease.Change{Holder: write.Holder.String(), Transitions: write.Record.Term, Document: document}
	if write.Kind == tenure.WriteSucceed || write.Kind == tenure.WriteRestore {
		change.Drop = []string{wire.AnnotationGivenUp} // It was a word about the lease before.
	}
	written, err := client.Update(ctx, base, change)
	if err != nil {
		return tenure.View{}, err
	}
	l.keep(written)
	return ViewOf(written), nil
}

// base is the object at the version that a write demands.
func (l *leases) base(ctx context.Context, version string) (lease.Lease, error) {
	l.mutex.Lock()
	seen := l.seen
	l.mutex.Unlock()
	if seen.Version == version {
		return seen, nil
	}
	read, err := l.client.Get(ctx)
	if err != nil {
		// Nothing was written, whatever became of the read.
		return lease.Lease{}, &call.Error{Outcome: call.Refused, Code: call.CodeOf(err), Cause: err}
	}
	if read.Version != version {
		return lease.Lease{}, &call.Error{
			Outcome: call.Refused, Code: http.StatusConflict, Cause: fmt.Errorf("the lease has version %s", read.Version),
		}
	}
	return read, nil
}

func (l *leases) keep(seen lease.Lease) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	// The same version may come with another text, where versions were counted anew.
	if l.seen.UID != seen.UID || !tenure.Newer(l.seen.Version, seen.Version) {
		l.seen = seen
	}
}

// ViewOf reads the lease as the agents wrote it.
func ViewOf(seen lease.Lease) tenure.View {
	view := tenure.View{
		UID: seen.UID, Version: seen.Version, Holder: wire.ParseMember(seen.Holder), Term: seen.Transitions,
		Duration: seen.Duration, Succeeds: seen.Annotations[wire.AnnotationSucceeds],
		Before:  wire.ParseLost(seen.Annotations[wire.AnnotationLostBefore]),
		GivenUp: wire.ParseMembers(seen.Annotations[wire.AnnotationGivenUp]),
	}
	if seen.Document == "" {
		if seen.Transitions > 0 || seen.Holder != "" {
			view.Problem = "the lease was held, and has no record"
		}
		return view
	}
	record, err := wire.DecodeLeaseRecord(seen.Document)
	switch {
	case err != nil:
		view.Problem = err.Error()
	case record.Term != seen.Transitions:
		view.Problem = fmt.Sprintf("the record is of term %d, and the lease is at %d", record.Term, seen.Transitions)
	default:
		view.Record = &record
	}
	return view
}

func verdictOf(err error) tenure.Verdict {
	switch code := call.CodeOf(err); {
	case err == nil:
		return tenure.WriteDone
	case call.OutcomeOf(err) == call.Unknown:
		return tenure.WriteUnknown
	case code == http.StatusConflict, code == http.StatusNotFound:
		return tenure.WriteConflict
	}
	return tenure.WriteRefused
}
