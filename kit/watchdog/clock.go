//go:build linux

package watchdog

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Now is how long ago the machine was booted, the time that it slept included.
func Now() time.Duration { return read(unix.CLOCK_BOOTTIME) }

func read(clock int32) time.Duration {
	var now unix.Timespec
	// Linux has both clocks since long ago, and the call cannot fail otherwise.
	_ = unix.ClockGettime(clock, &now)
	return time.Duration(now.Nano())
}

// BootID identifies the boot that Now counts from.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read which boot this is: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// jumpLimit is how far the wall clock may move against the time since boot at once. Whoever keeps a clock right
// moves it by less, or else in one step that is rare.
const jumpLimit = time.Second

// Wall watches the wall clock for jumps forward against the time since boot. It may be used by many at once.
type Wall struct {
	mutex  sync.Mutex
	offset time.Duration
	known  bool
	jumps  []Jump
	lost   time.Duration
}

// Jump is the wall clock jumping forward: seen at a moment of [Now], by so much.
type Jump struct{ At, By time.Duration }

// mostJumps is how many jumps a Wall remembers one by one.
const mostJumps = 16

// Jumps looks at both clocks, and returns the jumps forward that were seen, oldest first. Of very many, the oldest ones
// count as one, at the moment of the last of these.
func (w *Wall) Jumps() []Jump { return w.look(both()) }

// both reads the two clocks at one moment: how far the wall clock is ahead, and the time since boot. Whoever is held up
// between the two readings reads again, because the pause would look like a jump.
func both() (offset, now time.Duration) {
	const near, tries = 10 * time.Millisecond, 100
	for range tries {
		now = Now()
		offset = read(unix.CLOCK_REALTIME) - now
		if Now()-now < near {
			break
		}
	}
	return offset, now
}

// Lost looks at both clocks, and returns how far all jumps forward were: time that may have passed while the machine
// did not count it.
func (w *Wall) Lost() time.Duration {
	w.Jumps()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.lost
}

func (w *Wall) look(offset, now time.Duration) []Jump {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if jump := offset - w.offset; w.known && jump > jumpLimit {
		w.jumps = append(w.jumps, Jump{At: now, By: jump})
		w.lost += jump
	}
	if over := len(w.jumps) - mostJumps; over > 0 {
		w.jumps[1].By += w.jumps[0].By
		w.jumps = w.jumps[1:]
	}
	w.offset, w.known = offset, true
	return slices.Clone(w.jumps)
}
