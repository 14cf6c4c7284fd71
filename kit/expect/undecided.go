package expect

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Undecided reports whether a write that failed like this may have been carried out all the same, so that it is a case
// for Tracker.Doubt. Only an answer of the API server that puts the fault on the request is certain.
func Undecided(err error) bool {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), !errors.As(err, &status):
		return true
	}
	code := status.Status().Code
	return code < http.StatusBadRequest || code >= http.StatusInternalServerError || code == http.StatusRequestTimeout
}
