package databases

import (
	"time"
	"unsafe"
)

// reading is laid out as a time.Time that time.Now returns.
type reading struct {
	wall   uint64 // From the highest bit on: that there is a steady clock, seconds since 1885, nanoseconds.
	steady int64
	where  *time.Location
}

var from1885 = time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// Reading is a moment as time.Now returns it in production: with the reading of a clock that nobody can set beside that
// of the wall clock. What is compared goes by the former, and what drops it, such as Round and UTC, goes by the latter:
// then the loop sees every step of the wall clock. Package time has no way to make such a time; TestReading holds this
// one against it.
func Reading(wall time.Time, steady time.Duration) time.Time {
	seconds := uint64(wall.Unix() - from1885)
	made := reading{wall: 1<<63 | seconds<<30 | uint64(wall.Nanosecond()), steady: int64(steady) + 1, where: time.UTC}
	return *(*time.Time)(unsafe.Pointer(&made))
}
