package loop

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/rule"
)

// Class is what an error means for the next pass.
type Class int

// The classes, in the order in which they win over each other when several errors come together: as long as one of them
// may go away by itself, the pass is repeated.
const (
	// OK means that there is no error.
	OK Class = iota
	// Terminal means that a retry does not help before something changes.
	Terminal
	// Conflict means that the world has moved since it was read. It is no trouble: the pass is repeated, quietly.
	Conflict
	// Transient means that a retry may help. It is made with backoff.
	Transient
)

func (c Class) String() string {
	return [...]string{"ok", "terminal", "conflict", "transient"}[c]
}

// Classify says what an error means for the next pass. An error is terminal if it says so by a method Terminal() bool,
// if it is a reconcile.TerminalError, or if the API server calls the request itself wrong. Forbidden is not: rights
// and quotas change without an event.
func Classify(err error) Class {
	for err != nil {
		if verdict, known := classifyOne(err); known {
			return verdict
		}
		//nolint:errorlint // The tree is walked by hand: errors.As would find a terminal error beside a transient one.
		switch wrapper := err.(type) {
		case interface{ Unwrap() []error }:
			worst := OK
			for _, child := range wrapper.Unwrap() {
				worst = max(worst, Classify(child))
			}
			return worst
		case interface{ Unwrap() error }:
			if err = wrapper.Unwrap(); err == nil {
				return Transient
			}
		default:
			return Transient
		}
	}
	return OK
}

// classifyOne looks at the error itself, not at what it wraps.
func classifyOne(err error) (Class, bool) {
	if final, ok := err.(interface{ Terminal() bool }); ok && final.Terminal() {
		return Terminal, true
	}
	if same, ok := err.(interface{ Is(error) bool }); ok && same.Is(reconcile.TerminalError(nil)) {
		return Terminal, true
	}
	if _, ok := err.(apierrors.APIStatus); !ok {
		return OK, false
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return Conflict, true
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return Terminal, true
	default:
		return Transient, true
	}
}

// nameOf names the end of a pass that failed.
func nameOf(class Class, err error) string {
	switch {
	case errors.As(err, new(*RefusedError)):
		return "refused"
	case errors.As(err, new(*PanicError)):
		return "panicked"
	default:
		return class.String()
	}
}

// RefusedError says that a plan would have broken invariants. Nothing was written.
type RefusedError struct {
	Violations []rule.Violation
}

func (e *RefusedError) Error() string {
	var lines []string
	for _, violation := range e.Violations {
		lines = append(lines, violation.Rule+": "+violation.Detail)
	}
	return "the plan is refused: " + strings.Join(lines, "; ")
}

// PanicError says that a stage panicked. The pass is repeated with backoff.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }
