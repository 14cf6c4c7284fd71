//go:build cluster

package server_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/server/session"
	"meridian.dev/meridian/internal/wire"
)

// session waits until the agent has a session in a database, and tells whose it is: "superuser" or the role.
func (a *target) session(database, more string) string {
	a.t.Helper()
	connection, err := a.dial("postgres", "template1")
	must(a.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	for range 200 {
		var whose string
		err := connection.QueryRow(a.t.Context(), `
			select coalesce(min(case when r.rolsuper then 'superuser' else r.rolname end), '')
			from pg_stat_activity a join pg_roles r on r.oid = a.usesysid
			where a.application_name = 'meridian-agent' and a.datname = $1 and `+more, database).Scan(&whose)
		must(a.t, err)
		if whose != "" {
			return whose
		}
		time.Sleep(50 * time.Millisecond)
	}
	a.t.Fatal("the agent has no session in " + database)
	return ""
}

// looking is whose session looks into the application's database. A lock holds the look until it was seen.
func (a *target) looking() string {
	a.t.Helper()
	hold, err := a.dial("postgres", a.name)
	must(a.t, err)
	defer func() { _ = hold.Close(context.Background()) }()
	_, err = hold.Exec(a.t.Context(), "begin; lock pg_extension in access exclusive mode")
	must(a.t, err)
	// A look gives up after a second, so it is repeated until it was seen.
	ctx, stop := context.WithCancel(a.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			a.look(ctx)
		}
	}()
	defer func() { stop(); <-ended }()
	return a.session(a.name, "true")
}

func (a *target) look(ctx context.Context) postgres.Application {
	return a.link.Application(ctx, wire.Settings{
		Application: wire.Application{Database: a.name, Owner: a.name}, Extensions: []string{"citext"},
	}, postgres.Logins{})
}

// TestLookingTakesNoSuperuser has the agent look into a database in which everything may be the application's: what of
// it would run by a look runs as a role that may do nothing.
func TestLookingTakesNoSuperuser(t *testing.T) {
	it := serve(t, "max_connections=12", "superuser_reserved_connections=3").begin(t, "looked")
	if whose := it.looking(); whose != "superuser" {
		t.Errorf("a server of before, without the role, is looked into by %s", whose)
	}
	must(t, it.link.CreateAgents(t.Context()))
	must(t, it.create("citext"))
	it.apply("alter database looked set search_path = public, pg_catalog")
	if whose := it.looking(); whose != "meridian_probe" {
		t.Errorf("the application's database is looked into by the %s", whose)
	}
	found := it.look(t.Context())
	if found.Problem != "" || !slices.ContainsFunc(found.Extensions, func(extension postgres.Extension) bool {
		return extension.Name == "citext" && extension.Installed != ""
	}) {
		t.Errorf("the role sees too little: %+v", found)
	}
	more := it.ask(`select count(*)::text from pg_roles r where rolname = 'meridian_probe'
		and (rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls
			or exists (select from pg_auth_members where member = r.oid))`)
	if more != "0" {
		t.Error("the role of the probe may do more than anybody")
	}
	said := it.ask(`select array_to_string(setconfig, ' ') from pg_db_role_setting
		where setrole = 'meridian_probe'::regrole`)
	if !strings.Contains(said, "log_statement=none") {
		t.Errorf("what the probe says goes into the log: %s", said)
	}
	// Who owns a database may lock everybody out: the look goes on.
	it.apply("revoke connect on database looked from public")
	if found := it.look(t.Context()); found.Problem != "" {
		t.Errorf("an owner who lets nobody in keeps the agent from looking: %s", found.Problem)
	}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(it.data), "log"))
	must(t, err)
	if strings.Contains(string(log), "permission denied for database") || strings.Contains(string(log), "does not exist") {
		t.Errorf("each look is a refusal in the log: %s", log)
	}
}

// TestProbingTakesNoSuperuser probes as a role that may nothing, unless applications have taken every place.
func TestProbingTakesNoSuperuser(t *testing.T) {
	it := serve(t, "max_connections=12", "superuser_reserved_connections=3").begin(t, "probed")
	must(t, it.link.CreateAgents(t.Context()))
	it.link.Close()
	probe := &session.Probe{Link: it.link}
	probe.Watch("one")
	defer probe.Close()
	if whose := it.session("postgres", "a.query like '%emit_message%'"); whose != "meridian_probe" {
		t.Errorf("the probe is a session of the %s", whose)
	}
	probe.Close()
	// The application takes every place that it can get.
	var taken []*pgx.Conn
	defer func() {
		for _, connection := range taken {
			_ = connection.Close(context.Background())
		}
	}()
	for {
		connection, err := it.dial(it.name, it.name)
		if err != nil {
			break
		}
		if taken = append(taken, connection); len(taken) > 20 {
			t.Fatal("there is no end of places")
		}
	}
	probe.Watch("two")
	if whose := it.session("postgres", "a.query like '%emit_message%'"); whose != "superuser" || probe.Hung() {
		t.Errorf("where every place is taken, the probe is a session of the %s; the server hangs: %v", whose, probe.Hung())
	}
}
