package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/wire"
)

func TestTrialResult(t *testing.T) {
	result := wire.TrialResult{
		Backup: "b1", RestoreMilliseconds: 61500, Indexes: 2, Problem: "pg_amcheck: bad",
		LastCommit: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
	document, err := result.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := wire.DecodeTrialResult(document)
	result.Version = 1
	if diff := cmp.Diff(result, back); diff != "" || err != nil {
		t.Errorf("%v; it does not come back (-want +got):\n%s", err, diff)
	}
	for name, text := range map[string]string{
		"nothing": "", "words": "panic: no", "another version": `{"version":2,"backup":"b1"}`, "no backup": `{"version":1}`,
	} {
		if _, err := wire.DecodeTrialResult([]byte(text)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	// The kubelet takes 4,096 bytes, whatever a program has said.
	long := wire.TrialResult{Backup: "b1", Problem: strings.Repeat("\"ß\x00", 5000)}
	if document, err = long.Encode(); err != nil || len(document) > 4096 {
		t.Errorf("%v: %d bytes", err, len(document))
	}
}
