//go:build cluster

package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/postgres/server/session"
)

// A server has WAL in its files that it has not flushed, which pg_rewind copies. The role of pg_rewind can have it
// flushed, also where the volume is full and nobody may write. It can also see which timeline has a checkpoint.
func TestTheSourceOfARewindFlushesItsWAL(t *testing.T) {
	at := serve(t, "wal_writer_delay=10s", "wal_buffers=32kB", "default_transaction_read_only=on",
		"synchronous_standby_names=nobody")
	at.name = "postgres"
	at.super("set synchronous_commit = local; set transaction_read_only = off; " +
		"create role " + render.RoleRewind + " login")
	const unflushed = "select (pg_current_wal_lsn() - pg_current_wal_flush_lsn())::bigint::text"
	for range 2 { // What the process that writes it has to write first, it flushes.
		at.super("set synchronous_commit = off; set transaction_read_only = off; " +
			"select pg_logical_emit_message(false, 'x', repeat('x', 400)) from generate_series(1, 1500)")
	}
	if at.ask(unflushed) == "0" {
		t.Fatal("all that was written is flushed: this shows nothing")
	}
	connection, err := pgconn.Connect(t.Context(), fmt.Sprintf(
		"host=%s port=%d user=%s dbname=postgres sslmode=disable options='-c synchronous_commit=local'",
		at.link.Folder, attackPort, render.RoleRewind))
	must(t, err)
	defer func() { _ = connection.Close(t.Context()) }()
	for timeline, want := range map[int]bool{1: false, 2: at.ask("select current_setting('server_version')") < "16"} {
		if early, err := server.TooEarly(t.Context(), connection, timeline); err != nil || early != want {
			t.Errorf("on timeline %d: too early %t, %v", timeline, early, err)
		}
	}
	before := at.ask("select pg_current_wal_lsn()::text")
	if err := server.FlushAll(t.Context(), connection); err != nil {
		t.Fatal(session.Short(err))
	}
	const left = "select ('%s' - pg_current_wal_flush_lsn())::bigint::text"
	if left := at.ask(fmt.Sprintf(left, before)); !strings.HasPrefix(left, "-") && left != "0" {
		t.Errorf("%s bytes of what was written are not flushed", left)
	}
}
