// Package window knows times of the week at which something may be done, such as "Sun 02:00-04:00". It is pure: it asks
// no clock, and the time zone is given to it.
//
// Times are those of a clock on the wall. On the day on which such a clock is put forward or back, a window may be
// shorter or longer than usual, and one that falls into the hour that does not exist opens an hour later. In the hour
// that comes twice, it opens the first time only.
//
// Start reading at Parse.
package window

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is a time of the week. The zero value is never open.
type Window struct {
	days [7]bool
	// from and until are minutes since midnight. One that ends before it begins ends on the next day.
	from, until int
	zone        *time.Location
}

// Span is one time at which a window is open: from Begin on, and at End not any more.
type Span struct{ Begin, End time.Time }

// days are written so, in the order of time.Weekday.
var days = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// Parse reads days and times: "Sun 02:00-04:00", "Mon-Fri 22:00-02:00", "Sat,Sun 01:30-06:00", or "daily 03:00-04:00".
// Without a zone, times are in UTC.
func Parse(text string, zone *time.Location) (Window, error) {
	made := Window{zone: zone}
	if zone == nil {
		made.zone = time.UTC
	}
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return Window{}, fmt.Errorf("%q: want days and times, such as Sun 02:00-04:00", text)
	}
	if err := made.parseDays(strings.ToLower(fields[0])); err != nil {
		return Window{}, fmt.Errorf("%q: %w", text, err)
	}
	first, last, found := strings.Cut(fields[1], "-")
	if !found {
		return Window{}, fmt.Errorf("%q: want a first and a last time, such as 02:00-04:00", text)
	}
	var err error
	if made.from, err = minutes(first); err != nil {
		return Window{}, fmt.Errorf("%q: %w", text, err)
	}
	if made.until, err = minutes(last); err != nil {
		return Window{}, fmt.Errorf("%q: %w", text, err)
	}
	if made.from == made.until {
		return Window{}, fmt.Errorf("%q: it ends when it begins", text)
	}
	return made, nil
}

func (w *Window) parseDays(text string) error {
	if text == "daily" {
		w.days = [7]bool{true, true, true, true, true, true, true}
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, several := strings.Cut(part, "-")
		if !several {
			last = first
		}
		from, until := slices.Index(days, first), slices.Index(days, last)
		if from < 0 || until < 0 {
			return fmt.Errorf("there is no day %q; write Mon, Tue, Wed, Thu, Fri, Sat, Sun or daily", part)
		}
		for day := from; ; day = (day + 1) % len(days) {
			w.days[day] = true
			if day == until {
				break
			}
		}
	}
	return nil
}

// minutes reads a time of the day. 24:00 is the end of it.
func minutes(text string) (int, error) {
	hour, minute, found := strings.Cut(text, ":")
	if !found || len(hour) != 2 || len(minute) != 2 {
		return 0, fmt.Errorf("%q is no time; write it as 02:00", text)
	}
	h, first := strconv.ParseUint(hour, 10, 8)
	m, second := strconv.ParseUint(minute, 10, 8)
	if errors.Join(first, second) != nil || m > 59 || h*60+m > 24*60 {
		return 0, fmt.Errorf("%q is no time of a day", text)
	}
	return int(h*60 + m), nil
}

// At returns the span that is open at a moment; open is false if none is.
func (w Window) At(moment time.Time) (span Span, open bool) {
	// One that began yesterday may still be open.
	for _, span := range w.around(moment, -1, 0) {
		if !moment.Before(span.Begin) && moment.Before(span.End) {
			return span, true
		}
	}
	return Span{}, false
}

// Next returns the first span that begins after a moment. The zero value has none.
func (w Window) Next(moment time.Time) Span {
	// A week, and one day more for a window that is gone on the day on which clocks are put forward.
	for _, span := range w.around(moment, 0, 14) {
		if span.Begin.After(moment) {
			return span
		}
	}
	return Span{}
}

// around are the spans that begin on the days from first to last, counted from the day of a moment.
func (w Window) around(moment time.Time, first, last int) []Span {
	if w.zone == nil {
		return nil
	}
	local := moment.In(w.zone)
	var spans []Span
	for ahead := first; ahead <= last; ahead++ {
		day := time.Date(local.Year(), local.Month(), local.Day()+ahead, 12, 0, 0, 0, w.zone)
		if !w.days[day.Weekday()] {
			continue
		}
		ends := w.until
		if w.until <= w.from {
			ends += 24 * 60
		}
		span := Span{Begin: onDay(day, w.from), End: onDay(day, ends)}
		if span.End.After(span.Begin) {
			spans = append(spans, span)
		}
	}
	return spans
}

func onDay(day time.Time, minute int) time.Time {
	return time.Date(day.Year(), day.Month(), day.Day(), 0, minute, 0, 0, day.Location())
}
