package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Outcome is what became of a call.
type Outcome int

// The outcomes.
const (
	// Done: the server has done it.
	Done Outcome = iota
	// Refused: it was certainly not done, because the server said so or because nothing was ever sent.
	Refused
	// Unknown: it may have been done, and even a call that was given up may still be.
	Unknown
)

// String is the outcome for people.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Refused:
		return "refused"
	default:
		return "unknown"
	}
}

// Error is a call that was not done, or of which that is not known.
type Error struct {
	Outcome Outcome
	// Code is that of the answer, 0 if there was none.
	Code int
	// Reason is the server's word for it, such as AlreadyExists, or empty.
	Reason string
	Cause  error
}

// Error tells the call, the outcome and the cause.
func (e *Error) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("outcome %s: %v", e.Outcome, e.Cause)
	}
	return fmt.Sprintf("outcome %s, code %d: %v", e.Outcome, e.Code, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// OutcomeOf returns what became of the call that returned this error.
func OutcomeOf(err error) Outcome {
	var failed *Error
	switch {
	case err == nil:
		return Done
	case errors.As(err, &failed):
		return failed.Outcome
	}
	return Unknown
}

// CodeOf returns the code of the answer that an error tells of, 0 if there was none.
func CodeOf(err error) int {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Code
	}
	return 0
}

// refusal makes an error of an answer. A code between 400 and 499 is the server's word that it has not acted, but for
// the one that tells of a timeout; those above tell of trouble that may have come after the act.
func refusal(code int, body []byte) *Error {
	var status struct {
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	_ = json.Unmarshal(body, &status) // What is no status has no message.
	if status.Message == "" {
		status.Message = http.StatusText(code)
	}
	outcome := Unknown
	if code >= 400 && code < 500 && code != http.StatusRequestTimeout {
		outcome = Refused
	}
	return &Error{Outcome: outcome, Code: code, Reason: status.Reason, Cause: errors.New(status.Message)}
}
