// Package extension runs the scripts of extensions in the application's database, where everything on their path
// belongs to superusers. It decides nothing, and never runs a script elsewhere.
//
// Start reading at [Session.Create].
package extension

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian.dev/meridian/internal/postgres/render"
)

// The script of an extension runs as the superuser, and looks names up in the schema of the extension and in those of
// the extensions that it requires. So it runs only where all of this belongs to superusers: the extension, what it
// requires, their members, and every schema on the path, in which nobody else may create anything. Nothing that an
// application owns is looked at, so nothing of it has to be inspected.
//
// In a database that was made before extensions had a schema of their own, they lie in public, which the application
// owns. There the script runs in another schema with the same name, which exists inside the transaction alone and holds
// nothing but the extensions (see apart).

// Schema is where extensions go that name no schema themselves. It is on the search path of the database.
const Schema = "extensions"

// Session begins a session of the superuser in a database, with settings beside the pinned ones.
type Session func(ctx context.Context, database string, others map[string]string) (*pgx.Conn, error)

// part is an extension, or one that it requires.
type part struct {
	Name      string
	Installed bool
	// Owner is set if it is no superuser, Given is what an application owns, or can put a trigger on, among the members.
	Owner, Given string
	// Schema is where it lies, Fixed the schema that its control file names.
	Schema, Fixed string
	// Ours says that the schema belongs to a superuser and that nobody else may create anything in it.
	Ours bool
	// Relocatable says that it can be moved to another schema.
	Relocatable bool
}

const partsQuery = `
with recursive versions as materialized (
  select name::text collate "C" as name, schema::text, requires from pg_available_extension_versions),
needed as (
  select $1::text collate "C" as name
  union
  select r::text collate "C" from needed n join versions v on v.name = n.name cross join unnest(v.requires) r),
member as (
  select d.refobjid as extension, d.classid, d.objid from pg_depend d
  where d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'),
given as (
  select m.extension, pg_describe_object(m.classid, m.objid, 0) as what
  from member m join pg_shdepend s on s.classid = m.classid and s.objid = m.objid and s.deptype = 'o'
    and s.dbid = (select oid from pg_database where datname = current_database())
  join pg_roles o on o.oid = s.refobjid and not o.rolsuper
  union all
  select m.extension, pg_describe_object(m.classid, m.objid, 0)
  from member m join pg_class c on m.classid = 'pg_class'::regclass and c.oid = m.objid
  cross join lateral aclexplode(c.relacl) a left join pg_roles g on g.oid = a.grantee
  where a.privilege_type in ('TRIGGER', 'REFERENCES') and not coalesce(g.rolsuper, false)
  union all
  select m.extension, pg_describe_object('pg_trigger'::regclass, t.oid, 0)
  from member m join pg_trigger t on m.classid = 'pg_class'::regclass and t.tgrelid = m.objid and not t.tgisinternal
  join pg_proc p on p.oid = t.tgfoid join pg_roles o on o.oid = p.proowner and not o.rolsuper)
select n.name, e.oid is not null, case when o.rolsuper then '' else coalesce(o.rolname::text, '') end,
       coalesce((select g.what from given g where g.extension = e.oid order by 1 limit 1), ''),
       coalesce(s.nspname::text, ''),
       coalesce((select v.schema from versions v where v.name = n.name and v.schema is not null limit 1), ''),
       ` + oursExpression + `, coalesce(e.extrelocatable, false)
from needed n left join pg_extension e on e.extname = n.name left join pg_roles o on o.oid = e.extowner
left join pg_namespace s on s.oid = e.extnamespace
order by n.name <> $1, n.name`

// oursExpression says of the schema s that nobody but superusers can put anything into it.
const oursExpression = `coalesce((select w.rolsuper from pg_roles w where w.oid = s.nspowner), false) and not exists (
  select from aclexplode(s.nspacl) a left join pg_roles g on g.oid = a.grantee
  where a.privilege_type = 'CREATE' and not coalesce(g.rolsuper, false))`

// Create creates an extension.
func (s Session) Create(ctx context.Context, database, name string) error {
	return s.script(ctx, database, name, func(schema string) string {
		return fmt.Sprintf("create extension if not exists %s schema %s", identifier(name), identifier(schema))
	})
}

// Update does what postgis_extensions_upgrade() does for each extension in turn: that function would also touch those
// that nobody has asked for.
func (s Session) Update(ctx context.Context, database, name, to string) error {
	return s.script(ctx, database, name, func(string) string {
		return fmt.Sprintf("alter extension %s update to %s", identifier(name), identifier(to))
	})
}

// script runs the script of an extension where everything on its path belongs to superusers.
func (s Session) script(ctx context.Context, database, name string, statement func(schema string) string) error {
	looking, err := s(ctx, database, nil)
	if err != nil {
		return err
	}
	expected, err := parts(ctx, looking, name)
	_ = looking.Close(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	// Some scripts go back to the search path that the session began with.
	connection, err := s(ctx, database, map[string]string{"search_path": pathOf(expected)})
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	// Nobody can drop or move an extension, or rename its schema, before this ends.
	const begin = `set search_path = pg_catalog, pg_temp; begin isolation level read committed;
		select from pg_extension e join pg_namespace n on n.oid = e.extnamespace for share of e, n`
	if err := execute(ctx, connection, begin); err != nil {
		return fmt.Errorf("keep extensions where they are: %w", err)
	}
	found, err := parts(ctx, connection, name)
	if err != nil {
		return err
	}
	if !slices.Equal(found, expected) {
		return errors.New("extensions were changed at the same time; this is tried again")
	}
	path, err := readSearchPath(ctx, connection)
	if err != nil {
		return err
	}
	target := found[0]
	if !target.Installed && target.Ours {
		if err := ownSchema(ctx, connection, target.Schema); err != nil {
			return err
		}
		path = path.with(target.Schema)
	}
	statements := append(apart(found, statement(target.Schema)), path.statements(database)...)
	if err := executeAll(ctx, connection, append(statements, "set search_path = pg_catalog, pg_temp")); err != nil {
		return err
	}
	if err := grant(ctx, connection, name); err != nil {
		return err
	}
	return execute(ctx, connection, "commit")
}

// parts finds the extension and all that it requires, the extension first, and refuses what belongs to others.
func parts(ctx context.Context, connection *pgx.Conn, name string) ([]part, error) {
	rows, err := connection.Query(ctx, partsQuery, name)
	if err != nil {
		return nil, fmt.Errorf("look for the extension: %w", short(err))
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[part])
	if err != nil {
		return nil, fmt.Errorf("look for the extension: %w", short(err))
	}
	for _, one := range found {
		switch {
		case one.Owner != "":
			return nil, fmt.Errorf("the extension %s belongs to the role %s, which is no superuser, and scripts of extensions "+
				"run with all rights: drop the extension as %s, and it is created anew if it is listed in spec.extensions",
				one.Name, one.Owner, one.Owner)
		case one.Given != "":
			return nil, fmt.Errorf("of the extension %s, %s belongs to a role that is no superuser, or such a role may put a "+
				"trigger on it, and scripts of extensions run with all rights: make %s its owner, and revoke TRIGGER and "+
				"REFERENCES", one.Name, one.Given, render.Superuser)
		}
	}
	target := &found[0]
	if target.Installed {
		return found, nil
	}
	// Some parts of PostGIS must lie beside it. Those that require nothing have a schema of their own.
	target.Schema, target.Ours = target.Fixed, true
	for _, one := range found[1:] {
		if target.Schema == "" && one.Installed && one.Fixed == "" {
			target.Schema, target.Ours = one.Schema, one.Ours
		}
	}
	if target.Schema == "" {
		target.Schema = Schema
	}
	return found, nil
}

// ownSchema makes a schema that everybody may use and nobody but superusers may put anything into.
func ownSchema(ctx context.Context, connection *pgx.Conn, name string) error {
	const query = "select " + oursExpression + ", pg_get_userbyid(s.nspowner) from pg_namespace s where s.nspname = $1"
	var ours bool
	var owner string
	err := connection.QueryRow(ctx, query, name).Scan(&ours, &owner)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return execute(ctx, connection, fmt.Sprintf("create schema %s; grant usage on schema %s to public",
			identifier(name), identifier(name)))
	case err != nil:
		return fmt.Errorf("look for the schema %s: %w", name, short(err))
	case !ours:
		return fmt.Errorf("the schema %s belongs to %s, or others than superusers may create things in it, and scripts of "+
			"extensions run with all rights: rename or drop it", name, owner)
	}
	return nil
}

// apart wraps a script for schemas on its path that belong to others. Such a schema gets another name, and a new one
// takes its place, into which the extensions are moved: names that the script looks up, and those that it writes into
// functions, mean the new one. Afterwards the extensions go back. Others see nothing of it before the end; what they
// make meanwhile is made in the schema with the other name.
func apart(found []part, script string) []string {
	var before, after []string
	for _, schema := range foreignSchemas(found) {
		name, aside := identifier(schema), identifier("meridian_"+strings.ToLower(rand.Text()))
		before = append(before, fmt.Sprintf("alter schema %s rename to %s", name, aside), "create schema "+name)
		for _, one := range found {
			if one.Schema != schema {
				continue
			}
			if one.Installed {
				before = append(before, move(one, name)...)
			}
			after = append(after, append(move(one, aside), settle(one))...)
		}
		after = append(after, "drop schema "+name, fmt.Sprintf("alter schema %s rename to %s", aside, name))
	}
	return append(append(before, script), after...)
}

// foreignSchemas are those on the path of a script into which others could put something.
func foreignSchemas(found []part) []string {
	var names []string
	for index, one := range found {
		if (one.Installed || index == 0) && !one.Ours && !slices.Contains(names, one.Schema) {
			names = append(names, one.Schema)
		}
	}
	return names
}

// move puts an extension into another schema, also one that says that it cannot be moved: functions that have the name
// of its schema inside do not work until it is back, and nobody calls them before.
func move(one part, schema string) []string {
	return []string{
		fmt.Sprintf("update pg_extension set extrelocatable = true where extname = %s", literal(one.Name)),
		fmt.Sprintf("alter extension %s set schema %s", identifier(one.Name), schema),
	}
}

// settle says again whether an extension can be moved.
func settle(one part) string {
	return fmt.Sprintf(`update pg_extension e set extrelocatable = coalesce((
		select v.relocatable from pg_available_extension_versions v where v.name = e.extname and v.version = e.extversion),
		%t) where e.extname = %s`, one.Relocatable, literal(one.Name))
}

// pathOf is the search path for a session that runs the script of the first.
func pathOf(found []part) string {
	names := []string{"pg_catalog"}
	for index, one := range found {
		if name := identifier(one.Schema); (one.Installed || index == 0) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(append(names, "pg_temp"), ", ")
}

// searchPath is what the database has for sessions, set says by a setting of its own.
type searchPath struct {
	set  bool
	path string
}

func readSearchPath(ctx context.Context, connection *pgx.Conn) (searchPath, error) {
	const query = `
select p.value is not null, coalesce(p.value, f.value, (select boot_val from pg_settings where name = 'search_path'))
from (select 1) one
left join lateral (
  select substr(c, length('search_path=') + 1) as value
  from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase cross join unnest(s.setconfig) c
  where d.datname = current_database() and s.setrole = 0 and c like 'search\_path=%') p on true
left join lateral (
  select setting as value from pg_file_settings where lower(name) = 'search_path'
  order by seqno desc limit 1) f on true`
	var found searchPath
	if err := connection.QueryRow(ctx, query).Scan(&found.set, &found.path); err != nil {
		return searchPath{}, fmt.Errorf("look for the search path: %w", short(err))
	}
	return found, nil
}

// with adds a schema at the end.
func (p searchPath) with(schema string) searchPath {
	for name := range strings.SplitSeq(p.path, ",") {
		if strings.Trim(name, ` "`) == schema {
			return p
		}
	}
	return searchPath{set: true, path: strings.TrimLeft(p.path+", "+identifier(schema), ", ")}
}

// statements make it what new sessions of the database begin with. Some scripts set it by the path of the session
// that runs them, which is ours.
func (p searchPath) statements(database string) []string {
	if !p.set {
		return []string{fmt.Sprintf("alter database %s reset search_path", identifier(database))}
	}
	return []string{
		fmt.Sprintf("select set_config('search_path', %s, false)", literal(p.path)),
		fmt.Sprintf("alter database %s set search_path from current", identifier(database)),
		"set search_path = pg_catalog, pg_temp",
	}
}

// Furnish gives a new database the schema for extensions.
func (s Session) Furnish(ctx context.Context, database string) error {
	connection, err := s(ctx, database, nil)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	path, err := readSearchPath(ctx, connection)
	if err != nil {
		return err
	}
	if err := execute(ctx, connection, "begin"); err != nil {
		return err
	}
	if err := ownSchema(ctx, connection, Schema); err != nil {
		return err
	}
	return executeAll(ctx, connection, append(path.with(Schema).statements(database), "commit"))
}

func executeAll(ctx context.Context, connection *pgx.Conn, statements []string) error {
	for _, statement := range statements {
		if err := execute(ctx, connection, statement); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, connection *pgx.Conn, statement string) error {
	if _, err := connection.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
		return short(err)
	}
	return nil
}

// short is what the server says.
func short(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return errors.New(refused.Message)
	}
	return err
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
