package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Schedule is a row of moments, such as every night at two. The zero value has none.
type Schedule struct {
	days   [7]bool
	at     int // In minutes since midnight.
	hourly bool
	zone   *time.Location
}

// unsaid is the hour of "daily" and "weekly" without a time: most people sleep.
const unsaid = "02:00"

// ParseSchedule reads when something is done: "hourly", "daily 02:00", "weekly sun 02:00", "Mon-Fri 22:00",
// "Wed,Sun 03:30". Without a time it is two o'clock, and a week without a day has Sunday. Without a zone, times are
// in UTC.
//
// On the day on which clocks are put forward, a moment that does not exist is an hour later; in the hour that comes
// twice there is one moment only.
func ParseSchedule(text string, zone *time.Location) (Schedule, error) {
	made := Schedule{zone: zone}
	if zone == nil {
		made.zone = time.UTC
	}
	fields := strings.Fields(strings.ToLower(text))
	refuse := func(why string) (Schedule, error) {
		return Schedule{}, fmt.Errorf("%q: %s; write hourly, or days and a time, such as daily 02:00 or Mon-Fri 22:00",
			text, why)
	}
	switch {
	case len(fields) == 0:
		return refuse("is empty")
	case slices.Equal(fields, []string{"hourly"}):
		made.hourly = true
		return made, nil
	case slices.Equal(fields, []string{"weekly"}):
		fields = []string{"sun", unsaid}
	case slices.Equal(fields, []string{"daily"}):
		fields = append(fields, unsaid)
	case fields[0] == "weekly":
		fields = fields[1:]
		if fields[0] == "daily" {
			return refuse("is both daily and weekly")
		}
	}
	if len(fields) != 2 {
		return refuse("is not days and a time")
	}
	var days Window
	if err := days.parseDays(fields[0]); err != nil {
		return Schedule{}, fmt.Errorf("%q: %w", text, err)
	}
	at, err := minutes(fields[1])
	switch {
	case err != nil:
		return Schedule{}, fmt.Errorf("%q: %w", text, err)
	case at == 24*60:
		return refuse("24:00 is the next day's 00:00")
	}
	made.days, made.at = days.days, at
	return made, nil
}

// Next returns the first moment after the given one, zero if there is none.
func (s Schedule) Next(after time.Time) time.Time {
	for _, moment := range s.around(after, 0, 8) {
		if moment.After(after) {
			return moment
		}
	}
	return time.Time{}
}

// Last returns the last moment that is not after the given one, zero if there is none.
func (s Schedule) Last(until time.Time) time.Time {
	moments := s.around(until, -8, 0)
	for _, moment := range slices.Backward(moments) {
		if !moment.After(until) {
			return moment
		}
	}
	return time.Time{}
}

// around are the moments on the days from first to last, counted from the day of a moment.
func (s Schedule) around(moment time.Time, first, last int) []time.Time {
	if s.zone == nil {
		return nil
	}
	if s.hourly {
		hour := moment.Truncate(time.Hour) // Absolute hours: the same in every zone with whole hours.
		return []time.Time{hour, hour.Add(time.Hour)}
	}
	local := moment.In(s.zone)
	var moments []time.Time
	for ahead := first; ahead <= last; ahead++ {
		day := time.Date(local.Year(), local.Month(), local.Day()+ahead, 12, 0, 0, 0, s.zone)
		if s.days[day.Weekday()] {
			moments = append(moments, onDay(day, s.at))
		}
	}
	return moments
}
