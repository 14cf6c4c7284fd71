//go:build linux

package watchdog

import "time"

// Look lets a test say what the clocks show.
func (w *Wall) Look(offset, now time.Duration) time.Duration { return w.look(offset, now) }

// LostBy is what was lost by what the clocks have shown.
func (w *Wall) LostBy() time.Duration { return w.lost }
