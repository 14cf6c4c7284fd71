//go:build cluster

package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres/server/session"
	"meridian.dev/meridian/internal/wire"
)

// These tests perform, on a real server, what an application can try with its own login to have its code run by the
// superuser. A function of the application that runs so leaves a file beside the data: that stays even if the
// transaction fails.

// climb is in the body of each function of the attacker.
const climb = `begin copy (select 1) to program 'cat > seized'; exception when others then null; end;`

// seize makes an operator that fits better than the server's own where a script of PostGIS compares an OID.
const seize = `
create function public.seize(oid, regclass) returns boolean language plpgsql as $f$
begin ` + climb + ` return $1 operator(pg_catalog.=) $2::pg_catalog.oid; end $f$;
create operator public.= (leftarg = oid, rightarg = regclass, function = public.seize);`

// spring makes a trigger function.
const spring = `create function public.spring() returns trigger language plpgsql as $f$
begin ` + climb + ` return null; end $f$;`

const attackPort = 15437

// target is a server with a database of an application.
type target struct {
	t    *testing.T
	data string
	link *session.Link
	name string
}

// serve starts a server for all tests of one kind.
func serve(t *testing.T, settings ...string) *target {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if wanted := os.Getenv("MERIDIAN_TEST_POSTGRES"); wanted != "" {
		found = []string{filepath.Join(wanted, "initdb")}
	}
	if len(found) == 0 {
		t.Skip("there is no PostgreSQL on this machine")
	}
	programs := filepath.Dir(found[len(found)-1])
	folder, err := os.MkdirTemp("", "attack-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	attributes := unprivileged(t, folder)
	data := filepath.Join(folder, "data")
	run := func(name string, arguments ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(programs, name), arguments...)
		command.SysProcAttr, command.Dir, command.Env = attributes, folder, []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
		return command
	}
	output, err := run("initdb", "--no-sync", "--username=postgres", "--auth=trust", "--pgdata="+data).CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v: %s", err, output)
	}
	arguments := []string{"-D", data, "-k", folder, "-p", strconv.Itoa(attackPort)}
	for _, setting := range append([]string{"listen_addresses=", "fsync=off"}, settings...) {
		arguments = append(arguments, "-c", setting)
	}
	process := run("postgres", arguments...)
	log, err := os.Create(filepath.Join(folder, "log"))
	must(t, err)
	process.Stdout, process.Stderr = log, log
	must(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGINT)
		_ = process.Wait()
	})
	it := &target{t: t, data: data, link: &session.Link{Folder: folder, Port: attackPort}}
	t.Cleanup(it.link.Close)
	for range 600 {
		if connection, err := it.dial("postgres", "postgres"); err == nil {
			_ = connection.Close(t.Context())
			return it
		}
		time.Sleep(100 * time.Millisecond)
	}
	content, _ := os.ReadFile(log.Name())
	t.Fatalf("the server does not start: %s", content)
	return nil
}

// unprivileged is how a child runs as somebody that PostgreSQL accepts.
func unprivileged(t *testing.T, folder string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	must(t, err)
	uid, err := strconv.Atoi(account.Uid)
	must(t, err)
	gid, err := strconv.Atoi(account.Gid)
	must(t, errors.Join(err, os.Chown(folder, uid, gid)))
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func (a *target) dial(role, database string) (*pgx.Conn, error) {
	return pgx.Connect(a.t.Context(), fmt.Sprintf(
		"host=%s port=%d user=%s dbname=%s sslmode=disable connect_timeout=30", a.link.Folder, attackPort, role, database))
}

// begin makes a database for one attack, of a role with the same name.
func (a *target) begin(t *testing.T, name string) *target {
	t.Helper()
	it := &target{t: t, data: a.data, link: a.link, name: name}
	it.run("postgres", "postgres", "create role "+name+" login")
	must(t, it.link.CreateDatabase(t.Context(), name, name))
	return it
}

func (a *target) run(role, database, statements string) {
	a.t.Helper()
	connection, err := a.dial(role, database)
	must(a.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	if _, err = connection.Exec(a.t.Context(), statements); err != nil {
		a.t.Fatalf("%s: %v", statements, err)
	}
}

// apply runs statements as the application, super as the superuser in its database.
func (a *target) apply(statements string) { a.t.Helper(); a.run(a.name, a.name, statements) }
func (a *target) super(statements string) { a.t.Helper(); a.run("postgres", a.name, statements) }

func (a *target) ask(query string) string {
	a.t.Helper()
	connection, err := a.dial("postgres", a.name)
	must(a.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	var text string
	must(a.t, connection.QueryRow(a.t.Context(), query).Scan(&text))
	return text
}

// held fails if a function of the application has run as the superuser.
func (a *target) held() {
	a.t.Helper()
	err := os.Remove(filepath.Join(a.data, "seized"))
	if !errors.Is(err, os.ErrNotExist) {
		a.t.Errorf("a function of the application has run a program as the server (%v)", err)
	}
}

// older makes an extension look as if an earlier image had made it.
func (a *target) older(name string) {
	a.t.Helper()
	a.super(`update pg_extension e set extversion = (
		select max(p.source) from pg_extension_update_paths('` + name + `') p, pg_available_extensions a
		where a.name = e.extname and p.target = a.default_version and p.path is not null and p.source ~ '^[0-9.]+$')
		where e.extname = '` + name + `'`)
}

// update does what the agent does with an extension that is older than the image's.
func (a *target) update(name string) error {
	a.t.Helper()
	to := a.ask("select default_version from pg_available_extensions where name = '" + name + "'")
	return a.link.UpdateExtension(a.t.Context(), a.name, name, to)
}

func (a *target) create(name string) error {
	return a.link.CreateExtension(a.t.Context(), a.name, name)
}

func (a *target) refused(err error, words ...string) {
	a.t.Helper()
	if err == nil {
		a.t.Fatal("the script of the extension has run")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			a.t.Errorf("the refusal %q does not name %q", err, word)
		}
	}
}

// beforehand is a database in which PostGIS lies in the schema public, which the application owns: so it was made
// before extensions had a schema of their own.
func (a *target) beforehand(t *testing.T, name string) *target {
	t.Helper()
	it := a.begin(t, name)
	it.super("drop schema if exists extensions; alter database " + name + " reset search_path")
	it.super("create extension postgis schema public")
	return it
}

func (a *target) hasPostGIS() bool {
	return (&target{t: a.t, link: a.link, name: "postgres"}).ask(
		"select count(*)::text from pg_available_extensions where name = 'postgis'") != "0"
}

func TestScriptsOfExtensions(t *testing.T) {
	server := serve(t)
	if !server.hasPostGIS() {
		t.Skip("there is no PostGIS on this machine")
	}
	attacks := map[string]func(*target){
		"trigger":     trigger,
		"member":      member,
		"uncommitted": uncommitted,
		"required":    required,
		"schema":      schema,
		"given":       given,
		"settings":    settings,
		"collision":   collision,
		"today":       today,
	}
	for _, name := range []string{
		"trigger", "member", "uncommitted", "required", "schema", "given", "settings", "collision", "today",
	} {
		t.Run(name, func(t *testing.T) {
			var it *target
			if slices.Contains([]string{"required", "today"}, name) {
				it = server.begin(t, name)
			} else {
				it = server.beforehand(t, name)
			}
			attacks[name](it)
			it.held()
		})
	}
}

// C1: the script of an extension of the application truncates tables that the application has put triggers on.
func trigger(a *target) {
	a.apply(`create extension fuzzystrmatch; create extension postgis_tiger_geocoder;
		do $do$ begin
			execute (select format('alter extension postgis_tiger_geocoder update to %I', target)
				from pg_extension_update_paths('postgis_tiger_geocoder')
				where path is not null and source ~ '^[0-9.]+$' and target ~ 'next$|^ANY$'
				order by string_to_array(source, '.')::int[] desc limit 1);
		end $do$;` + spring + `
		do $$ declare name regclass; begin
			for name in select oid from pg_class where relnamespace = 'tiger'::regnamespace and relkind = 'r' loop
				execute format('create trigger spring before insert or update or delete or truncate on %s
					execute function public.spring()', name);
			end loop; end $$`)
	err := a.update("postgis_tiger_geocoder")
	a.refused(err, "postgis_tiger_geocoder belongs to the role trigger", "drop the extension")
	a.older("postgis")
	must(a.t, a.update("postgis"))
}

// H1: what the application has made a member of an extension of its own lies where the script looks for operators.
func member(a *target) {
	a.apply("create extension citext schema public;" + seize + `
		alter extension citext add function public.seize(oid, regclass);
		alter extension citext add operator public.=(oid, regclass)`)
	a.apply("create table shapes (g geometry(point, 4326)); create index on shapes (st_area(g))")
	a.older("postgis")
	must(a.t, a.update("postgis"))
	a.apply("insert into shapes values (st_transform(st_setsrid(st_point(1, 2), 3857), 4326))")
	if got := a.ask("select string_agg(nspname || pg_get_userbyid(nspowner), ' ' order by nspname) from pg_namespace " +
		"where nspname !~ '^(pg_|information_schema)'"); got != "public"+"pg_database_owner" {
		a.t.Errorf("the schemas are %s", got)
	}
	got := a.ask("select extrelocatable::text || extnamespace::regnamespace from pg_extension where extname = 'postgis'")
	if got != "falsepublic" {
		a.t.Errorf("the extension is %s", got)
	}
	must(a.t, a.create("postgis_raster"))
	a.apply("select st_width(st_makeemptyraster(10, 10, 0, 0, 1))")
}

// H1: what is not committed yet when the script begins can be seen by it later.
func uncommitted(a *target) {
	a.older("postgis")
	connection, err := a.dial(a.name, a.name)
	must(a.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	_, err = connection.Exec(a.t.Context(), "begin;"+seize)
	must(a.t, err)
	done := make(chan error, 1)
	go func() { done <- a.update("postgis") }()
	// Minor versions of late have the move of the schema wait for whoever makes something in it, before the script.
	const script = `select count(*)::text from pg_stat_activity where application_name = 'meridian-agent'
		and (query like 'alter extension%update to%' or wait_event_type = 'Lock')`
	for len(done) == 0 && a.ask(script) == "0" {
		time.Sleep(time.Millisecond)
	}
	_, err = connection.Exec(a.t.Context(), "commit")
	must(a.t, err)
	must(a.t, <-done)
}

// H1: a required extension of the application brings its schema into the path of the script.
func required(a *target) {
	a.apply("create schema lib; create extension cube schema lib")
	a.refused(a.create("earthdistance"), "extension cube belongs to the role required")
	a.apply("drop extension cube")
	must(a.t, a.create("cube"))
	must(a.t, a.create("earthdistance"))
	a.apply("select earth()")
}

// The application has made the schema that an extension names for itself, or the one for all extensions.
func schema(a *target) {
	a.apply("create schema topology; create schema extensions")
	a.refused(a.create("postgis_topology"), "schema topology belongs to schema")
	a.refused(a.create("cube"), "schema extensions belongs to schema", "rename or drop")
	a.apply("drop schema topology")
	must(a.t, a.create("postgis_topology"))
}

// A table of an extension that the application may put a trigger on.
func given(a *target) {
	a.super("grant trigger on public.spatial_ref_sys to given")
	a.apply(spring + "create trigger spring before insert or update or delete on public.spatial_ref_sys " +
		"execute function public.spring()")
	a.older("postgis")
	a.refused(a.update("postgis"), "table public.spatial_ref_sys", "revoke TRIGGER")
	a.super("revoke trigger on public.spatial_ref_sys from given")
	a.refused(a.update("postgis"), "trigger spring on table public.spatial_ref_sys")
}

// Settings of the database belong to the application, and must not reach the scripts.
func settings(a *target) {
	a.apply(seize + `create schema trap; create function trap.seize(oid, regclass) returns boolean language plpgsql as $f$
		begin ` + climb + ` return true; end $f$;
		create operator trap.= (leftarg = oid, rightarg = regclass, function = trap.seize);
		alter database settings set search_path = trap, public;
		alter database settings set default_transaction_isolation = 'serializable';
		alter database settings set standard_conforming_strings = off;
		alter database settings set transform_null_equals = on`)
	a.older("postgis")
	must(a.t, a.update("postgis"))
	must(a.t, a.create("postgis_topology"))
	a.older("postgis_topology")
	must(a.t, a.update("postgis_topology"))
	if got := a.ask("show search_path"); got != `trap, public, "topology"` {
		a.t.Errorf("the search path of the database is %s", got)
	}
}

// What the application has made with the name of something that a newer version brings stops the update, and nothing
// else does.
func collision(a *target) {
	a.super(`alter extension postgis drop function public.st_point(double precision, double precision, integer);
		alter function public.st_point(double precision, double precision, integer) owner to collision`)
	a.older("postgis")
	a.refused(a.update("postgis"), "st_point")
	got := a.ask("select extnamespace::regnamespace::text from pg_extension where extname = 'postgis'")
	if got != "public" {
		a.t.Errorf("the extension is in %s", got)
	}
}

// A database of today has its extensions in a schema that nobody but superusers can change, on the path of
// applications, and what the application has in public keeps no update back.
func today(a *target) {
	for _, name := range []string{
		"postgis", "postgis_raster", "fuzzystrmatch", "postgis_tiger_geocoder", "postgis_topology",
	} {
		must(a.t, a.create(name))
	}
	a.apply(seize + `create table public.shapes (g geometry(point, 4326), r raster);
		select st_transform(st_setsrid(st_point(1, 2), 3857), 4326), soundex('a')`)
	if got := a.ask("show search_path"); got != `"$user", public, "extensions", "tiger", "topology"` {
		a.t.Errorf("the search path of the database is %s", got)
	}
	connection, err := a.dial(a.name, a.name)
	must(a.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	if _, err := connection.Exec(a.t.Context(), "create table extensions.mine (n int)"); err == nil {
		a.t.Error("the application can put things into the schema of the extensions")
	}
	for _, name := range []string{"postgis", "postgis_raster", "postgis_tiger_geocoder", "postgis_topology"} {
		a.older(name)
		must(a.t, a.update(name))
	}
}

// H2: a person is the superuser in the database of an application that has made operators which fit better than the
// server's own, and a setting that makes them be found.
func TestAPersonAsTheSuperuser(t *testing.T) {
	it := serve(t).begin(t, "person")
	it.apply(seize + "alter database person set search_path = public, pg_catalog")
	const statement = "select 1::oid = 'pg_class'::regclass"
	connection, err := it.dial("postgres", it.name)
	must(t, err)
	if _, err := connection.Exec(t.Context(), statement); err != nil {
		t.Error(err)
	}
	_ = connection.Close(t.Context())
	if err := os.Remove(filepath.Join(it.data, "seized")); err != nil {
		t.Errorf("the attack does not work where nothing is pinned, so it proves nothing: %v", err)
	}
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable options='%s'",
		it.link.Folder, attackPort, it.name, wire.SuperuserOptions))
	must(t, err)
	connection, err = pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	_, err = connection.Exec(t.Context(), statement)
	must(t, err)
	it.held()
}
