package store

import (
	"context"
	"time"
)

// How often something is done, and how long at most is waited in between: a minute and a half in all.
const (
	mostTries    = 8
	longestPause = 30 * time.Second
)

// Again does something until it succeeds, up to a bound. It is for what does no harm when it is done twice. The pauses
// begin with the first one and double.
func Again(ctx context.Context, first time.Duration, worth func(error) bool, do func() error) error {
	for try, pause := 1, first; ; try, pause = try+1, min(2*pause, longestPause) {
		err := do()
		if err == nil || try == mostTries || ctx.Err() != nil || !worth(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
