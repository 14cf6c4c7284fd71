// Package plan decides what of the log is shipped, when a base backup is complete, what is deleted and what a restore
// needs. It is pure: facts in, decisions out, so that all of it can be simulated. Its rules are those of Rules; what
// a decision must never do is checked again by Check and CheckDeletes, which are written from the rules alone.
//
// Start reading at Ship for the log, Recover for restores and Retain for deletions. All three rest on Follow.
package plan

import (
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/postgres"
)

// Newest is the history that the database went: that of the highest timeline. Timelines are unique and grow with the
// terms, so a lower one that is not a part of it was left.
func Newest(catalogue *backup.Catalogue) postgres.History {
	for index := len(catalogue.Logs) - 1; index >= 0; index-- {
		history := catalogue.Logs[index].History
		if len(history) > 0 && !history.Placeholder() {
			return history
		}
	}
	return nil
}

// FileOf is a file of the log as recovery along a history gets it, and false if the repository does not have it. Of a
// timeline that was left only what lies before the fork is given: PostgreSQL would replay what lies behind it too.
func FileOf(catalogue *backup.Catalogue, history postgres.History, timeline int, number uint64) (backup.File, bool) {
	size := catalogue.Owner.SegmentSize
	limit, within := validIn(history, timeline, number, size)
	if !within {
		return backup.File{}, false
	}
	log := catalogue.Log(timeline)
	if segment, found := log.Whole(number); found {
		return backup.File{
			Timeline: timeline, Number: number, Whole: segment.Name, Valid: limit, At: segment.At,
		}, true
	}
	tails, reach := log.Cover(number)
	if reach == 0 {
		return backup.File{}, false
	}
	file := backup.File{Timeline: timeline, Number: number, Tails: tails, Valid: min(reach, limit)}
	for _, tail := range tails {
		file.At = latest(file.At, tail.At)
	}
	return file, true
}

// validIn is how many bytes of a segment of a timeline belong to the history, counted from its begin.
func validIn(history postgres.History, timeline int, number, size uint64) (uint64, bool) {
	for index, branch := range history {
		if branch.Timeline != timeline {
			continue
		}
		if number < branch.Begin/size {
			return 0, false
		}
		if index == len(history)-1 {
			return size, true
		}
		fork := history[index+1].Begin
		switch {
		case fork >= (number+1)*size:
			return size, true
		case fork > number*size:
			return fork - number*size, true
		}
		return 0, false
	}
	return 0, false
}

// fileAt is the file that recovery reads for a segment: that of the newest timeline which has one, as PostgreSQL does.
func fileAt(catalogue *backup.Catalogue, history postgres.History, number uint64) (backup.File, bool) {
	for index := len(history) - 1; index >= 0; index-- {
		if file, found := FileOf(catalogue, history, history[index].Timeline, number); found {
			return file, true
		}
	}
	return backup.File{}, false
}

// Reach is how far the log of a repository leads from a place without a hole.
type Reach struct {
	Files []backup.File
	Until backup.LSN
	// At is when the last of it was written, by the clock of the store.
	At time.Time
	// Sure is until when, by the same clock, it has all that was flushed; zero if that is not known. Only who has shipped
	// all of it ships a piece of the segment that is being written. A whole one may have waited before it was shipped.
	Sure time.Time
}

// Follow reads the log from a place along a history.
func Follow(catalogue *backup.Catalogue, history postgres.History, start backup.LSN) Reach {
	size := catalogue.Owner.SegmentSize
	reach := Reach{Until: start}
	if size == 0 {
		return reach
	}
	for number := uint64(start) / size; ; number++ {
		file, found := fileAt(catalogue, history, number)
		end := backup.LSN(number*size + file.Valid)
		if !found || end <= start {
			return reach
		}
		reach.Files = append(reach.Files, file)
		reach.Until, reach.At, reach.Sure = end, latest(reach.At, file.At), time.Time{}
		if file.Whole == "" && file.Timeline == history.Timeline() {
			reach.Sure = file.At
		}
		if file.Valid < size {
			return reach
		}
	}
}

// holds says whether a backup lies on a history.
func holds(history postgres.History, base backup.Backup) bool {
	for index, branch := range history {
		if branch.Timeline == base.Timeline {
			return index == len(history)-1 || uint64(base.Stop) <= history[index+1].Begin
		}
	}
	return false
}

// MayComplete says whether a base backup may be said to exist: the log from its start to its stop is there (K2).
func MayComplete(catalogue *backup.Catalogue, history postgres.History, base backup.Backup) bool {
	return holds(history, base) && Follow(catalogue, history, base.Start).Until >= base.Stop
}

// MayBegin says whether the log of a base backup that starts at a place can ever be there: what lies before the first
// log of the repository is never shipped. A repository without log may still get it.
func MayBegin(catalogue *backup.Catalogue, start backup.LSN) bool {
	first, found := beginOf(catalogue, Newest(catalogue))
	return !found || uint64(start)/catalogue.Owner.SegmentSize >= first
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
