//go:build cluster

package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// ticks are what the processors of this machine did since it was booted. All nodes share them, so times that were
// measured while they were busy, or taken away by whoever runs this machine, say little of the database.
type ticks struct{ all, idle, stolen uint64 }

func readTicks(t *testing.T) ticks {
	t.Helper()
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	var read ticks
	// The fields are user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in them already.
	for index, field := range strings.Fields(line)[1:9] {
		value, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			t.Fatalf("/proc/stat: %v", err)
		}
		read.all += value
		switch index {
		case 3, 4:
			read.idle += value
		case 7:
			read.stolen += value
		}
	}
	return read
}

// share is what part of the time since then the processors were idle, and were taken away, in percent.
func (t ticks) share(since ticks) (idle, stolen int) {
	all := max(t.all-since.all, 1)
	return int(100 * (t.idle - since.idle) / all), int(100 * (t.stolen - since.stolen) / all)
}

// starved is from which share that is taken away, in percent, a lease may end although nothing has failed.
const starved = 25

func percent(part int) string { return fmt.Sprintf("%d %%", part) }
