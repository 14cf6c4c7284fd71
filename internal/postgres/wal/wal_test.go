package wal_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres/wal"
	"meridian.dev/meridian/internal/tenure"
)

const (
	segmentSize = 1 << 20
	pageSize    = 8192
	first       = 40                      // Where the first record of a segment begins.
	length      = 48                      // Of each record here.
	base        = uint64(3 * segmentSize) // Where segment 3 begins.
)

// segment makes the third segment of a timeline with so many records on its first page.
func segment(records int) []byte { return segmentAt(base, records) }

func segmentAt(base uint64, records int) []byte {
	content := make([]byte, segmentSize)
	binary.LittleEndian.PutUint16(content[0:], 0xD116)
	binary.LittleEndian.PutUint16(content[2:], 2)
	binary.LittleEndian.PutUint64(content[8:], base)
	binary.LittleEndian.PutUint32(content[32:], segmentSize)
	binary.LittleEndian.PutUint32(content[36:], pageSize)
	previous := base - 100
	for index := range records {
		at := first + index*length
		record := content[at : at+length]
		binary.LittleEndian.PutUint32(record[0:], length)
		binary.LittleEndian.PutUint64(record[8:], previous)
		record[17] = 10
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(crc32.Update(0, table, record[24:]), table, record[:20])
		binary.LittleEndian.PutUint32(record[20:], sum)
		previous = base + uint64(at)
	}
	return content
}

func after(records int) uint64 { return base + first + uint64(records)*length }

// copyOf makes a data directory with the third segment of each timeline, and with timeline 5 that branches off from 4
// after so many records.
func copyOf(t *testing.T, segments map[int]int, branch int) string {
	t.Helper()
	data := t.TempDir()
	folder := filepath.Join(data, "pg_wal")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("00000004.history", []byte("1\t0/100000\tno reason\n"))
	write("00000005.history", fmt.Appendf(nil, "1\t0/100000\tno reason\n4\t0/%X\tno reason\n", after(branch)))
	for timeline, records := range segments {
		write(fmt.Sprintf("%08X%08X%08X", timeline, 0, 3), segment(records))
	}
	return data
}

func TestPositionAndRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		segments map[int]int
		branch   int
		want     tenure.Position
		repeated bool
	}{
		"one timeline":                  {map[int]int{4: 3}, 9, tenure.Position{Timeline: 4, LSN: after(3)}, false},
		"a new one with a record":       {map[int]int{4: 5, 5: 6}, 5, tenure.Position{Timeline: 5, LSN: after(6)}, false},
		"a new one up to its branch":    {map[int]int{4: 5, 5: 5}, 5, tenure.Position{Timeline: 4, LSN: after(5)}, true},
		"a new one that was just begun": {map[int]int{4: 5, 5: 2}, 5, tenure.Position{Timeline: 4, LSN: after(5)}, true},
		"a new one without a record":    {map[int]int{4: 5, 5: 0}, 5, tenure.Position{Timeline: 4, LSN: after(5)}, true},
		"the older one has less":        {map[int]int{4: 1, 5: 3}, 5, tenure.Position{Timeline: 4, LSN: after(1)}, false},
		"the older one has more of its own": {
			map[int]int{4: 8, 5: 6}, 5, tenure.Position{Timeline: 5, LSN: after(6)}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := copyOf(t, test.segments, test.branch)
			position, err := wal.Position(data, 4, 0, tenure.Position{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, position); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
			names, err := wal.Repeated(data, 4)
			if err != nil || len(names) > 0 != test.repeated {
				t.Errorf("repeated: %v, error %v", names, err)
			}
		})
	}
}

// What is known to be sound is not read again: a segment that was spoilt meanwhile shows that. Of another timeline
// nothing is known by that.
func TestPositionReadsFromWhatIsSound(t *testing.T) {
	data := copyOf(t, map[int]int{4: 3, 5: 3}, 9)
	next := filepath.Join(data, "pg_wal", fmt.Sprintf("%08X%08X%08X", 4, 0, 4))
	if err := os.WriteFile(next, segmentAt(base+segmentSize, 2), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		sound tenure.Position
		want  uint64
	}{
		"nothing":               {tenure.Position{}, after(3)},
		"of the timeline":       {tenure.Position{Timeline: 4, LSN: base + segmentSize + 100}, after(2) + segmentSize},
		"of the next timeline":  {tenure.Position{Timeline: 5, LSN: base + segmentSize + 100}, after(3)},
		"of what is gone since": {tenure.Position{Timeline: 4, LSN: base + 9*segmentSize}, after(2) + segmentSize},
	} {
		t.Run(name, func(t *testing.T) {
			position, err := wal.Position(data, 4, 0, test.sound)
			if want := (tenure.Position{Timeline: 4, LSN: test.want}); err != nil || position != want {
				t.Errorf("at %s, want %s, error %v", position, want, err)
			}
		})
	}
}
