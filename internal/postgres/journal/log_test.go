package journal_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres/journal"
)

func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := journal.NewLog(slog.NewJSONHandler(&out, nil))
	for _, line := range []string{
		"\x1f1700000000.500\x1f7\x1f42601\x1fapp\x1fgeo\x1fpsql\x1fERROR:  syntax error",
		"\x1f1700000000.500\x1f7\x1f42601\x1fapp\x1fgeo\x1fpsql\x1fSTATEMENT:  selec",
		"\t1",
		"a line of something else",
	} {
		log.Add([]byte(line))
	}
	log.Flush()
	var got []map[string]any
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var line map[string]any
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line["severity"] == nil {
			delete(line, "time") // It is the time of the test.
		}
		got = append(got, line)
	}
	entry := func(level, severity, message string) map[string]any {
		return map[string]any{
			"time": "2023-11-14T22:13:20.5Z", "level": level, "msg": message, "logger": "postgres", "severity": severity,
			"sqlstate": "42601", "pid": 7.0, "user": "app", "database": "geo", "application": "psql",
		}
	}
	want := []map[string]any{
		entry("ERROR", "ERROR", "syntax error"), entry("INFO", "STATEMENT", "selec\n1"),
		{"level": "INFO", "msg": "a line of something else", "logger": "postgres"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}
