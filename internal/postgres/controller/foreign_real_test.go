//go:build cluster

package controller_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// pretend connects to a primary by the name and in the slot of a member, as a replica of the version before would, and
// tells that it has flushed more than there is.
func (i *instance) pretend(member wire.Member) {
	i.t.Helper()
	config, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s dbname=postgres sslmode=disable", i.address,
		testPort, render.RoleReplication))
	must(i.t, err)
	certificate, err := tls.LoadX509KeyPair(i.path("tls", wire.KeyCertificate), i.path("tls", wire.KeyPrivateKey))
	must(i.t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(i.state.Bundle())
	config.TLSConfig = &tls.Config{RootCAs: pool, ServerName: "cities-rw", Certificates: []tls.Certificate{certificate}}
	config.RuntimeParams = map[string]string{"replication": "true", "application_name": member.String()}
	connection, err := pgconn.ConnectConfig(i.t.Context(), config)
	must(i.t, err)
	i.t.Cleanup(func() { _ = connection.Close(context.Background()) })
	own := i.loop.Facts().Leading.Flushed
	frontend := connection.Frontend()
	frontend.Send(&pgproto3.Query{String: fmt.Sprintf("START_REPLICATION SLOT %s PHYSICAL %s", render.Slot(member),
		postgres.FormatLSN(own))})
	must(i.t, frontend.Flush())
	for begun := false; !begun; {
		message, err := frontend.Receive()
		must(i.t, err)
		switch message := message.(type) {
		case *pgproto3.CopyBothResponse:
			begun = true
		case *pgproto3.ErrorResponse:
			i.t.Fatal(message.Message)
		}
	}
	more, status := own+1<<20, []byte{'r'}
	for _, number := range []uint64{more, more, more, 0} {
		status = binary.BigEndian.AppendUint64(status, number)
	}
	frontend.Send(&pgproto3.CopyData{Data: append(status, 0)})
	must(i.t, frontend.Flush())
}

// A primary that has counted a position of another timeline ends at once: what it has noted as flushed ends with it,
// and the next start lets nobody in before it is told to.
func TestAForeignPositionEndsThePrimary(t *testing.T) {
	_, one, two := pair(t)
	two.obey(tenure.Standing{Role: tenure.RoleIdle})
	one.await("that nobody follows", func(tenure.Engine) bool {
		return one.super("select count(*) from pg_replication_slots where active") == "0"
	})
	if err := one.execute(time.Second, "insert into t values (3)"); err == nil {
		t.Fatal("a write was acknowledged without the quorum")
	}
	before := one.loop.Facts().Leading.Start
	one.pretend(two.member())
	facts := one.await("another start", func(e tenure.Engine) bool {
		return e.Leading != nil && e.Leading.Start != before
	})
	if facts.Leading.Open || !one.logged("that is another timeline's") {
		t.Errorf("leading %+v", facts.Leading)
	}
	standing := one.standing
	standing.OpenStart = facts.Leading.Start
	one.obey(standing)
	one.await("an open gate", func(e tenure.Engine) bool { return e.Leading != nil && e.Leading.Open })
	if err := one.execute(time.Second, "insert into t values (4)"); err == nil {
		t.Error("a write was acknowledged by what the server of before had noted")
	}
}
