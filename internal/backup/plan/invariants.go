package plan

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/kit/rule"
)

// The ids of the rules of backups.
const (
	writeAbsent     = "backup.write-only-what-is-absent"
	completeWithLog = "backup.complete-a-backup-with-its-log"
	inOrder         = "backup.ship-in-order"
	fillBelow       = "backup.fill-in-below-a-fork"
	deleteUnneeded  = "backup.delete-only-what-nothing-needs"
	endAtTheEnd     = "backup.end-a-recovery-only-at-the-end"
	latestTerm      = "backup.ship-as-owner-in-the-latest-term"
)

// Rules are those of backups. Those about decisions are checked by Check, CheckDeletes and CheckRecovery; the first
// is one of the store, which knows no other write and is tried at the first contact.
func Rules() []rule.Rule {
	return []rule.Rule{
		{
			ID: writeAbsent, Was: []string{"K1"},
			Why: "two writers that overwrite each other leave nothing that can be trusted",
		},
		{ID: completeWithLog, Why: "a backup without the WAL up to its stop cannot be restored", Was: []string{"K2"}},
		{
			ID: inOrder, Was: []string{"K3"},
			Why: "only what is flushed is shipped, and a hole that nobody recorded looks like the end of the WAL",
		},
		{ID: fillBelow, Why: "segments that only a dead primary was to ship would never arrive", Was: []string{"K4"}},
		{ID: deleteUnneeded, Why: "what was deleted cannot be restored from", Was: []string{"K5"}},
		{
			ID: endAtTheEnd, Was: []string{"K6"},
			Why: "a recovery that ends before the repository does loses rows without an error",
		},
		{ID: latestTerm, Why: "a deposed primary must not write into its successor's WAL", Was: []string{"K7"}},
	}
}

// Violation is a rule that a decision would break.
type Violation = rule.Violation

// Check returns the rules that shipping would break, written from the rules and not from Ship.
func Check(facts Facts, shipping Shipping) []Violation {
	check := &shippingCheck{facts: facts, size: facts.Owner.SegmentSize, done: map[[2]uint64]bool{}}
	for _, action := range shipping.Actions {
		check.one(action)
	}
	if len(shipping.Holds) == 0 && len(check.found) == 0 {
		check.forgotten()
	}
	return check.found
}

// shippingCheck remembers what the actions before have written.
type shippingCheck struct {
	facts Facts
	size  uint64
	done  map[[2]uint64]bool // Timeline and number, whole or recorded as a gap.
	found []Violation
}

func (c *shippingCheck) broken(id, format string, args ...any) {
	c.found = append(c.found, Violation{Rule: id, Detail: fmt.Sprintf(format, args...)})
}

func (c *shippingCheck) one(action Action) {
	stored := c.facts.Stored.Owner
	if stored.DatabaseUID != c.facts.Owner.DatabaseUID || stored.SystemIdentifier != c.facts.Owner.SystemIdentifier {
		c.broken(latestTerm, "%s into the repository of another database", action.Verb())
	}
	switch action := action.(type) {
	case PutSegment:
		c.segment(action)
		c.done[[2]uint64{uint64(action.Timeline), action.Number}] = true
	case PutTail:
		c.ownBranch(action.Verb(), action.Timeline)
		if backup.LSN(action.Tail.Number*c.size+action.Tail.To) > c.facts.Flushed {
			c.broken(inOrder, "a tail of segment %d up to %d, and only %s is flushed",
				action.Tail.Number, action.Tail.To, c.facts.Flushed)
		}
		c.inOrder(action.Timeline, action.Tail.Number)
		if _, reach := c.facts.Stored.Log(action.Timeline).Cover(action.Tail.Number); action.Tail.From > reach {
			c.broken(inOrder, "a tail from %d, and the repository has %d of segment %d",
				action.Tail.From, reach, action.Tail.Number)
		}
	case PutGap:
		c.ownBranch(action.Verb(), action.Timeline)
		for number := action.Gap.First; number <= action.Gap.Last; number++ {
			if c.facts.has(action.Timeline, number) {
				c.broken(fillBelow, "segment %d of timeline %d is here, and is recorded as lost", number, action.Timeline)
			}
			c.done[[2]uint64{uint64(action.Timeline), number}] = true
		}
	case BeginTerm:
		c.ownBranch(action.Verb(), action.Term.Timeline)
	case PutHistory:
	}
}

// ownBranch is what only the primary of the latest term may write.
func (c *shippingCheck) ownBranch(verb string, timeline int) {
	if !c.facts.Leads || c.facts.Highest > c.facts.Term {
		c.broken(latestTerm, "%s on timeline %d, and term %d ships", verb, timeline, c.facts.Highest)
	}
}

func (c *shippingCheck) segment(action PutSegment) {
	if backup.LSN((action.Number+1)*c.size) > c.facts.Flushed {
		c.broken(inOrder, "segment %d as a whole, and only %s is flushed", action.Number, c.facts.Flushed)
	}
	history := c.facts.History
	if !c.facts.Leads || c.facts.Highest > c.facts.Term {
		history = Newest(c.facts.Stored)
	}
	index := slices.IndexFunc(history, func(branch postgres.Branch) bool { return branch.Timeline == action.Timeline })
	switch {
	case index < 0:
		c.broken(inOrder, "a segment of timeline %d, which was left", action.Timeline)
	case index == len(history)-1:
		c.ownBranch(action.Verb(), action.Timeline)
	case history[index+1].Begin < (action.Number+1)*c.size:
		c.broken(inOrder, "segment %d of timeline %d as a whole, which was left at %s", action.Number, action.Timeline,
			backup.LSN(history[index+1].Begin))
	}
	if c.facts.Leads && c.facts.Highest <= c.facts.Term {
		c.inOrder(action.Timeline, action.Number)
	}
}

// inOrder asks for the segment before: stored, recorded as a gap, or shipped just now, on any timeline of the history.
func (c *shippingCheck) inOrder(timeline int, number uint64) {
	first := true
	for _, log := range c.facts.Stored.Logs {
		for _, segment := range log.Segments {
			first = first && segment.Number >= number
		}
		for _, tail := range log.Tails {
			first = first && tail.Number >= number
		}
	}
	if first && len(c.done) == 0 || number == 0 {
		return
	}
	for index, branch := range c.facts.History {
		if index < len(c.facts.History)-1 && c.facts.History[index+1].Begin < number*c.size {
			continue // That timeline was left before.
		}
		log := c.facts.Stored.Log(branch.Timeline)
		if _, whole := log.Whole(number - 1); whole || recorded(log, number-1) ||
			c.done[[2]uint64{uint64(branch.Timeline), number - 1}] {
			return
		}
	}
	c.broken(inOrder, "segment %d of timeline %d, and the one before is neither there nor recorded as a gap",
		number, timeline)
}

// forgotten finds segments below a fork that are here and missing there, and that the plan leaves out (K4).
func (c *shippingCheck) forgotten() {
	history := c.facts.History
	if !c.facts.Leads {
		history = Newest(c.facts.Stored)
	}
	for index := 0; index < len(history)-1 && history.Has(c.facts.History.Timeline()); index++ {
		log := c.facts.Stored.Log(history[index].Timeline)
		if log == nil || len(log.Segments) == 0 {
			continue
		}
		for number := log.Segments[0].Number; (number+1)*c.size <= history[index+1].Begin; number++ {
			_, whole := log.Whole(number)
			if !whole && c.facts.has(log.Timeline, number) && backup.LSN((number+1)*c.size) <= c.facts.Flushed &&
				!c.done[[2]uint64{uint64(log.Timeline), number}] {
				c.broken(fillBelow, "segment %d of timeline %d is here, is missing, and is not shipped", number, log.Timeline)
			}
		}
	}
}

// needed is a deletion of what something needs.
func needed(format string, args ...any) Violation {
	return Violation{Rule: deleteUnneeded, Detail: fmt.Sprintf(format, args...)}
}

// CheckDeletes returns the rules that deletions would break: whatever could be restored within the window, from a
// backup that is to be kept, can still be restored afterwards.
func CheckDeletes(catalogue *backup.Catalogue, policy Policy, names []string) []Violation {
	after := Without(catalogue, names)
	var found []Violation
	begin := catalogue.Now.Add(-policy.Window)
	before := Windows(catalogue)
	for _, window := range before {
		for _, at := range placesOf(window, before) {
			_, still := Recover(after, at)
			if still != nil && window.UntilAt.After(begin) && reachedWithin(before, at.LSN, begin) {
				found = append(found, needed("LSN %s could be restored, and lies in the window", at.LSN))
			}
		}
	}
	if len(before) > 0 {
		newest := Target{LSN: before[len(before)-1].Until}
		if _, still := Recover(after, newest); still != nil {
			found = append(found, needed("%s is the newest place that could be restored", newest))
		}
	}
	if usable := len(Windows(after)); usable < min(policy.AtLeast, len(before)) {
		found = append(found, needed("%d backups are left, not %d", usable, policy.AtLeast))
	}
	if verified := newestVerified(catalogue); verified != nil && after.Backup(verified.ID) == nil {
		found = append(found, needed("the newest verified backup %s is deleted", verified.ID))
	}
	for _, name := range names {
		if kind := backup.ParseKey(name, catalogue.Owner.SegmentSize).Kind; kind == backup.KindForeign ||
			kind == backup.KindOwner || kind == backup.KindTerm || kind == backup.KindHistory {
			found = append(found, needed("%s is deleted", name))
		}
	}
	return found
}

// placesOf are the places of a window that are tried: its ends, its middle, and the last one before each other backup,
// which no later backup reaches.
func placesOf(window Window, windows []Window) []Target {
	places := []Target{{LSN: window.From}, {LSN: window.Until}, {LSN: (window.From + window.Until) / 2}}
	for _, other := range windows {
		if other.From > window.From && other.From <= window.Until {
			places = append(places, Target{LSN: other.From - 1})
		}
	}
	return places
}

// reachedWithin says whether a place was first restorable after the begin of the window, or from a backup in it.
func reachedWithin(windows []Window, lsn backup.LSN, begin time.Time) bool {
	for _, window := range windows {
		if window.From >= lsn && !window.FromAt.After(begin) {
			return false // A backup before the window lies behind it, so it is older than the window.
		}
	}
	return true
}

// Without is the catalogue after the deletion of some objects.
func Without(catalogue *backup.Catalogue, names []string) *backup.Catalogue {
	gone := map[string]bool{}
	for _, name := range names {
		gone[name] = true
	}
	after := *catalogue
	after.Objects = slices.DeleteFunc(slices.Clone(after.Objects), func(o backup.Object) bool { return gone[o.Name] })
	after.Backups = slices.DeleteFunc(slices.Clone(after.Backups), func(base backup.Backup) bool {
		return gone[backup.BaseName(base.ID)] ||
			slices.ContainsFunc(base.Parts, func(part backup.Part) bool { return gone[part.Name] })
	})
	after.Logs = slices.Clone(after.Logs)
	for index := range after.Logs {
		log := &after.Logs[index]
		log.Segments = slices.DeleteFunc(slices.Clone(log.Segments), func(s backup.Segment) bool { return gone[s.Name] })
		log.Tails = slices.DeleteFunc(slices.Clone(log.Tails), func(t backup.Tail) bool { return gone[t.Name] })
	}
	return &after
}

func ended(id, format string, args ...any) []Violation {
	return []Violation{{Rule: id, Detail: fmt.Sprintf(format, args...)}}
}

// CheckRecovery returns the rules that an end of a recovery would break: what was reached, and whether PostgreSQL
// itself has said that it stopped at the target.
func CheckRecovery(recovery Recovery, target Target, reached backup.LSN, stopped bool) []Violation {
	switch {
	case target.LSN != 0 && reached < target.LSN && !stopped:
		return ended(endAtTheEnd, "replay ended at %s, before the target %s", reached, target.LSN)
	case target.LSN == 0 && (target.Time.IsZero() || !stopped) && reached < recovery.Until:
		return ended(endAtTheEnd, "replay ended at %s, and the repository leads to %s", reached, recovery.Until)
	case reached < recovery.Backup.Stop:
		return ended(completeWithLog, "replay ended at %s, before the end of the backup %s", reached, recovery.Backup.Stop)
	}
	return nil
}
