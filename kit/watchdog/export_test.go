//go:build linux

package watchdog

import "time"

// Look lets a test say what the clocks show.
func (w *Wall) Look(offset, now time.Duration) []Jump { return w.look(offset, now) }

// Nearer is what becomes of a deadline.
func Nearer(deadline, jump time.Duration) time.Duration { return nearer(deadline, jump) }

// LostBy is what was lost by what the clocks have shown.
func (w *Wall) LostBy() time.Duration { return w.lost }
