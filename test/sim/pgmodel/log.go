// Package pgmodel is a model of PostgreSQL as it is, at its worst: what its data directory holds, how it recovers,
// streams, promotes, rewinds and acknowledges. A fidelity test holds it against real servers.
//
// Everything happens in one thread and in virtual time, which the World gives. The log is a tree of records: a copy is
// a place in it, so that what a copy has is known by content and not by positions alone. Start reading at Server.
package pgmodel

import (
	"maps"
	"slices"
)

// LSN is a place in the log.
type LSN = uint64

// Kind is what a record is about.
type Kind string

// Kinds of records.
const (
	KindCommit        Kind = "commit"
	KindCheckpoint    Kind = "checkpoint"
	KindShutdown      Kind = "shutdown checkpoint"
	KindEndOfRecovery Kind = "end of recovery"
	KindSwitch        Kind = "switch"
	KindRunning       Kind = "running transactions"
	KindOther         Kind = "other"
)

// Record is one record of the log, with the one before it.
type Record struct {
	Timeline   int
	Start, End LSN
	Prev       *Record
	Kind       Kind
	// ID is the write of a commit.
	ID int
	// redo is what is there when recovery from a checkpoint begins, and from is the first place that it reads.
	redo *Record
	from LSN
	// running is the record of running transactions that was written with a checkpoint, nil if it names them all.
	running *Record
	// partial says of such a record that it lacks some, and oldest is where the oldest one that it tells of began.
	partial bool
	oldest  LSN
}

// Has says whether the log up to this record has the write.
func (r *Record) Has(id int) bool {
	for ; r != nil; r = r.Prev {
		if r.Kind == KindCommit && r.ID == id {
			return true
		}
	}
	return false
}

// Holds says whether another record is a part of the log up to this one.
func (r *Record) Holds(other *Record) bool {
	for ; r != nil && other != nil && r.End > other.End; r = r.Prev {
		continue
	}
	return r == other
}

// Writes are all writes of the log up to this record, the oldest first.
func (r *Record) Writes() []int {
	var all []int
	for ; r != nil; r = r.Prev {
		if r.Kind == KindCommit {
			all = append(all, r.ID)
		}
	}
	slices.Reverse(all)
	return all
}

// Branch is a timeline as a part of a history, and where it begins.
type Branch struct {
	Timeline int
	Begin    LSN
}

// History is the history of a timeline, the oldest first.
type History []Branch

// Timeline is whose history it is.
func (h History) Timeline() int { return h[len(h)-1].Timeline }

// Placeholder says that it was made only to take the number.
func (h History) Placeholder() bool { return len(h) == 1 && h[0].Timeline > 1 }

// at is the timeline that a place belongs to: where a timeline ends, the next has begun.
func (h History) at(lsn LSN) int {
	for index := len(h) - 1; index > 0; index-- {
		if lsn >= h[index].Begin {
			return h[index].Timeline
		}
	}
	return h[0].Timeline
}

// end is where the history leaves a timeline; open says that it does not, and found that the timeline is part of it.
func (h History) end(timeline int) (end LSN, open, found bool) {
	for index, branch := range h {
		if branch.Timeline == timeline {
			if index == len(h)-1 {
				return 0, true, true
			}
			return h[index+1].Begin, false, true
		}
	}
	return 0, false, false
}

// next is the timeline that comes after another in the history.
func (h History) next(timeline int) int {
	for index, branch := range h {
		if branch.Timeline == timeline && index+1 < len(h) {
			return h[index+1].Timeline
		}
	}
	return 0
}

// place is the name of a file of the log.
type place struct {
	timeline int
	segment  uint64
}

// piece is a file of the log: the records that begin in it. Records never reach beyond their file.
type piece []*Record

// Log is what is in pg_wal: files and histories.
type Log struct {
	segment   LSN // The size of a file.
	files     map[place]piece
	Histories map[int]History
}

func newLog(segment LSN) Log {
	return Log{segment: segment, files: map[place]piece{}, Histories: map[int]History{}}
}

// Clone copies everything.
func (l Log) Clone() Log {
	copied := Log{segment: l.segment, files: make(map[place]piece, len(l.files)), Histories: maps.Clone(l.Histories)}
	for name, records := range l.files {
		copied.files[name] = slices.Clip(records)
	}
	return copied
}

func (l Log) number(lsn LSN) uint64 { return lsn / l.segment }

func (l Log) begin(lsn LSN) LSN { return lsn - lsn%l.segment }

// write puts a record into the file of a timeline. What comes after another record in its place is worth nothing.
func (l Log) write(timeline int, record *Record) {
	name := place{timeline, l.number(record.Start)}
	file := l.files[name]
	if len(file) > 0 && file[len(file)-1].Start < record.Start {
		l.files[name] = append(file, record)
		return
	}
	at, found := slices.BinarySearchFunc(file, record.Start, func(r *Record, start LSN) int {
		return compare(r.Start, start)
	})
	if found && file[at] == record {
		return
	}
	l.files[name] = append(slices.Clip(file[:at]), record)
}

func compare(a, b LSN) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// find returns the record of a file that begins there, nil if there is none.
func (l Log) find(name place, start LSN) *Record {
	file := l.files[name]
	at, found := slices.BinarySearchFunc(file, start, func(r *Record, start LSN) int { return compare(r.Start, start) })
	if !found {
		return nil
	}
	return file[at]
}

// cut forgets what does not end by a place, of all timelines from one on.
func (l Log) cut(timeline int, end LSN) {
	for name, file := range l.files {
		if name.timeline < timeline || name.segment < l.number(end) {
			continue
		}
		kept := 0
		for kept < len(file) && file[kept].End <= end {
			kept++
		}
		l.files[name] = slices.Clip(file[:kept])
	}
}

// cutFile forgets what does not end by a place, of one timeline.
func (l Log) cutFile(timeline int, end LSN) {
	for name, file := range l.files {
		if name.timeline != timeline || name.segment < l.number(end) {
			continue
		}
		kept := 0
		for kept < len(file) && file[kept].End <= end {
			kept++
		}
		l.files[name] = slices.Clip(file[:kept])
	}
}

// remove deletes files before a segment, of every timeline.
func (l Log) remove(before uint64) {
	maps.DeleteFunc(l.files, func(name place, _ piece) bool { return name.segment < before })
}

// newest is the latest timeline of which there is a history, counted upwards without a gap.
func (l Log) newest(from int) int {
	for {
		if _, there := l.Histories[from+1]; !there {
			return from
		}
		from++
	}
}

// history reads that of a timeline. One without ancestry, and the first, begins nowhere.
func (l Log) history(timeline int) History {
	if found, there := l.Histories[timeline]; there && len(found) > 0 {
		return found
	}
	return History{{Timeline: timeline}}
}

// Reserve makes placeholders for the missing timelines below one.
func (l Log) Reserve(timeline int) {
	for number := 2; number < timeline; number++ {
		if _, there := l.Histories[number]; !there {
			l.Histories[number] = History{{Timeline: number}}
		}
	}
}

// DropPlaceholders removes those above the highest real timeline.
func (l Log) DropPlaceholders() {
	highest := 1
	for timeline, history := range l.Histories {
		if !history.Placeholder() {
			highest = max(highest, timeline)
		}
	}
	maps.DeleteFunc(l.Histories, func(timeline int, _ History) bool { return timeline > highest })
}

// follow replays a log from a record on, along a history, as far as it goes. It never goes back to a file of an earlier
// timeline than the last one it has read.
func (l Log) follow(at *Record, history History) (end *Record, from int) {
	for {
		next, read := l.after(at, history, from)
		if next == nil {
			return at, from
		}
		at, from = next, read
	}
}

// after is the record that comes next. The file is that of the latest timeline that has one, whatever is in it.
func (l Log) after(at *Record, history History, from int) (next *Record, timeline int) {
	start := LSN(0)
	if at != nil {
		start = at.End
	}
	for index := len(history) - 1; index >= 0; index-- {
		branch := history[index]
		if branch.Timeline < from {
			break
		}
		if l.number(branch.Begin) > l.number(start) {
			continue
		}
		name := place{branch.Timeline, l.number(start)}
		if _, there := l.files[name]; !there {
			continue
		}
		record := l.find(name, start)
		if record == nil || record.Prev != at {
			return nil, from
		}
		return record, branch.Timeline
	}
	return nil, from
}

// DropRepeated removes files of the newest timeline that hold nothing but what the one before has as well: a standby
// would read them first, and stop there.
func (l Log) DropRepeated(timeline int) {
	history := l.history(l.newest(timeline))
	if len(history) < 2 {
		return
	}
	last, before := history[len(history)-1], history[len(history)-2]
	for name, file := range l.files {
		if name.timeline == last.Timeline && len(file) > 0 && file[len(file)-1].End > last.Begin {
			return
		}
	}
	maps.DeleteFunc(l.files, func(name place, file piece) bool {
		return name.timeline == last.Timeline && len(file) <= len(l.files[place{before.Timeline, name.segment}])
	})
}

// Withdraw removes a timeline of which there is no record.
func (l Log) Withdraw(timeline int) {
	maps.DeleteFunc(l.files, func(name place, _ piece) bool { return name.timeline == timeline })
	delete(l.Histories, timeline)
}

// Shared says that the file in which a place lies is there for another timeline as well.
func (l Log) Shared(timeline int, lsn LSN) bool {
	for name := range l.files {
		if name.segment == l.number(lsn) && name.timeline != timeline {
			return true
		}
	}
	return false
}
