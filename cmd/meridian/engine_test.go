package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestAgentTellsEnginesApart starts the agent of each engine without what its pod would tell it.
func TestAgentTellsEnginesApart(t *testing.T) {
	for engine, want := range map[string]string{
		"redis": "MERIDIAN_CACHE", "memcached": `"memcached" is unknown; use postgres or redis`,
	} {
		var stdout, stderr bytes.Buffer
		code := run([]string{"agent", "--engine", engine}, &stdout, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d; stderr: %s", engine, code, &stderr)
		}
	}
}
