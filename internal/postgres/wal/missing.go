package wal

import (
	"slices"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
)

// Missing finds the begin of the first segment that is not there of those that recovery reads from one place of a
// history to a later one. It says false if all are there. A segment in which a timeline branches off is read of the
// newer one.
func Missing(folder string, history postgres.History, from, to uint64) (begin tenure.Position, found bool, err error) {
	wal, err := openWAL(folder)
	if err != nil {
		return tenure.Position{}, false, err
	}
	for number := from / wal.size; number*wal.size < to; number++ {
		timeline := 0
		for _, branch := range history {
			if timeline == 0 || branch.Begin/wal.size <= number {
				timeline = branch.Timeline
			}
		}
		if !slices.Contains(wal.segments[timeline], number) {
			start := number * wal.size
			return tenure.Position{Timeline: history.At(start), LSN: start}, true, nil
		}
	}
	return tenure.Position{}, false, nil
}
