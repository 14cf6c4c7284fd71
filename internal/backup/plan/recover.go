package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/postgres"
)

// Target is where a restore is to end. The zero value is the newest place that can be reached.
type Target struct {
	Time time.Time
	LSN  backup.LSN
}

func (t Target) String() string {
	switch {
	case t.LSN != 0:
		return "LSN " + t.LSN.String()
	case !t.Time.IsZero():
		return t.Time.UTC().Format(time.RFC3339)
	}
	return "the latest"
}

// Window is what one base backup leads to.
type Window struct {
	Backup      backup.Backup
	From, Until backup.LSN
	// FromAt and UntilAt are the same by the clock of the store.
	FromAt, UntilAt time.Time
}

// Windows are those of all base backups that lie on the history the database went, the oldest first. A backup whose log
// does not reach its stop has none.
func Windows(catalogue *backup.Catalogue) []Window {
	history := Newest(catalogue)
	var windows []Window
	for _, base := range catalogue.Backups {
		reach := Follow(catalogue, history, base.Start)
		if !holds(history, base) || reach.Until < base.Stop {
			continue
		}
		windows = append(windows, Window{
			Backup: base, From: base.Stop, Until: reach.Until, FromAt: base.At, UntilAt: latest(base.At, reach.At),
		})
	}
	return windows
}

// Recovery is what a restore needs.
type Recovery struct {
	Backup  backup.Backup
	History postgres.History
	// Timeline is the one to recover along.
	Timeline int
	Files    []backup.File
	// Until is how far the log leads. Without a target replay must reach it before anybody is let in (K6).
	Until   backup.LSN
	UntilAt time.Time
	// Hole says that the repository has log behind Until, to which this one does not lead.
	Hole bool
	// Sure is until when the log is sure to have all that was committed, by the clock of the store; zero if not known.
	Sure time.Time
}

// OutsideError refuses a target, and says what could be reached instead.
type OutsideError struct {
	Target  Target
	Windows []Window
}

func (e *OutsideError) Error() string {
	if len(e.Windows) == 0 {
		return fmt.Sprintf("cannot restore to %s: the repository has no complete base backup", e.Target)
	}
	var spans []string
	for _, span := range merge(e.Windows) {
		spans = append(spans, fmt.Sprintf("%s to %s (LSN %s to %s)", span.FromAt.UTC().Format(time.RFC3339),
			span.UntilAt.UTC().Format(time.RFC3339), span.From, span.Until))
	}
	return fmt.Sprintf("cannot restore to %s: choose a target from %s", e.Target, strings.Join(spans, ", or "))
}

// Recover finds the base backup and the log for a target: the newest backup before it, because the less log there is to
// replay, the sooner it is done.
func Recover(catalogue *backup.Catalogue, target Target) (Recovery, error) {
	windows := Windows(catalogue)
	for index := len(windows) - 1; index >= 0; index-- {
		if !windows[index].has(target) {
			continue
		}
		base, history := windows[index].Backup, Newest(catalogue)
		reach := Follow(catalogue, history, base.Start)
		return Recovery{
			Backup: base, History: history, Timeline: history.Timeline(), Files: reach.Files,
			Until: reach.Until, UntilAt: windows[index].UntilAt,
			Hole: goesOn(catalogue, history, reach.Until), Sure: reach.Sure,
		}, nil
	}
	return Recovery{}, &OutsideError{Target: target, Windows: windows}
}

// goesOn says whether there is log of a history behind a place that none leads to from there.
func goesOn(catalogue *backup.Catalogue, history postgres.History, place backup.LSN) bool {
	size := catalogue.Owner.SegmentSize
	behind := func(timeline int, number, to uint64) bool {
		limit, within := validIn(history, timeline, number, size)
		return within && backup.LSN(number*size+min(limit, to)) > place
	}
	return slices.ContainsFunc(catalogue.Logs, func(log backup.Log) bool {
		return slices.ContainsFunc(log.Segments, func(found backup.Segment) bool {
			return behind(log.Timeline, found.Number, size)
		}) || slices.ContainsFunc(log.Tails, func(found backup.Tail) bool {
			return behind(log.Timeline, found.Number, found.To)
		})
	})
}

func (w Window) has(target Target) bool {
	switch {
	case target.LSN != 0:
		return target.LSN >= w.From && target.LSN <= w.Until
	case !target.Time.IsZero():
		return !target.Time.Before(w.FromAt) && !target.Time.After(w.UntilAt)
	}
	return true
}

// merge puts windows that overlap together.
func merge(windows []Window) []Window {
	var merged []Window
	for _, window := range windows {
		last := len(merged) - 1
		if last < 0 || window.From > merged[last].Until {
			merged = append(merged, window)
			continue
		}
		merged[last].Until = max(merged[last].Until, window.Until)
		merged[last].UntilAt = latest(merged[last].UntilAt, window.UntilAt)
	}
	return merged
}

// Summary is what a user wants to know of a repository.
type Summary struct {
	// From and Until are the ends of the newest unbroken window, zero if there is none.
	From, Until time.Time
	UntilLSN    backup.LSN
	// Gaps lie between older windows, which are still good, and the newest.
	Gaps    []Hole
	Size    int64
	Backups int
}

// Hole is a time that cannot be restored to, between two that can.
type Hole struct{ From, Until time.Time }

// Summarize reads a catalogue for the status.
func Summarize(catalogue *backup.Catalogue) Summary {
	summary := Summary{Backups: len(catalogue.Backups)}
	for _, object := range catalogue.Objects {
		summary.Size += object.Size
	}
	merged := merge(Windows(catalogue))
	for index, window := range merged {
		if index > 0 {
			summary.Gaps = append(summary.Gaps, Hole{From: merged[index-1].UntilAt, Until: window.FromAt})
		}
		summary.From, summary.Until, summary.UntilLSN = window.FromAt, window.UntilAt, window.Until
	}
	return summary
}
