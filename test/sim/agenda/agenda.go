// Package agenda is what is to happen in a simulated world, in the order of its virtual time.
package agenda

import (
	"math/rand/v2"
	"time"
)

// Chosen makes everything that is random in a run come from its seed.
func Chosen(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // It must come out the same again.
}

// Event is something that happens at a moment. Of those at one moment, the one with the lower number comes first.
type Event struct {
	At  time.Duration
	Seq uint64
	Run func()
}

// Queue is a heap of events, the next one first. That of the standard library would make garbage of every event, and
// events are most of what a run does.
type Queue []Event

func (e Event) before(other Event) bool {
	return e.At < other.At || e.At == other.At && e.Seq < other.Seq
}

// Push adds an event.
func (q *Queue) Push(added Event) {
	*q = append(*q, added)
	heap := *q
	for at := len(heap) - 1; at > 0; {
		parent := (at - 1) / 2
		if !heap[at].before(heap[parent]) {
			return
		}
		heap[at], heap[parent] = heap[parent], heap[at]
		at = parent
	}
}

// Pop takes the next event out.
func (q *Queue) Pop() Event {
	heap := *q
	next, end := heap[0], len(heap)-1
	heap[0], heap[end] = heap[end], Event{}
	heap = heap[:end]
	*q = heap
	for at := 0; ; {
		child := 2*at + 1
		if child >= end {
			return next
		}
		if right := child + 1; right < end && heap[right].before(heap[child]) {
			child = right
		}
		if !heap[child].before(heap[at]) {
			return next
		}
		heap[at], heap[child] = heap[child], heap[at]
		at = child
	}
}
