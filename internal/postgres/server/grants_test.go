//go:build cluster

package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

// These tests create each extension that the image brings as the agent does, and then do as the application what a user
// expects to work, and what must not.

// calls are what an application calls of an extension.
var calls = map[string][]string{
	"address_standardizer": {"select * from parse_address('1 Main Street, Boston MA 02110')"},
	"address_standardizer_data_us": {
		"select * from standardize_address('us_lex', 'us_gaz', 'us_rules', '1 Main Street', 'Boston MA 02110')",
	},
	"citext":        {"select 'A'::citext = 'a'"},
	"cube":          {"select cube(1)"},
	"earthdistance": {"select earth()"},
	"fuzzystrmatch": {"select soundex('a')"},
	"pg_stat_statements": {"select * from pg_stat_statements_info", `do $$ begin
		if not exists (select from pg_stat_statements where query = '<insufficient privilege>') or exists (
			select from pg_stat_statements where userid <> current_user::regrole and query <> '<insufficient privilege>')
		then raise 'the statements of others can be read'; end if; end $$`},
	"pg_trgm":   {"select similarity('a', 'b')"},
	"pgcrypto":  {"select digest('a', 'sha256')"},
	"pgrouting": {"select * from pgr_dijkstra('select 1 as id, 1 as source, 2 as target, 1.0 as cost', 1, 2)"},
	"postgis": {
		"select st_transform(st_setsrid(st_point(1, 2), 3857), 4326)", "select * from geometry_columns",
		"select * from geography_columns", "select postgis_full_version()",
	},
	"postgis_raster": {
		"select st_width(st_makeemptyraster(10, 10, 0, 0, 1))", "select * from raster_columns, raster_overviews",
	},
	"postgis_sfcgal": {"select postgis_sfcgal_version()"},
	"postgis_tiger_geocoder": {
		"select * from normalize_address('1 Main St, Boston MA 02110')",
		"select * from geocode('1 Main St, Boston MA 02110')",
		"select * from pagc_normalize_address('1 Main St, Boston MA 02110')",
		"select * from reverse_geocode(st_setsrid(st_point(-71, 42), 4269))",
		"select * from geocode_intersection('Main St', 'First St', 'MA', 'Boston')",
		"select get_geocode_setting('debug_geocode_address')", "select loader_generate_script(array['MA'], 'sh')",
		"select loader_generate_nation_script('sh')", "select missing_indexes_generate_script()",
		"select * from state_lookup s join tiger.edges e using (statefp)", "select get_tract(st_point(-71, 42))",
	},
	"postgis_topology": {
		"select topology.st_geometrytype(null::topology.topogeometry)", "select * from topology.topology, topology.layer",
		"select * from topology.topologysummary('none')",
	},
	"unaccent": {"select unaccent('é')"},
}

// kept are relations that an extension has closed itself.
var kept = []string{"extensions.pg_buffercache"}

// forbidden are calls that would write.
var forbidden = []string{
	"select topology.createtopology('mine', 4326)", "select tiger.set_geocode_setting('debug_geocode_address', 'true')",
	"select tiger.install_missing_indexes()", "create table tiger.mine (n int)", "create table tiger_data.mine (n int)",
	"create table topology.mine (n int)", "create table extensions.mine (n int)",
}

// relation is one that an extension has brought.
type relation struct{ Extension, Name, Kind, Column string }

// brought are the relations of all extensions, but for indexes and composite types.
func (a *target) brought() []relation {
	a.t.Helper()
	connection, err := a.dial("postgres", a.name)
	must(a.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	rows, err := connection.Query(a.t.Context(), `
		select e.extname::text, format('%I.%I', n.nspname, c.relname), c.relkind::text,
			(select quote_ident(attname) from pg_attribute where attrelid = c.oid and attnum = 1)
		from pg_depend d join pg_extension e on e.oid = d.refobjid join pg_class c on c.oid = d.objid
		join pg_namespace n on n.oid = c.relnamespace
		where d.refclassid = 'pg_extension'::regclass and d.classid = 'pg_class'::regclass and d.deptype = 'e'
			and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
		order by 1, 2`)
	must(a.t, err)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[relation])
	must(a.t, err)
	return found
}

// available are the extensions of the image that are created in a database.
func (a *target) available() []string {
	a.t.Helper()
	names := strings.Fields(a.ask("select string_agg(name, ' ' order by name) from pg_available_extensions"))
	return slices.DeleteFunc(names, func(name string) bool {
		// The second is a name of the same files in Debian, to install two versions beside each other.
		return wire.LibraryAlone(name) || strings.HasSuffix(name, "-3") || name == "plpgsql"
	})
}

// createAll creates them, each after those that it requires.
func (a *target) createAll(names []string) {
	a.t.Helper()
	var err error
	for len(names) > 0 {
		left := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			one := a.create(name)
			if one != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", name, one))
			}
			return one == nil
		})
		if len(left) == len(names) {
			a.t.Fatalf("these cannot be created: %v: %v", left, err)
		}
		names = left
	}
}

// code is what the server says to a statement of a role, empty if nothing is wrong.
func code(t *testing.T, connection *pgx.Conn, statement string) string {
	t.Helper()
	_, err := connection.Exec(t.Context(), statement)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code + " " + refused.Message
	}
	must(t, err)
	return ""
}

// writes are what nobody but superusers may do to a relation. The views cannot be written to, or do nothing instead.
func writes(one relation) []string {
	forms := []string{
		"insert into RELATION default values", "delete from RELATION", "update RELATION set COLUMN = null",
		"truncate RELATION",
		"do $$ begin lock table RELATION in row exclusive mode; end $$", "select from RELATION for update",
		"create table below () inherits (RELATION)",
		"create trigger spring before insert on RELATION execute function spring()",
		"create rule spring as on insert to RELATION do also select 1", "create policy spring on RELATION",
		"create index on RELATION (COLUMN)", "create statistics spring on (COLUMN), (COLUMN is null) from RELATION",
		"create publication spring for table RELATION", "alter table RELATION add column spring int", "drop table RELATION",
	}
	switch one.Kind {
	case "S":
		forms = []string{"select nextval('RELATION')", "select setval('RELATION', 1)", "alter sequence RELATION restart"}
	case "v", "m":
		forms = []string{
			"create or replace view RELATION as select 1", "drop view RELATION",
			"create trigger spring instead of insert on RELATION for each row execute function spring()",
			"create rule spring as on insert to RELATION do instead select spring()",
		}
	}
	var all []string
	for _, form := range forms {
		all = append(all, strings.ReplaceAll(strings.ReplaceAll(form, "RELATION", one.Name), "COLUMN", one.Column))
	}
	return all
}

// TestWhatExtensionsBring has the application read and call what extensions have brought, and write nothing there.
func TestWhatExtensionsBring(t *testing.T) {
	var settings []string
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/lib/pg_stat_statements.so"); len(found) > 0 {
		settings = append(settings, "shared_preload_libraries=pg_stat_statements")
	}
	it := serve(t, settings...).begin(t, "reader")
	it.apply(spring)
	names := it.available()
	it.createAll(names)
	// A login that comes later has what the others have, as far as it gets into the database.
	it.run("postgres", "postgres", "create role later login")
	for _, role := range []string{"reader", "later"} {
		connection, err := it.dial(role, it.name)
		must(t, err)
		defer func() { _ = connection.Close(context.Background()) }()
		for _, name := range names {
			for _, call := range calls[name] {
				if said := code(t, connection, call); said != "" {
					t.Errorf("%s: %s: %s: %s", role, name, call, said)
				}
			}
		}
		for _, one := range it.brought() {
			if one.Kind == "S" {
				continue
			}
			said := code(t, connection, "select * from "+one.Name+" limit 1")
			if closed := strings.HasPrefix(said, "42501"); closed != slices.Contains(kept, one.Name) || said != "" && !closed {
				t.Errorf("%s reads %s of %s: %q", role, one.Name, one.Extension, said)
			}
		}
	}
	it.writesNothing(t)
	if it.hasPostGIS() {
		it.madeByAPerson(t)
	}
}

// madeByAPerson does what the guide says for those who want topologies: the superuser makes them, and the application
// gets all rights that it needs on the data.
func (a *target) madeByAPerson(t *testing.T) {
	t.Helper()
	connection, err := a.dial(a.name, a.name)
	must(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	for _, statement := range forbidden {
		if said := code(t, connection, statement); !strings.HasPrefix(said, "42501") {
			t.Errorf("%s: %q", statement, said)
		}
	}
	a.apply(`create function public.wait(int) returns int immutable language plpgsql as $f$
			begin ` + climb + ` return $1; end $f$;
		create table public.streets (id int default public.wait(0) check (public.wait(id) = id),
			twice int generated always as (public.wait(id)) stored);
		create index on public.streets (public.wait(id)); insert into public.streets values (2);
		create trigger spring before insert or update on public.streets execute function public.spring()`)
	_ = os.Remove(filepath.Join(a.data, "seized"))
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=postgres dbname=%s sslmode=disable options='%s'",
		a.link.Folder, attackPort, a.name, wire.SuperuserOptions))
	must(t, err)
	person, err := pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	defer func() { _ = person.Close(context.Background()) }()
	for _, statement := range []string{
		"set search_path = topology, extensions", "select createtopology('roads', 4326)",
		"select addtopogeometrycolumn('roads', 'public', 'streets', 'line', 'LINE')",
		"grant usage on schema roads to " + a.name,
		"grant select, insert, update, delete on all tables in schema roads to " + a.name,
		"grant usage, select on all sequences in schema roads to " + a.name,
	} {
		if said := code(t, person, statement); said != "" {
			t.Errorf("%s: %s", statement, said)
		}
	}
	a.held()
	for _, statement := range []string{
		"drop trigger spring on public.streets", `insert into public.streets (id, line) select 1, topology.totopogeom(
			st_setsrid(st_makeline(st_point(0, 0), st_point(1, 1)), 4326), 'roads', 1)`,
		"select 1 / st_length(line::geometry)::int from public.streets", "select * from topology.validatetopology('roads')",
		"select topology.topogeo_addpoint('roads', st_setsrid(st_point(2, 3), 4326))",
	} {
		if said := code(t, connection, statement); said != "" {
			t.Errorf("%s: %s", statement, said)
		}
	}
}

// writesNothing has the owner of the database try to write to all that extensions have brought. What lies in a schema
// of its own it may drop in general, and not if it belongs to an extension (2BP01).
func (a *target) writesNothing(t *testing.T) {
	t.Helper()
	connection, err := a.dial(a.name, a.name)
	must(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	for _, one := range a.brought() {
		for _, statement := range writes(one) {
			said := code(t, connection, statement)
			kept := strings.HasPrefix(statement, "drop ") && strings.HasPrefix(said, "2BP01")
			if !strings.HasPrefix(said, "42501") && !kept {
				t.Errorf("%s of %s: %s: %q", one.Name, one.Extension, statement, said)
			}
		}
	}
	more := a.ask(`select coalesce(string_agg(format('%s %s', d.objid::regclass, a.privilege_type), ', '), '')
		from pg_depend d join pg_class c on c.oid = d.objid cross join aclexplode(c.relacl) a
		left join pg_roles g on g.oid = a.grantee
		where d.refclassid = 'pg_extension'::regclass and d.classid = 'pg_class'::regclass and d.deptype = 'e'
			and not coalesce(g.rolsuper, false) and a.privilege_type <> 'SELECT'`)
	if more != "" {
		t.Errorf("more than reading is allowed: %s", more)
	}
}

// closed are the extensions in which the agent finds something that it is to open.
func (a *target) closed() string {
	a.t.Helper()
	var found postgres.Application
	// A look gives up after a second, which is little on a machine that is busy.
	for range 30 {
		found = a.link.Application(a.t.Context(), wire.Settings{
			Application: wire.Application{Database: a.name, Owner: a.name},
		}, postgres.Logins{})
		if found.Problem == "" {
			break
		}
	}
	if found.Problem != "" {
		a.t.Fatal(found.Problem)
	}
	var names []string
	for _, extension := range found.Extensions {
		if extension.Closed {
			names = append(names, extension.Name)
		}
	}
	return strings.Join(names, " ")
}

// TestExtensionsOfBefore opens what earlier versions have created and left to the superuser alone, and nothing beside.
func TestExtensionsOfBefore(t *testing.T) {
	server := serve(t)
	if !server.hasPostGIS() {
		t.Skip("there is no PostGIS on this machine")
	}
	must(t, server.link.CreateAgents(t.Context()))
	it := server.beforehand(t, "earlier")
	it.apply(spring)
	it.super(`create extension fuzzystrmatch; create extension postgis_tiger_geocoder;
		create extension address_standardizer_data_us schema public; create extension pg_buffercache schema public;
		create table tiger.secret (n int); create table tiger_data.ma_state_lookup () inherits (tiger.state_lookup);
		insert into tiger_data.ma_state_lookup (st_code, name) values (99, 'loaded')`)
	if got := it.closed(); got != "address_standardizer_data_us postgis_tiger_geocoder" {
		t.Fatalf("these are to be opened: %s", got)
	}
	const geocode = "select tiger.normalize_address('1 Main St, Boston MA 02110')"
	connection, err := it.dial(it.name, it.name)
	must(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	if said := code(t, connection, geocode); !strings.HasPrefix(said, "42501") {
		t.Fatalf("what was left closed can be used: %q", said)
	}
	for _, name := range []string{"address_standardizer_data_us", "postgis_tiger_geocoder", "pg_buffercache", "postgis"} {
		must(t, it.link.GrantExtension(t.Context(), it.name, name))
	}
	for statement, refused := range map[string]bool{
		geocode: false, "select from us_lex": false,
		"select 1 / count(*) from tiger.state_lookup where name = 'loaded'": false,
		"select from tiger.secret": true, "select from tiger_data.ma_state_lookup": true, "select from pg_buffercache": true,
	} {
		if said := code(t, connection, statement); strings.HasPrefix(said, "42501") != refused || said != "" && !refused {
			t.Errorf("%s: %q", statement, said)
		}
	}
	it.writesNothing(t)
	if got := it.closed(); got != "" {
		t.Errorf("these are to be opened for ever: %s", got)
	}
	// What a person takes back stays so.
	it.super("revoke select on tiger.state_lookup, public.us_lex from public; revoke usage on schema tiger from public")
	if got := it.closed(); got != "" {
		t.Errorf("what a person has closed is to be opened: %s", got)
	}
	must(t, it.link.GrantExtension(t.Context(), it.name, "postgis_tiger_geocoder"))
	if said := code(t, connection, "select from tiger.edges"); !strings.HasPrefix(said, "42501") {
		t.Errorf("what a person has closed was opened: %q", said)
	}
	// What the application has created is its own.
	own := server.begin(t, "own")
	must(t, own.create("postgis"))
	own.apply("create extension fuzzystrmatch; create extension postgis_tiger_geocoder")
	if got := own.closed(); got != "" {
		t.Errorf("what belongs to the application is to be opened: %s", got)
	}
	own.apply(`create table tiger_data.ma_state_lookup () inherits (tiger.state_lookup);
		select set_geocode_setting('debug_geocode_address', 'false'), geocode('1 Main St, Boston MA')`)
	server.renamed(t)
}

// renamed has the application move the schema in which an extension lies to and fro, with tables of its own in its
// place, while the agent opens the extension: what is done by name is undone where the name has led elsewhere.
func (a *target) renamed(t *testing.T) {
	t.Helper()
	it := a.beforehand(t, "renamed")
	it.super("create extension address_standardizer_data_us schema public")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		it.flip(ctx)
	}()
	defer func() { stop(); <-ended }()
	const tables = `relkind = 'r' and oid in (select objid from pg_depend where deptype = 'e' and refobjid =
		(select oid from pg_extension where extname = 'address_standardizer_data_us'))`
	granted := 0
	for range 20 {
		it.super("update pg_class set relacl = null where " + tables)
		if it.link.GrantExtension(t.Context(), it.name, "address_standardizer_data_us") != nil {
			continue
		}
		granted++
		open := it.ask("select count(*)::text from pg_class where relacl is not null and " + tables)
		if open != "3" {
			t.Fatalf("%s of the three tables were opened", open)
		}
	}
	if granted == 0 {
		t.Error("the application keeps the agent from it for ever")
	}
}

// flip moves the schema public away and back, until the context ends.
func (a *target) flip(ctx context.Context) {
	connection, err := a.dial(a.name, a.name)
	if err != nil {
		return
	}
	defer func() { _ = connection.Close(context.Background()) }()
	for ctx.Err() == nil {
		for _, statements := range []string{
			`begin; alter schema public rename to aside; create schema public; create table public.us_lex (n int);
				create table public.us_gaz (n int); create table public.us_rules (n int); commit`,
			"begin; drop schema public cascade; alter schema aside rename to public; commit",
		} {
			if _, err := connection.Exec(ctx, statements); err != nil {
				_, _ = connection.Exec(ctx, "rollback")
			}
		}
	}
}
