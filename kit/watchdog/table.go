//go:build linux

package watchdog

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// table reads the table of processes into memory that it has from the start: the moment to kill is a bad one to ask the
// kernel for more.
type table struct {
	entries []entry
	names   [16 << 10]byte
	stat    [1 << 10]byte
}

// entry is one process. The moment of its start tells it from a later one with the same number.
type entry struct {
	pid, parent int
	started     uint64
	ended       bool
	member      bool
}

func newTable() *table { return &table{entries: make([]entry, 0, 1<<12)} }

// read fills entries. What has ended while it reads is left out.
func (t *table) read() error {
	t.entries = t.entries[:0]
	folder, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(folder) }()
	for {
		size, err := unix.ReadDirent(folder, t.names[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if size <= 0 {
			return nil
		}
		t.add(folder, t.names[:size])
	}
}

// add takes the names of a part of the folder: records of 8 bytes, 8 bytes, their own size in 2 bytes, a type, a name.
func (t *table) add(folder int, records []byte) {
	const header = 19
	for len(records) > header {
		size := int(binary.NativeEndian.Uint16(records[16:18]))
		if size < header || size > len(records) {
			return
		}
		name := records[header:size]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		records = records[size:]
		if len(name) == 0 || name[0] < '0' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(string(name))
		if err != nil {
			continue
		}
		if found, ok := t.look(folder, pid); ok {
			t.entries = append(t.entries, found)
		}
	}
}

func (t *table) look(folder, pid int) (entry, bool) {
	file, err := unix.Openat(folder, strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return entry{}, false
	}
	size, err := unix.Read(file, t.stat[:])
	_ = unix.Close(file)
	if err != nil || size <= 0 {
		return entry{}, false
	}
	return parse(pid, t.stat[:size])
}

// parse reads "pid (name) state parent …"; the start is the 22nd word. The name may hold anything, also brackets, so
// its end is the last one.
func parse(pid int, stat []byte) (entry, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 || len(stat) < end+3 {
		return entry{}, false
	}
	found := entry{pid: pid, ended: stat[end+2] == 'Z' || stat[end+2] == 'X'}
	field := 2
	for word := range bytes.FieldsSeq(stat[end+1:]) {
		field++
		switch field {
		case 4:
			parent, err := strconv.Atoi(string(word))
			if err != nil {
				return entry{}, false
			}
			found.parent = parent
		case 22:
			started, err := strconv.ParseUint(string(word), 10, 64)
			found.started = started
			return found, err == nil
		}
	}
	return entry{}, false
}

// mark makes members of what descends from the program or from one that was a member before, the watchdog excepted. A
// process that has ended still ties its children to the others until they are moved.
func (t *table) mark(program entry, self int, known map[int]uint64) {
	belongs := func(e *entry) bool {
		if started, was := known[e.pid]; was && started == e.started {
			return true
		}
		// The kernel lists processes in the order of their numbers.
		index, found := slices.BinarySearchFunc(t.entries, e.parent, func(e entry, pid int) int { return e.pid - pid })
		if !found {
			return false
		}
		parent := t.entries[index]
		return parent.member || parent.pid == program.pid && parent.started == program.started
	}
	for grown := true; grown; {
		grown = false
		for i := range t.entries {
			e := &t.entries[i]
			if !e.member && e.pid != self && e.pid != program.pid && belongs(e) {
				e.member, grown = true, true
			}
		}
	}
}
