// Package model is a store for simulations: it keeps objects in memory, by a clock that the simulation turns, and does
// what real stores do at their worst. It is as deterministic as the faults that it is given.
//
// Start reading at Store. Fidelity to the drivers is tried in internal/backup/store.
package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/backup/store"
)

// Fault is what happens to one call.
type Fault string

// The faults that a call can meet.
const (
	None Fault = ""
	// Lost does the call, and its answer does not arrive.
	Lost Fault = "lost"
	// Late fails the call, and does it when Settle is called.
	Late Fault = "late"
	// Refused does nothing.
	Refused Fault = "refused"
	// Denied refuses the credentials.
	Denied Fault = "denied"
	// Old lists what was there when Remember was called last.
	Old Fault = "old"
	// Missed does not find an object that is there, as a name server or a proxy can make it look.
	Missed Fault = "missed"
)

// Store is a store in memory. It is not safe for use by several goroutines: a simulation has one.
type Store struct {
	// Now is the clock of the store.
	Now func() time.Time
	// Fault chooses what happens to a call such as "put" of a name. Nil: nothing does.
	Fault func(call, name string) Fault
	// IgnoreCondition makes it a store that overwrites.
	IgnoreCondition bool
	// Locked refuses to delete an object.
	Locked func(name string) bool
	// PageSize is how many objects a page has, 1000 if it is 0.
	PageSize int

	objects map[string]object
	old     map[string]object
	late    []func()
}

type object struct {
	content []byte
	at      time.Time
}

var _ store.Store = (*Store)(nil)

var errFault = errors.New("simulated")

func (s *Store) fault(call, name string) Fault {
	if s.objects == nil {
		s.objects = map[string]object{}
	}
	if s.Fault == nil {
		return None
	}
	return s.Fault(call, name)
}

// do carries out a write with its fault.
func (s *Store) do(call, name string, write func() error) error {
	doing := call + " " + name
	switch fault := s.fault(call, name); fault {
	case Lost:
		_ = write()
		return &store.Error{Class: store.Away, Doing: doing, Err: errFault}
	case Late:
		s.late = append(s.late, func() { _ = write() })
		return &store.Error{Class: store.Away, Doing: doing, Err: errFault}
	case Refused, Old:
		return &store.Error{Class: store.Away, Doing: doing, Err: errFault}
	case Missed:
		return &store.Error{Class: store.NotFound, Doing: doing, Err: errFault}
	case Denied:
		return &store.Error{Class: store.CredentialsRefused, Doing: doing, Err: errFault}
	case None:
	}
	return write()
}

// Settle does the writes that were late, in their order.
func (s *Store) Settle() {
	late := s.late
	s.late = nil
	for _, write := range late {
		write()
	}
}

// Remember keeps what is there now for listings of the past.
func (s *Store) Remember() {
	s.old = map[string]object{}
	for name, object := range s.objects {
		s.old[name] = object
	}
}

// PutIfAbsent implements store.Store.
func (s *Store) PutIfAbsent(_ context.Context, name string, content io.Reader) error {
	body, err := io.ReadAll(content)
	if err != nil {
		return &store.Error{Class: store.Away, Doing: "put " + name, Err: err}
	}
	return s.do("put", name, func() error {
		if _, exists := s.objects[name]; exists && !s.IgnoreCondition {
			return &store.Error{Class: store.Exists, Doing: "put " + name}
		}
		s.objects[name] = object{content: body, at: s.Now()}
		return nil
	})
}

// find is what Get and Head have in common.
func (s *Store) find(call, name string) (object, error) {
	var found object
	err := s.do(call, name, func() error {
		var exists bool
		if found, exists = s.objects[name]; !exists {
			return &store.Error{Class: store.NotFound, Doing: call + " " + name}
		}
		return nil
	})
	return found, err
}

// Get implements store.Store.
func (s *Store) Get(_ context.Context, name string) (io.ReadCloser, error) {
	found, err := s.find("get", name)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(found.content)), nil
}

// Head implements store.Store.
func (s *Store) Head(_ context.Context, name string) (store.Object, error) {
	found, err := s.find("head", name)
	if err != nil {
		return store.Object{}, err
	}
	return store.Object{Name: name, Size: int64(len(found.content)), At: found.at}, nil
}

// List implements store.Store. The token is the last name of the page before.
func (s *Store) List(_ context.Context, prefix, token string) (store.Page, error) {
	objects := s.objects
	switch fault := s.fault("list", prefix); fault {
	case Old:
		objects = s.old
	case Denied:
		return store.Page{}, &store.Error{Class: store.CredentialsRefused, Doing: "list " + prefix, Err: errFault}
	case Lost, Late, Refused, Missed:
		return store.Page{}, &store.Error{Class: store.Away, Doing: "list " + prefix, Err: errFault}
	case None:
		objects = s.objects
	}
	var page store.Page
	for name, object := range objects {
		if strings.HasPrefix(name, prefix) && name > token {
			page.Objects = append(page.Objects, store.Object{Name: name, Size: int64(len(object.content)), At: object.at})
		}
	}
	slices.SortFunc(page.Objects, func(a, b store.Object) int { return strings.Compare(a.Name, b.Name) })
	size := s.PageSize
	if size == 0 {
		size = 1000
	}
	if len(page.Objects) > size {
		page.Objects = page.Objects[:size]
		page.Next = page.Objects[size-1].Name
	}
	return page, nil
}

// Delete implements store.Store.
func (s *Store) Delete(_ context.Context, name string) error {
	return s.do("delete", name, func() error {
		if s.Locked != nil && s.Locked(name) {
			return &store.Error{Class: store.Locked, Doing: "delete " + name, Err: errFault}
		}
		delete(s.objects, name)
		return nil
	})
}
