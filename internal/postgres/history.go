package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/tenure"
)

// History is the history of a timeline, oldest first: each branch ends where the next begins.
type History []Branch

// Branch is a timeline as a part of a history. What ends at Begin still belongs to the one before.
type Branch struct {
	Timeline int    `json:"timeline"`
	Begin    uint64 `json:"begin,omitempty"`
}

// ParseHistory reads the file of a timeline. One without a line of ancestry is a placeholder: its timeline begins
// nowhere, and descends from none.
func ParseHistory(timeline int, text string) (History, error) {
	var history History
	begin := uint64(0)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return nil, fmt.Errorf("understand the history of timeline %d: %q", timeline, line)
		}
		parent, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("understand the history of timeline %d: %w", timeline, err)
		}
		end, err := ParseLSN(fields[1])
		if err != nil {
			return nil, fmt.Errorf("understand the history of timeline %d: %w", timeline, err)
		}
		history = append(history, Branch{Timeline: parent, Begin: begin})
		begin = end
	}
	return append(history, Branch{Timeline: timeline, Begin: begin}).Effective(), nil
}

// Effective lets no branch begin after a later one. A server that was promoted while it waited for the WAL of a
// timeline writes down that its own comes from that one, at a place before it began: of all between it has nothing.
func (h History) Effective() History {
	for index := len(h) - 2; index >= 0; index-- {
		h[index].Begin = min(h[index].Begin, h[index+1].Begin)
	}
	return h
}

// Timeline is whose history it is.
func (h History) Timeline() int {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].Timeline
}

// Placeholder says that it was made only to take the number.
func (h History) Placeholder() bool { return len(h) == 1 && h[0].Timeline > 1 }

// Has says whether the timeline is a part of it.
func (h History) Has(timeline int) bool {
	for _, branch := range h {
		if branch.Timeline == timeline {
			return true
		}
	}
	return false
}

// At is the timeline of the record that ends there (I3).
func (h History) At(lsn uint64) int {
	found := 0
	for _, branch := range h {
		if lsn > branch.Begin || found == 0 {
			found = branch.Timeline
		}
	}
	return found
}

// Holds says whether a copy that has come this far is a part of this history, so that it can go on with it.
func (h History) Holds(position tenure.Position) bool {
	for index, branch := range h {
		if branch.Timeline == position.Timeline {
			return index == len(h)-1 || position.LSN <= h[index+1].Begin
		}
	}
	return false
}

// Strays says that it is the history of a later timeline that does not begin where a copy ends which has come this far:
// it begins later, or the copy has passed the place. A server that has gone over to it before stays with it all the
// same, and one that is promoted then writes down that its own timeline comes from it.
func (h History) Strays(position tenure.Position) bool {
	if len(h) == 0 || h.Timeline() <= position.Timeline || !h.Has(position.Timeline) {
		return false
	}
	return !h.Holds(position) || h[len(h)-1].Begin > position.LSN
}

// ParseLSN reads a place in the log such as 0/15D5A30.
func ParseLSN(text string) (uint64, error) {
	high, low, found := strings.Cut(text, "/")
	first, err := strconv.ParseUint(high, 16, 32)
	if err != nil || !found {
		return 0, fmt.Errorf("%q is no LSN", text)
	}
	second, err := strconv.ParseUint(low, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no LSN", text)
	}
	return first<<32 | second, nil
}

// FormatLSN writes what ParseLSN reads.
func FormatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn)) }
