package window_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"meridian.dev/meridian/kit/window"
)

func moment(t *testing.T, text, zone string) time.Time {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04", text, location)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestAt(t *testing.T) {
	for name, test := range map[string]struct {
		window, zone, at string
		// open is the span, as begin and end in UTC, empty if none is open; next is when the next one begins.
		open, next string
	}{
		"the first moment": {
			window: "Sun 02:00-04:00", at: "2026-03-08 02:00", open: "03-08 02:00 03-08 04:00", next: "03-15 02:00",
		},
		"a moment before": {window: "Sun 02:00-04:00", at: "2026-03-08 01:59", next: "03-08 02:00"},
		"the last moment": {
			window: "Sun 02:00-04:00", at: "2026-03-08 03:59", open: "03-08 02:00 03-08 04:00", next: "03-15 02:00",
		},
		"the end":     {window: "Sun 02:00-04:00", at: "2026-03-08 04:00", next: "03-15 02:00"},
		"another day": {window: "Sun 02:00-04:00", at: "2026-03-09 03:00", next: "03-15 02:00"},
		"over midnight, before": {
			window: "Fri 22:00-02:00", at: "2026-03-06 23:00", open: "03-06 22:00 03-07 02:00", next: "03-13 22:00",
		},
		"over midnight, after": {
			window: "Fri 22:00-02:00", at: "2026-03-07 01:59", open: "03-06 22:00 03-07 02:00", next: "03-13 22:00",
		},
		"over midnight, the night before": {window: "Fri 22:00-02:00", at: "2026-03-06 01:00", next: "03-06 22:00"},
		"until midnight": {
			window: "daily 20:00-24:00", at: "2026-03-06 23:59", open: "03-06 20:00 03-07 00:00", next: "03-07 20:00",
		},
		"several days": {window: "Sat,Sun 01:00-02:00", at: "2026-03-07 02:00", next: "03-08 01:00"},
		"over the end of the week": {
			window: "Fri-Mon 01:00-02:00", at: "2026-03-08 01:30", open: "03-08 01:00 03-08 02:00", next: "03-09 01:00",
		},
		"not within it": {window: "Fri-Mon 01:00-02:00", at: "2026-03-10 01:30", next: "03-13 01:00"},
		"another zone": {
			window: "Sun 02:00-04:00", zone: "Europe/Berlin", at: "2026-03-08 02:30",
			open: "03-08 01:00 03-08 03:00", next: "03-15 01:00",
		},
		"clocks are put forward within it": {
			window: "Sun 01:00-04:00", zone: "Europe/Berlin", at: "2026-03-29 01:30",
			open: "03-29 00:00 03-29 02:00", next: "04-04 23:00",
		},
		"in the hour that does not exist": {
			window: "Sun 02:15-02:45", zone: "Europe/Berlin", at: "2026-03-29 03:30",
			open: "03-29 01:15 03-29 01:45", next: "04-05 00:15",
		},
		"clocks are put back within it": {
			window: "Sun 01:00-04:00", zone: "Europe/Berlin", at: "2026-10-25 01:30",
			open: "10-24 23:00 10-25 03:00", next: "11-01 00:00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := moment(t, test.at, test.zone)
			parsed, err := window.Parse(test.window, at.Location())
			if err != nil {
				t.Fatal(err)
			}
			const short = "01-02 15:04"
			got := ""
			if span, open := parsed.At(at); open {
				got = span.Begin.UTC().Format(short) + " " + span.End.UTC().Format(short)
			}
			if got != test.open {
				t.Errorf("open is %q, want %q", got, test.open)
			}
			if next := parsed.Next(at).Begin.UTC().Format(short); next != test.next {
				t.Errorf("next begins at %q, want %q", next, test.next)
			}
		})
	}
}

// Through two years of a zone with all its changes of the clock, a weekly window opens once a week, and Next and At
// agree.
func TestNextAndAtAgree(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		at := moment(t, "2026-01-01 00:00", zone)
		parsed, err := window.Parse("Sun 02:10-03:20", at.Location())
		if err != nil {
			t.Fatal(err)
		}
		count, end := 0, at.AddDate(2, 0, 0)
		for next := parsed.Next(at); next.Begin.Before(end); next = parsed.Next(next.Begin) {
			count++
			if span, open := parsed.At(next.Begin); !open || span != next {
				t.Errorf("%s: %v begins, and %v is open (%t)", zone, next, span, open)
			}
			if _, open := parsed.At(next.End); open {
				t.Errorf("%s: %v has ended and is open", zone, next)
			}
			if next.Begin.Weekday() != time.Sunday {
				t.Errorf("%s: %v is no Sunday", zone, next.Begin)
			}
		}
		if count != 104 {
			t.Errorf("%s: %d windows in two years", zone, count)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "want days and times", "Sun": "want days and times", "Sun 02:00": "a first and a last time",
		"Son 02:00-04:00": "no day", "Sun- 02:00-04:00": "no day", "Sun 2:00-04:00": "write it as",
		"Sun 02:00-24:01": "no time of a day", "Sun 02:60-03:00": "no time of a day",
		"Sun 02:00-02:00": "ends when it begins", "Sun 02:00-04:00 UTC": "want days and times",
		"Sun +2:00-04:00": "no time of a day",
	} {
		if _, err := window.Parse(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestZeroIsNeverOpen(t *testing.T) {
	var never window.Window
	now := time.Date(2026, 3, 8, 3, 0, 0, 0, time.UTC)
	if _, open := never.At(now); open || !never.Next(now).Begin.IsZero() {
		t.Error("it is open")
	}
}
