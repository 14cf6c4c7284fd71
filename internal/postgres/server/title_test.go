package server_test

import (
	"testing"

	"meridian.dev/meridian/internal/postgres/server"
)

// A copy tells how far it has come, and its first error is the reason when it fails: what follows it tells of tidying
// up.
func TestProgress(t *testing.T) {
	done, total, text := server.Progress(
		"waiting for checkpoint", "    0/31253 kB (0%), 0/1 tablespace", " 8192/31253 kB (26%), 0/1 tablespace",
		"pg_basebackup: error: could not write to file \"x\": No space left on device",
		"pg_basebackup: error: background process terminated unexpectedly", "pg_basebackup: removing data directory \"x\"")
	if done != 8192<<10 || total != 31253<<10 || text != `could not write to file "x": No space left on device` {
		t.Errorf("%d of %d: %s", done, total, text)
	}
	if _, _, text := server.Progress("pg_basebackup: checkpoint completed"); text != "checkpoint completed" {
		t.Error(text)
	}
}

// Names of roles and databases are chosen by tenants: none of them makes a session a receiver, or hides one that is
// about to be let in.
func TestTitles(t *testing.T) {
	for title, want := range map[string]struct{ receives, enters bool }{
		"postgres: cities-1: walreceiver streaming 0/3000060":        {receives: true},
		"postgres: walreceiver":                                      {receives: true},
		"postgres: walreceiver \x00\x00":                             {receives: true},
		"postgres: cities-1: app walreceiver 10.0.0.9(4) idle":       {},
		"postgres: cities-1: walreceivers db 10.0.0.9(4) idle":       {},
		"postgres: cities-1: walsender app 10.0.0.9(4)":              {},
		"postgres: cities-1: app app 10.0.0.9(4) authentication\x00": {enters: true},
		"postgres: cities-1: app app 10.0.0.9(4) initializing":       {enters: true},
		"postgres: cities-1: app authentication 10.0.0.9(4) idle":    {},
	} {
		if got := server.Receives(title); got != want.receives {
			t.Errorf("%q receives: %t", title, got)
		}
		if got := server.Enters(title); got != want.enters {
			t.Errorf("%q enters: %t", title, got)
		}
	}
}
