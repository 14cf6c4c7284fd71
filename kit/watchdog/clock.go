//go:build linux

package watchdog

import (
	"fmt"
	"os"
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
	jumped time.Duration
	lost   time.Duration
}

// Jumped looks at both clocks, and returns when a jump forward was seen last, or 0.
func (w *Wall) Jumped() time.Duration {
	now := Now()
	return w.look(read(unix.CLOCK_REALTIME)-now, now)
}

// Lost looks at both clocks, and returns how far all jumps forward were: time that may have passed while the machine
// did not count it.
func (w *Wall) Lost() time.Duration {
	w.Jumped()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.lost
}

func (w *Wall) look(offset, now time.Duration) time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if jump := offset - w.offset; w.known && jump > jumpLimit {
		w.jumped = now
		w.lost += jump
	}
	w.offset, w.known = offset, true
	return w.jumped
}
