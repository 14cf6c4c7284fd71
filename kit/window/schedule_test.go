package window_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/kit/window"
)

// A backup is due when the last moment of its schedule has no backup yet.
func ExampleParseSchedule() {
	nightly, err := window.ParseSchedule("daily 02:00", time.UTC)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 6, 18, 0, 0, 0, time.UTC)
	fmt.Println(nightly.Last(now).Format("Mon 2 Jan 15:04"), "and", nightly.Next(now).Format("Mon 2 Jan 15:04"))
	// Output:
	// Fri 6 Mar 02:00 and Sat 7 Mar 02:00
}

func TestSchedule(t *testing.T) {
	for name, test := range map[string]struct {
		schedule, zone, at string
		last, next         string // In UTC.
	}{
		"every hour":         {"hourly", "UTC", "2026-03-08 02:30", "03-08 02:00", "03-08 03:00"},
		"on the hour":        {"hourly", "UTC", "2026-03-08 02:00", "03-08 02:00", "03-08 03:00"},
		"every day":          {"daily 02:00", "UTC", "2026-03-08 01:59", "03-07 02:00", "03-08 02:00"},
		"at the moment":      {"daily 02:00", "UTC", "2026-03-08 02:00", "03-08 02:00", "03-09 02:00"},
		"daily alone":        {"daily", "UTC", "2026-03-08 12:00", "03-08 02:00", "03-09 02:00"},
		"every week":         {"weekly sun 02:00", "UTC", "2026-03-09 12:00", "03-08 02:00", "03-15 02:00"},
		"on its own day":     {"weekly sun 02:00", "UTC", "2026-03-08 01:00", "03-01 02:00", "03-08 02:00"},
		"weekly alone":       {"weekly", "UTC", "2026-03-08 02:00", "03-08 02:00", "03-15 02:00"},
		"working days":       {"Mon-Fri 22:00", "UTC", "2026-03-07 12:00", "03-06 22:00", "03-09 22:00"},
		"some days":          {"wed,sun 03:30", "UTC", "2026-03-05 00:00", "03-04 03:30", "03-08 03:30"},
		"another zone":       {"daily 02:00", "Europe/Berlin", "2026-03-08 12:00", "03-08 01:00", "03-09 01:00"},
		"clocks put forward": {"daily 02:30", "Europe/Berlin", "2026-03-29 12:00", "03-29 01:30", "03-30 00:30"},
		"clocks put back":    {"daily 02:30", "Europe/Berlin", "2026-10-25 12:00", "10-25 01:30", "10-26 01:30"},
	} {
		t.Run(name, func(t *testing.T) {
			at := moment(t, test.at, test.zone)
			schedule, err := window.ParseSchedule(test.schedule, at.Location())
			if err != nil {
				t.Fatal(err)
			}
			last, next := schedule.Last(at).UTC().Format("01-02 15:04"), schedule.Next(at).UTC().Format("01-02 15:04")
			if last != test.last || next != test.next {
				t.Errorf("at %s: last %s, next %s; want %s and %s", at, last, next, test.last, test.next)
			}
		})
	}
}

func TestScheduleIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "is empty",
		"nightly":           "is not days and a time",
		"daily 25:00":       "no time of a day",
		"daily 24:00":       "the next day's 00:00",
		"daily 2:00":        "write it as 02:00",
		"weekly 02:00":      "is not days and a time",
		"weekly daily 2:00": "both daily and weekly",
		"Son 02:00":         `no day "son"`,
		"Sun 02:00-04:00":   "is no time; write it as",
		"0 2 * * *":         "is not days and a time",
	} {
		if _, err := window.ParseSchedule(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want a refusal with %q", text, err, want)
		}
	}
	if moment := (window.Schedule{}).Next(time.Now()); !moment.IsZero() {
		t.Errorf("a schedule of nothing has %s", moment)
	}
}
