package server

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// TestAServerOfTheVersionBefore does not know a parameter of ours: that is an answer, and no failure.
func TestAServerOfTheVersionBefore(t *testing.T) {
	connection := refusing(t, stateUnknown)
	for _, unknown := range []bool{false, true} {
		if told, err := tells(t.Context(), connection, "meridian.names", "timeline", unknown); err != nil || told != unknown {
			t.Errorf("it tells %v, %v", told, err)
		}
	}
	if told, err := tells(t.Context(), refusing(t, "57P01"), "meridian.names", "timeline", true); err == nil || told {
		t.Errorf("a server that ends tells %v, %v", told, err)
	}
}

// refusing is a connection to a server that refuses every query with a state.
func refusing(t *testing.T, state string) *pgconn.PgConn {
	t.Helper()
	own, other := net.Pipe()
	go func() {
		back := pgproto3.NewBackend(other, other)
		if _, err := back.ReceiveStartupMessage(); err != nil {
			return
		}
		back.Send(&pgproto3.AuthenticationOk{})
		back.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		for back.Flush() == nil {
			if _, err := back.Receive(); err != nil {
				return
			}
			back.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: state, Message: "unrecognized configuration parameter"})
			back.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}()
	config, err := pgconn.ParseConfig("host=127.0.0.1 user=postgres dbname=postgres sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = func(context.Context, string, string) (net.Conn, error) { return own, nil }
	connection, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	return connection
}
