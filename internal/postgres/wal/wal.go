// Package wal reads PostgreSQL's log on the disk, to find how far a copy has come without a server. It reads every
// record as recovery would, its checksum included, and writes nothing, but makes sure that what it found is stored.
//
// A server that was restarted and has not replayed everything yet would under-report (I3), and a program that prints
// each record takes minutes for what this takes a second. Start reading at Position.
package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
)

// Sizes and flags of PostgreSQL's log.
const (
	pageSize       = 8192
	shortHeader    = 24
	longHeader     = 40
	recordHeader   = 24
	flagContinued  = 0x0001
	flagLong       = 0x0002
	flagOverwrite  = 0x0008
	managerXLOG    = 0
	switchInfo     = 0x40
	smallestLog    = 1 << 20
	largestLog     = 1 << 30
	largestRecord  = 1 << 30
	segmentNameLen = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errLogEnds is where a reader finds nothing that recovery would replay.
var errLogEnds = errors.New("the log ends")

// folder is the folder of the log and what is in it.
type folder struct {
	path     string
	size     uint64
	segments map[int][]uint64 // By timeline, the numbers of its segments, sorted.
}

func openWAL(path string) (*folder, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read the folder of the WAL: %w", err)
	}
	found := &folder{path: path, segments: map[int][]uint64{}}
	var names []string
	for _, entry := range entries {
		if len(entry.Name()) == segmentNameLen && entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was recycled since.
		}
		if err != nil {
			return nil, fmt.Errorf("look at the WAL: %w", err)
		}
		if found.size = uint64(info.Size()); found.size < smallestLog || found.size > largestLog {
			return nil, fmt.Errorf("look at the WAL: %s has %d bytes", name, info.Size())
		}
		timeline, number, ok := parseSegment(name, found.size)
		if ok {
			found.segments[timeline] = append(found.segments[timeline], number)
		}
	}
	if len(found.segments) == 0 {
		return nil, errors.New("look at the WAL: there is none")
	}
	for timeline := range found.segments {
		slices.Sort(found.segments[timeline])
	}
	return found, nil
}

// SegmentSize is the size of the segments in a folder of the log.
func SegmentSize(folder string) (uint64, error) {
	found, err := openWAL(folder)
	if err != nil {
		return 0, err
	}
	return found.size, nil
}

func parseSegment(name string, size uint64) (timeline int, number uint64, ok bool) {
	var parts [3]uint64
	for index := range parts {
		value, err := strconv.ParseUint(name[index*8:index*8+8], 16, 32)
		if err != nil {
			return 0, 0, false
		}
		parts[index] = value
	}
	return int(parts[0]), parts[1]*(1<<32/size) + parts[2], true
}

func (w *folder) segment(timeline int, number uint64) string {
	each := uint64(1<<32) / w.size
	return filepath.Join(w.path, fmt.Sprintf("%08X%08X%08X", timeline, number/each, number%each))
}

// Position finds how far the copy in a data directory has come by its log alone: the highest timeline that has a
// record, of those that descend from the given one, and where its last record ends. From is a place up to which the log
// is known to be sound, such as what was replayed, or 0, and sound the same of one timeline alone, such as what was
// found before; both only save time. What was found is on the disk when it returns.
func Position(data string, timeline int, from uint64, sound tenure.Position) (tenure.Position, error) {
	wal, err := openWAL(filepath.Join(data, "pg_wal"))
	if err != nil {
		return tenure.Position{}, err
	}
	history, err := newestHistory(wal, timeline)
	if err != nil {
		return tenure.Position{}, err
	}
	// The highest timeline that has a record of its own is the one. A segment of it may hold less than the timeline
	// before: the sender begins with the whole segment.
	for index := len(history) - 1; index >= 0; index-- {
		branch, begin := history[index], from
		if branch.Timeline == sound.Timeline {
			begin = max(from, sound.LSN)
		}
		end, err := wal.end(branch.Timeline, begin)
		if errors.Is(err, errLogEnds) {
			continue
		}
		if err != nil {
			return tenure.Position{}, err
		}
		if end > branch.Begin {
			return tenure.Position{Timeline: branch.Timeline, LSN: end}, nil
		}
	}
	return tenure.Position{}, errors.New("find the end of the WAL: no record was found")
}

// Repeated returns the segments of the newest timeline if all that they hold is a repetition of the timeline before, of
// which the copy has at least as much. A replica takes a new timeline from the begin of the segment in which it
// branches off; one that is ended within that moment does not start again: it reads the newer segment first, finds its
// end before the branch, and does not go back to the older one.
func Repeated(data string, timeline int) ([]string, error) {
	wal, err := openWAL(filepath.Join(data, "pg_wal"))
	if err != nil {
		return nil, err
	}
	history, err := newestHistory(wal, timeline)
	if err != nil || len(history) < 2 {
		return nil, err
	}
	branch, before := history[len(history)-1], history[len(history)-2]
	numbers := wal.segments[branch.Timeline]
	// It repeats nothing unless it begins with the segment of the branch, and has no other.
	if len(numbers) != 1 || numbers[0] != branch.Begin/wal.size {
		return nil, nil
	}
	end, err := wal.scan(branch.Timeline, numbers[0])
	if err != nil && !errors.Is(err, errLogEnds) || end > branch.Begin {
		return nil, err
	}
	older, err := wal.end(before.Timeline, branch.Begin)
	if errors.Is(err, errLogEnds) || err == nil && older < end {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []string{wal.segment(branch.Timeline, numbers[0])}, nil
}

// newestHistory is the history of the highest timeline that has segments and descends from the given one.
func newestHistory(wal *folder, timeline int) (postgres.History, error) {
	best, err := ReadHistory(wal.path, timeline)
	if err != nil {
		return nil, err
	}
	for candidate := range wal.segments {
		if candidate <= best.Timeline() {
			continue
		}
		history, err := ReadHistory(wal.path, candidate)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if history.Has(timeline) {
			best = history
		}
	}
	return best, nil
}

// ReadHistory reads the history of a timeline. The first one has no file.
func ReadHistory(folder string, timeline int) (postgres.History, error) {
	if timeline == 1 {
		return postgres.History{{Timeline: 1}}, nil
	}
	content, err := os.ReadFile(filepath.Join(folder, HistoryName(timeline)))
	if err != nil {
		return nil, fmt.Errorf("read the history of timeline %d: %w", timeline, err)
	}
	return postgres.ParseHistory(timeline, string(content))
}

// HistoryName is the name of the file that has the history of a timeline.
func HistoryName(timeline int) string { return fmt.Sprintf("%08X.history", timeline) }

// end finds the end of the last record of a timeline. It is errLogEnds if there is none.
func (w *folder) end(timeline int, from uint64) (uint64, error) {
	numbers := w.segments[timeline]
	if len(numbers) == 0 {
		return 0, errLogEnds
	}
	start := 0
	for index, number := range numbers {
		if number*w.size <= from {
			start = index
		}
	}
	var err error
	for ; start >= 0; start-- {
		var end uint64
		if end, err = w.scan(timeline, numbers[start]); !errors.Is(err, errLogEnds) {
			return end, err
		}
		// A segment that one record fills from the one before has no record of its own.
		if start > 0 && numbers[start-1] != numbers[start]-1 {
			break
		}
	}
	return 0, err
}

// scan reads from the first record of a segment to the end.
func (w *folder) scan(timeline int, number uint64) (uint64, error) {
	reader := &logReader{wal: w, timeline: timeline}
	defer reader.close()
	next, err := reader.firstOf(number * w.size)
	if err != nil {
		return 0, err
	}
	found := false
	var end uint64
	for {
		after, err := reader.record(next)
		if errors.Is(err, errLogEnds) {
			break
		}
		if err != nil {
			return 0, err
		}
		found, end, next = true, after, reader.beginAfter(after)
	}
	if !found {
		return 0, errLogEnds
	}
	return end, reader.sync()
}

// logReader reads records one after the other.
type logReader struct {
	wal      *folder
	timeline int

	file   *os.File
	number uint64
	page   [pageSize]byte
	at     uint64 // Of the page that was read, 0 if none.
	magic  uint16
	last   uint64 // Where the last record began.
	body   []byte
}

func (r *logReader) close() {
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file = nil
}

// sync makes what was found outlive a loss of power.
func (r *logReader) sync() error {
	if r.file == nil {
		return nil
	}
	if err := r.file.Sync(); err != nil {
		return fmt.Errorf("store the WAL: %w", err)
	}
	return nil
}

// load reads and checks the page at an address.
func (r *logReader) load(at uint64) error {
	if r.at == at && at != 0 {
		return nil
	}
	r.at = 0
	number := at / r.wal.size
	if r.file == nil || r.number != number {
		// A later segment may only be begun when this one is stored.
		if err := r.sync(); err != nil {
			return err
		}
		r.close()
		file, err := os.Open(r.wal.segment(r.timeline, number))
		if errors.Is(err, fs.ErrNotExist) {
			return errLogEnds
		}
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		r.file, r.number = file, number
	}
	if _, err := r.file.ReadAt(r.page[:], int64(at%r.wal.size)); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	magic, flags := binary.LittleEndian.Uint16(r.page[0:]), binary.LittleEndian.Uint16(r.page[2:])
	first := at%r.wal.size == 0
	switch {
	case magic == 0 || r.magic != 0 && magic != r.magic:
		return errLogEnds
	case binary.LittleEndian.Uint64(r.page[8:]) != at || first != (flags&flagLong != 0):
		return errLogEnds
	case first && uint64(binary.LittleEndian.Uint32(r.page[32:])) != r.wal.size:
		return errLogEnds
	}
	r.magic, r.at = magic, at
	return nil
}

func (r *logReader) flags() uint16 { return binary.LittleEndian.Uint16(r.page[2:]) }

func (r *logReader) left() uint64 { return uint64(binary.LittleEndian.Uint32(r.page[16:])) }

func (r *logReader) header(at uint64) uint64 {
	if at%r.wal.size == 0 {
		return longHeader
	}
	return shortHeader
}

// firstOf finds where the first record begins at or after a page, past the rest of an earlier one.
func (r *logReader) firstOf(page uint64) (uint64, error) {
	for {
		if err := r.load(page); err != nil {
			return 0, err
		}
		begin := page + r.header(page)
		if r.flags()&flagContinued == 0 {
			return begin, nil
		}
		begin += aligned(r.left())
		if begin < page+pageSize {
			return begin, nil
		}
		page += pageSize
	}
}

func aligned(length uint64) uint64 { return (length + 7) &^ 7 }

// beginAfter is where a record would begin that follows one with this end.
func (r *logReader) beginAfter(end uint64) uint64 {
	if end%pageSize == 0 {
		return end + r.header(end)
	}
	return end
}

// record reads the record at a place, and returns where it ends.
func (r *logReader) record(begin uint64) (end uint64, err error) {
	if err := r.load(begin &^ (pageSize - 1)); err != nil {
		return 0, err
	}
	length := uint64(binary.LittleEndian.Uint32(r.page[begin%pageSize:]))
	if length < recordHeader || length > largestRecord {
		return 0, errLogEnds
	}
	end, restart, err := r.gather(begin, length)
	switch {
	case err != nil:
		return 0, err
	case restart != 0:
		// The record was broken off by a crash, and the server went on after it.
		return r.record(restart)
	}
	previous := binary.LittleEndian.Uint64(r.body[8:])
	if previous >= begin || r.last != 0 && previous != r.last || !r.sound() {
		return 0, errLogEnds
	}
	r.last = begin
	if r.body[17] == managerXLOG && r.body[16]&0xF0 == switchInfo {
		// The rest of the segment is empty.
		end = (end + r.wal.size - 1) / r.wal.size * r.wal.size
	}
	return end, nil
}

// gather collects the bytes of a record over its pages.
func (r *logReader) gather(begin, length uint64) (end, restart uint64, err error) {
	offset := begin % pageSize
	part := min(length, pageSize-offset)
	r.body = append(r.body[:0], r.page[offset:offset+part]...)
	page := begin &^ (pageSize - 1)
	end = begin + aligned(part)
	for left := length - part; left > 0; {
		page += pageSize
		if err := r.load(page); err != nil {
			return 0, 0, err
		}
		if r.flags()&flagOverwrite != 0 {
			return 0, page + r.header(page), nil
		}
		if r.flags()&flagContinued == 0 || r.left() != left {
			return 0, 0, errLogEnds
		}
		head := r.header(page)
		part := min(left, pageSize-head)
		r.body = append(r.body, r.page[head:head+part]...)
		left -= part
		end = page + head + aligned(part)
	}
	return end, 0, nil
}

// sound checks the checksum, which is over the data and then the header.
func (r *logReader) sound() bool {
	sum := crc32.Update(0, castagnoli, r.body[recordHeader:])
	sum = crc32.Update(sum, castagnoli, r.body[:20])
	return sum == binary.LittleEndian.Uint32(r.body[20:])
}
