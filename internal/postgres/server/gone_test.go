//go:build cluster

package server_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/tenure"
)

// TestThePrimaryTellsWhichWALIsGone asks a real server for WAL that it has removed, that it has, that it writes, and
// that is not written yet.
func TestThePrimaryTellsWhichWALIsGone(t *testing.T) {
	at := serve(t, "wal_keep_size=0", "max_wal_size=32MB", "min_wal_size=32MB", "max_wal_senders=4")
	at.name = "postgres"
	position := func() uint64 {
		lsn, err := postgres.ParseLSN(at.ask("select pg_current_wal_flush_lsn()::text"))
		must(t, err)
		return lsn
	}
	ask := func(lsn uint64) (uint64, error) {
		connection, err := pgconn.Connect(t.Context(), fmt.Sprintf(
			"host=%s port=%d user=postgres sslmode=disable replication=true", at.link.Folder, attackPort))
		must(t, err)
		defer func() { _ = connection.Close(t.Context()) }()
		return server.Gone(t.Context(), connection, tenure.Position{Timeline: 1, LSN: lsn})
	}
	const segment = 16 << 20
	early := position()
	for range 12 {
		at.super("select pg_logical_emit_message(false, 'x', repeat('x', 1000)), pg_switch_wal()")
		at.super("checkpoint")
	}
	at.super("select pg_logical_emit_message(true, 'x', 'x')")
	now := position()
	if end, err := ask(early); err != nil || end != (early/segment+1)*segment {
		t.Errorf("WAL that was removed: %s, %v", postgres.FormatLSN(end), err)
	}
	if end, err := ask(now); err != nil || end != 0 {
		t.Errorf("WAL that is there: %s, %v", postgres.FormatLSN(end), err)
	}
	if end, err := ask(now + 100*segment); err == nil || end != 0 {
		t.Errorf("WAL of the future: %s, %v", postgres.FormatLSN(end), err)
	}
}
