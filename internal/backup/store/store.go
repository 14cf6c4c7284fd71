// Package store is what a repository of backups is kept in: objects with names that are written once, read, listed and
// deleted. There are drivers for a folder (here), for S3, GCS and Azure (cloud), and a model for simulations (model).
//
// A store decides nothing about backups. What it must do is little, and all of it is tried at the first contact: an
// object that exists is never written again (K1). Errors have a class, because a caller must tell "is not there" from
// "could not be asked" (K6). Start reading at Store; Contact is the trial.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Store keeps objects by name. A name is made of parts with slashes between them. An object appears as a whole or not
// at all, and outlives a loss of power once PutIfAbsent has returned.
type Store interface {
	// PutIfAbsent writes an object. It fails with Exists if there is one of that name, whose content stays. After any
	// other failure nobody knows whether the object is, or is yet to be, written: who needs to know asks again. An
	// error of the reader is returned, and nothing is written then.
	PutIfAbsent(ctx context.Context, name string, content io.Reader) error
	// Get reads an object. NotFound is a hint: IsAbsent proves it.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Head tells size and age without the content.
	Head(ctx context.Context, name string) (Object, error)
	// List tells a page of the objects whose names begin with the prefix, sorted by name. The first page has no token.
	List(ctx context.Context, prefix, token string) (Page, error)
	// Delete removes an object. One that is not there is no error.
	Delete(ctx context.Context, name string) error
}

// Object is what a store tells about an object.
type Object struct {
	Name string
	Size int64
	// At is when it was written, by the clock of the store: the only clock that all writers share.
	At time.Time
}

// Page is a part of a listing. The last one has no token for a next.
type Page struct {
	Objects []Object
	Next    string
}

// Class says what an error means for what is done next.
type Class string

// The classes of errors.
const (
	// Away means that the store did not answer, or not with anything that can be relied on.
	Away Class = "Away"
	// CredentialsRefused means that it answered, and does not let us in.
	CredentialsRefused Class = "CredentialsRefused"
	// NotFound means that an object was not found by its name.
	NotFound Class = "NotFound"
	// Exists means that there is an object of that name, so the write was refused.
	Exists Class = "Exists"
	// Locked means that the object may not be deleted yet.
	Locked Class = "Locked"
	// ConditionIgnored means that the store has overwritten an object that it was told not to (K1).
	ConditionIgnored Class = "ConditionIgnored"
)

// Error is a failure of a store with its class.
type Error struct {
	Class Class
	Doing string // Such as "write wal/00000001/…".
	Err   error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Doing, e.Class)
	}
	return fmt.Sprintf("%s: %s: %v", e.Doing, e.Class, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Is tells the class of an error. An error without a class, such as one of the network, is Away.
func Is(err error, class Class) bool {
	if err == nil {
		return false
	}
	var found *Error
	if errors.As(err, &found) {
		return found.Class == class
	}
	return class == Away
}

// IsAbsent proves by a listing that there is no object of that name (K6). That a name was not found proves nothing: a
// bucket that is gone and a host that cannot be resolved are reported in the same words.
func IsAbsent(ctx context.Context, store Store, name string) (bool, error) {
	token := ""
	for {
		page, err := store.List(ctx, name, token)
		if err != nil {
			return false, err
		}
		for _, object := range page.Objects {
			if object.Name == name {
				return false, nil
			}
		}
		if token = page.Next; token == "" {
			return true, nil
		}
	}
}

// ListAll tells every object whose name begins with the prefix.
func ListAll(ctx context.Context, store Store, prefix string, each func(Object) error) error {
	token := ""
	for {
		page, err := store.List(ctx, prefix, token)
		if err != nil {
			return err
		}
		for _, object := range page.Objects {
			if err := each(object); err != nil {
				return err
			}
		}
		if token = page.Next; token == "" {
			return nil
		}
	}
}
