package wal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/wal"
	"meridian.dev/meridian/internal/tenure"
)

// Timeline 1 ends in the middle of segment 3.
func TestWhichSegmentIsMissing(t *testing.T) {
	history := postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 3*segmentSize + 500}}
	for name, test := range map[string]struct {
		there []string
		want  tenure.Position
	}{
		"none": {there: []string{"1/2", "2/3", "2/4"}},
		"the segment of the branch, of the newer timeline": {
			[]string{"1/2", "1/3", "2/4"}, tenure.Position{Timeline: 1, LSN: 3 * segmentSize},
		},
		"the first":            {[]string{"2/3", "2/4"}, tenure.Position{Timeline: 1, LSN: 2 * segmentSize}},
		"one of the newer":     {[]string{"1/2", "2/3", "1/4"}, tenure.Position{Timeline: 2, LSN: 4 * segmentSize}},
		"one beyond the place": {there: []string{"1/2", "2/3", "2/4", "2/6"}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for _, segment := range test.there {
				var timeline, number int
				if _, err := fmt.Sscanf(segment, "%d/%d", &timeline, &number); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(folder, fmt.Sprintf("%08X%08X%08X", timeline, 0, number))
				if err := os.WriteFile(path, make([]byte, segmentSize), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, found, err := wal.Missing(folder, history, 2*segmentSize+40, 5*segmentSize)
			if err != nil || got != test.want || found != (test.want != tenure.Position{}) {
				t.Errorf("got %s, %t, %v, want %s", got, found, err, test.want)
			}
		})
	}
}
