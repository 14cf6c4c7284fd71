package session

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"meridian.dev/meridian/internal/tenure"
)

// StatusOf reads "pid (name) state parent …" from the state on, where the start is the 20th. The name may hold
// anything, so its end is the last bracket. It is nil for a process that has ended.
func StatusOf(pid int) [][]byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

// BegunAt is when a process was begun, on the clock since boot, or up to a tick earlier; 0 if that is not known.
func BegunAt(pid int) tenure.Instant {
	fields := StatusOf(pid)
	if len(fields) < 20 {
		return 0
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	if err != nil {
		return 0
	}
	return tenure.Instant(ticks) * tenure.Instant(tick)
}

// tick is the unit of the start of a process, the same on every Linux.
const tick = 10 * time.Millisecond
