package journal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres/journal"
)

// entry is a line of the log: of process, user and database.
func entry(pid, user, database, text string) string {
	return "\x1f1700000000.1\x1f" + pid + "\x1f00000\x1f" + user + "\x1f" + database + "\x1f\x1f" + text
}

// What is decided on, and what is told, comes from the server alone: texts of tenants are in neither.
func TestWords(t *testing.T) {
	const invalid = `invalid value for parameter "work_mem": "wrong"`
	open := entry("9", "", "", "LOG:  starting PostgreSQL 17.6 on x86_64")
	for name, test := range map[string]struct {
		lines      []string
		complaints []string
		last       string
		reached    bool
	}{
		"a value that it does not start with": {
			lines:      []string{entry("9", "", "", "LOG:  "+invalid), entry("9", "", "", "FATAL:  file contains errors")},
			complaints: []string{invalid, "file contains errors"}, last: "file contains errors",
		},
		"with states in the messages": {
			lines: []string{entry("9", "", "", "LOG:  22023: "+invalid)}, complaints: []string{invalid},
		},
		"the same after it has opened": {
			lines: []string{open, entry("9", "", "", "LOG:  "+invalid)}, reached: true,
		},
		"an error of a tenant": {
			lines: []string{open, entry("12", "app", "app", "ERROR:  "+invalid),
				entry("12", "app", "app", "FATAL:  "+invalid), entry("12", "app", "app", "STATEMENT:  select secret"),
				"\tinvalid", entry("12", "app", "app", "HINT:  mine")},
			reached: true,
		},
		"a tenant before a word of its own": {
			lines: []string{entry("12", "app", "app", "FATAL:  "+invalid)}, reached: true,
		},
		"a user named like a line": {
			lines:   []string{open, entry("12", "\x1f\x1f\x1fFATAL:  "+invalid, "app", "FATAL:  no such role")},
			reached: true,
		},
		"another process of the server": {
			lines: []string{entry("9", "", "", "LOG:  a"), entry("10", "", "", "LOG:  "+invalid),
				entry("10", "", "", "DETAIL:  a secret"), entry("10", "", "", "CONTEXT:  a secret"),
				entry("10", "", "", "PANIC:  no checkpoint"), entry("10", "", "", "HINT:  restore")},
			complaints: []string{"a"}, last: "no checkpoint; restore",
		},
		"without a prefix": {
			lines: []string{"postgres: max_connections is too small", open, "something of a library"},
			last:  "postgres: max_connections is too small", reached: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var words journal.Words
			for _, line := range test.lines {
				words.Add([]byte(line))
			}
			complaints, last, reached := words.Complaints(), words.Text(), words.Reached()
			if diff := cmp.Diff(test.complaints, complaints); diff != "" {
				t.Errorf("complaints differ (-want +got):\n%s", diff)
			}
			if last != test.last || reached != test.reached {
				t.Errorf("last words %q, reached %t; want %q, %t", last, reached, test.last, test.reached)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		want journal.Line
	}{
		"an entry": {
			"\x1f1700000000.123\x1f42\x1f42P01\x1fapp\x1fgeo\x1fpsql\x1fERROR:  relation \"x\" does not exist",
			journal.Line{Time: "1700000000.123", PID: 42, SQLState: "42P01", User: "app", Database: "geo", Application: "psql",
				Severity: "ERROR", Message: `relation "x" does not exist`},
		},
		"of the server itself": {
			"\x1f1700000000.123\x1f1\x1f00000\x1f\x1f\x1f\x1fLOG:  ready",
			journal.Line{Time: "1700000000.123", PID: 1, SQLState: "00000", Severity: "LOG", Message: "ready"},
		},
		"a further line":   {"\tfrom x", journal.Line{Continued: true, Message: "from x"}},
		"without a prefix": {"postgres: could not find", journal.Line{Message: "postgres: could not find"}},
		"a message with the separator in it": {
			"\x1f1\x1f2\x1f3\x1f4\x1f5\x1f6\x1fLOG:  a\x1fb",
			journal.Line{Time: "1", PID: 2, SQLState: "3", User: "4", Database: "5", Application: "6", Severity: "LOG",
				Message: "a\x1fb"},
		},
		"empty": {"", journal.Line{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, journal.Parse([]byte(test.line))); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

// A commit that nobody waits for any more is counted, however its wait ended.
func TestCancelledWaits(t *testing.T) {
	var kept journal.Words
	for _, line := range []string{
		entry("9", "", "", "LOG:  starting PostgreSQL 17.6 on x86_64"),
		entry("12", "app", "app", "WARNING:  canceling wait for synchronous replication due to user request"),
		entry("12", "app", "app", "DETAIL:  The transaction has already committed locally"),
		entry("13", "app", "app",
			"WARNING:  canceling the wait for synchronous replication and terminating connection due to administrator command"),
		entry("14", "app", "app", "WARNING:  01000: canceling wait for synchronous replication due to user request"),
		entry("15", "app", "app", "ERROR:  canceling statement due to user request"),
	} {
		kept.Add([]byte(line))
	}
	if count := kept.CancelledWaits(); count != 3 {
		t.Errorf("%d were counted, want 3", count)
	}
}

// When a copy has become one, by the word of the server alone.
func TestConsistent(t *testing.T) {
	const text = "LOG:  consistent recovery state reached at 0/5000118"
	var words journal.Words
	words.Add([]byte(entry("12", "app", "app", text)))
	if said, _ := words.Consistent(); said {
		t.Error("a tenant has said so")
	}
	words.Add([]byte(entry("10", "", "", text)))
	if said, open := words.Consistent(); !said || open {
		t.Error("the server has said so, and has let nobody in")
	}
	words.Clear()
	if said, _ := words.Consistent(); said {
		t.Error("a start of before has said so")
	}
}

// That the WAL is gone is proof only where it was said before anybody could connect: later, an application may have had
// a part in the text.
func TestLost(t *testing.T) {
	gone := entry("10", "", "", "FATAL:  could not receive data from WAL stream: "+
		"ERROR:  requested WAL segment 000000010000000000000003 has already been removed")
	accepts := entry("9", "", "", "LOG:  database system is ready to accept read-only connections")
	type said struct{ Lost, AtStart bool }
	for name, test := range map[string]struct {
		lines []string
		want  said
	}{
		"nothing":                {[]string{accepts}, said{}},
		"before it lets in":      {[]string{gone, accepts}, said{true, true}},
		"after it has let in":    {[]string{accepts, gone}, said{true, false}},
		"by a tenant":            {[]string{entry("12", "app", "app", "FATAL:  could not receive data"), accepts}, said{}},
		"twice":                  {[]string{gone, accepts, gone}, said{true, true}},
		"of a start before this": {[]string{gone, "clear", accepts}, said{}},
	} {
		t.Run(name, func(t *testing.T) {
			var words journal.Words
			for _, line := range test.lines {
				if line == "clear" {
					words.Clear()
					continue
				}
				words.Add([]byte(line))
			}
			var got said
			if got.Lost, got.AtStart = words.Lost(); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
