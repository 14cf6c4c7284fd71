package search

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"meridian.dev/meridian/kit/sim"
)

// Most faults leave nothing behind: a call is made again, and the run is where another one has been. From there on both
// do the same, so the second one ends there. What counts as the same is everything that can make a difference later:
// all writes with their content and time, the clock, where the caches stand, what waits in the queues, and what the
// programs remember. Nothing is left out of it, so that nothing is overlooked.

// state is a hash of all that.
type state [sha256.Size]byte

// ending is what a run has come to from a state on: it took so many turns, broke no rule, and made this history.
type ending struct {
	turns int
	world string
}

// passage is a state that a run was in at a turn, with no decision to come.
type passage struct {
	state state
	turn  int
}

// canJoin says that all programs tell what they remember.
func (s *Scenario) canJoin() bool {
	return !slices.ContainsFunc(s.Programs, func(each Program) bool { return each.Memory == nil })
}

// join ends the run if another one has been here. A run that would be too long goes on alone, to be told so.
func (r *run) join() bool {
	if r.endings == nil || !r.chooser.spent(r) {
		return false
	}
	now, known := r.state()
	if !known {
		return false
	}
	if found, ok := r.endings[now]; ok && r.turn+found.turns <= r.limit {
		r.joined = &found
		r.tell(Line{Text: "from here on it is as in another run"})
		return true
	}
	r.passages = append(r.passages, passage{now, r.turn})
	return false
}

// remember keeps what has become of a run that broke no rule.
func (r *run) remember(world string) {
	if r.endings == nil || r.violation != nil {
		return
	}
	after := 0
	if r.joined != nil {
		after = r.joined.turns
	}
	for _, each := range r.passages {
		r.endings[each.state] = ending{turns: r.turn - each.turn + after, world: world}
	}
}

// state is that of the run between two turns. While a cache is held, it also depends on the turn, and has none.
func (r *run) state() (state, bool) {
	text := fmt.Appendf(nil, "%x %d %d %d\n", r.past, r.script, r.calm, r.clock.Now().UnixNano())
	for _, seat := range r.seats {
		current := seat.current
		if len(current.held) > 0 {
			return state{}, false
		}
		for _, watch := range current.sources() {
			behind := len(current.process.Cache().Behind(watch.Kind))
			text = strconv.AppendInt(append(append(text, ' '), watch.Kind.Kind...), int64(behind), 10)
		}
		text = strconv.AppendBool(append(text, ' '), current.early)
		for _, entry := range current.queue {
			text = fmt.Appendf(text, "\n%s %d %d %v", entry.request, entry.due.UnixNano(), entry.failures, entry.err)
		}
		text = append(append(text, '\n'), seat.program.Memory(current.reconciler)...)
	}
	return sha256.Sum256(text), true
}

// history is the hash of all writes up to one of them. Where the content comes by chance, it is told by which values
// are the same as before.
type history struct {
	past   state
	values map[string]int
}

// long is from how many characters on a text counts as one that may come by chance.
const long = 16

// add goes on by one write.
func (h *history) add(event sim.Event, at time.Time, chance bool) {
	text := fmt.Appendf(h.past[:], " %s %d ", event, at.UnixNano())
	tell := strconv.AppendQuote
	if chance {
		tell = h.appendName
	}
	h.past = sha256.Sum256(appendOrdered(text, event.Object.Object, tell))
}

// appendName writes a value as the number that it got when it was first seen.
func (h *history) appendName(text []byte, value string) []byte {
	if len(value) < long {
		return strconv.AppendQuote(text, value)
	}
	number, known := h.values[value]
	if !known {
		number = len(h.values)
		h.values[value] = number
	}
	return strconv.AppendInt(append(text, '#'), int64(number), 10)
}

// appendOrdered writes the content of an object so that the same content is always the same text, and its texts as tell
// does.
func appendOrdered(text []byte, value any, tell func([]byte, string) []byte) []byte {
	switch value := value.(type) {
	case map[string]any:
		text = append(text, '{')
		for _, name := range slices.Sorted(maps.Keys(value)) {
			text = appendOrdered(append(strconv.AppendQuote(text, name), ':'), value[name], tell)
		}
		return append(text, '}')
	case []any:
		text = append(text, '[')
		for _, each := range value {
			text = append(appendOrdered(text, each, tell), ',')
		}
		return append(text, ']')
	case string:
		return tell(text, value)
	case int64:
		return strconv.AppendInt(text, value, 10)
	default:
		return fmt.Append(text, value)
	}
}

func (s state) String() string { return hex.EncodeToString(s[:]) }
