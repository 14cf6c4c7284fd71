package redact

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// judged is how the API server begins what it says about a value.
const judged = `((?:Invalid|Unsupported|Duplicate) value|Not found): `

// An answer of the API server that names a field quotes its value, which may be a password in an environment variable.
// A value that is no text stands there without quotes, and may have colons in it.
var (
	refusedValue = regexp.MustCompile(judged + `(?:"(?:[^"\\]|\\.)*"|[^"\s].*?(: |$))`)
	wholeValue   = regexp.MustCompile(`(?s)^` + judged + `(?:"(?:[^"\\]|\\.)*"|[^"\s].*(: |$))`)
)

// Refusal takes the values out of what the API server says to an object that it does not take. Names of fields stay.
func Refusal(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	answer, _ := errors.AsType[*apierrors.StatusError](err)
	if answer == nil || answer.ErrStatus.Details == nil || len(answer.ErrStatus.Details.Causes) == 0 {
		return Text(refusedValue.ReplaceAllString(text, "$1$2"))
	}
	// It also says where each of its sentences begins and ends, which the text alone does not.
	for _, cause := range answer.ErrStatus.Details.Causes {
		text = strings.ReplaceAll(text, cause.Message, wholeValue.ReplaceAllString(cause.Message, "$1$2"))
	}
	return Text(text)
}

// Error is an error without values. What it wraps can still be asked for its kind.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return &quietError{err}
}

type quietError struct{ error }

func (q *quietError) Error() string { return Refusal(q.error) }
func (q *quietError) Unwrap() error { return q.error }
