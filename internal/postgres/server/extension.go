package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres/render"
)

// The script of an extension runs as the superuser, and some look names up in the schema that the extension goes into.
// The application owns the schema public, so it could put a function there that fits better than the one that is meant,
// and have it run as the superuser. So a script does not run while anybody but a superuser has a function, an operator
// or a conversion in that schema, and nobody can make one while it runs.

const schemaQuery = `
select coalesce((select n.nspname::text from pg_extension e join pg_namespace n on n.oid = e.extnamespace
                 where e.extname = $1), v.schema, '')
from pg_available_extension_versions v
join pg_available_extensions a on a.name = v.name and a.default_version = v.version where a.name = $1`

const lockCatalogs = `lock table pg_proc, pg_operator, pg_cast, pg_conversion in share row exclusive mode`

const foreignQuery = `
with foreigner as (select oid from pg_roles where not rolsuper),
     place as (select oid from pg_namespace where nspname = $1),
     thing as (
       select p.oid, 'pg_proc'::regclass as kind, 'function ' || p.proname as what from pg_proc p
         where p.proowner in (select oid from foreigner) and p.pronamespace in (select oid from place)
       union all
       select o.oid, 'pg_operator'::regclass, 'operator ' || o.oprname from pg_operator o
         where o.oprowner in (select oid from foreigner) and o.oprnamespace in (select oid from place)
       union all
       select c.oid, 'pg_conversion'::regclass, 'conversion ' || c.conname from pg_conversion c
         where c.conowner in (select oid from foreigner) and c.connamespace in (select oid from place))
select what from thing where not exists (
  select from pg_depend d where d.classid = thing.kind and d.objid = thing.oid and d.deptype = 'e')
order by 1 limit 1`

// CreateExtension implements postgres.SQL. An extension that names no schema itself goes into public, where
// applications look for it: the pinned search path would put it among the server's own objects.
func (l *Link) CreateExtension(ctx context.Context, database, name string) error {
	return l.script(ctx, database, name, func(schema string, own bool) string {
		statement := "create extension if not exists " + identifier(name)
		if !own {
			statement += " schema " + identifier(schema)
		}
		return statement
	})
}

// UpdateExtension implements postgres.SQL. It does what postgis_extensions_upgrade() does for each extension in turn:
// that function would also touch those that nobody has asked for.
func (l *Link) UpdateExtension(ctx context.Context, database, name, to string) error {
	return l.script(ctx, database, name, func(string, bool) string {
		return fmt.Sprintf("alter extension %s update to %s", identifier(name), identifier(to))
	})
}

// script runs the script of an extension where nobody can slip anything in.
func (l *Link) script(ctx context.Context, database, name string, statement func(string, bool) string) error {
	connection, err := l.connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	var schema string
	if err := connection.QueryRow(ctx, schemaQuery, name).Scan(&schema); err != nil {
		return fmt.Errorf("look for the extension: %w", short(err))
	}
	own := schema != ""
	if !own {
		schema = "public"
	}
	if err := l.execute(ctx, connection, "begin"); err != nil {
		return err
	}
	if err := l.execute(ctx, connection, lockCatalogs); err != nil {
		return fmt.Errorf("keep others from making functions: %w", err)
	}
	var what string
	err = connection.QueryRow(ctx, foreignQuery, schema).Scan(&what)
	switch {
	case err == nil:
		return fmt.Errorf("the schema %s has the %s, which does not belong to %s: the script of an extension might use it "+
			"with all rights; move it to another schema", schema, what, render.Superuser)
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("look for functions of others: %w", short(err))
	}
	if err := l.execute(ctx, connection, statement(schema, own)); err != nil {
		return err
	}
	return l.execute(ctx, connection, "commit")
}
