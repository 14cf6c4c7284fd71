package checks

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/test/e2e/traffic"
)

// Statement is what the status of the database said from one moment on, until the next statement.
type Statement struct {
	At time.Duration
	// Silent says that nothing could be read: nobody was told anything.
	Silent         bool
	Ready, Serving bool
	Primary        string
	// Why is the reason and message of Serving.
	Why string
}

// Truth is for how long at a stretch the status said what was not so. Some time is needed to notice anything.
type Truth struct {
	// Promised: it said Serving or Ready, and no write was acknowledged. Denied: it said that it was not Serving, and
	// writes were acknowledged all the time. Misnamed: it named a primary, and another one acknowledged.
	Promised, Denied, Misnamed time.Duration
	// Reasons are its last words in the longest time for which it was Denied.
	Reasons string
}

// Worst is the longest of them.
func (t Truth) Worst() time.Duration { return max(t.Promised, t.Denied, t.Misnamed) }

// String is such as "promised 0.8s, denied 0s, misnamed 0.2s".
func (t Truth) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	text := fmt.Sprintf("promised %s, denied %s, misnamed %s", round(t.Promised), round(t.Denied), round(t.Misnamed))
	if t.Reasons != "" {
		text += " (" + t.Reasons + ")"
	}
	return text
}

// steady is how long there may be no acknowledgement while writes count as accepted: the traffic has pauses of its own.
const steady = 500 * time.Millisecond

// Compare holds the statements against what the clients have seen until the end.
func Compare(statements []Statement, operations []traffic.Operation, end time.Duration) Truth {
	acks := acknowledged(operations)
	var truth Truth
	var promised, denied, misnamed stretch
	for index, statement := range statements {
		until := end
		if index+1 < len(statements) {
			until = statements[index+1].At
		}
		for at := statement.At; at < until; at += 10 * time.Millisecond {
			server := serving(acks, at)
			says := !statement.Silent && (statement.Ready || statement.Serving)
			truth.Promised = max(truth.Promised, promised.add(at, says && server == ""))
			if lasts := denied.add(at, !statement.Silent && !statement.Serving && server != ""); lasts > truth.Denied {
				truth.Denied, truth.Reasons = lasts, statement.Why
			}
			other := !statement.Silent && server != "" && statement.Primary != server
			truth.Misnamed = max(truth.Misnamed, misnamed.add(at, other))
		}
	}
	return truth
}

func acknowledged(operations []traffic.Operation) []traffic.Operation {
	var acks []traffic.Operation
	for _, operation := range operations {
		if operation.Fate == traffic.Acknowledged && operation.Register == 0 {
			acks = append(acks, operation)
		}
	}
	slices.SortFunc(acks, func(a, b traffic.Operation) int { return int(a.End - b.End) })
	return acks
}

// serving is the server that acknowledges at that moment, empty if none does: no acknowledgement just before it, or
// none just after it.
func serving(acks []traffic.Operation, at time.Duration) string {
	next, _ := slices.BinarySearchFunc(acks, at, func(ack traffic.Operation, at time.Duration) int {
		return int(ack.End - at)
	})
	if next == 0 || next == len(acks) || acks[next].End-acks[next-1].End > steady {
		return ""
	}
	return acks[next-1].Server
}

// stretch is a time in which something holds without a break.
type stretch struct {
	since time.Duration
	holds bool
}

func (s *stretch) add(at time.Duration, holds bool) time.Duration {
	if !holds {
		s.holds = false
		return 0
	}
	if !s.holds {
		s.since, s.holds = at, true
	}
	return at - s.since
}
