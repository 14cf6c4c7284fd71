package plan

import (
	"cmp"
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/postgres"
)

// Facts are what shipping is decided on.
type Facts struct {
	// Owner is whom this instance belongs to, Term the lease's term as it knows it.
	Owner backup.Owner
	Term  int64
	// Leads says that it is the primary of that term.
	Leads    bool
	Instance string
	// History is that of the timeline that it is on, Flushed how far its log is safe on its disk.
	History postgres.History
	Flushed backup.LSN
	// Local are the segments in its folder of the log.
	Local []LocalLog
	// Stored is what the repository has; Highest the highest term that anybody has shipped in.
	Stored  *backup.Catalogue
	Highest int64
	// Differs names an object of the own timeline whose content is not that of the own log, empty if none is known.
	Differs string
	// MostTails is how many tails of a segment there are before one covers them, 256 if it is 0.
	MostTails int
}

// LocalLog is what an instance has of a timeline.
type LocalLog struct {
	Timeline int
	Segments []uint64 // Sorted.
	// HasHistory says that the file of its history is there.
	HasHistory bool
}

// Action is one write to the repository.
type Action interface{ Verb() string }

// The actions of shipping.
type (
	// BeginTerm tells everybody that this term ships from now on.
	BeginTerm struct{ Term backup.Term }
	// PutHistory ships the history of a timeline.
	PutHistory struct{ Timeline int }
	// PutSegment ships a whole segment.
	PutSegment struct {
		Timeline int
		Number   uint64
	}
	// PutTail ships a piece of the segment that is being written.
	PutTail struct {
		Timeline int
		Tail     backup.Tail
	}
	// PutGap writes down that segments can no longer be shipped.
	PutGap struct {
		Timeline int
		Gap      backup.Gap
	}
)

// Verb implements Action.
func (BeginTerm) Verb() string { return "begin a term" }

// Verb implements Action.
func (PutHistory) Verb() string { return "ship a history" }

// Verb implements Action.
func (PutSegment) Verb() string { return "ship a segment" }

// Verb implements Action.
func (PutTail) Verb() string { return "ship a tail" }

// Verb implements Action.
func (PutGap) Verb() string { return "record a gap" }

// Hold is a named reason to ship nothing.
type Hold struct{ Reason, Detail string }

// Shipping is what is to be shipped now, in this order.
type Shipping struct {
	Actions []Action
	Holds   []Hold
}

// Ship decides what an instance ships. The primary ships what it has flushed, in order; anybody else fills in what is
// missing below a fork.
func Ship(facts Facts) Shipping {
	owner := facts.Stored.Owner
	if owner.DatabaseUID != facts.Owner.DatabaseUID || owner.SystemIdentifier != facts.Owner.SystemIdentifier {
		return Shipping{Holds: []Hold{{"RepositoryForeign", fmt.Sprintf("the repository belongs to %s/%s with the UID %s",
			owner.Namespace, owner.Name, owner.DatabaseUID)}}}
	}
	if !facts.Leads {
		return Shipping{Actions: fillBelowFork(facts)}
	}
	if facts.Highest > facts.Term {
		return Shipping{
			Actions: fillBelowFork(facts),
			Holds: []Hold{{"LaterTerm", fmt.Sprintf("term %d ships already, and this is the primary of term %d",
				facts.Highest, facts.Term)}},
		}
	}
	if why := writtenTwice(facts); why != "" {
		return Shipping{Holds: []Hold{{"RepositoryForeign", why}}}
	}
	var shipping Shipping
	if facts.Highest < facts.Term {
		shipping.Actions = append(shipping.Actions, BeginTerm{backup.Term{
			Term: facts.Term, Timeline: facts.History.Timeline(), Instance: facts.Instance,
		}})
	}
	shipping.Actions = append(shipping.Actions, shipHistories(facts)...)
	shipping.Actions = append(shipping.Actions, shipLog(facts)...)
	return shipping
}

// writtenTwice says why the log of the own timeline that is stored is that of another branch, empty if it is not.
func writtenTwice(facts Facts) string {
	if facts.Differs != "" {
		return facts.Differs + " is not what this primary of its timeline has: its volume was an older state, and " +
			"the same places were written anew"
	}
	timeline := facts.History.Timeline()
	if end := endOf(facts.Stored.Log(timeline), facts.Owner.SegmentSize); end > facts.Flushed {
		return fmt.Sprintf("the repository has the log of timeline %d up to %s, and this primary of that timeline has it "+
			"up to %s: its volume is an older state, and writes the same places anew", timeline, end, facts.Flushed)
	}
	return ""
}

// endOf is how far the log of a timeline goes, whatever is missing before. Only its one writer ships to its end, and
// what that has flushed outlives a crash. So an end ahead of the writer is that of another branch under the same name.
func endOf(log *backup.Log, size uint64) backup.LSN {
	if log == nil {
		return 0
	}
	end := uint64(0)
	for _, segment := range log.Segments {
		end = max(end, (segment.Number+1)*size)
	}
	for _, tail := range log.Tails {
		end = max(end, tail.Number*size+tail.To)
	}
	return backup.LSN(end)
}

// shipHistories ships the history of a timeline before its log, so that nobody finds log that cannot be placed.
func shipHistories(facts Facts) []Action {
	var actions []Action
	for _, local := range facts.Local {
		stored := facts.Stored.Log(local.Timeline)
		if local.HasHistory && facts.History.Has(local.Timeline) && (stored == nil || stored.History == nil) {
			actions = append(actions, PutHistory{local.Timeline})
		}
	}
	return actions
}

// shipLog walks from where the repository begins to what is flushed.
func shipLog(facts Facts) []Action {
	size := facts.Owner.SegmentSize
	last := uint64(facts.Flushed) / size
	var actions []Action
	var gap *PutGap
	for number := firstOf(facts, last); number < last; number++ {
		timeline := writtenIn(facts.History, number, size)
		if _, stored := facts.Stored.Log(timeline).Whole(number); stored || recorded(facts.Stored.Log(timeline), number) {
			if !stored && facts.has(timeline, number) {
				actions = append(actions, PutSegment{timeline, number})
			}
			gap = nil
			continue
		}
		if facts.has(timeline, number) {
			actions, gap = append(actions, PutSegment{timeline, number}), nil
			continue
		}
		if gap != nil && gap.Timeline == timeline {
			gap.Gap.Last = number
			actions[len(actions)-1] = *gap
			continue
		}
		gap = &PutGap{timeline, backup.Gap{First: number, Last: number}}
		actions = append(actions, *gap)
	}
	timeline := facts.History.Timeline()
	tails, reach := facts.Stored.Log(timeline).Cover(last)
	if offset := uint64(facts.Flushed) % size; offset > reach && facts.has(timeline, last) {
		from := reach
		if len(tails) >= cmp.Or(facts.MostTails, mostTails) {
			from = 0
		}
		actions = append(actions, PutTail{timeline, backup.Tail{Number: last, From: from, To: offset}})
	}
	return actions
}

// mostTails is how many tails of a segment are followed by one that covers them all: a database that has little to
// write would have some 18,000 of each, and whoever restores fetches them one by one.
const mostTails = 256

// firstOf is the segment that the log of the repository begins with. A new one begins with the oldest that leads to the
// present without a hole here: the base backup of a replica begins at its last restartpoint, which is some log ago.
func firstOf(facts Facts, present uint64) uint64 {
	first, found := beginOf(facts.Stored, facts.History)
	if found {
		return min(first, present)
	}
	size := facts.Owner.SegmentSize
	for first = present; first > 0 && facts.has(writtenIn(facts.History, first-1, size), first-1); {
		first--
	}
	return first
}

// beginOf is the first segment along a history that a repository has anything of.
func beginOf(stored *backup.Catalogue, history postgres.History) (first uint64, found bool) {
	first = ^uint64(0)
	for _, log := range stored.Logs {
		if !history.Has(log.Timeline) {
			continue
		}
		if len(log.Segments) > 0 {
			first, found = min(first, log.Segments[0].Number), true
		}
		if len(log.Tails) > 0 {
			first, found = min(first, log.Tails[0].Number), true
		}
	}
	return first, found
}

// writtenIn is the timeline whose file holds the whole segment: the last segment of a timeline that was left is in the
// file of the next (K3).
func writtenIn(history postgres.History, number, size uint64) int {
	timeline := 0
	for _, branch := range history {
		if timeline == 0 || branch.Begin/size <= number {
			timeline = branch.Timeline
		}
	}
	return timeline
}

func recorded(log *backup.Log, number uint64) bool {
	return log != nil && slices.ContainsFunc(log.Gaps, func(gap backup.Gap) bool {
		return gap.First <= number && number <= gap.Last
	})
}

func (f Facts) has(timeline int, number uint64) bool {
	for _, local := range f.Local {
		if local.Timeline == timeline {
			_, found := slices.BinarySearch(local.Segments, number)
			return found
		}
	}
	return false
}

// fillBelowFork ships whole segments that the repository lacks of timelines that were left, up to the fork (K4). The
// history is the repository's: it says which part of the own log the database has kept.
func fillBelowFork(facts Facts) []Action {
	history := Newest(facts.Stored)
	if !history.Has(facts.History.Timeline()) {
		return nil // The own log ended on a branch that nobody followed, or one that the repository does not know yet.
	}
	size := facts.Owner.SegmentSize
	first, _ := beginOf(facts.Stored, history)
	var actions []Action
	for _, local := range facts.Local {
		for _, number := range local.Segments {
			end := backup.LSN((number + 1) * size)
			valid, within := validIn(history, local.Timeline, number, size)
			_, stored := facts.Stored.Log(local.Timeline).Whole(number)
			if within && valid == size && !stored && number >= first && end <= facts.Flushed &&
				local.Timeline != history.Timeline() && writtenIn(history, number, size) == local.Timeline {
				actions = append(actions, PutSegment{local.Timeline, number})
			}
		}
	}
	return actions
}

// Confirmed is up to where the repository has the log along the history, gaps that are recorded aside. What lies behind
// it must be kept on the instance (K4).
func Confirmed(facts Facts) backup.LSN {
	size := facts.Owner.SegmentSize
	last := uint64(facts.Flushed) / size
	for number := firstOf(facts, last); number < last; number++ {
		log := facts.Stored.Log(writtenIn(facts.History, number, size))
		if _, whole := log.Whole(number); !whole && !recorded(log, number) {
			return backup.LSN(number * size)
		}
	}
	_, reach := facts.Stored.Log(facts.History.Timeline()).Cover(last)
	return min(backup.LSN(last*size+reach), facts.Flushed)
}
