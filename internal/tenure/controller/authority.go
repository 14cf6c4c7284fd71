package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// grant is what the loop has last let the server have. It is made anew with each change and never changed.
type grant struct {
	standing tenure.Standing
	self     wire.Member
	leaseUID string
	// term and until are the right to lead, as the watchdog knows it.
	term  int64
	until tenure.Instant
	// at is a moment after which no jump of the wall clock was taken off until yet.
	at tenure.Instant
	// places are what members have told of how far they have come.
	places []tenure.Place
}

// errReplaced is what whoever acts by an older standing gets.
var errReplaced = errors.New("the standing was replaced")

// publish makes the grant of what the state says now. A right that the watchdog does not know of is none (C2).
func (l *Loop) publish(state *tenure.State) {
	snapshot := l.last
	snapshot.Memory, snapshot.Stored = state.Memory, state.Stored
	snapshot.Now = l.ports.Clock.Now()
	snapshot.Jumps = l.ports.Clock.Jumps() // After the moment: what is seen later than these is later than it.
	term, until := snapshot.Deadline()
	l.grant.Store(&grant{
		standing: state.Memory.Standing, self: snapshot.Self(), leaseUID: state.Stored.LeaseUID,
		term: term, until: min(until, l.ports.Watchdog.Look().Until), at: snapshot.Now,
		places: state.Memory.Places,
	})
}

// current returns the grant if it is by the standing with this number.
func (l *Loop) current(serial uint64) (*grant, error) {
	given := l.grant.Load()
	if given == nil || given.standing.Serial != serial {
		return nil, errReplaced
	}
	return given, nil
}

// MayLead implements tenure.Authority.
func (l *Loop) MayLead(serial uint64) error {
	given, err := l.current(serial)
	if err != nil {
		return err
	}
	until := given.until.Add(-l.ports.Clock.Jumps().Since(given.at))
	now := l.ports.Clock.Now()
	switch {
	case given.standing.Role != tenure.RoleLead:
		return fmt.Errorf("tenure.lead-only-by-right: the standing is %s", given.standing.Role)
	case given.term != given.standing.Term:
		return fmt.Errorf("tenure.lead-only-by-right: "+
			"the right to lead is for term %d, and the standing for %d", given.term, given.standing.Term)
	case now >= until:
		return fmt.Errorf("tenure.stop-at-the-deadline: the deadline was %s ago", now.Since(until))
	case !l.ports.Watchdog.Look().Alive:
		return errors.New("tenure.stop-at-the-deadline: the watchdog is gone")
	}
	return nil
}

// Confirm implements tenure.Authority.
func (l *Loop) Confirm(ctx context.Context, serial uint64) error {
	given, err := l.current(serial)
	if err != nil {
		return err
	}
	view, err := l.ports.Leases.Get(ctx)
	if err != nil {
		return fmt.Errorf("read the lease: %w", err)
	}
	holder := given.standing.Upstream
	if given.standing.Role == tenure.RoleLead {
		holder = given.self
	}
	switch {
	case view.UID == "" || view.UID != given.leaseUID:
		return fmt.Errorf("the lease with UID %q is not there", given.leaseUID)
	case view.Holder != holder || holder == wire.Member{}:
		return fmt.Errorf("the lease is held by %q, not by %q", view.Holder, holder)
	case view.Term != given.standing.Term:
		return fmt.Errorf("the lease is at term %d, not at %d", view.Term, given.standing.Term)
	}
	_, err = l.current(serial)
	return err
}

// Exclude implements tenure.Authority.
func (l *Loop) Exclude(serial uint64, act func() error) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if _, err := l.current(serial); err != nil {
		return err
	}
	return act()
}

// placeLasts is how long the word of a member counts that it has a copy which has come so far.
const placeLasts = 5 * time.Second

// Places implements tenure.Authority.
func (l *Loop) Places() []tenure.Place {
	given := l.grant.Load()
	if given == nil {
		return nil
	}
	now := l.ports.Clock.Now()
	return slices.DeleteFunc(slices.Clone(given.places), func(place tenure.Place) bool {
		return now.Since(place.At) > placeLasts
	})
}

func (l *Loop) exclusive(act func()) {
	l.lock.Lock()
	defer l.lock.Unlock()
	act()
}

// Leads says whether this instance leads at a term, by what the watchdog knows too. It may be asked by many at once.
func (l *Loop) Leads(term int64) bool {
	given := l.grant.Load()
	return given != nil && given.term == term && l.MayLead(given.standing.Serial) == nil
}
