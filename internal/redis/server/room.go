package server

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Room is the container, as the kernel shows it.
type Room struct {
	// Folder is where control groups are mounted, /sys/fs/cgroup outside of tests.
	Folder string
}

// limitFiles are those of the two generations of control groups.
var limitFiles = []string{"memory.max", "memory/memory.limit_in_bytes"}

// boundless is more than any machine has: the older generation writes a number of this size for no limit.
const boundless = 1 << 60

// Limit implements redis.Room. It is read in each pass: the kubelet changes it while the container runs.
func (r *Room) Limit() int64 {
	for _, name := range limitFiles {
		content, err := os.ReadFile(filepath.Join(r.Folder, name))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		if err != nil || limit > boundless {
			return 0
		}
		return limit
	}
	return 0
}
