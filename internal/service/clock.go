package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tolerance is how far two clocks may be apart: as much as certificates are backdated. A new certificate of a clock
// that is further ahead is one of the future for everybody else.
const Tolerance = 5 * time.Minute

// AskTime asks another clock than that of this process for the time. It is zero where nobody tells.
type AskTime func(ctx context.Context) (time.Time, error)

// AskTimeThrough asks the API server: it says when it made a review of who asks, which is stored nowhere. An API server
// that does not let us ask tells nothing.
func AskTimeThrough(through client.Client) AskTime {
	return func(ctx context.Context) (time.Time, error) {
		review := &authenticationv1.SelfSubjectReview{}
		err := through.Create(ctx, review)
		switch {
		case err == nil:
			return review.CreationTimestamp.Time, nil
		case refused(err), meta.IsNoMatchError(err):
			return time.Time{}, nil
		}
		return time.Time{}, fmt.Errorf("ask the API server for the time: %w", err)
	}
}

// refused says that the API server will not answer, by a right, a version or an admission of its own, also when it is
// asked again.
func refused(err error) bool {
	var told apierrors.APIStatus
	if !errors.As(err, &told) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := told.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// Compare notes how far the clock of this process is ahead of the other, if that is too far. It asks only where a
// certificate is due: one that is made by a wrong clock is worse than none, since to it all that there are have
// ended.
func (c *Certificates) Compare(ctx context.Context, ask AskTime, now func() time.Time) error {
	if ask == nil || len(c.Steps)+len(c.Renewal)+len(c.Issuing.Change) == 0 {
		return nil
	}
	other, err := ask(ctx)
	if err != nil || other.IsZero() {
		return err
	}
	if ahead := now().Sub(other); ahead.Abs() > Tolerance {
		c.Ahead = ahead.Round(time.Minute)
	}
	return nil
}

// tellClock says that two clocks disagree. It reports that they do not.
func (d *Draft[Step]) tellClock(ahead time.Duration) bool {
	if ahead == 0 {
		return true
	}
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	d.Hold(Stalled, look, "ClocksDisagree", fmt.Sprintf("certificates are due, and none is made or replaced: the clock "+
		"of the operator is %s %s that of the API server; set the one that is wrong, or end the operator's pod, so that it "+
		"runs on another node", strings.TrimSuffix(ahead.Abs().String(), "0s"), side))
	return false
}
