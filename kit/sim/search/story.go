package search

import (
	"fmt"
	"strings"
)

// Story tells a run to people: what the users and the programs did, what was written, and, marked, what was decided.
// What every run has, reads and caches that move, is left out.
func (r Result) Story() string {
	var out strings.Builder
	turn := -1
	for _, line := range r.Trace {
		if line.Detail {
			continue
		}
		number := "    "
		if line.Turn != turn {
			turn, number = line.Turn, fmt.Sprintf("%4d", line.Turn)
		}
		mark := ' '
		if line.Decided {
			mark = '!'
		}
		fmt.Fprintf(&out, "%s %c %s\n", number, mark, line.Text)
	}
	return out.String()
}
